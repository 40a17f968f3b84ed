//! What AllocSvrs ask: each call is checked, becomes one entry of the log, and is answered from what was applied.
//!
//! **Invariant:** a malformed request is refused before anything is proposed, and nothing is answered that is not committed.
//! A renewal's answer is read from the applied state after the renewal itself was applied, on the member that proposed it;
//! an answer from memory alone could come from a leader that was deposed long ago.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::Plan;
use seq_core::lease::LeaseTerms;
use seq_core::owner::{Life, News};
use seq_core::state::{Answer, Command, CommandRefusal, Raise, SetDefinition, State, Transfer};
use seq_core::{Epoch, Handover, Incarnation, NodeId, RenewSeq, RouteVersion, SectionId, Seq, limits};
use seq_proto::status;
use seq_proto::v1::control_service_server::ControlService;
use seq_proto::v1::{
    RaiseCeilingsRequest, RaiseCeilingsResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse,
    TransferRequest, TransferResponse,
};
use tokio::sync::watch;
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
    /// How long the arbiter waits before it gives a silent node's sections away.
    pub(crate) lease_wait: Duration,
    /// What the arbiter beside the leader wants.
    pub(crate) plan: watch::Receiver<Arc<Plan>>,
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
        Ok(Response::new(RegisterResponse { node_id: node.0, incarnation: incarnation.0, ..Default::default() }))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        let life = life(request.node_id, request.incarnation)?;
        let command = this.check_renewal(life, &request)?;
        let answer = this.proposer.propose(&command).await?;
        let Answer::Renewed(outcome) = answer else { panic!("a renewal was answered with {answer:?}") };
        outcome.map_err(refused)?;
        Ok(Response::new(RenewResponse { news: Some(this.news(life, request.route_version)?), ..Default::default() }))
    }

    async fn raise_ceilings(
        &self,
        request: Request<RaiseCeilingsRequest>,
    ) -> Result<Response<RaiseCeilingsResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        let life = life(request.node_id, request.incarnation)?;
        let raises = this.check_raises(&request)?;
        let Life { node, incarnation } = life;
        let answer = this.proposer.propose(&Command::Raise { node, incarnation, raises }).await?;
        let Answer::Raised(outcome) = answer else { panic!("raises were answered with {answer:?}") };
        let ceilings =
            outcome.map_err(refused)?.into_iter().map(|ceiling| ceiling.map_or(0, |ceiling| ceiling.0)).collect();
        Ok(Response::new(RaiseCeilingsResponse { ceilings, news: Some(this.news(life, request.route_version)?) }))
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> Result<Response<TransferResponse>, Status> {
        let this = self.get()?;
        let request = request.into_inner();
        let life = life(request.node_id, request.incarnation)?;
        let transfer = this.check_transfer(life, &request)?;
        let answer = this.proposer.propose(&Command::Transfer(transfer)).await?;
        let Answer::Transferred(outcome) = answer else { panic!("a transfer was answered with {answer:?}") };
        let made = outcome.map_err(|refusal| refused_transfer(refusal, transfer.to))?;
        Ok(Response::new(TransferResponse {
            ceiling: made.max_seq.0,
            news: Some(this.news(life, request.route_version)?),
        }))
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
        let lease = Duration::from_millis(request.lease_ms);
        let terms = LeaseTerms { lease, wait: self.lease_wait, ..LeaseTerms::DEFAULTS };
        if lease.is_zero() || !terms.outlasted() {
            let text = format!(
                "a lease of {lease:?} does not fit this store, which gives sections away after {:?}: {}",
                self.lease_wait,
                LeaseTerms::OUTLASTED,
            );
            return Err(status::with_reason(Code::FailedPrecondition, "LEASE_TOO_LONG", text, [], None));
        }
        if request.token == 0 {
            return Err(bad("BAD_TOKEN", "token 0: draw a random one for each life".to_owned()));
        }
        Ok(())
    }

    /// What changed of owners, read from the applied state: no older than the entry that was just applied here.
    fn news(&self, life: Life, since: u64) -> Result<seq_proto::v1::News, Status> {
        let plan = self.plan.borrow().clone();
        let over = |state: &State| {
            let current = state.node(life.node).map_or(Incarnation(0), |record| record.incarnation);
            refused(CommandRefusal::OtherIncarnation { node: life.node, current, given: life.incarnation })
        };
        let since = RouteVersion(since);
        let news = self.state.read(|state| News::of(state, &plan, life, since).ok_or_else(|| over(state)))?;
        Ok((&news).into())
    }

    fn check_renewal(&self, life: Life, request: &RenewRequest) -> Result<Command, Status> {
        if request.renew_seq == 0 {
            return Err(bad("BAD_RENEW_SEQ", "renew_seq 0: the first renewal of a life is 1".to_owned()));
        }
        let RenewRequest { released, released_epochs, leaving, .. } = request;
        let lens = (released.len(), released_epochs.len());
        if lens.0 != lens.1 {
            return Err(bad("LISTS_MISMATCH", format!("{lens:?} released sections and epochs: send one of each")));
        }
        if lens.0 > limits::MAX_RAISES {
            let text = format!("{} releases are more than the {} of one call", lens.0, limits::MAX_RAISES);
            return Err(bad("BATCH_TOO_LARGE", text));
        }
        let released = released.iter().zip(released_epochs);
        Ok(Command::Renew {
            node: life.node,
            incarnation: life.incarnation,
            renew_seq: RenewSeq(request.renew_seq),
            released: released.map(|(section, epoch)| (SectionId(*section), Epoch(*epoch))).collect(),
            leaving: *leaving,
        })
    }

    fn check_transfer(&self, life: Life, request: &TransferRequest) -> Result<Transfer, Status> {
        let TransferRequest { section, epoch, to_node_id, to_incarnation, handover, .. } = *request;
        let count = self.set.layout.sections();
        if section >= count {
            return Err(bad("UNKNOWN_SECTION", format!("section {section}: the set has sections 0..{count}")));
        }
        if epoch == 0 {
            return Err(bad("BAD_EPOCH", format!("section {section}: epoch 0 is no ownership")));
        }
        if to_node_id == 0 || to_node_id == life.node.0 || to_incarnation == 0 {
            let text =
                format!("section {section} cannot be handed to node {to_node_id} in incarnation {to_incarnation}");
            return Err(bad("BAD_TARGET", text));
        }
        if handover == 0 {
            return Err(bad("BAD_HANDOVER", format!("section {section}: attempts are counted from 1")));
        }
        Ok(Transfer {
            section: SectionId(section),
            epoch: Epoch(epoch),
            from: life.node,
            incarnation: life.incarnation,
            to: NodeId(to_node_id),
            to_incarnation: Incarnation(to_incarnation),
            handover: Handover(handover),
        })
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
        let mut raises = Vec::with_capacity(sections.len());
        for ((&section, &epoch), &to) in sections.iter().zip(epochs).zip(ceilings) {
            if section >= count {
                return Err(bad("UNKNOWN_SECTION", format!("section {section}: the set has sections 0..{count}")));
            }
            if epoch == 0 {
                return Err(bad("BAD_EPOCH", format!("section {section}: epoch 0 is no ownership")));
            }
            if to == 0 || to > Seq::MAX.0 {
                return Err(bad("BAD_CEILING", format!("section {section}: ceiling {to} is not in 1..={}", Seq::MAX)));
            }
            raises.push(Raise { section: SectionId(section), epoch: Epoch(epoch), to: Seq(to) });
        }
        if let Some(section) = repeated(sections) {
            return Err(bad("DUPLICATE_SECTION", format!("section {section} stands in the call twice")));
        }
        Ok(raises)
    }
}

/// A section that stands in the list twice. Nothing is copied where they come in order, as one alone does.
fn repeated(sections: &[u32]) -> Option<u32> {
    if sections.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let mut sorted = sections.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn life(node: u32, incarnation: u64) -> Result<Life, Status> {
    if node == 0 {
        return Err(bad("BAD_NODE_ID", "node_id 0 is no node: register first".to_owned()));
    }
    if incarnation == 0 {
        return Err(bad("BAD_INCARNATION", "incarnation 0 is no life: register first".to_owned()));
    }
    Ok(Life { node: NodeId(node), incarnation: Incarnation(incarnation) })
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
        CommandRefusal::UnknownName { .. } => (Code::NotFound, "UNKNOWN_NAME", None),
        CommandRefusal::OtherOwnership { .. } => (Code::FailedPrecondition, "OTHER_OWNERSHIP", None),
        CommandRefusal::OtherRenewal { .. } => (Code::FailedPrecondition, "OTHER_RENEWAL", None),
    };
    status::with_reason(code, reason, refusal.to_string(), [], retry)
}

/// The refusal of a planned move. That its target is gone is another matter than that its source is.
fn refused_transfer(refusal: CommandRefusal, target: NodeId) -> Status {
    match &refusal {
        CommandRefusal::OtherIncarnation { node, .. } | CommandRefusal::UnknownNode { node } if *node == target => {
            status::with_reason(Code::FailedPrecondition, "TARGET_GONE", refusal.to_string(), [], None)
        }
        _ => refused(refusal),
    }
}
