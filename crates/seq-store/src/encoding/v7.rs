//! Format 7. To format 6, it adds the audit log.
//!
//! ```text
//! command   body of format 6, or of an operation; last byte: which of both
//! state     body of format 6; body of the rest; last 4 bytes: length of the rest, little-endian
//! ```
//!
//! With this layout, the encoding of frequent commands does not change except for the last byte, and neither do the
//! tests that contain it.

use std::collections::VecDeque;

use rkyv::rancor;
use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{
    self, Audit, AuditEvent, AuditHash, AuditRecord, BeginOperation, Command, EndOperation, RestoreMargin,
};
use seq_raft::Malformed;

use super::{Contradiction, aligned, append, malformed, split};

/// Last byte of the encoding of a command that format 6 already has.
const EARLIER: u8 = 0;

/// Last byte of the encoding of a command of the audit log.
const OPERATION: u8 = 1;

/// Archived form of a record of the audit log: the begin or the end of an operation.
#[derive(Archive, Serialize, Deserialize, Debug)]
enum Operation {
    Begin { at_unix_ms: u64, principal: String, node: String, operation: String, plan: u64 },
    End { at_unix_ms: u64, operation: u64, refusal: Option<String> },
}

/// Archived form of the parts of a state that this format adds.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Rest {
    restore_margin: u64,
    /// Hash of the event before the first event that the audit log still contains.
    base: [u8; 32],
    removed: u64,
    records: Vec<Operation>,
    hashes: Vec<[u8; 32]>,
}

/// Encodes a command. `earlier` encodes in format 6 the commands that this format does not add.
pub(super) fn encode_command(command: &Command, earlier: impl FnOnce(&Command) -> Vec<u8>) -> Vec<u8> {
    let operation = match command {
        Command::BeginOperation(begin) => Operation::begin(begin),
        Command::EndOperation(end) => Operation::end(end),
        _ => {
            let mut body = earlier(command);
            body.push(EARLIER);
            return body;
        }
    };
    let body = rkyv::to_bytes::<rancor::Error>(&operation).expect("encoding into memory does not fail");
    let mut body = body.into_vec();
    body.push(OPERATION);
    body
}

/// Decodes a command. `earlier` decodes the commands of format 6.
pub(super) fn decode_command(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<Command, Malformed>,
) -> Result<Command, Malformed> {
    match body.split_last() {
        Some((&EARLIER, body)) => earlier(body),
        Some((&OPERATION, body)) => {
            let operation = rkyv::from_bytes::<Operation, rancor::Error>(&aligned(body)).map_err(malformed)?;
            Ok(match operation.into_core() {
                AuditRecord::Begun(begin) => Command::BeginOperation(begin),
                AuditRecord::Ended(end) => Command::EndOperation(end),
            })
        }
        Some((kind, _)) => Err(Malformed(format!("a command of kind {kind}"))),
        None => Err(Malformed("an empty command".to_owned())),
    }
}

/// Appends the parts of the state that this format adds to `earlier`, the encoding of the state in format 6.
pub(super) fn encode_state(state: &state::State, earlier: Vec<u8>) -> Vec<u8> {
    let (base, removed) = state.audit.base();
    let record = |event: &AuditEvent| match &event.record {
        AuditRecord::Begun(begin) => Operation::begin(begin),
        AuditRecord::Ended(end) => Operation::end(end),
    };
    let rest = Rest {
        restore_margin: state.restore_margin.0,
        base: base.0,
        removed,
        records: state.audit.events().map(record).collect(),
        hashes: state.audit.events().map(|event| event.hash.0).collect(),
    };
    append(earlier, &rkyv::to_bytes::<rancor::Error>(&rest).expect("encoding into memory does not fail"))
}

/// Decodes a state. `earlier` decodes the part of the body that is in format 6.
pub(super) fn decode_state(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<state::State, Malformed>,
) -> Result<state::State, Malformed> {
    let (body, rest) = split(body)?;
    let rest = rkyv::from_bytes::<Rest, rancor::Error>(&aligned(rest)).map_err(malformed)?;
    let restore_margin = RestoreMargin(rest.restore_margin);
    let audit = rest.into_core()?;
    Ok(state::State { restore_margin, audit, ..earlier(body)? })
}

impl Operation {
    fn begin(begin: &BeginOperation) -> Operation {
        let BeginOperation { at_unix_ms, principal, node, operation, plan } = begin.clone();
        Operation::Begin { at_unix_ms, principal, node, operation, plan }
    }

    fn end(end: &EndOperation) -> Operation {
        let EndOperation { at_unix_ms, operation, refusal } = end.clone();
        Operation::End { at_unix_ms, operation, refusal }
    }

    fn into_core(self) -> AuditRecord {
        match self {
            Operation::Begin { at_unix_ms, principal, node, operation, plan } => {
                AuditRecord::Begun(BeginOperation { at_unix_ms, principal, node, operation, plan })
            }
            Operation::End { at_unix_ms, operation, refusal } => {
                AuditRecord::Ended(EndOperation { at_unix_ms, operation, refusal })
            }
        }
    }
}

impl Rest {
    fn into_core(self) -> Result<Audit, Contradiction> {
        let Rest { restore_margin, base, removed, records, hashes } = self;
        if restore_margin == 0 {
            return Err("a restore raises no ceiling");
        }
        if records.len() != hashes.len() {
            return Err("the columns of the audit log differ in length");
        }
        let indexes = (1..).map(|place: u64| removed.wrapping_add(place));
        let event = |((record, hash), index): ((Operation, [u8; 32]), u64)| AuditEvent {
            index,
            record: record.into_core(),
            hash: AuditHash(hash),
        };
        let events: VecDeque<AuditEvent> = records.into_iter().zip(hashes).zip(indexes).map(event).collect();
        Audit::from_parts(AuditHash(base), removed, events).ok_or("the chain of the audit log is broken")
    }
}
