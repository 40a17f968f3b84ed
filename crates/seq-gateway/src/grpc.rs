//! The gRPC port of an AllocSvr: sequences, status, health and reflection on one listener.
//!
//! One door runs on one core's runtime with a listener of its own; the kernel spreads connections over the doors of a
//! port. Every bound of a connection is named here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seq_core::limits;
use seq_kit::connection::{Connection, Listener};
use seq_kit::frontend::Frontend;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1;
use seq_proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use seq_proto::v1::sequence_service_server::SequenceServiceServer;
use tokio_stream::StreamExt;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::sequence::Service;

/// Calls of one connection that are held at a time: more than a busy client keeps in flight, and with
/// [`limits::MAX_REQUEST_BYTES`] a bound on what one peer makes the server hold. The next ones wait at the client.
const MAX_STREAMS_PER_CONNECTION: u32 = 1_024;

/// Bytes of one call that may be on the way unread: a full batch arrives without waiting for the window.
const STREAM_WINDOW: u32 = 1 << 20;

/// Bytes of one connection that may be on the way unread: several full batches.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How often a quiet peer is asked whether it lives; half-open connections end after this and [`KEEPALIVE_TIMEOUT`].
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// How long a peer has to answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a connection could not be accepted. The usual reason is that the process has no file descriptors left; trying
/// again at once would take the core from the connections that are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long open connections get to finish their calls at shutdown; streams that never end are cut then.
const DRAIN: Duration = Duration::from_secs(3);

/// Answers `AdminService.Status`.
pub type AdminView = Arc<dyn Fn() -> v1::StatusResponse + Send + Sync>;

/// Opens the door: serves on `listener`, in `group`, on the current runtime, until the group shuts down. What the nodes of
/// the set call each other for is served `beside`, on the same port.
///
/// # Errors
/// When the runtime cannot take the listener over.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: Frontend>(
    frontend: F,
    admin: AdminView,
    beside: Routes,
    listener: impl Into<Listener>,
    group: &TaskGroup,
) -> io::Result<()> {
    let incoming = listener.into().incoming()?.then(paced);
    let shutdown = group.token();
    let sequence = SequenceServiceServer::new(Service::new(frontend, &admin().set))
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES)
        .max_encoding_message_size(limits::MAX_RESPONSE_BYTES);
    let admin = AdminServiceServer::new(Admin { view: admin }).max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(seq_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("seqsvr.v1.SequenceService")
        .with_service_name("seqsvr.v1.AdminService")
        .with_service_name("grpc.health.v1.Health")
        .with_service_name("grpc.reflection.v1.ServerReflection")
        .build_v1()
        .expect("the descriptors are generated with the program");
    group.spawn("grpc door", Kind::Critical, async move {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<SequenceServiceServer<Service<F>>>().await;
        let stopping = async {
            shutdown.cancelled().await;
            health.set_not_serving::<SequenceServiceServer<Service<F>>>().await;
            health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        };
        let serving = Server::builder()
            .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .add_routes(beside)
            .add_service(sequence)
            .add_service(admin)
            .add_service(health_service)
            .add_service(reflection)
            .serve_with_incoming_shutdown(incoming, stopping);
        let cut = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::error!(error = &error as &dyn std::error::Error, "the gRPC port stopped");
                }
            }
            () = cut => tracing::warn!("connections were cut that did not end within {DRAIN:?}"),
        }
    });
    Ok(())
}

/// Holds the accepting up after an error that the next try would meet as well.
async fn paced(accepted: io::Result<Connection>) -> io::Result<Connection> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if let Err(error) = &accepted {
        // A caller that went away while it waited is no reason to let the next one wait.
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
    accepted
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
