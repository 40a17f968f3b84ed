//! The gRPC endpoint of an AllocSvr: sequences, status, health and reflection on one listener, and JSON on the same
//! port.
//!
//! One endpoint runs per core, on the core's runtime and with a listener of its own; the kernel spreads the connections
//! of a port over its endpoints. All limits of a connection are named here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use seq_api::metrics::REQUESTS_DENIED_TOTAL;
use seq_api::service::SequenceService;
use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::connection::{Listener, Peer};
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Guard, Port, Respond};
use seq_kit::tasks::TaskGroup;
use seq_proto::roles::Called;
use seq_proto::v1;
use seq_proto::v1::status_service_server::{StatusService, StatusServiceServer};
use seq_proto::{ports, roles};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::dispatch::{Dispatch, is_grpc};
use crate::handlers::Handlers;
use crate::http;

/// Concurrent requests of one connection: enough for a busy client, which has several connections. With
/// [`limits::MAX_CALL_BYTES`] and a response of about the same size, the memory that one peer can occupy stays under
/// 192 MiB (docs/operations.md). Further requests wait at the client.
const MAX_STREAMS_PER_CONNECTION: u32 = 256;

/// HTTP/2 flow-control window of one request: a full batch arrives without waiting for the window, and so does the next
/// one of a stream.
const STREAM_WINDOW: u32 = 512 << 10;

/// HTTP/2 flow-control window of one connection: several full batches.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Limits of one connection.
const BOUNDS: Bounds = Bounds {
    streams: MAX_STREAMS_PER_CONNECTION,
    stream_window: STREAM_WINDOW,
    connection_window: CONNECTION_WINDOW,
    drain: Duration::from_secs(3),
};

/// Builds the response of `StatusService.Status`.
pub type AdminView = Arc<dyn Fn() -> v1::StatusResponse + Send + Sync>;

/// What a node serves besides sequences. Its endpoints, one per core, have clones.
#[derive(Clone)]
pub struct Node {
    /// The node's status.
    pub admin: AdminView,
    /// Readiness of the node, as reported by the health service.
    pub ready: Checks,
    /// Further services of the port. Nodes have none: those of peers have a port of their own ([`crate::peers`]). Simulated
    /// nodes serve both on one.
    pub beside: Routes,
    /// Admission of connections.
    pub admission: Admission,
    /// Whether `GET /api/seq/next/{uid}` allocates numbers as POST does.
    pub allocate_on_get: bool,
}

/// Serves on `listener`, in `group`, on the current runtime, until the group shuts down.
///
/// # Errors
/// If the listener cannot be registered with the runtime.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: SequenceService>(
    service: F,
    node: Node,
    listener: impl Into<Listener>,
    group: &TaskGroup,
) -> io::Result<()> {
    let Node { admin, ready, beside, admission, allocate_on_get } = node;
    let port = Port {
        name: "grpc endpoint",
        guard: guard(admission.node(), admin().set),
        admission,
        bounds: BOUNDS,
        ready,
        http1: true,
        descriptors: seq_proto::DESCRIPTORS,
        services: ports::Port::Callers.services(),
    };
    let handlers = Arc::new(Handlers::new(service, &admin().set, group.token(), allocate_on_get));
    let admin = StatusServiceServer::new(Admin { view: admin }).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let services = port.complete(beside.add_service(admin), group);
    port.serve(Dispatch::new(handlers, services), listener.into(), group)
}

/// The guard of a node's port for callers: gRPC and JSON clients get the refusal in their own form.
fn guard(node: &str, set: String) -> Guard {
    let respond: Respond = |request, status| {
        if is_grpc(request) { status.clone().into_http() } else { http::refused(status) }
    };
    let denied = counter!(REQUESTS_DENIED_TOTAL, "node" => node.to_owned());
    Guard::new(move |path, caller| Called::by_path(path).check(caller, &set), respond, denied)
}

pub(crate) struct Admin {
    pub(crate) view: AdminView,
}

#[tonic::async_trait]
impl StatusService for Admin {
    async fn status(&self, request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let mut status = (self.view)();
        if !roles::is_operator(request.extensions().get::<Peer>().and_then(Peer::identity)) {
            status.admin_addrs.clear();
        }
        Ok(Response::new(status))
    }
}
