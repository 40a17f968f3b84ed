//! Format 9. To format 8, it adds kept copies, the exact counters of sections whose last owner stopped in an orderly
//! way.
//!
//! ```text
//! command   body of format 8, whose last byte is 0, 1 or 2; or a body of this format, and a last byte of 3
//! state     body of format 8; body of the rest; last 4 bytes: length of the rest, little-endian
//! ```
//!
//! A renewal without copies is encoded as in format 8.

use std::collections::BTreeMap;
use std::sync::Arc;

use rkyv::rancor;
use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{self, Command, Copies, CopyPart, KeptCopy, KeptFor, Renew};
use seq_core::{Epoch, Incarnation, NodeId, RenewSeq, SectionId, Seq};
use seq_raft::Malformed;

use super::{Contradiction, aligned, append, malformed, split};

/// Last byte of the encoding of a renewal that this format extends.
const ADDED: u8 = 3;

/// Archived form of a renewal that contains kept copies, or that lists ownerships which the node has started from kept
/// copies.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct ExactRenew {
    node: u32,
    incarnation: u64,
    renew_seq: u64,
    leaving: bool,
    released: Vec<u32>,
    released_epochs: Vec<u64>,
    taken: Vec<u32>,
    taken_epochs: Vec<u64>,
    copies: Parts,
}

/// Archived form of kept copies or of parts of them, with one vector for each field.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct Parts {
    sections: Vec<u32>,
    epochs: Vec<u64>,
    highest: Vec<u64>,
    lengths: Vec<u32>,
    /// In a renewal, the offset of the part in its copy. In a state, 1 if the ownership for which the copy is kept has
    /// begun, otherwise 0.
    offsets: Vec<u32>,
    /// Position in `bytes` at which the part ends.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// One copy, or one part of a copy, of [`Parts`].
struct Row {
    section: SectionId,
    epoch: Epoch,
    highest: Seq,
    length: u32,
    offset: u32,
    bytes: Vec<u8>,
}

/// Encodes a command. `earlier` encodes in format 8 the commands that format 8 has with all their fields.
pub(super) fn encode_command(command: &Command, earlier: impl FnOnce(&Command) -> Vec<u8>) -> Vec<u8> {
    let added = match command {
        Command::Renew(renew) if !renew.copies.is_empty() || !renew.taken.is_empty() => ExactRenew::from_core(renew),
        _ => return earlier(command),
    };
    let mut body = rkyv::to_bytes::<rancor::Error>(&added).expect("encoding into memory does not fail").into_vec();
    body.push(ADDED);
    body
}

/// Decodes a command. `earlier` decodes the commands of format 8.
pub(super) fn decode_command(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<Command, Malformed>,
) -> Result<Command, Malformed> {
    let Some((&ADDED, body)) = body.split_last() else { return earlier(body) };
    let added = rkyv::from_bytes::<ExactRenew, rancor::Error>(&aligned(body)).map_err(malformed)?;
    Ok(Command::Renew(added.into_core()?))
}

/// Appends the kept copies of `state` to `earlier`, the encoding of the state in format 8.
pub(super) fn encode_state(state: &state::State, earlier: Vec<u8>) -> Vec<u8> {
    let mut copies = Parts::default();
    for (section, kept) in state.copies.iter() {
        let (epoch, begun) = match kept.kept_for {
            KeptFor::After(epoch) => (epoch, 0),
            KeptFor::Granted(epoch) => (epoch, 1),
        };
        copies.push(section, epoch, (kept.highest, kept.length), begun, &kept.bytes);
    }
    append(earlier, &rkyv::to_bytes::<rancor::Error>(&copies).expect("encoding into memory does not fail"))
}

/// Decodes a state. `earlier` decodes the part of the body that is in format 8.
pub(super) fn decode_state(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<state::State, Malformed>,
) -> Result<state::State, Malformed> {
    let (body, rest) = split(body)?;
    let rest = rkyv::from_bytes::<Parts, rancor::Error>(&aligned(rest)).map_err(malformed)?;
    let copies = rest.into_copies()?;
    let state = earlier(body)?;
    if copies.iter().any(|(section, _)| state.sections.resident(section).is_none()) {
        return Err(Contradiction::into("a copy is of a section that is not in the set"));
    }
    Ok(state::State { copies, ..state })
}

impl ExactRenew {
    fn from_core(renew: &Renew) -> ExactRenew {
        let mut copies = Parts::default();
        for CopyPart { section, epoch, highest, length, offset, bytes } in &renew.copies {
            copies.push(*section, *epoch, (*highest, *length), *offset, bytes);
        }
        ExactRenew {
            node: renew.node.0,
            incarnation: renew.incarnation.0,
            renew_seq: renew.renew_seq.0,
            leaving: renew.leaving,
            released: renew.released.iter().map(|(section, _)| section.0).collect(),
            released_epochs: renew.released.iter().map(|(_, epoch)| epoch.0).collect(),
            taken: renew.taken.iter().map(|(section, _)| section.0).collect(),
            taken_epochs: renew.taken.iter().map(|(_, epoch)| epoch.0).collect(),
            copies,
        }
    }

    fn into_core(self) -> Result<Renew, Contradiction> {
        let ownerships = |sections: Vec<u32>, epochs: Vec<u64>| {
            let parallel = sections.len() == epochs.len();
            let zipped = sections.into_iter().map(SectionId).zip(epochs.into_iter().map(Epoch));
            parallel.then(|| zipped.collect()).ok_or("a renewal's columns differ in length")
        };
        let part = |Row { section, epoch, highest, length, offset, bytes }| CopyPart {
            section,
            epoch,
            highest,
            length,
            offset,
            bytes,
        };
        Ok(Renew {
            node: NodeId(self.node),
            incarnation: Incarnation(self.incarnation),
            renew_seq: RenewSeq(self.renew_seq),
            copies: self.copies.into_rows()?.into_iter().map(part).collect(),
            released: ownerships(self.released, self.released_epochs)?,
            taken: ownerships(self.taken, self.taken_epochs)?,
            leaving: self.leaving,
        })
    }
}

impl Parts {
    fn push(&mut self, section: SectionId, epoch: Epoch, (highest, length): (Seq, u32), offset: u32, bytes: &[u8]) {
        self.sections.push(section.0);
        self.epochs.push(epoch.0);
        self.highest.push(highest.0);
        self.lengths.push(length);
        self.offsets.push(offset);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.bytes.len()).expect("kept copies are bounded"));
    }

    fn into_rows(self) -> Result<Vec<Row>, Contradiction> {
        let Parts { sections, epochs, highest, lengths, offsets, ends, bytes } = self;
        let rows = sections.len();
        if [epochs.len(), highest.len(), lengths.len(), offsets.len(), ends.len()] != [rows; 5] {
            return Err("the columns of copies differ in length");
        }
        let mut start = 0;
        let row = |row: usize| {
            let end = ends[row] as usize;
            let bytes = bytes.get(start..end).ok_or("a copy ends outside of the bytes")?.to_vec();
            start = end;
            Ok(Row {
                section: SectionId(sections[row]),
                epoch: Epoch(epochs[row]),
                highest: Seq(highest[row]),
                length: lengths[row],
                offset: offsets[row],
                bytes,
            })
        };
        (0..rows).map(row).collect()
    }

    fn into_copies(self) -> Result<Copies, Contradiction> {
        let kept = |Row { section, epoch, highest, length, offset, bytes }| {
            let kept_for = if offset == 0 { KeptFor::After(epoch) } else { KeptFor::Granted(epoch) };
            (section, KeptCopy { kept_for, highest, length, bytes: Arc::new(bytes) })
        };
        let kept: BTreeMap<SectionId, KeptCopy> = self.into_rows()?.into_iter().map(kept).collect();
        Copies::from_parts(kept).ok_or("the copies are larger than a store keeps")
    }
}
