//! The gRPC endpoint of an AllocSvr. It serves numbers, ids, status, health and reflection on one listener, and JSON on
//! the same port.
//!
//! One endpoint runs on each core, in the core's runtime and with its own listener. The kernel distributes the
//! connections of a port over the endpoints. All limits of a connection are defined in this module.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use seq_api::metrics::{REQUEST_LIMIT_LOWERED_TOTAL, denied_requests};
use seq_api::node_events::NodeEvents;
use seq_api::service::SequenceService;
use seq_auth::Identity;
use seq_core::{SectionId, limits};
use seq_kit::admission::Admission;
use seq_kit::connection::{Listener, Peer};
use seq_kit::http::Checks;
use seq_kit::memory::MemoryBudget;
use seq_kit::port::{Bounds, Guard, Port, Respond};
use seq_kit::tasks::TaskGroup;
use seq_proto::roles::Called;
use seq_proto::settings::NodeSettings;
use seq_proto::v1;
use seq_proto::v1::status_service_server::{StatusService, StatusServiceServer};
use seq_proto::{node_events, ports, roles};
use seq_tenant::Tenants;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::dispatch::{Dispatch, is_grpc};
use crate::handlers::Handlers;
use crate::http;
use crate::request_span::Names;

/// Limit on concurrent requests of one connection. It is enough for a busy client, which has several connections.
/// Further requests wait at the client. The memory of the requests is limited separately, by the node's
/// [`MemoryBudget`].
const MAX_STREAMS_PER_CONNECTION: u32 = 256;

/// HTTP/2 flow-control window of one request. It is large enough for a full batch to arrive without a wait for the
/// window to grow.
const STREAM_WINDOW: u32 = 256 << 10;

/// HTTP/2 flow-control window of one connection. It is large enough for two full batches. If a caller does not read the
/// responses of a stream, the stream's bytes that have arrived stay unread here, and the [`MemoryBudget`] does not
/// count them.
const CONNECTION_WINDOW: u32 = 2 * STREAM_WINDOW;

/// Limits of one connection.
const BOUNDS: Bounds = Bounds {
    streams: MAX_STREAMS_PER_CONNECTION,
    stream_window: STREAM_WINDOW,
    connection_window: CONNECTION_WINDOW,
    drain: Duration::from_secs(3),
};

/// What a node reports about itself.
pub trait NodeView: Send + Sync {
    /// Returns the response of `StatusService.Status`.
    fn status(&self) -> v1::StatusResponse;

    /// Returns the response to `StatusService.ListCeilings`, which begins at the section `first`. The default
    /// implementation is for a node without sections, which has no ceilings.
    fn ceilings(&self, first: SectionId) -> v1::ListCeilingsResponse {
        let _ = first;
        v1::ListCeilingsResponse { set: self.status().set, ..v1::ListCeilingsResponse::default() }
    }

    /// Begins the response to `StatusService.ListActivity`. The returned closure completes it.
    ///
    /// # Errors
    /// The refusal of a request that exceeds the node's limits on reports, or of any request to a node without
    /// sections.
    fn activity(&self, request: v1::ListActivityRequest) -> Result<Report<v1::ListActivityResponse>, Status> {
        let _ = request;
        Err(Status::unimplemented(NO_SECTIONS))
    }

    /// Begins the response to `StatusService.DescribeSection`. The returned closure completes it.
    ///
    /// # Errors
    /// The refusal of a request for a section that the node does not own, or of a request that exceeds the node's
    /// limits on reports.
    fn describe_section(
        &self,
        request: v1::DescribeSectionRequest,
    ) -> Result<Report<v1::DescribeSectionResponse>, Status> {
        let _ = request;
        Err(Status::unimplemented(NO_SECTIONS))
    }

    /// Returns the settings of the node.
    fn settings(&self) -> NodeSettings {
        NodeSettings::default()
    }

    /// Returns the event log of the node. The default implementation returns a new log.
    fn events(&self) -> NodeEvents {
        NodeEvents::default()
    }
}

const NO_SECTIONS: &str = "this node owns no sections: request it from an AllocSvr";

/// Closure that completes a response. This takes milliseconds, so it must not run in the runtime of an endpoint.
pub type Report<T> = Box<dyn FnOnce() -> T + Send>;

/// A function that returns a status is the view of a node that has no sections.
impl<F: Fn() -> v1::StatusResponse + Send + Sync> NodeView for F {
    fn status(&self) -> v1::StatusResponse {
        self()
    }
}

/// Source of the status service's responses.
pub type AdminView = Arc<dyn NodeView>;

/// Services and limits of a node. Each of the node's endpoints, one on each core, has a clone.
#[derive(Clone)]
pub struct Node {
    /// The node's status.
    pub admin: AdminView,
    /// Readiness of the node, as reported by the health service.
    pub ready: Checks,
    /// Additional services of the port. Real nodes have none here, because their services for peers have a separate
    /// port ([`crate::peers`]). Simulated nodes serve callers and peers on the same port.
    pub beside: Routes,
    /// Admission of connections.
    pub admission: Admission,
    /// Whether `GET /api/seq/next/{uid}` allocates numbers, as POST does.
    pub allocate_on_get: bool,
    /// The tenants to which callers belong; `None` if every caller may use every uid.
    pub tenants: Option<Tenants>,
    /// The memory that requests may hold.
    pub memory: MemoryBudget,
}

/// Serves `service` on `listener`, with tasks in `group` on the current runtime, until the group shuts down.
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
    let Node { admin, ready, beside, admission, allocate_on_get, tenants, memory } = node;
    let port = Port {
        name: "grpc endpoint",
        guard: guard((admission.node(), &admin.events()), admin.status().set, tenants.is_some()),
        lowered: Some(counter!(REQUEST_LIMIT_LOWERED_TOTAL, "node" => admission.node().to_owned())),
        admission,
        bounds: BOUNDS,
        ready,
        http1: true,
        descriptors: seq_proto::DESCRIPTORS,
        services: ports::Port::Callers.services(),
    };
    let names = Names { set: admin.status().set, node: port.admission.node().to_owned() };
    let handlers = Arc::new(Handlers::new(service, &names.set, group, allocate_on_get, tenants, port.ready.clone()));
    let admin = StatusServiceServer::new(Admin { view: admin, for_nodes: false })
        .max_decoding_message_size(limits::MAX_REQUEST_BYTES);
    let services = port.complete(beside.add_service(admin), group);
    port.serve(Dispatch::new(handlers, services, memory, names), listener.into(), group)
}

/// Returns the guard of a node's port for callers. It refuses gRPC requests with a gRPC status, and other requests with
/// an error in JSON. If `tokens` is true, because the node has tenants, a caller may present a token instead of a
/// certificate.
fn guard((node, events): (&str, &NodeEvents), set: String, tokens: bool) -> Guard {
    let respond: Respond = |request, status| {
        if is_grpc(request) { status.clone().into_http() } else { http::refused(status) }
    };
    let decide = move |path: &str, caller: Option<&Identity>| {
        let called = Called::by_path(path);
        if tokens && caller.is_none() && called.admits_tokens() { Ok(()) } else { called.check(caller, &set) }
    };
    Guard::new(decide, respond, denied_requests(node, events))
}

pub(crate) struct Admin {
    pub(crate) view: AdminView,
    /// Whether the port is for nodes. On such a port, callers that are not nodes get a status with fewer fields.
    pub(crate) for_nodes: bool,
}

#[tonic::async_trait]
impl StatusService for Admin {
    async fn status(&self, request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let mut status = self.view.status();
        let caller = request.extensions().get::<Peer>().and_then(Peer::identity);
        if !roles::sees_whole_status(caller) {
            status.admin_addrs.clear();
        }
        if self.for_nodes {
            roles::narrow(&mut status, caller);
        }
        Ok(Response::new(status))
    }

    async fn list_ceilings(
        &self,
        request: Request<v1::ListCeilingsRequest>,
    ) -> Result<Response<v1::ListCeilingsResponse>, Status> {
        Ok(Response::new(self.view.ceilings(SectionId(request.into_inner().first_section))))
    }

    async fn list_activity(
        &self,
        request: Request<v1::ListActivityRequest>,
    ) -> Result<Response<v1::ListActivityResponse>, Status> {
        made(self.view.activity(request.into_inner())?).await
    }

    async fn describe_section(
        &self,
        request: Request<v1::DescribeSectionRequest>,
    ) -> Result<Response<v1::DescribeSectionResponse>, Status> {
        made(self.view.describe_section(request.into_inner())?).await
    }

    async fn get_config(&self, _: Request<v1::GetConfigRequest>) -> Result<Response<v1::GetConfigResponse>, Status> {
        let status = self.view.status();
        let kind = match status.role {
            Some(v1::status_response::Role::Store(_)) => "store",
            Some(v1::status_response::Role::Alloc(_)) => "alloc",
            None => "proxy",
        };
        Ok(Response::new(self.view.settings().response(&status.set, &status.node, kind)))
    }

    async fn list_node_events(
        &self,
        request: Request<v1::ListNodeEventsRequest>,
    ) -> Result<Response<v1::ListNodeEventsResponse>, Status> {
        let (status, request) = (self.view.status(), request.into_inner());
        let page = self.view.events().page(request.after, request.limit);
        Ok(Response::new(node_events::response(page, (&status.set, &status.node), status.instance)))
    }
}

/// Runs the closure that completes a response on a thread for blocking work, because this takes milliseconds.
async fn made<T: Send + 'static>(report: Report<T>) -> Result<Response<T>, Status> {
    let made = tokio::task::spawn_blocking(report).await;
    made.map(Response::new).map_err(|error| Status::internal(format!("the report was not made: {error}")))
}
