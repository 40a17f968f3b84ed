//! Format 10. To format 9, it adds moves of sections by operators, and pauses of balancing.
//!
//! ```text
//! command   body of format 9, whose last byte is 0 to 3; or a body of this format, and a last byte of 4
//! state     body of format 9; body of the rest; last 4 bytes: length of the rest, little-endian
//! ```

use std::collections::BTreeMap;

use rkyv::rancor;
use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{self, Balancing, Command, MoveSections, PauseBalancing};
use seq_core::{NodeId, SectionId};
use seq_raft::Malformed;

use super::{Contradiction, aligned, append, malformed, split};

/// Last byte of the encoding of a command that this format adds.
const ADDED: u8 = 4;

/// Archived form of a command that this format adds. The order of the variants is part of the format.
#[derive(Archive, Serialize, Deserialize, Debug)]
enum Added {
    /// Command that moves sections to a node. If `to` is 0, the sections become subject to balancing again.
    MoveSections {
        sections: Vec<u32>,
        to: u32,
    },
    PauseBalancing(Option<Pause>),
}

/// Archived form of a pause of balancing.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Pause {
    since_unix_ms: u64,
    principal: String,
}

/// Archived form of operators' changes of balancing: its pause, and the moved sections, with one vector for each field
/// of a move.
#[derive(Archive, Serialize, Deserialize, Debug)]
struct Changes {
    paused: Option<Pause>,
    sections: Vec<u32>,
    nodes: Vec<u32>,
    version: u64,
}

/// Encodes a command. `earlier` encodes in format 9 the commands that this format does not add.
pub(super) fn encode_command(command: &Command, earlier: impl FnOnce(&Command) -> Vec<u8>) -> Vec<u8> {
    let added = match command {
        Command::MoveSections(MoveSections { sections, to }) => Added::MoveSections {
            sections: sections.iter().map(|section| section.0).collect(),
            to: to.map_or(0, |node| node.0),
        },
        Command::PauseBalancing(PauseBalancing(pause)) => Added::PauseBalancing(pause.as_ref().map(Pause::from_core)),
        _ => return earlier(command),
    };
    let mut body = rkyv::to_bytes::<rancor::Error>(&added).expect("encoding into memory does not fail").into_vec();
    body.push(ADDED);
    body
}

/// Decodes a command. `earlier` decodes the commands of format 9.
pub(super) fn decode_command(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<Command, Malformed>,
) -> Result<Command, Malformed> {
    let Some((&ADDED, body)) = body.split_last() else { return earlier(body) };
    Ok(match rkyv::from_bytes::<Added, rancor::Error>(&aligned(body)).map_err(malformed)? {
        Added::MoveSections { sections, to } => Command::MoveSections(MoveSections {
            sections: sections.into_iter().map(SectionId).collect(),
            to: (to > 0).then_some(NodeId(to)),
        }),
        Added::PauseBalancing(pause) => Command::PauseBalancing(PauseBalancing(pause.map(Pause::into_core))),
    })
}

/// Appends the parts of the state that this format adds to `earlier`, the encoding of the state in format 9.
pub(super) fn encode_state(state: &state::State, earlier: Vec<u8>) -> Vec<u8> {
    let balancing = &state.balancing;
    let (sections, nodes) = balancing.all_moved().map(|(section, node)| (section.0, node.0)).unzip();
    let paused = balancing.paused().map(Pause::from_core);
    let changes = Changes { paused, sections, nodes, version: balancing.version() };
    append(earlier, &rkyv::to_bytes::<rancor::Error>(&changes).expect("encoding into memory does not fail"))
}

/// Decodes a state. `earlier` decodes the part of the body that is in format 9.
pub(super) fn decode_state(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<state::State, Malformed>,
) -> Result<state::State, Malformed> {
    let (body, rest) = split(body)?;
    let Changes { paused, sections, nodes, version } =
        rkyv::from_bytes::<Changes, rancor::Error>(&aligned(rest)).map_err(malformed)?;
    if nodes.len() != sections.len() {
        return Err(Contradiction::into("the columns of moved sections differ in length"));
    }
    let state = earlier(body)?;
    let moved: BTreeMap<SectionId, NodeId> =
        sections.into_iter().map(SectionId).zip(nodes.into_iter().map(NodeId)).collect();
    let fits = |(section, node): (&SectionId, &NodeId)| {
        state.sections.resident(*section).is_some() && state.node(*node).is_some()
    };
    if !moved.iter().all(fits) {
        return Err(Contradiction::into("a moved section is not in the set, or its node is none"));
    }
    let balancing = Balancing::from_parts(paused.map(Pause::into_core), moved, version);
    Ok(state::State { balancing, ..state })
}

impl Pause {
    fn from_core(pause: &state::Pause) -> Pause {
        Pause { since_unix_ms: pause.since_unix_ms, principal: pause.principal.clone() }
    }

    fn into_core(self) -> state::Pause {
        state::Pause { since_unix_ms: self.since_unix_ms, principal: self.principal }
    }
}
