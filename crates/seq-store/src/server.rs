//! The gRPC port of a member: control, Raft, status, health and reflection on one listener.

use std::io;
use std::time::Duration;

use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::connection::Listener;
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Port};
use seq_kit::tasks::TaskGroup;
use seq_proto::v1::admin_service_server::{self, AdminServiceServer};
use seq_proto::v1::control_service_server::{self, ControlServiceServer};
use seq_proto::v1::node_admin_service_server::{self, NodeAdminServiceServer};
use seq_proto::v1::raft_service_server::{self, RaftServiceServer};
use seq_proto::v1::store_admin_service_server::{self, StoreAdminServiceServer};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::control_forward::ControlForward;
use crate::gate::Gate;
use crate::member_service::StoreAdmin;
use crate::network::MAX_MESSAGE_BYTES;
use crate::node_service::NodeAdmin;
use crate::peers::Identity;
use crate::raft_service::RaftServer;
use crate::status::View;

/// Bytes of one call that may be on the way unread: a batch of entries arrives without waiting for the window.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// What one connection may hold.
const BOUNDS: Bounds = Bounds {
    streams: 8_192,
    stream_window: STREAM_WINDOW,
    // Several batches.
    connection_window: 4 * STREAM_WINDOW,
    drain: Duration::from_secs(1),
};

/// The member's services.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) admission: Admission,
    pub(crate) raft: RaftServer,
    pub(crate) control: ControlForward,
    pub(crate) admin: Gate<View>,
    pub(crate) members: Gate<StoreAdmin>,
    pub(crate) nodes: Gate<NodeAdmin>,
}

impl Doors {
    /// All that answers before the member is loaded: who it is, to others that start.
    pub(crate) fn closed(me: &Identity, is_fresh: bool, admission: Admission, stopping: CancellationToken) -> Doors {
        Doors {
            admission,
            raft: RaftServer { me: me.clone(), is_fresh, gate: Gate::closed(), stopping },
            control: ControlForward { local: Gate::closed(), link: Gate::closed() },
            admin: Gate::closed(),
            members: Gate::closed(),
            nodes: Gate::closed(),
        }
    }

    /// What health says: the member is loaded, and ready as its handle would say.
    fn readiness(&self) -> Checks {
        let mut checks = Checks::new();
        let admin = self.admin.clone();
        checks.add("store", move || {
            let view = admin.peek().ok_or("this member of the store is starting")?;
            view.readiness().ask().map_err(|failing| format!("{failing:?}"))
        });
        checks
    }
}

/// Serves the doors on the current runtime until the group shuts down.
pub(crate) fn serve(doors: Doors, listener: Listener, tasks: &TaskGroup) -> io::Result<()> {
    let ready = doors.readiness();
    let raft = RaftServiceServer::new(doors.raft)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let control = ControlServiceServer::new(doors.control)
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let admin = AdminServiceServer::new(doors.admin).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let members = StoreAdminServiceServer::new(doors.members).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let nodes = NodeAdminServiceServer::new(doors.nodes).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let port = Port {
        name: "store server",
        admission: doors.admission,
        bounds: BOUNDS,
        ready,
        http1: false,
        descriptors: seq_proto::DESCRIPTORS,
        services: &[
            control_service_server::SERVICE_NAME,
            raft_service_server::SERVICE_NAME,
            admin_service_server::SERVICE_NAME,
            store_admin_service_server::SERVICE_NAME,
            node_admin_service_server::SERVICE_NAME,
        ],
    };
    let services = Routes::new(raft).add_service(control).add_service(admin).add_service(members).add_service(nodes);
    let services = port.complete(services, tasks);
    port.serve(services, listener, tasks)
}
