//! Format 11. To format 10, it adds the series and keyspaces, the layout writer, a flag for each node whether it can
//! own their sections, the time of the last restore, the beginnings of ownerships, the event log, and the processes of
//! nodes.
//!
//! ```text
//! command   body of format 10, whose last byte is 0 to 4; or fields of a command, and a last byte of 5; or a
//!           registration in format 10, 8 bytes with the number of its process, little-endian, and a last byte of 6
//! state     body of format 10, with the layout that the set files declare; body of the rest; last 4 bytes: length of
//!           the rest, little-endian
//! ```
//!
//! The commands and the parts of a state that this format adds are encoded by their fields ([`Fields`]).

use seq_core::RouteVersion;
use seq_core::layout::Lanes;
use seq_core::series::Series;
use seq_core::state::{
    Beginning, Command, CreateSeries, Death, Event, Events, Fields, LayoutWriter, Registration, State, StatedSeries,
};
use seq_raft::Malformed;

use super::{Contradiction, append, split};

/// Last byte of the encoding of a registration that states the number of its process.
const WITH_PROCESS: u8 = 6;

/// Series, with the route version that last changed it.
type Stored = (StatedSeries, RouteVersion);

/// Parts of a state that this format adds.
struct Added {
    series: Vec<Stored>,
    /// For each node, whether it can own sections of series.
    reads_lanes: Vec<bool>,
    /// Time of the last restore, in milliseconds since 1970.
    restored_ms: Option<u64>,
    /// Last hand-over to another layout writer.
    writer: Option<LayoutWriter>,
    /// Beginning of the current ownership of each section that is in the set, in the order of the sections.
    began: Vec<Beginning>,
    /// Event log: the numbers of the newest event and of the newest change, the newest time that was noted, and the
    /// events that are kept.
    events: (((u64, u64), u64), Vec<Event>),
    /// For each node, the number of the process of its newest incarnation, and the last reported death.
    processes: Vec<(u64, Option<Death>)>,
}

/// Encodes a command. `earlier` encodes in format 10 the commands that format 10 has with all their fields.
pub(super) fn encode_command(command: &Command, earlier: impl FnOnce(&Command) -> Vec<u8>) -> Vec<u8> {
    let mut body = earlier(command);
    if let Command::Register(Registration { process: process @ 1.., .. }) = command {
        body.extend_from_slice(&process.to_le_bytes());
        body.push(WITH_PROCESS);
    }
    body
}

/// Decodes a command. `earlier` decodes the commands of format 10.
pub(super) fn decode_command(
    body: &[u8],
    earlier: impl FnOnce(&[u8]) -> Result<Command, Malformed>,
) -> Result<Command, Malformed> {
    let Some((&WITH_PROCESS, body)) = body.split_last() else { return earlier(body) };
    let (body, process) = body.split_last_chunk().ok_or_else(|| Malformed("a registration ends early".to_owned()))?;
    match (earlier(body)?, u64::from_le_bytes(*process)) {
        (Command::Register(registration), process @ 1..) => {
            Ok(Command::Register(Registration { process, ..registration }))
        }
        _ => Err(Contradiction::into("no registration has this number of a process")),
    }
}

impl Added {
    fn of(state: &State) -> Added {
        Added {
            series: state.series.iter().map(|one| (one.into(), one.routed)).collect(),
            reads_lanes: state.nodes.iter().map(|node| node.reads_lanes).collect(),
            restored_ms: state.restored_ms,
            writer: state.writer,
            began: state.sections.residents().map(|(_, residence)| residence.began).collect(),
            events: (
                ((state.events.last(), state.events.changes()), state.events.now_ms()),
                state.events.iter().cloned().collect(),
            ),
            processes: state.nodes.iter().map(|node| (node.process, node.died)).collect(),
        }
    }

    fn decode(mut rest: &[u8]) -> Option<Added> {
        let (series, reads_lanes) = (Fields::take(&mut rest)?, Fields::take(&mut rest)?);
        let (restored_ms, writer) = (Fields::take(&mut rest)?, Fields::take(&mut rest)?);
        let (began, events) = (Fields::take(&mut rest)?, Fields::take(&mut rest)?);
        let processes = Fields::take(&mut rest)?;
        let added = Added { series, reads_lanes, restored_ms, writer, began, events, processes };
        rest.is_empty().then_some(added)
    }
}

/// Appends the parts of the state that this format adds to `earlier`, the encoding of the state in format 10.
pub(super) fn encode_state(state: &State, earlier: Vec<u8>) -> Vec<u8> {
    let Added { series, reads_lanes, restored_ms, writer, began, events, processes } = Added::of(state);
    let mut rest = Vec::new();
    series.put(&mut rest);
    reads_lanes.put(&mut rest);
    restored_ms.put(&mut rest);
    writer.put(&mut rest);
    began.put(&mut rest);
    events.put(&mut rest);
    processes.put(&mut rest);
    append(earlier, &rest)
}

/// Decodes a state. `earlier` decodes the part of the body that is in format 10, and appends the given lanes to the
/// layout.
pub(super) fn decode_state(
    body: &[u8],
    earlier: impl FnOnce(&[u8], &[Lanes]) -> Result<State, Malformed>,
) -> Result<State, Malformed> {
    let (body, rest) = split(body)?;
    let Added { series, reads_lanes, restored_ms, writer, began, events, processes } =
        Added::decode(rest).ok_or_else(|| Malformed("the series are not encoded by their fields".to_owned()))?;
    let lanes: Vec<Lanes> = series.iter().map(|(stated, _)| stated.create.lanes).collect();
    let mut state = earlier(body, &lanes)?;
    if [reads_lanes.len(), processes.len()] != [state.nodes.len(); 2] {
        return Err(Contradiction::into("the nodes' columns differ in length"));
    }
    for ((node, reads_lanes), (process, died)) in state.nodes.iter_mut().zip(reads_lanes).zip(processes) {
        node.reads_lanes = reads_lanes;
        (node.process, node.died) = (process, died);
    }
    let appended = state.set.as_ref().map(|set| set.layout.lanes().collect::<Vec<_>>()).unwrap_or_default();
    let series = series.into_iter().zip(appended).map(|((stated, routed), (lanes, sections))| {
        let StatedSeries { create: CreateSeries { name, shape, created_ms, .. }, home, retired } = stated;
        Series { name, shape, lanes, sections, created_ms, home, retired, routed }
    });
    state.series = series.collect();
    state.restored_ms = restored_ms;
    state.writer = writer;
    if !state.sections.put_beginnings(&began) {
        return Err(Contradiction::into("the beginnings of ownerships do not fit the sections"));
    }
    let ((counts, now_ms), kept) = events;
    let events = Events::from_parts(counts, now_ms, kept.into()).ok_or("the events are not in order");
    state.events = events?;
    Ok(state)
}
