//! The port of an AllocSvr for its peers. It serves handovers, status, health and reflection.
//!
//! This port is separate from the port for callers, because the networks of callers do not need to reach it.

use std::io;
use std::time::Duration;

use seq_api::metrics::denied_requests;
use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::connection::Listener;
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Guard, Port};
use seq_kit::tasks::TaskGroup;
use seq_proto::ports;
use seq_proto::roles::Called;
use seq_proto::v1::status_service_server::StatusServiceServer;
use tonic::service::Routes;

use crate::grpc::{Admin, AdminView};

/// Limits of one connection. The windows are large, because a message of a handover has up to half a megabyte.
const BOUNDS: Bounds =
    Bounds { streams: 256, stream_window: 1 << 20, connection_window: 4 << 20, drain: Duration::from_secs(3) };

/// Services of a node for its peers. Each thread that serves them has a clone.
#[derive(Clone)]
pub struct PeerNode {
    /// The services of the port, without the status.
    pub services: Routes,
    /// The node's status.
    pub admin: AdminView,
    /// Readiness of the node, as reported by the health service.
    pub ready: Checks,
    /// Admission of connections.
    pub admission: Admission,
}

/// Serves the node's services on `listener`, with tasks in `group` on the current runtime, until the group shuts down.
///
/// # Errors
/// If the listener cannot be registered with the runtime.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve(node: PeerNode, listener: impl Into<Listener>, group: &TaskGroup) -> io::Result<()> {
    let PeerNode { services, admin, ready, admission } = node;
    let (denied, set) = (denied_requests(admission.node(), &admin.events()), admin.status().set);
    let port = Port {
        name: "peer endpoint",
        guard: Guard::new(
            move |path, caller| Called::by_path(path).check(caller, &set),
            |_, status| status.clone().into_http(),
            denied,
        ),
        admission: admission.for_nodes(),
        lowered: None,
        bounds: BOUNDS,
        ready,
        http1: false,
        descriptors: seq_proto::DESCRIPTORS,
        services: ports::Port::AllocPeers.services(),
    };
    let admin = StatusServiceServer::new(Admin { view: admin, for_nodes: true })
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let services = port.complete(services.add_service(admin), group);
    port.serve(services, listener.into(), group)
}
