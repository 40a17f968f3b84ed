//! Encoding of audit events as lines of JSON, and the check of a file of such lines.
//!
//! A line contains an event, the hash of the event before it, and the event's own hash. For each event there is only
//! one valid line. To check a file, each line is decoded and encoded again, and the file is intact only if the bytes
//! are the same. So a change of any byte is detected, even if JSON ignores that byte.

use seq_core::state::{AuditEvent, AuditHash, AuditRecord, BeginOperation, EndOperation};
use serde::{Deserialize, Serialize};

/// Content of a line. The keys are encoded in the order of these fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    index: u64,
    at_unix_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    begun: Option<Begun>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ended: Option<Ended>,
    previous: String,
    hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    principal: String,
    node: String,
    operation: String,
    /// Fingerprint of the operation's plan in hexadecimal digits; `null` if it has no plan.
    plan: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    operation: u64,
    /// Reason why the operation was refused; `null` if it was carried out.
    refusal: Option<String>,
}

/// Returns the line of an event, without a newline. `previous` is the hash of the event before it.
///
/// # Panics
/// Never: texts and numbers are JSON.
#[must_use]
pub fn line(event: &AuditEvent, previous: AuditHash) -> String {
    let (begun, ended, at_unix_ms) = match &event.record {
        AuditRecord::Begun(BeginOperation { at_unix_ms, principal, node, operation, plan }) => {
            let plan = (*plan != 0).then(|| format!("{plan:016x}"));
            let (principal, node, operation) = (principal.clone(), node.clone(), operation.clone());
            (Some(Begun { principal, node, operation, plan }), None, *at_unix_ms)
        }
        AuditRecord::Ended(EndOperation { at_unix_ms, operation, refusal }) => {
            (None, Some(Ended { operation: *operation, refusal: refusal.clone() }), *at_unix_ms)
        }
    };
    let (previous, hash) = (previous.to_string(), event.hash.to_string());
    serde_json::to_string(&Line { index: event.index, at_unix_ms, begun, ended, previous, hash })
        .expect("texts and numbers are JSON")
}

/// Decodes a line. Returns the event in the line, and the hash of the event before it.
///
/// # Errors
/// The reason why the line does not contain a valid event.
pub fn event(text: &str) -> Result<(AuditEvent, AuditHash), String> {
    let Line { index, at_unix_ms, begun, ended, previous, hash } =
        serde_json::from_str(text).map_err(|error| format!("it is no event: {error}"))?;
    let record = match (begun, ended) {
        (Some(Begun { principal, node, operation, plan }), None) => {
            let plan = plan.map_or(Some(0), |plan| u64::from_str_radix(&plan, 16).ok());
            let plan = plan.ok_or("its plan is no fingerprint")?;
            AuditRecord::Begun(BeginOperation { at_unix_ms, principal, node, operation, plan })
        }
        (None, Some(Ended { operation, refusal })) => {
            AuditRecord::Ended(EndOperation { at_unix_ms, operation, refusal })
        }
        _ => return Err("it neither begins nor ends an operation".to_owned()),
    };
    let (hash, previous) = (digest(&hash)?, digest(&previous)?);
    let event = AuditEvent { index, record, hash };
    if line(&event, previous) != text {
        return Err("it is not written as this program writes it".to_owned());
    }
    Ok((event, previous))
}

fn digest(text: &str) -> Result<AuditHash, String> {
    let mut hash = AuditHash::default();
    let wrong = || format!("{text:?} is no SHA-256");
    if text.len() != 2 * hash.0.len() || !text.is_ascii() {
        return Err(wrong());
    }
    for (byte, place) in hash.0.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[place..place + 2], 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}

/// Content of a file in which every event contains the hash of the event before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Hash of the event before the first event in the file. It is all zeros if the file begins with the first event of
    /// the audit log.
    pub base: AuditHash,
    /// Events in the file, at least one.
    pub events: Vec<AuditEvent>,
}

/// First defect that was found in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Damage {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Description of the defect.
    pub what: String,
}

/// Checks that each line of a file is valid and contains the hash of the event in the line before it. Returns the
/// events.
///
/// # Errors
/// The first [`Damage`]. This function cannot detect that events are missing at the end of the file. To detect it,
/// compare the last hash with the hash in the store or in another copy of the file.
pub fn verify(file: &[u8]) -> Result<Verified, Damage> {
    let lines = file.iter().filter(|byte| **byte == b'\n').count();
    let damage = |line: usize, what: String| Damage { line, what };
    let text = std::str::from_utf8(file).map_err(|error| {
        let before = &file[..error.valid_up_to()];
        damage(before.iter().filter(|byte| **byte == b'\n').count() + 1, "it is not UTF-8".to_owned())
    })?;
    if !text.ends_with('\n') {
        return Err(damage(lines + 1, if text.is_empty() { "there is no event" } else { "it ends early" }.to_owned()));
    }
    let mut verified = Verified { base: AuditHash::default(), events: Vec::with_capacity(lines) };
    for (line, text) in (1..).zip(text.split_terminator('\n')) {
        let (event, previous) = event(text).map_err(|what| damage(line, what))?;
        let (last, expected) = verified.events.last().map_or_else(
            || {
                verified.base = previous;
                (event.index.wrapping_sub(1), previous)
            },
            |last| (last.index, last.hash),
        );
        if event.index == 0 || event.index != last.wrapping_add(1) {
            return Err(damage(line, format!("event {} follows event {last}", event.index)));
        }
        if previous != expected {
            return Err(damage(line, format!("event {} does not follow the event before it", event.index)));
        }
        if event.index == 1 && previous != AuditHash::default() {
            return Err(damage(line, "the first event of the log follows another event".to_owned()));
        }
        if event.record.hash(event.index, previous) != event.hash {
            return Err(damage(line, format!("event {} is not what its hash was made of", event.index)));
        }
        verified.events.push(event);
    }
    Ok(verified)
}

#[cfg(test)]
mod tests {
    use seq_core::state::{Command, State};

    use super::*;

    fn file() -> String {
        let mut state = State::default();
        for (number, refusal) in [(1, None), (3, Some("LAST_NODE: a1 is the last \"node\" ü".to_owned()))] {
            let begin = BeginOperation {
                at_unix_ms: 1_795_000_000_000 + number,
                principal: "operator/alice".into(),
                node: "s1".into(),
                operation: format!("node drain a{number}"),
                plan: (number - 1) << 60,
            };
            drop(state.apply(&Command::BeginOperation(begin)));
            let end = EndOperation { at_unix_ms: 1_795_000_000_100, operation: number, refusal };
            drop(state.apply(&Command::EndOperation(end)));
        }
        let mut previous = AuditHash::default();
        let lines = state.audit.events().map(|event| {
            let text = line(event, previous);
            previous = event.hash;
            text + "\n"
        });
        lines.collect()
    }

    #[test]
    fn every_changed_byte_is_found_and_named() {
        let whole = file().into_bytes();
        assert_eq!(verify(&whole).unwrap().events.len(), 4);
        for at in 0..whole.len() {
            for change in [1, 0x20, 0x80] {
                let mut changed = whole.clone();
                changed[at] ^= change;
                let damage = verify(&changed).expect_err(&format!("byte {at} ^ {change}"));
                let line = whole[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                // A line that lost its line end runs into the next line.
                assert!((line..=line + 1).contains(&damage.line), "byte {at} ^ {change}: {damage}");
            }
        }
    }

    #[test]
    fn lines_that_are_removed_moved_or_added_are_found() {
        let whole = file();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        let refused =
            |order: &[usize]| verify(order.iter().map(|at| lines[*at]).collect::<String>().as_bytes()).unwrap_err();
        assert_eq!(refused(&[0, 2, 3]).to_string(), "line 2: event 3 follows event 1");
        assert_eq!(refused(&[0, 2, 1, 3]).line, 2);
        assert_eq!(refused(&[0, 1, 1, 2]).line, 3);
        assert_eq!(verify(&whole.as_bytes()[..whole.len() - 1]).unwrap_err().to_string(), "line 4: it ends early");
        assert_eq!(verify(b"").unwrap_err().to_string(), "line 1: there is no event");
        // A file that begins later is intact, and its base shows where it begins.
        let later = verify(lines[2..].concat().as_bytes()).unwrap();
        assert_eq!((later.events[0].index, later.base == AuditHash::default()), (3, false));
    }
}
