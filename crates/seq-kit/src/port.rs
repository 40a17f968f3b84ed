//! A gRPC port. It serves the services of a node, together with health and reflection, on one listener.
//!
//! [`Port`] has the parameters of a port. All ports handle half-open connections, errors of accepting, and shutdown in
//! the same way.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::Duration;

use metrics::Counter;
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

mod allowance;
mod frames;
mod guard;
mod health;
mod limited;
mod stream_limit;

pub use guard::{Guard, Respond};

use guard::Guarded;
use health::Health;
use limited::Limited;
use stream_limit::StreamLimit;

/// Interval of keepalive pings to an idle peer. A half-open connection, that is, one whose peer has disappeared, ends
/// after this interval plus [`KEEPALIVE_TIMEOUT`].
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout of a keepalive ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The services on every port.
const COMMON_SERVICES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The parameters of a port.
#[derive(Clone)]
pub struct Port {
    /// Name of its task.
    pub name: &'static str,
    /// Connection admission, shared by the sockets of the port.
    pub admission: Admission,
    /// The limits of one connection.
    pub bounds: Bounds,
    /// The readiness checks that health reports.
    pub ready: Checks,
    /// Counter of how often the limit on concurrent requests was lowered because the serving thread was late; `None` if
    /// the limit of each connection stays at [`Bounds::streams`].
    pub lowered: Option<Counter>,
    /// Whether HTTP/1.1 is accepted too, for services that also serve protocols other than gRPC.
    pub http1: bool,
    /// The descriptors of all services, encoded.
    pub descriptors: &'static [u8],
    /// Guard that may deny requests. It applies only to connections with TLS.
    pub guard: Guard,
    /// The full names of the services other than health and reflection.
    pub services: &'static [&'static str],
}

/// The limits of each connection of a port, and the time that the shutdown of the port may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Limit on concurrent requests. Further requests wait at the client.
    pub streams: u32,
    /// Flow-control window of one request, in bytes.
    pub stream_window: u32,
    /// Flow-control window of the connection, in bytes.
    pub connection_window: u32,
    /// Time that open connections have at shutdown to finish their requests. After this time, streams that have no end
    /// are closed.
    pub drain: Duration,
}

impl Port {
    /// Adds the health and reflection services to `services`.
    ///
    /// # Panics
    /// If the descriptors do not decode.
    #[must_use]
    pub fn complete(&self, services: Routes, tasks: &TaskGroup) -> Routes {
        let valid = "the descriptors are generated with the program";
        let reflection = self.reflection().build_v1().expect(valid);
        let reflection_v1alpha = self.reflection().build_v1alpha().expect(valid);
        let health = Health::new(self.ready.clone(), self.services, tasks.token());
        let services = services.add_service(HealthServer::new(health));
        services.add_service(reflection).add_service(reflection_v1alpha).prepare()
    }

    /// Returns the builder of the reflection service, which describes all services of the port. The service is built in
    /// two versions, because many clients support only the older one.
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

    /// Serves `service` on `listener`, with tasks in `tasks` on the current runtime, until the task group shuts down.
    ///
    /// # Errors
    /// If the listener cannot be registered with the runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn serve<S>(self, service: S, listener: Listener, tasks: &TaskGroup) -> io::Result<()>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let Port { name, admission, bounds, lowered, http1, guard, .. } = self;
        let service = Guarded { service, guard: Some(guard).filter(|_| listener.is_secure()) };
        let limit = lowered.map(|lowered| StreamLimit::new(bounds.streams, lowered));
        let of_connections = limit.clone();
        // A connection above the limit is closed at once. If it were not accepted, its client would wait in the
        // kernel's queue without success.
        let incoming = listener.incoming()?.then(paced).filter_map(move |accepted| match accepted {
            Ok(connection) => {
                let of = (admission.clone(), connection.peer().addr());
                let watched = admission.watch(connection);
                watched.map(|watched| Ok(Limited::new(watched, of_connections.as_ref().map(StreamLimit::join), of)))
            }
            Err(error) => Some(Err(error)),
        });
        let stopping = tasks.token();
        let following = async { if let Some(limit) = limit { limit.follow_delay().await } else { pending().await } };
        tasks.spawn(name, Kind::Critical, async move {
            let serving = Server::builder()
                .accept_http1(http1)
                .max_concurrent_streams(bounds.streams)
                .initial_stream_window_size(bounds.stream_window)
                .initial_connection_window_size(bounds.connection_window)
                .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
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
                () = following => unreachable!("it follows for ever"),
                () = cut => tracing::info!("closed connections that did not end within {:?}", bounds.drain),
            }
        });
        Ok(())
    }
}
