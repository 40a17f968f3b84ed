//! The audit log, which records the operations of administrators in the replicated state.
//!
//! The beginning of an operation is recorded as an event before the operation is carried out, and its outcome is
//! recorded as another event afterwards. So no operation is carried out without a record. If an operation has no second
//! event, it was interrupted, and may or may not have been carried out.
//!
//! The hash of each event (SHA-256) covers the event and the hash of the event before it. So if an event is changed,
//! removed or moved, its hash or a later hash no longer fits. If the hash of one event is known to be genuine, it
//! proves the content of this event and of all kept events before it. Hashes do not prove who wrote an event: a party
//! that can write all copies of the log can write other events with fitting hashes.
//!
//! **Invariant:** events are never changed. The log keeps the newest [`limits::MAX_AUDIT_EVENTS`] events, and the hash
//! of the last event that was removed.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt;

use sha2::{Digest, Sha256};

use super::State;
use super::command::CommandRefusal;
use crate::limits;

/// Begins an operation: see [`super::Command::BeginOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginOperation {
    /// Time in milliseconds since 1970 by the clock of the store's leader; 0 if unknown. Only shown to people.
    pub at_unix_ms: u64,
    /// Identity in the certificate of the client that requested the operation, such as `operator/alice`.
    pub principal: String,
    /// Name of the store's member that carries it out.
    pub node: String,
    /// The operation, in the words of the command line.
    pub operation: String,
    /// Fingerprint of the plan that it carries out; 0: none.
    pub plan: u64,
}

/// Ends an operation: see [`super::Command::EndOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndOperation {
    /// Time in milliseconds since 1970 by the clock of the store's leader; 0 if unknown. Only shown to people.
    pub at_unix_ms: u64,
    /// Number of the operation: the index of the event that began it.
    pub operation: u64,
    /// Reason why the operation was refused or failed; `None` if the operation was carried out.
    pub refusal: Option<String>,
}

/// SHA-256 of an event and all events before it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditHash(pub [u8; 32]);

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditRecord {
    /// An operation begins. Its number is the index of this event.
    Begun(BeginOperation),
    /// An operation has ended.
    Ended(EndOperation),
}

/// An event of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Index in the audit log, from 1 on without gaps.
    pub index: u64,
    /// Content of the event.
    pub record: AuditRecord,
    /// Hash of this event and all events before it.
    pub hash: AuditHash,
}

/// The audit log of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Hash of the event before the oldest kept event; zeros if no event was removed.
    base: AuditHash,
    /// Index of the event before the oldest kept event. It equals the number of removed events, because indexes start
    /// at 1.
    removed: u64,
    /// The newest events, with consecutive indexes from `removed + 1` on.
    events: VecDeque<AuditEvent>,
}

impl AuditRecord {
    /// Returns the hash of an event that has this record and this index, and follows an event with the hash `previous`.
    #[must_use]
    pub fn hash(&self, index: u64, previous: AuditHash) -> AuditHash {
        let mut hash = Sha256::new().chain_update(previous.0).chain_update(index.to_be_bytes());
        let number = |hash: &mut Sha256, number: u64| hash.update(number.to_be_bytes());
        // The length goes first, so that characters cannot move between neighbouring texts.
        let text = |hash: &mut Sha256, text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        match self {
            AuditRecord::Begun(BeginOperation { at_unix_ms, principal, node, operation, plan }) => {
                hash.update([1]);
                number(&mut hash, *at_unix_ms);
                text(&mut hash, principal);
                text(&mut hash, node);
                text(&mut hash, operation);
                number(&mut hash, *plan);
            }
            AuditRecord::Ended(EndOperation { at_unix_ms, operation, refusal }) => {
                hash.update([2]);
                number(&mut hash, *at_unix_ms);
                number(&mut hash, *operation);
                hash.update([u8::from(refusal.is_some())]);
                text(&mut hash, refusal.as_deref().unwrap_or_default());
            }
        }
        AuditHash(hash.finalize().into())
    }
}

impl Audit {
    /// Creates an audit log from its kept events. `removed` is the number of events before them, and `base` is the hash
    /// of the last removed event. Returns `None` if the indexes are not consecutive, a hash does not fit, or there are
    /// too many events.
    #[must_use]
    pub fn from_parts(base: AuditHash, removed: u64, events: VecDeque<AuditEvent>) -> Option<Audit> {
        let mut previous = (removed, base);
        for event in &events {
            let index = previous.0.checked_add(1)?;
            if event.index != index || event.record.hash(index, previous.1) != event.hash {
                return None;
            }
            previous = (index, event.hash);
        }
        (events.len() <= limits::MAX_AUDIT_EVENTS).then_some(Audit { base, removed, events })
    }

    /// Returns the kept events, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &AuditEvent> {
        self.events.iter()
    }

    /// Returns the hash and the index of the event before the oldest kept event; zeros and 0 for none.
    #[must_use]
    pub fn base(&self) -> (AuditHash, u64) {
        (self.base, self.removed)
    }

    /// Returns the index and the hash of the last event; 0 and zeros before the first event.
    #[must_use]
    pub fn last(&self) -> (u64, AuditHash) {
        self.events.back().map_or((self.removed, self.base), |event| (event.index, event.hash))
    }

    /// Appends an event; returns its index.
    fn append(&mut self, record: AuditRecord) -> u64 {
        let (last, previous) = self.last();
        let index = last + 1;
        let hash = record.hash(index, previous);
        self.events.push_back(AuditEvent { index, record, hash });
        if self.events.len() > limits::MAX_AUDIT_EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            (self.base, self.removed) = (oldest.hash, oldest.index);
        }
        index
    }

    /// Returns whether any kept event records the end of this operation.
    fn has_ended(&self, operation: u64) -> bool {
        let ends = |event: &AuditEvent| matches!(&event.record, AuditRecord::Ended(end) if end.operation == operation);
        self.events.iter().rev().take_while(|event| event.index > operation).any(ends)
    }
}

impl State {
    pub(super) fn begin_operation(&mut self, begin: &BeginOperation) -> Result<u64, CommandRefusal> {
        for text in [&begin.principal, &begin.node, &begin.operation] {
            check_text(text)?;
        }
        Ok(self.audit.append(AuditRecord::Begun(begin.clone())))
    }

    pub(super) fn end_operation(&mut self, end: &EndOperation) -> Result<(), CommandRefusal> {
        check_text(end.refusal.as_deref().unwrap_or_default())?;
        let operation = end.operation;
        if operation == 0 || operation > self.audit.last().0 {
            return Err(CommandRefusal::UnknownOperation { operation });
        }
        // The proposal may be a repeat whose first response was lost.
        if !self.audit.has_ended(operation) {
            self.audit.append(AuditRecord::Ended(end.clone()));
        }
        Ok(())
    }
}

pub(super) fn check_text(text: &str) -> Result<(), CommandRefusal> {
    let bytes = text.len();
    if bytes > limits::MAX_AUDIT_TEXT { Err(CommandRefusal::AuditTextTooLong { bytes }) } else { Ok(()) }
}

/// Returns the beginning of a text, as long as an event may hold.
#[must_use]
pub fn audit_text(text: &str) -> &str {
    let mut end = text.len().min(limits::MAX_AUDIT_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::state::{Answer, Command};

    fn begin(operation: &str) -> BeginOperation {
        BeginOperation {
            at_unix_ms: 7,
            principal: "operator/alice".into(),
            node: "s1".into(),
            operation: operation.into(),
            plan: 9,
        }
    }

    fn begun(state: &mut State, operation: &str) -> Result<u64, CommandRefusal> {
        let Answer::OperationBegun(number) = state.apply(&Command::BeginOperation(begin(operation))) else {
            unreachable!()
        };
        number
    }

    fn ended(state: &mut State, operation: u64, refusal: Option<&str>) -> Result<(), CommandRefusal> {
        let end = EndOperation { at_unix_ms: 8, operation, refusal: refusal.map(Into::into) };
        let Answer::OperationEnded(outcome) = state.apply(&Command::EndOperation(end)) else { unreachable!() };
        outcome
    }

    #[test]
    fn an_operation_is_begun_and_ended_once() {
        let state = &mut State::default();
        assert_eq!(begun(state, "node drain a1"), Ok(1));
        assert_eq!(begun(state, "node drain a2"), Ok(2));
        assert_eq!(ended(state, 2, Some("LAST_NODE")), Ok(()));
        assert_eq!(ended(state, 2, Some("LAST_NODE")), Ok(()), "a repeat");
        assert_eq!(ended(state, 1, None), Ok(()));
        let indexes: Vec<u64> = state.audit.events().map(|event| event.index).collect();
        assert_eq!(indexes, [1, 2, 3, 4]);
        for unknown in [0, 5] {
            let refusal = CommandRefusal::UnknownOperation { operation: unknown };
            assert_eq!(ended(state, unknown, None), Err(refusal));
        }
    }

    #[test]
    fn texts_are_bounded() {
        let state = &mut State::default();
        let long = "ä".repeat(limits::MAX_AUDIT_TEXT);
        let refusal = CommandRefusal::AuditTextTooLong { bytes: long.len() };
        assert_eq!(begun(state, &long), Err(refusal.clone()));
        assert_eq!(begun(state, audit_text(&long)), Ok(1));
        assert_eq!(ended(state, 1, Some(&long)), Err(refusal));
        assert_eq!(audit_text("short"), "short");
    }

    #[test]
    fn the_newest_events_are_kept_and_the_chain_goes_on() {
        let state = &mut State::default();
        let (mut previous, events) = (AuditHash::default(), limits::MAX_AUDIT_EVENTS as u64 + 10);
        for index in 1..=events {
            begun(state, &index.to_string()).unwrap();
            previous = AuditRecord::Begun(begin(&index.to_string())).hash(index, previous);
        }
        assert_eq!(state.audit.last(), (events, previous));
        assert_eq!((state.audit.events().count(), state.audit.base().1), (limits::MAX_AUDIT_EVENTS, 10));
        // The end of an operation whose beginning is no longer kept.
        assert_eq!(ended(state, 3, None), Ok(()));
        assert_eq!(state.audit.last().0, events + 1);
    }

    proptest! {
        /// Checks that any change of any event breaks the chain.
        #[test]
        fn a_changed_event_is_found(operations in 1..20u64, at in any::<prop::sample::Index>(), change in 0..6u8) {
            let state = &mut State::default();
            for operation in 1..=operations {
                let number = begun(state, &operation.to_string()).unwrap();
                ended(state, number, (operation % 2 == 0).then_some("NO_MAJORITY")).unwrap();
            }
            let (base, removed) = state.audit.base();
            let mut events: VecDeque<AuditEvent> = state.audit.events().cloned().collect();
            prop_assert_eq!(Audit::from_parts(base, removed, events.clone()), Some(state.audit.clone()));
            let at = at.index(events.len());
            let event = &mut events[at];
            match (change, &mut event.record) {
                (0, _) => event.index += 1,
                (1, _) => event.hash.0[at % 32] ^= 1,
                (2, AuditRecord::Begun(begin)) => begin.at_unix_ms += 1,
                (3, AuditRecord::Begun(begin)) => begin.plan += 1,
                (4, AuditRecord::Begun(begin)) => begin.node.push('x'),
                (_, AuditRecord::Begun(begin)) => {
                    // The same characters, divided differently.
                    let moved = begin.principal.pop().unwrap();
                    begin.node.insert(0, moved);
                }
                (2, AuditRecord::Ended(end)) => end.at_unix_ms += 1,
                (3, AuditRecord::Ended(end)) => end.operation += 1,
                (_, AuditRecord::Ended(end)) => {
                    end.refusal = if end.refusal.is_some() { None } else { Some(String::new()) };
                }
            }
            prop_assert_eq!(Audit::from_parts(base, removed, events), None);
        }
    }
}
