//! The store's state machine, and the handle with which its services propose commands and read the state.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seq_core::state::{Answer, ClaimStoreId, Command, Note, Noted, Replicated, Rules, State};
use seq_kit::telemetry::traces::{self, Span};
use seq_raft::{AppliedState, Malformed, Observer, ProposeError, RaftHandle, StateMachine};

use crate::section_writes::{self, SectionWrites};
use crate::{encoding, preconditions};

/// Replicated state of a set: [`State`] as the state machine of the Raft log. Benches, simulations and fuzzers also use
/// this type without a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetState(pub State);

impl Default for SetState {
    /// Returns the initial state of a group whose format was never raised. It follows the rules of the first format.
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

/// Counter of the ceilings that were raised by the entries that this member has applied since its start, in total and
/// for each section. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaisesApplied {
    count: Arc<AtomicU64>,
    writes: SectionWrites,
}

impl RaisesApplied {
    /// Returns an observer of applied commands that counts the accepted raises in each command's output.
    pub(crate) fn observer(&self) -> Observer<SetState> {
        let RaisesApplied { count, writes } = self.clone();
        Box::new(move |state, command| {
            let Command::Raise(raises) = command else { return state.apply(command) };
            let before = section_writes::ceilings_of(&state.0, raises);
            let answer = state.apply(command);
            if let Answer::Raised(Ok(after)) = &answer {
                let raised = section_writes::raised(raises, &before, after);
                count.fetch_add(writes.applied(raised), Ordering::Relaxed);
            }
            answer
        })
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Maximum age, in milliseconds, of the last time that was noted in the log. If it is older, the time is noted again
/// before the next event.
const TIME_SERVES_MS: u64 = 1_000;

/// Handle of one member on its replicated set. Clones are handles on the same member.
#[derive(Clone)]
pub(crate) struct ReplicatedSet {
    raft: RaftHandle<SetState>,
    raises: RaisesApplied,
    /// Time that this member last noted in the log, in milliseconds since 1970.
    noted_ms: Arc<AtomicU64>,
}

impl ReplicatedSet {
    pub(crate) fn new(raft: RaftHandle<SetState>, raises: RaisesApplied) -> ReplicatedSet {
        ReplicatedSet { raft, raises, noted_ms: Arc::default() }
    }

    /// Proposes a command and waits until this member has applied it. If the future is dropped, the command may still
    /// be committed.
    ///
    /// # Errors
    /// [`ProposeError`]. The caller may propose the command again, because every command can be applied repeatedly.
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

    /// Begins the trace span of a command. The span lasts from the proposal until this member has applied the command.
    /// There is no span if the request that caused the command is not traced.
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

    /// Proposes a note of the current time before a command that may add an event to the event log, at most once in a
    /// second. The note and the command are proposed at the same time, so the command does not wait for the note.
    async fn note_time(&self, command: &Command) -> Result<(), ProposeError> {
        // This is checked first, because most commands are raises, which add no event.
        if !command.may_add_event() || !self.keeps_events() {
            return Ok(());
        }
        let unix_ms = self.raft.clock_ms();
        if unix_ms.abs_diff(self.noted_ms.load(Ordering::Relaxed)) < TIME_SERVES_MS {
            return Ok(());
        }
        self.noted_ms.store(unix_ms, Ordering::Relaxed);
        let noted = self.raft.propose(&Note { unix_ms, about: Noted::Time }.into()).await;
        if noted.is_err() {
            // The next event needs a note of its own.
            self.noted_ms.store(0, Ordering::Relaxed);
        }
        noted.map(drop)
    }

    /// Returns whether this member must note events: the group's format has an event log, and this member leads.
    pub(crate) fn keeps_events(&self) -> bool {
        self.raft.is_leader() && self.raft.state().format() >= Note::SINCE
    }

    /// Calls `read` with the applied state, and returns the result. No entry is applied during `read`, so `read` must
    /// be short.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read_state(self.raft.state(), read)
    }

    /// Returns the number of ceilings that were raised by the entries applied since this member's start.
    pub(crate) fn raises_applied(&self) -> u64 {
        self.raises.get()
    }

    /// Returns the writes of each section in the entries applied since this member's start.
    pub(crate) fn writes(&self) -> &SectionWrites {
        &self.raises.writes
    }

    /// Returns the handle on the member of the Raft group.
    pub(crate) fn raft(&self) -> &RaftHandle<SetState> {
        &self.raft
    }
}

impl fmt::Debug for ReplicatedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplicatedSet").field(&self.raft).finish()
    }
}

/// Calls `read` with an applied state for which no [`ReplicatedSet`] exists yet, and returns the result.
pub(crate) fn read_state<T>(state: &AppliedState<SetState>, read: impl FnOnce(&State) -> T) -> T {
    state.read(|state| read(&state.0))
}
