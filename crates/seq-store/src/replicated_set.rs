//! The store's state machine, and the handle through which its services propose commands and read the state.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seq_core::state::{Answer, ClaimStoreId, Command, Note, Noted, Replicated, Rules, State};
use seq_kit::telemetry::traces::{self, Span};
use seq_raft::{AppliedState, Malformed, Observer, ProposeError, RaftHandle, StateMachine};

use crate::section_writes::SectionWrites;
use crate::{encoding, preconditions};

/// [`State`] as the state machine of the replicated log. Benches, simulations and fuzzers use it without a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetState(pub State);

impl Default for SetState {
    /// Returns the state of a group whose format was never raised, with the rules of the group's first format.
    fn default() -> SetState {
        SetState(State { rules: Rules::of_format(SetState::FIRST_FORMAT), ..State::default() })
    }
}

impl StateMachine for SetState {
    type Command = Command;
    type Output = Answer;

    const FORMAT: u16 = encoding::NEWEST;
    const OLDEST_FORMAT: u16 = encoding::OLDEST;
    const FIRST_FORMAT: u16 = 5;
    const STRICT_FORMAT: u16 = encoding::COPIES;

    fn apply(&mut self, command: &Command) -> Answer {
        self.0.apply(command)
    }

    fn raise_format(&mut self, to: u16) {
        self.0.raise_format(to);
    }

    fn encode_command(format: u16, command: &Command) -> Vec<u8> {
        encoding::encode_command(format, command)
    }

    fn decode_command(format: u16, body: &[u8]) -> Result<Command, Malformed> {
        encoding::decode_command(format, body)
    }

    fn encode(&self, format: u16) -> Vec<u8> {
        encoding::encode_state(format, &self.0)
    }

    fn decode(format: u16, body: &[u8]) -> Result<SetState, Malformed> {
        encoding::decode_state(format, body).map(SetState)
    }

    fn member_ids(&self) -> &[u64] {
        &self.0.store_ids
    }

    fn history(&self) -> u64 {
        preconditions::history(&self.0)
    }

    fn claim_member_id(id: u64) -> Command {
        Command::ClaimStoreId(ClaimStoreId { id })
    }
}

/// Counter of accepted raises in the entries applied since the start. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaisesApplied {
    count: Arc<AtomicU64>,
    writes: SectionWrites,
}

impl RaisesApplied {
    /// Returns an observer that counts the accepted raises in the output of each command, in total and for each
    /// section.
    pub(crate) fn observer(&self) -> Observer<SetState> {
        let RaisesApplied { count, writes } = self.clone();
        Box::new(move |command, answer| {
            writes.applied(command, answer);
            if let Answer::Raised(Ok(ceilings)) = answer {
                count.fetch_add(ceilings.iter().flatten().count() as u64, Ordering::Relaxed);
            }
        })
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Milliseconds for which a noted time is precise enough for the events after it.
const TIME_SERVES_MS: u64 = 1_000;

/// The replicated set on one member. Clones are handles on the same member.
#[derive(Clone)]
pub(crate) struct ReplicatedSet {
    raft: RaftHandle<SetState>,
    raises: RaisesApplied,
    /// The time that this member noted last, in milliseconds since 1970.
    noted_ms: Arc<AtomicU64>,
}

impl ReplicatedSet {
    pub(crate) fn new(raft: RaftHandle<SetState>, raises: RaisesApplied) -> ReplicatedSet {
        ReplicatedSet { raft, raises, noted_ms: Arc::default() }
    }

    /// Proposes a command and waits until this member has applied it. Cancel safe, but the command may still be
    /// committed if the future is dropped.
    ///
    /// # Errors
    /// [`ProposeError`]; every command can be repeated.
    pub(crate) async fn propose<C: Replicated>(&self, command: C) -> Result<C::Output, ProposeError> {
        let command = command.into();
        let mut span = self.applying(&command);
        let (noted, answer) = tokio::join!(self.note_time(&command), self.raft.propose(&command));
        span.fail_if(&answer);
        if let Err(error) = noted {
            tracing::debug!(%error, "the time of an event was not noted");
        }
        Ok(C::output(answer?))
    }

    /// Begins the span of a command, which lasts from the proposal until the command is applied. There is no span if
    /// the request of the command is not traced.
    fn applying(&self, command: &Command) -> Span {
        let mut span = traces::child("apply");
        if !span.is_none() {
            let set = self.read(|state| state.set.as_ref().map(|set| set.name.clone()));
            span.set("seqsvr.set", set.unwrap_or_default());
            span.set("seqsvr.store_id", self.raft.id());
            span.set("seqsvr.command", command.name());
        }
        span
    }

    /// Notes the time in the log before a command that may add an event, at most once a second. The note and the
    /// command are proposed together, so the command does not wait for the note.
    async fn note_time(&self, command: &Command) -> Result<(), ProposeError> {
        // Checked first, because raises are most of the commands, and add none.
        if !command.may_add_event() || !self.keeps_events() {
            return Ok(());
        }
        let unix_ms = self.raft.clock_ms();
        if unix_ms.abs_diff(self.noted_ms.load(Ordering::Relaxed)) < TIME_SERVES_MS {
            return Ok(());
        }
        self.noted_ms.store(unix_ms, Ordering::Relaxed);
        self.raft.propose(&Note { unix_ms, about: Noted::Time }.into()).await.map(drop)
    }

    /// Returns whether the group's format has events, and this member may note them because it leads.
    pub(crate) fn keeps_events(&self) -> bool {
        self.raft.is_leader() && self.raft.state().format() >= Note::SINCE
    }

    /// Calls `read` with the applied state. No entry is applied during `read`, so `read` must be short.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read_state(self.raft.state(), read)
    }

    /// Returns the number of ceilings raised by the entries applied since the start.
    pub(crate) fn raises_applied(&self) -> u64 {
        self.raises.get()
    }

    /// Returns the writes of sections in the entries applied since the start.
    pub(crate) fn writes(&self) -> &SectionWrites {
        &self.raises.writes
    }

    /// Returns the handle of the group's member.
    pub(crate) fn raft(&self) -> &RaftHandle<SetState> {
        &self.raft
    }
}

impl fmt::Debug for ReplicatedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplicatedSet").field(&self.raft).finish()
    }
}

/// Reads a state for which no handle exists yet.
pub(crate) fn read_state<T>(state: &AppliedState<SetState>, read: impl FnOnce(&State) -> T) -> T {
    state.read(|state| read(&state.0))
}
