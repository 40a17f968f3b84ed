//! The gRPC port of a member: control, Raft, status, health and reflection on one listener.

use std::io;
use std::time::Duration;

use metrics::counter;
use seq_api::metrics::REQUESTS_DENIED_TOTAL;
use seq_auth::Identity;
use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::connection::Listener;
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Guard, Port};
use seq_kit::tasks::TaskGroup;
use seq_proto::roles::Called;
use seq_proto::v1::admin_service_server::{self, AdminServiceServer};
use seq_proto::v1::backup_service_server::{self, BackupServiceServer};
use seq_proto::v1::control_service_server::{self, ControlServiceServer};
use seq_proto::v1::inter_set_service_server::{self, InterSetServiceServer};
use seq_proto::v1::node_admin_service_server::{self, NodeAdminServiceServer};
use seq_proto::v1::raft_service_server::{self, RaftServiceServer};
use seq_proto::v1::set_admin_service_server::{self, SetAdminServiceServer};
use seq_proto::v1::store_admin_service_server::{self, StoreAdminServiceServer};
use seq_raft::{Gate, MAX_MESSAGE_BYTES, MemberAdmin, RaftNode, RaftServer};
use tonic::service::Routes;

use crate::admin::nodes::NodeServer;
use crate::admin::status::StatusServer;
use crate::backup::service::BackupServer;
use crate::between::service::InterSetServer;
use crate::control::forward::ControlForward;
use crate::control::service::ControlServer;
use crate::leader_link::LeaderHop;
use crate::set_admin::SetAdminServer;

/// Unread bytes of one call in transit: a batch of entries arrives without waiting for the window.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// Limits of one connection.
const BOUNDS: Bounds = Bounds {
    streams: 8_192,
    stream_window: STREAM_WINDOW,
    // Several batches.
    connection_window: 4 * STREAM_WINDOW,
    drain: Duration::from_secs(1),
};

/// The member's services.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) admission: Admission,
    pub(crate) raft: RaftServer,
    pub(crate) control: ControlForward,
    pub(crate) admin: StatusServer,
    pub(crate) members: Gate<MemberAdmin>,
    pub(crate) nodes: NodeServer,
    pub(crate) inter_set: InterSetServer,
    pub(crate) sets: SetAdminServer,
    pub(crate) backup: BackupServer,
    /// The way to the leader, for every service whose requests a follower forwards.
    pub(crate) leader: LeaderHop,
}

impl Services {
    /// The services of a member that is not loaded yet: only the probes of other members get a response.
    pub(crate) fn closed(node: &RaftNode, admission: Admission) -> Services {
        let leader = LeaderHop(Gate::closed());
        Services {
            admission,
            raft: node.server(),
            control: ControlForward { local: ControlServer(Gate::closed()), leader: leader.clone() },
            admin: StatusServer(Gate::closed()),
            members: node.member_admin(),
            nodes: NodeServer(Gate::closed()),
            inter_set: InterSetServer(Gate::closed()),
            sets: SetAdminServer { local: Gate::closed(), leader: leader.clone() },
            backup: BackupServer(Gate::closed()),
            leader,
        }
    }

    /// Checks of the health service: the member is loaded, and ready by the checks of its handle.
    fn readiness(&self) -> Checks {
        let mut checks = Checks::new();
        let admin = self.admin.clone();
        checks.add("store", move || {
            let view = admin.0.peek().ok_or("this member of the store is starting")?;
            view.readiness().ask().map_err(|failing| format!("{failing:?}"))
        });
        checks
    }
}

/// Serves on the current runtime until the group shuts down.
pub(crate) fn serve(services: Services, set: String, listener: Listener, tasks: &TaskGroup) -> io::Result<()> {
    let ready = services.readiness();
    let raft = RaftServiceServer::new(services.raft)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let control = ControlServiceServer::new(services.control)
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let admin = AdminServiceServer::new(services.admin).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let members = StoreAdminServiceServer::new(services.members).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let nodes = NodeAdminServiceServer::new(services.nodes).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let inter_set = InterSetServiceServer::new(services.inter_set)
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let sets = SetAdminServiceServer::new(services.sets)
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let backup = BackupServiceServer::new(services.backup).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let port = Port {
        name: "store server",
        guard: guard(services.admission.node(), set),
        admission: services.admission,
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
            inter_set_service_server::SERVICE_NAME,
            set_admin_service_server::SERVICE_NAME,
            backup_service_server::SERVICE_NAME,
        ],
    };
    let routes = Routes::new(raft)
        .add_service(control)
        .add_service(admin)
        .add_service(members)
        .add_service(nodes)
        .add_service(inter_set)
        .add_service(sets)
        .add_service(backup);
    let routes = port.complete(routes, tasks);
    port.serve(routes, listener, tasks)
}

/// The guard of a member's port.
fn guard(node: &str, set: String) -> Guard {
    let denied = counter!(REQUESTS_DENIED_TOTAL, "node" => node.to_owned());
    let decide = move |path: &str, caller: Option<&Identity>| Called::by_path(path).check(caller, &set);
    Guard::new(decide, |_, status| status.clone().into_http(), denied)
}
