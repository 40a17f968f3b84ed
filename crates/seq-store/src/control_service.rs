//! What AllocSvrs ask: each call is checked, becomes one entry of the log, and is answered from what was applied.
//!
//! **Invariant:** a malformed request is refused before anything is proposed, and nothing is answered that is not committed.
//! A renewal's answer is read from the applied state after the renewal itself was applied, on the member that proposed it;
//! an answer from memory alone could come from a leader that was deposed long ago.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seq_core::state::{Answer, Command, CommandRefusal, Raise, SetDefinition, State};
use seq_core::{Epoch, Incarnation, NodeId, RenewSeq, RouteVersion, SectionId, Seq, limits};
use seq_proto::status;
use seq_proto::v1::control_service_server::ControlService;
use seq_proto::v1::{
    RaiseCeilingsRequest, RaiseCeilingsResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse,
};
use tonic::{Code, Request, Response, Status};

use crate::gate::Gate;
use crate::proposer::Proposer;
use crate::storage::SharedState;

/// When to try again while the set is not defined yet: the leader does it first of all.
const NO_SET_RETRY: Duration = Duration::from_millis(100);

/// The service.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) set: Arc<SetDefinition>,
    /// Names of the AllocSvrs in the set file.
    pub(crate) allocs: Arc<BTreeSet<String>>,
    pub(crate) proposer: Proposer,
    pub(crate) state: SharedState,
}

#[tonic::async_trait]
impl ControlService for Gate<Control> {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        this.check_register(&request)?;
        let RegisterRequest { node, addr, token, .. } = request;
        let answer = this.proposer.propose(&Command::Register { name: node, addr, token }).await?;
        let Answer::Registered(outcome) = answer else { panic!("a registration was answered with {answer:?}") };
        let (node, incarnation) = outcome.map_err(refused)?;
        Ok(Response::new(RegisterResponse { node_id: node.0, incarnation: incarnation.0 }))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        let (node, incarnation) = life(request.node_id, request.incarnation)?;
        if request.renew_seq == 0 {
            return Err(bad("BAD_RENEW_SEQ", "renew_seq 0: the first renewal of a life is 1".to_owned()));
        }
        let renew_seq = RenewSeq(request.renew_seq);
        let answer = this.proposer.propose(&Command::Renew { node, incarnation, renew_seq }).await?;
        let Answer::Renewed(outcome) = answer else { panic!("a renewal was answered with {answer:?}") };
        outcome.map_err(refused)?;
        let news = |state: &State| news(state, node, incarnation, RouteVersion(request.route_version));
        Ok(Response::new(this.state.read(news).map_err(refused)?))
    }

    async fn raise_ceilings(
        &self,
        request: Request<RaiseCeilingsRequest>,
    ) -> Result<Response<RaiseCeilingsResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        let (node, incarnation) = life(request.node_id, request.incarnation)?;
        let raises = this.check_raises(&request)?;
        let answer = this.proposer.propose(&Command::Raise { node, incarnation, raises }).await?;
        let Answer::Raised(outcome) = answer else { panic!("raises were answered with {answer:?}") };
        let ceilings =
            outcome.map_err(refused)?.into_iter().map(|ceiling| ceiling.map_or(0, |ceiling| ceiling.0)).collect();
        Ok(Response::new(RaiseCeilingsResponse { ceilings }))
    }
}

impl Control {
    fn check_register(&self, request: &RegisterRequest) -> Result<(), Status> {
        if request.set != self.set.name {
            let text = format!("this is the store of set {:?}, not of {:?}", self.set.name, request.set);
            return Err(status::with_reason(Code::FailedPrecondition, "OTHER_SET", text, [], None));
        }
        if !self.allocs.contains(&request.node) {
            let text = format!("the set file of this store names no AllocSvr {:?}", request.node);
            return Err(status::with_reason(Code::FailedPrecondition, "UNDECLARED_NODE", text, [], None));
        }
        let port = request.addr.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) || request.addr.len() > limits::MAX_ADDR_BYTES {
            let most = limits::MAX_ADDR_BYTES;
            return Err(bad("BAD_ADDR", format!("addr {:?} is not \"host:port\" of up to {most} bytes", request.addr)));
        }
        if request.token == 0 {
            return Err(bad("BAD_TOKEN", "token 0: draw a random one for each life".to_owned()));
        }
        Ok(())
    }

    fn check_raises(&self, request: &RaiseCeilingsRequest) -> Result<Vec<Raise>, Status> {
        let RaiseCeilingsRequest { sections, epochs, ceilings, .. } = request;
        if sections.len() != epochs.len() || sections.len() != ceilings.len() {
            let lens = (sections.len(), epochs.len(), ceilings.len());
            return Err(bad("LISTS_MISMATCH", format!("{lens:?} sections, epochs and ceilings: send one of each")));
        }
        if sections.is_empty() {
            return Err(bad("EMPTY_BATCH", format!("no section to raise; send 1..={} of them", limits::MAX_RAISES)));
        }
        if sections.len() > limits::MAX_RAISES {
            let text = format!("{} raises are more than the {} of one call", sections.len(), limits::MAX_RAISES);
            return Err(bad("BATCH_TOO_LARGE", text));
        }
        let count = self.set.layout.sections();
        let mut seen = BTreeSet::new();
        let mut raises = Vec::with_capacity(sections.len());
        for ((&section, &epoch), &to) in sections.iter().zip(epochs).zip(ceilings) {
            if section >= count {
                return Err(bad("UNKNOWN_SECTION", format!("section {section}: the set has sections 0..{count}")));
            }
            if !seen.insert(section) {
                return Err(bad("DUPLICATE_SECTION", format!("section {section} stands in the call twice")));
            }
            if epoch == 0 {
                return Err(bad("BAD_EPOCH", format!("section {section}: epoch 0 is no ownership")));
            }
            if to == 0 || to > Seq::MAX.0 {
                return Err(bad("BAD_CEILING", format!("section {section}: ceiling {to} is not in 1..={}", Seq::MAX)));
            }
            raises.push(Raise { section: SectionId(section), epoch: Epoch(epoch), to: Seq(to) });
        }
        Ok(raises)
    }
}

/// What a living node learns from its renewal: what it owns among the sections that changed, and the newer routes.
fn news(
    state: &State,
    node: NodeId,
    incarnation: Incarnation,
    since: RouteVersion,
) -> Result<RenewResponse, CommandRefusal> {
    // The next life may have begun between the renewal and this read.
    let current = state.node(node).map_or(Incarnation(0), |record| record.incarnation);
    if current != incarnation {
        return Err(CommandRefusal::OtherIncarnation { node, current, given: incarnation });
    }
    let mut answer = RenewResponse::default();
    let Some(routes) = state.routes_since(since) else { return Ok(answer) };
    answer.routes = Some((&routes).into());
    for (section, record) in state.owned_by(node, incarnation).filter(|(_, record)| record.routed > since) {
        answer.sections.push(section.0);
        answer.epochs.push(record.epoch.0);
        answer.ceilings.push(record.max_seq.0);
    }
    Ok(answer)
}

fn life(node: u32, incarnation: u64) -> Result<(NodeId, Incarnation), Status> {
    if node == 0 {
        return Err(bad("BAD_NODE_ID", "node_id 0 is no node: register first".to_owned()));
    }
    if incarnation == 0 {
        return Err(bad("BAD_INCARNATION", "incarnation 0 is no life: register first".to_owned()));
    }
    Ok((NodeId(node), Incarnation(incarnation)))
}

fn bad(reason: &'static str, text: String) -> Status {
    status::with_reason(Code::InvalidArgument, reason, text, [], None)
}

fn refused(refusal: CommandRefusal) -> Status {
    let (code, reason, retry) = match refusal {
        CommandRefusal::OtherSet { .. } => (Code::FailedPrecondition, "OTHER_SET", None),
        CommandRefusal::NoSet => (Code::Unavailable, "NO_SET", Some(NO_SET_RETRY)),
        CommandRefusal::TooManyNodes => (Code::ResourceExhausted, "TOO_MANY_NODES", None),
        CommandRefusal::UnknownNode { .. } => (Code::FailedPrecondition, "UNKNOWN_NODE", None),
        CommandRefusal::OtherIncarnation { .. } => (Code::FailedPrecondition, "OTHER_INCARNATION", None),
        CommandRefusal::OtherRenewal { .. } => (Code::FailedPrecondition, "OTHER_RENEWAL", None),
    };
    status::with_reason(code, reason, refusal.to_string(), [], retry)
}
