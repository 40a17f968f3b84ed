//! Request of an operator to make another set the layout writer, which creates and retires series.
//!
//! **Invariant:** before another set becomes the layout writer, this set asks it whether it knows this set as the
//! present layout writer. A set accepts the hand-over only from the set that it knows as the layout writer.

use seq_core::plan::Fingerprint;
use seq_core::state::{LayoutWriter, PeerSet, SetDefinition, SetLayoutWriter, State};
use seq_core::{RouteVersion, SetId};
use seq_proto::v1::{SetLayoutWriterRequest, SetLayoutWriterResponse};
use seq_proto::{Reason, series, status};
use tonic::Status;

use super::{SetAdmin, name_of, refused};
use crate::between::link::Member;
use crate::preconditions::{self, Required};

impl SetAdmin {
    pub(super) async fn set_layout_writer(
        &self,
        request: SetLayoutWriterRequest,
    ) -> Result<SetLayoutWriterResponse, Status> {
        self.linearize().await?;
        self.check_series_format()?;
        let SetLayoutWriterRequest { to, dry_run, plan } = request;
        let required = Required::new(dry_run, plan);
        let foresee = || self.read(|state, own| Foreseen::of(state, own, &to))?;
        let now = foresee()?;
        if now.exists {
            return Ok(now.response());
        }
        self.check_knows(&now).await?;
        let change = required.begin(self.between.replicated.raft()).await?;
        // Another request may have handed the series over before this change began.
        let now = foresee()?;
        if now.exists || change.is_none() {
            return Ok(now.response());
        }
        required.check(now.plan)?;
        let outcome = self.between.replicated.propose(now.command).await?;
        let writer = outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(set = self.declared.name, to, term = writer.term, "another set creates the series from now on");
        Ok(SetLayoutWriterResponse { changed: true, ..Foreseen { writer, ..now }.response() })
    }

    /// Returns an error if the store of the next layout writer does not know that this set is the present layout
    /// writer.
    async fn check_knows(&self, hand_over: &Foreseen) -> Result<(), Status> {
        let to = hand_over.writer.set;
        let request = self.between.exchange_request(to, RouteVersion(0))?;
        let method = async |mut member: Member, request| member.exchange(request).await;
        let name = self.read(|state, _| name_of(state, to))?;
        let response = self.between.links.call(to, request, method).await.map_err(|refusal| {
            if status::reason(&refusal).is_some() {
                return refusal;
            }
            Reason::SetUnavailable.status(format!("the store of set {name} does not respond: {}", refusal.message()))
        })?;
        let known = response.writer.as_ref().map(series::writer);
        let is_current = |known: LayoutWriter| known.term + 1 == hand_over.writer.term && known.set == hand_over.own;
        if known.is_some_and(is_current) {
            return Ok(());
        }
        let own = &self.declared.name;
        let text = match known {
            None => format!(
                "set {name} adopts no series: upgrade its stores and raise its format with `seqsvr store upgrade` first"
            ),
            Some(_) => {
                format!("set {name} does not know yet that set {own} creates series: try again in a few seconds")
            }
        };
        Err(Reason::SetOutdated.status(text))
    }
}

/// Hand-over to another layout writer, as it was already made or as the planned command would make it.
struct Foreseen {
    own: SetId,
    writer: LayoutWriter,
    command: SetLayoutWriter,
    /// Whether this hand-over was already made.
    exists: bool,
    plan: Fingerprint,
}

impl Foreseen {
    fn of(state: &State, own: &SetDefinition, to: &str) -> Result<Foreseen, Status> {
        let to = named(state, own, to)?;
        let known = state.layout_writer().ok_or_else(|| refused(&state.not_writer()))?;
        let exists = known.term > 0 && (known.from, known.set) == (own.id, to);
        let command = SetLayoutWriter { term: known.term - u64::from(exists), to };
        let writer = state.foresee_writer(&command).map_err(|refusal| refused(&refusal))?;
        Ok(Foreseen { own: own.id, writer, command, exists, plan: preconditions::layout_writer(state, to) })
    }

    fn response(&self) -> SetLayoutWriterResponse {
        SetLayoutWriterResponse { writer: Some((&self.writer).into()), changed: false, fingerprint: self.plan.0 }
    }
}

/// Returns the id of the set whose name or id is `given`.
fn named(state: &State, own: &SetDefinition, given: &str) -> Result<SetId, Status> {
    let is_named = |id: SetId, name: &str| name == given || id.to_string() == given;
    if is_named(own.id, &own.name) {
        return Ok(own.id);
    }
    let is_peer = |(id, peer): &(&SetId, &PeerSet)| is_named(**id, peer.facts.as_ref().map_or("", |facts| &facts.name));
    let found: Vec<SetId> = state.sets.iter().filter(is_peer).map(|(id, _)| *id).collect();
    match found[..] {
        [id] => Ok(id),
        [] => Err(Reason::UnknownSet.status(format!("set {given:?} is not known to set {:?}", own.name))),
        [one, other, ..] => {
            let text = format!("sets {one} and {other} both have the name {given:?}: give the id of one");
            Err(Reason::UnknownSet.status(text))
        }
    }
}
