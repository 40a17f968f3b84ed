//! The gRPC ports of a member: the port for peers, the port for Raft and the admin port. [`seq_proto::ports`] lists the
//! services on each port.

use std::io;
use std::time::Duration;

use seq_api::metrics::denied_requests;
use seq_api::node_events::NodeEvents;
use seq_auth::Identity;
use seq_core::limits;
use seq_kit::admission::Admission;
use seq_kit::http::Checks;
use seq_kit::port::{Bounds, Guard, Port};
use seq_kit::tasks::TaskGroup;
use seq_proto::ports;
use seq_proto::roles::Called;
use seq_proto::v1::audit_service_server::AuditServiceServer;
use seq_proto::v1::backup_service_server::BackupServiceServer;
use seq_proto::v1::control_service_server::ControlServiceServer;
use seq_proto::v1::event_service_server::EventServiceServer;
use seq_proto::v1::forward_service_server::ForwardServiceServer;
use seq_proto::v1::inter_set_service_server::InterSetServiceServer;
use seq_proto::v1::keyspace_admin_service_server::KeyspaceAdminServiceServer;
use seq_proto::v1::node_admin_service_server::NodeAdminServiceServer;
use seq_proto::v1::raft_service_server::RaftServiceServer;
use seq_proto::v1::series_admin_service_server::SeriesAdminServiceServer;
use seq_proto::v1::set_admin_service_server::SetAdminServiceServer;
use seq_proto::v1::status_service_server::StatusServiceServer;
use seq_proto::v1::store_admin_service_server::StoreAdminServiceServer;
use seq_raft::{Gate, MAX_MESSAGE_BYTES, MemberAdmin, RaftNode, RaftServer};
use tonic::service::Routes;

use crate::SetState;
use crate::admin::events::EventServer;
use crate::admin::nodes::NodeServer;
use crate::admin::status::StatusServer;
use crate::audit::Recorder;
use crate::audit::service::AuditServer;
use crate::audit::services::Audited;
use crate::backup::service::BackupServer;
use crate::between::service::InterSetServer;
use crate::config::Sockets;
use crate::control::forward::ControlForward;
use crate::control::service::ControlServer;
use crate::forward::{AdminPort, ENVELOPE_BYTES, ForwardServer};
use crate::leader_link::LeaderHop;
use crate::set_admin::SetAdminServer;

/// Flow-control window of one call, in bytes. A batch of log entries fits into the window, so that the sender need not
/// wait until the receiver has read a part of the batch.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// Limits of one connection to a member.
const BOUNDS: Bounds = Bounds {
    streams: 8_192,
    stream_window: STREAM_WINDOW,
    // The window has space for several batches.
    connection_window: 4 * STREAM_WINDOW,
    drain: Duration::from_secs(1),
};

/// Services of a member, and the objects that they share.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) admission: Admission,
    /// Event log of the node, which counts denied requests.
    pub(crate) node_events: NodeEvents,
    pub(crate) raft: RaftServer,
    pub(crate) control: ControlForward,
    pub(crate) admin: StatusServer,
    pub(crate) members: Gate<MemberAdmin>,
    pub(crate) nodes: NodeServer,
    pub(crate) inter_set: InterSetServer,
    pub(crate) sets: SetAdminServer,
    pub(crate) backup: BackupServer,
    pub(crate) audit: AuditServer,
    pub(crate) events: EventServer,
    /// Recorder of the operations that change something for an operator.
    pub(crate) recorder: Gate<Recorder>,
    /// Connection to the leader, which is used by every service whose requests a follower forwards.
    pub(crate) leader: LeaderHop,
}

impl Services {
    /// Returns the services of a member that is not loaded yet. Such a member responds only to the probes of other
    /// members.
    pub(crate) fn closed(node: &RaftNode<SetState>, admission: Admission, node_events: NodeEvents) -> Services {
        let leader = LeaderHop(Gate::closed());
        Services {
            admission,
            node_events,
            raft: node.server(),
            control: ControlForward { local: ControlServer(Gate::closed()), leader: leader.clone() },
            admin: StatusServer(Gate::closed()),
            members: node.member_admin(),
            nodes: NodeServer(Gate::closed()),
            inter_set: InterSetServer(Gate::closed()),
            sets: SetAdminServer(Gate::closed()),
            backup: BackupServer(Gate::closed()),
            audit: AuditServer(Gate::closed()),
            events: EventServer(Gate::closed()),
            recorder: Gate::closed(),
            leader,
        }
    }

    /// Returns the checks of the health service. They succeed if the member is loaded and its readiness checks succeed.
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

/// Starts serving the port for peers, the port for Raft if it is separate, and the admin port if there is one. They are
/// served until the group `tasks` shuts down.
pub(crate) fn serve(services: Services, set: &str, sockets: Sockets, tasks: &TaskGroup) -> io::Result<()> {
    let of_operators = services.of_operators();
    let forward = ForwardServer { services: of_operators.clone().prepare(), set: set.into() };
    let mut of_peers = services.of_peers(forward);
    match sockets.raft {
        Some(listener) => {
            let port = services.port("raft port", ports::Port::Raft, set);
            let routes = port.complete(Routes::new(services.raft()).add_service(services.status()), tasks);
            port.serve(routes, listener, tasks)?;
        }
        None => of_peers = of_peers.add_service(services.raft()),
    }
    let port = services.port("store server", ports::Port::StorePeers, set);
    let routes = port.complete(of_peers, tasks);
    port.serve(routes, sockets.peers, tasks)?;
    if let Some(listener) = sockets.admin {
        let port = services.port("admin port", ports::Port::Admin, set);
        let routes = port.complete(of_operators.add_service(services.status()), tasks);
        port.serve(AdminPort { services: routes, leader: services.leader }, listener, tasks)?;
    }
    Ok(())
}

impl Services {
    fn port(&self, name: &'static str, port: ports::Port, set: &str) -> Port {
        let admission = match port {
            ports::Port::Raft | ports::Port::Admin => self.admission.clone().for_nodes(),
            _ => self.admission.clone(),
        };
        Port {
            name,
            guard: guard((self.admission.node(), &self.node_events), set.to_owned()),
            admission,
            lowered: None,
            bounds: BOUNDS,
            ready: self.readiness(),
            http1: false,
            descriptors: seq_proto::DESCRIPTORS,
            services: port.services(),
        }
    }

    fn raft(&self) -> RaftServiceServer<RaftServer> {
        RaftServiceServer::new(self.raft.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn status(&self) -> StatusServiceServer<StatusServer> {
        StatusServiceServer::new(self.admin.clone()).max_decoding_message_size(limits::MAX_REQUEST_BYTES)
    }

    /// Returns the services of [`ports::Port::StorePeers`].
    fn of_peers(&self, forward: ForwardServer) -> Routes {
        let control = ControlServiceServer::new(self.control.clone())
            .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
            .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
        let inter_set = InterSetServiceServer::new(self.inter_set.clone())
            .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
            .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
        let forward = ForwardServiceServer::new(forward)
            .max_decoding_message_size(limits::MAX_REQUEST_BYTES + ENVELOPE_BYTES)
            .max_encoding_message_size(limits::MAX_RESPONSE_BYTES + ENVELOPE_BYTES);
        Routes::new(control).add_service(inter_set).add_service(forward).add_service(self.status())
    }

    /// Returns the services of [`ports::Port::Admin`] whose requests the leader processes.
    fn of_operators(&self) -> Routes {
        let members = StoreAdminServiceServer::new(self.audited(&self.members));
        let nodes = NodeAdminServiceServer::new(self.audited(&self.nodes));
        let sets = SetAdminServiceServer::new(self.audited(&self.sets));
        let series = SeriesAdminServiceServer::new(self.audited(&self.sets));
        let keyspaces = KeyspaceAdminServiceServer::new(self.audited(&self.sets));
        let backup = BackupServiceServer::new(self.audited(&self.backup));
        let audit = AuditServiceServer::new(self.audit.clone());
        let events = EventServiceServer::new(self.events.clone());
        Routes::new(members.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(nodes.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(
                sets.max_decoding_message_size(limits::MAX_REQUEST_BYTES)
                    .max_encoding_message_size(limits::MAX_RESPONSE_BYTES),
            )
            .add_service(series.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(keyspaces.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(backup.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(audit.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
            .add_service(events.max_decoding_message_size(limits::MAX_REQUEST_BYTES))
    }

    /// Returns `service` with a wrapper that records its changes in the audit log.
    fn audited<S: Clone>(&self, service: &S) -> Audited<S> {
        Audited { inner: service.clone(), recorder: self.recorder.clone() }
    }
}

/// Returns the guard of a member's ports, which decides from the caller's identity whether the caller may call a
/// method.
fn guard((node, events): (&str, &NodeEvents), set: String) -> Guard {
    let denied = denied_requests(node, events);
    let decide = move |path: &str, caller: Option<&Identity>| Called::by_path(path).check(caller, &set);
    Guard::new(decide, |_, status| status.clone().into_http(), denied)
}
