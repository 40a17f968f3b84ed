//! The gRPC port of an AllocSvr: sequences, status, health and reflection on one listener, and JSON beside them.
//!
//! One door runs on one core's runtime with a listener of its own; the kernel spreads connections over the doors of a
//! port. Every bound of a connection is named here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seq_core::limits;
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

/// Calls of one connection that are held at a time: more than a busy client keeps in flight, and with
/// [`limits::MAX_REQUEST_BYTES`] a bound on what one peer makes the server hold. The next ones wait at the client.
const MAX_STREAMS_PER_CONNECTION: u32 = 1_024;

/// Bytes of one call that may be on the way unread: a full batch arrives without waiting for the window.
const STREAM_WINDOW: u32 = 1 << 20;

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

/// Opens the door: serves on `listener`, in `group`, on the current runtime, until the group shuts down. Health says whether
/// the node is `ready`. What the nodes of the set call each other for is served `beside`, on the same port.
///
/// # Errors
/// When the runtime cannot take the listener over.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: Frontend>(
    frontend: F,
    admin: AdminView,
    ready: Checks,
    beside: Routes,
    listener: impl Into<Listener>,
    group: &TaskGroup,
) -> io::Result<()> {
    let port = Port {
        name: "grpc door",
        bounds: BOUNDS,
        ready,
        descriptors: seq_proto::DESCRIPTORS,
        http1: true,
        services: &[sequence_service_server::SERVICE_NAME, admin_service_server::SERVICE_NAME],
    };
    let sequence = Arc::new(Sequence::new(frontend, &admin().set));
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
