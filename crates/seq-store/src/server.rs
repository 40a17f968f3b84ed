//! The gRPC port of a member: control, Raft, status, health and reflection on one listener.

use std::io;
use std::time::Duration;

use seq_core::limits;
use seq_kit::connection::Listener;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1::admin_service_server::AdminServiceServer;
use seq_proto::v1::control_service_server::ControlServiceServer;
use seq_proto::v1::node_admin_service_server::NodeAdminServiceServer;
use seq_proto::v1::raft_service_server::RaftServiceServer;
use seq_proto::v1::store_admin_service_server::StoreAdminServiceServer;
use tonic::transport::Server;

use crate::control_service::Control;
use crate::gate::Gate;
use crate::member_service::StoreAdmin;
use crate::network::MAX_MESSAGE_BYTES;
use crate::node_service::NodeAdmin;
use crate::peers::Identity;
use crate::raft_service::RaftServer;
use crate::status::View;

/// Calls of one connection that are held at a time; above it they wait at the caller.
const MAX_STREAMS: u32 = 8_192;

/// Bytes of one call that may be on the way unread: a batch of entries arrives without waiting for the window.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// Bytes of one connection that may be on the way unread: several batches.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

/// How often a quiet caller is asked whether it lives; half-open connections end after this and [`KEEP_ALIVE_TIMEOUT`].
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long a caller has to answer.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long open connections get to finish their calls at shutdown.
const DRAIN: Duration = Duration::from_secs(1);

/// The member's services.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) raft: RaftServer,
    pub(crate) control: Gate<Control>,
    pub(crate) admin: Gate<View>,
    pub(crate) members: Gate<StoreAdmin>,
    pub(crate) nodes: Gate<NodeAdmin>,
}

impl Doors {
    /// All that answers before the member is loaded: who it is, to others that start.
    pub(crate) fn closed(me: &Identity) -> Doors {
        Doors {
            raft: RaftServer { me: me.clone(), gate: Gate::closed() },
            control: Gate::closed(),
            admin: Gate::closed(),
            members: Gate::closed(),
            nodes: Gate::closed(),
        }
    }
}

/// Serves the doors on the current runtime until the group shuts down.
pub(crate) fn serve(doors: Doors, listener: Listener, tasks: &TaskGroup) -> io::Result<()> {
    let incoming = listener.incoming()?;
    let raft = RaftServiceServer::new(doors.raft)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let control = ControlServiceServer::new(doors.control)
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let admin = AdminServiceServer::new(doors.admin).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let members = StoreAdminServiceServer::new(doors.members).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let nodes = NodeAdminServiceServer::new(doors.nodes).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(seq_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name(seq_proto::v1::control_service_server::SERVICE_NAME)
        .with_service_name(seq_proto::v1::raft_service_server::SERVICE_NAME)
        .with_service_name(seq_proto::v1::admin_service_server::SERVICE_NAME)
        .with_service_name(seq_proto::v1::store_admin_service_server::SERVICE_NAME)
        .with_service_name(seq_proto::v1::node_admin_service_server::SERVICE_NAME)
        .with_service_name("grpc.health.v1.Health")
        .with_service_name("grpc.reflection.v1.ServerReflection")
        .build_v1()
        .expect("the descriptors are generated with the program");
    let stopping = tasks.token();
    tasks.spawn("store server", Kind::Critical, async move {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<ControlServiceServer<Gate<Control>>>().await;
        let stop = async {
            stopping.cancelled().await;
            health.set_not_serving::<ControlServiceServer<Gate<Control>>>().await;
            health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        };
        let serving = Server::builder()
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
            .add_service(raft)
            .add_service(control)
            .add_service(admin)
            .add_service(members)
            .add_service(nodes)
            .add_service(health_service)
            .add_service(reflection)
            .serve_with_incoming_shutdown(incoming, stop);
        let cut = async {
            stopping.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::error!(error = &error as &dyn std::error::Error, "the gRPC port stopped");
                }
            }
            () = cut => tracing::info!("connections were cut that did not end within {DRAIN:?}"),
        }
    });
    Ok(())
}
