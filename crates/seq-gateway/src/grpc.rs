//! The gRPC port of an AllocSvr: sequences, status, health and reflection on one listener, and JSON beside them.
//!
//! One door runs on one core's runtime with a listener of its own; the kernel spreads connections over the doors of a
//! port. Every bound of a connection is named here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::connection::Listener;
use seq_kit::frontend::Frontend;
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Port};
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;
use seq_proto::v1::admin_service_server::{self, AdminService, AdminServiceServer};
use seq_proto::v1::sequence_service_server;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::calls::Sequence;
use crate::dispatch::Dispatch;

/// Calls of one connection that are held at a time: enough for a busy client, which has several connections. With
/// [`limits::MAX_CALL_BYTES`] and an answer of about the same size, what one peer can make the server hold stays under 192 MiB
/// (docs/operations.md). The next calls wait at the client.
const MAX_STREAMS_PER_CONNECTION: u32 = 256;

/// Bytes of one call that may be on the way unread: a full batch arrives without waiting for the window, and so does the next
/// one of a stream.
const STREAM_WINDOW: u32 = 512 << 10;

/// Bytes of one connection that may be on the way unread: several full batches.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// What one connection may hold.
const BOUNDS: Bounds = Bounds {
    streams: MAX_STREAMS_PER_CONNECTION,
    stream_window: STREAM_WINDOW,
    connection_window: CONNECTION_WINDOW,
    drain: Duration::from_secs(3),
};

/// Answers `AdminService.Status`.
pub type AdminView = Arc<dyn Fn() -> v1::StatusResponse + Send + Sync>;

/// What a node has besides its numbers. Its doors, one for each core, have clones.
#[derive(Clone)]
pub struct Node {
    /// Answers what the node knows of itself.
    pub admin: AdminView,
    /// Whether the node takes traffic; health says so.
    pub ready: Checks,
    /// What the nodes of the set call each other for, served on the same port.
    pub beside: Routes,
    /// Who may connect.
    pub admission: Admission,
    /// Whether `GET /api/seq/next/{uid}` takes numbers as POST does.
    pub get_takes: bool,
}

/// Opens the door: serves on `listener`, in `group`, on the current runtime, until the group shuts down.
///
/// # Errors
/// When the runtime cannot take the listener over.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: Frontend>(frontend: F, node: Node, listener: impl Into<Listener>, group: &TaskGroup) -> io::Result<()> {
    let Node { admin, ready, beside, admission, get_takes } = node;
    let port = Port {
        name: "grpc door",
        admission,
        bounds: BOUNDS,
        ready,
        http1: true,
        descriptors: seq_proto::DESCRIPTORS,
        services: &[sequence_service_server::SERVICE_NAME, admin_service_server::SERVICE_NAME],
    };
    let sequence = Arc::new(Sequence::new(frontend, &admin().set, group.token(), get_takes));
    let admin = AdminServiceServer::new(Admin { view: admin }).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let services = port.complete(beside.add_service(admin), group);
    port.serve(Dispatch::new(sequence, services), listener.into(), group)
}

struct Admin {
    view: AdminView,
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new((self.view)()))
    }
}
