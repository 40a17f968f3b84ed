//! The service `grpc.health.v1.Health`. It reports a node as serving while the node is ready and not shutting down.
//!
//! Every request runs the readiness checks, so the reported health always agrees with `/readyz`.

use std::pin::Pin;
use std::time::Duration;

use futures::stream;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::{self, HealthCheckRequest, HealthCheckResponse};

use crate::http::Checks;

/// Interval at which the checks are run for a stream of `Watch`. A load balancer is notified of a change after this
/// delay at the latest.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Health {
    ready: Checks,
    services: &'static [&'static str],
    stopping: CancellationToken,
}

impl Health {
    pub(super) fn new(ready: Checks, services: &'static [&'static str], stopping: CancellationToken) -> Health {
        Health { ready, services, stopping }
    }

    fn status(&self) -> ServingStatus {
        let serves = !self.stopping.is_cancelled() && self.ready.probe();
        if serves { ServingStatus::Serving } else { ServingStatus::NotServing }
    }

    /// Checks that the port has a service of this name. The empty name stands for the port as a whole. The name does
    /// not affect the status, because either all services of a port are serving or none of them is.
    fn check_name(&self, service: &str) -> Result<(), Status> {
        let known = service.is_empty() || self.services.contains(&service);
        if known { Ok(()) } else { Err(Status::not_found(format!("no service {service:?} here"))) }
    }

    /// Waits until the status differs from `last`.
    async fn change(&self, last: Option<ServingStatus>) -> ServingStatus {
        loop {
            let status = self.status();
            if last != Some(status) {
                return status;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.stopping.cancelled(), if !self.stopping.is_cancelled() => {}
            }
        }
    }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.check_name(&request.get_ref().service)?;
        Ok(Response::new(response(self.status())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.check_name(&request.get_ref().service)?;
        let changes = stream::unfold((self.clone(), None), |(health, last)| async move {
            let status = health.change(last).await;
            Some((Ok(response(status)), (health, Some(status))))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    let mut response = HealthCheckResponse::default();
    response.set_status(status.into());
    response
}
