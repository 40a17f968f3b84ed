//! A gRPC port: a node's services, health and reflection on one listener, from its opening to the end of its last call.
//!
//! What differs between ports is in [`Port`]; a half-open peer, a socket that cannot accept and a shutdown are met alike on
//! all of them.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::pb::health_server::HealthServer;

use crate::admission::Admission;
use crate::connection::{Listener, paced};
use crate::http::Checks;
use crate::tasks::{Kind, TaskGroup};

mod health;

use health::Health;

/// How often a quiet peer is asked whether it lives; half-open connections end after this and [`KEEPALIVE_TIMEOUT`].
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// How long a peer has to answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The services that every port has.
const COMMON_SERVICES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// What one port is.
#[derive(Clone)]
pub struct Port {
    /// Name of its task.
    pub name: &'static str,
    /// Who may connect; the sockets of one port share it.
    pub admission: Admission,
    /// What one connection may hold.
    pub bounds: Bounds,
    /// Whether the node takes traffic; health says what they say.
    pub ready: Checks,
    /// Whether HTTP/1.1 is spoken as well: its service answers something else than gRPC too.
    pub http1: bool,
    /// The descriptors of all services, encoded.
    pub descriptors: &'static [u8],
    /// The full names of the services beside health and reflection.
    pub services: &'static [&'static str],
}

/// The bounds of one connection of a port, and of its end.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Calls that are held at a time; above it they wait at the caller.
    pub streams: u32,
    /// Bytes of one call that may be on the way unread.
    pub stream_window: u32,
    /// Bytes of the connection that may be on the way unread.
    pub connection_window: u32,
    /// How long open connections get to finish their calls at shutdown; streams that never end are cut then.
    pub drain: Duration,
}

impl Port {
    /// Adds health and reflection to services.
    ///
    /// # Panics
    /// When the descriptors do not decode.
    #[must_use]
    pub fn complete(&self, services: Routes, tasks: &TaskGroup) -> Routes {
        let valid = "the descriptors are generated with the program";
        let reflection = self.reflection().build_v1().expect(valid);
        let reflection_v1alpha = self.reflection().build_v1alpha().expect(valid);
        let health = Health::new(self.ready.clone(), self.services, tasks.token());
        let services = services.add_service(HealthServer::new(health));
        services.add_service(reflection).add_service(reflection_v1alpha).prepare()
    }

    /// Reflection of all services of the port. Both versions are served: many clients know only the older one.
    fn reflection(&self) -> tonic_reflection::server::Builder<'static> {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(self.descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
            .include_reflection_service(false);
        COMMON_SERVICES
            .iter()
            .chain(self.services)
            .fold(reflection, |reflection, service| reflection.with_service_name(*service))
    }

    /// Serves on `listener`, in `tasks`, on the current runtime, until the group shuts down.
    ///
    /// # Errors
    /// When the runtime cannot take the listener over.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn serve<S>(self, service: S, listener: Listener, tasks: &TaskGroup) -> io::Result<()>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let Port { name, admission, bounds, http1, .. } = self;
        // A connection too many is closed at once: left in the kernel's queue, its caller would wait for nothing.
        let incoming = listener.incoming()?.then(paced).filter_map(move |accepted| match accepted {
            Ok(connection) => admission.watch(connection).map(Ok),
            Err(error) => Some(Err(error)),
        });
        let stopping = tasks.token();
        tasks.spawn(name, Kind::Critical, async move {
            let serving = Server::builder()
                .accept_http1(http1)
                .max_concurrent_streams(bounds.streams)
                .initial_stream_window_size(bounds.stream_window)
                .initial_connection_window_size(bounds.connection_window)
                .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
                .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
                .serve_with_incoming_shutdown(service, incoming, stopping.cancelled());
            let cut = async {
                stopping.cancelled().await;
                tokio::time::sleep(bounds.drain).await;
            };
            tokio::select! {
                served = serving => {
                    if let Err(error) = served {
                        tracing::error!(error = &error as &dyn std::error::Error, "the gRPC port stopped");
                    }
                }
                () = cut => tracing::info!("connections were cut that did not end within {:?}", bounds.drain),
            }
        });
        Ok(())
    }
}
