//! Service with which operators read the audit log, and with which members record the ends of operations at the leader.

use seq_core::state::{AuditEvent, AuditRecord, EndOperation, audit_text};
use seq_proto::Reason;
use seq_proto::v1::audit_service_server::AuditService;
use seq_proto::v1::{
    self, BegunOperation, EndOperationRequest, EndOperationResponse, EndedOperation, ListEventsRequest,
    ListEventsResponse, audit_event,
};
use seq_raft::Gate;
use tonic::{Request, Response, Status};

use super::recorder::is_recorded;
use crate::replicated_set::ReplicatedSet;

/// Maximum number of events in one response. With this number, a response has at most 300 KiB.
const MAX_EVENTS: usize = 200;

/// State of the service once the member is loaded.
pub(crate) struct AuditLog {
    set: String,
    replicated: ReplicatedSet,
}

impl AuditLog {
    pub(crate) fn new(set: &str, replicated: ReplicatedSet) -> AuditLog {
        AuditLog { set: set.to_owned(), replicated }
    }
}

/// The audit service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct AuditServer(pub(crate) Gate<AuditLog>);

#[tonic::async_trait]
impl AuditService for AuditServer {
    async fn list_events(&self, request: Request<ListEventsRequest>) -> Result<Response<ListEventsResponse>, Status> {
        let (log, after) = (self.0.get()?, request.into_inner().after);
        log.replicated.raft().linearize().await?;
        let recorded = is_recorded(log.replicated.raft());
        let (events, last) = log.replicated.read(|state| {
            let newer = state.audit.events().filter(|event| event.index > after);
            (newer.take(MAX_EVENTS).map(message).collect(), state.audit.last().0)
        });
        Ok(Response::new(ListEventsResponse { set: log.set.clone(), events, last, recorded }))
    }

    async fn end_operation(
        &self,
        request: Request<EndOperationRequest>,
    ) -> Result<Response<EndOperationResponse>, Status> {
        let log = self.0.get()?;
        let ended = request.into_inner().ended;
        let EndedOperation { at_unix_ms, operation, refusal } =
            ended.ok_or_else(|| Reason::Malformed.status("the end of no operation"))?;
        let refusal = refusal.map(|text| audit_text(&text).to_owned());
        let outcome = log.replicated.propose(EndOperation { at_unix_ms, operation, refusal }).await?;
        outcome.map_err(|refusal| Reason::Malformed.status(refusal.to_string()))?;
        Ok(Response::new(EndOperationResponse {}))
    }
}

fn message(event: &AuditEvent) -> v1::AuditEvent {
    let record = match event.record.clone() {
        AuditRecord::Begun(begun) => audit_event::Record::Begun(BegunOperation {
            at_unix_ms: begun.at_unix_ms,
            principal: begun.principal,
            node: begun.node,
            operation: begun.operation,
            plan: begun.plan,
        }),
        AuditRecord::Ended(ended) => audit_event::Record::Ended(EndedOperation {
            at_unix_ms: ended.at_unix_ms,
            operation: ended.operation,
            refusal: ended.refusal,
        }),
    };
    v1::AuditEvent { index: event.index, record: Some(record), hash: event.hash.0.to_vec() }
}
