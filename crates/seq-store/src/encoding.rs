//! Encodings of commands and states in the formats 5 to 11. This module and its submodules contain the archived types
//! and their conversions. No other module of this crate uses rkyv.
//!
//! The types of `seq-core` are never archived directly, because renaming one of their fields must not change the bytes
//! on disk. A collection with an item for each section is stored as several vectors of equal length, one vector for
//! each field of the items. Such vectors are encoded, validated and decoded ten times as fast as a map.
//!
//! **Never edit a type of this module once it is released**, because the order of its fields defines the format. The
//! tests in `encoding/tests` contain encoded values of each format. A change of the state needs a new module next to
//! the modules of the earlier formats. The program continues to read the earlier formats, and to write them for groups
//! whose format was not raised. A new command needs no module, because it is encoded by its fields, which the table of
//! commands lists ([`Fields`](state::Fields)), followed by the byte [`BY_FIELDS`].
//!
//! Format 6 encodes the same as format 5. It is the first format to which a group could be raised, so a log in format 6
//! belongs to a group whose format was raised. Format 7 (`v7`) adds the audit log. Format 8 (`v8`) adds the records
//! about other sets that exist since [`Rules::Eight`](state::Rules::Eight), and the record that a member lost entries.
//! Format 9 (`v9`) adds the kept copies of sections. Format 10 (`v10`) adds moves of sections by operators, and pauses
//! of balancing. Format 11 (`v11`) adds series and keyspaces, the layout writer, the event log, the beginnings of
//! ownerships and the processes of nodes. A command that a format adds is proposed only in a group that has this format
//! or a later one.

use rkyv::rancor;
use rkyv::util::AlignedVec;
use seq_core::layout::Lanes;
use seq_core::state;
use seq_raft::Malformed;

mod command;
mod recovery_columns;
mod set_columns;
mod set_command;
mod state_columns;
mod v10;
mod v11;
mod v7;
mod v8;
mod v9;

/// The newest format: the format that added the newest command or the format that last changed the state, whichever is
/// later.
pub(crate) const NEWEST: u16 =
    if state::Command::NEWEST_FORMAT > SERIES { state::Command::NEWEST_FORMAT } else { SERIES };

/// First format with an audit log.
const AUDIT: u16 = 7;

/// First format with the rules of [`state::Rules::Eight`].
const NEIGHBOURS: u16 = 8;

/// First format with kept copies of sections.
pub(crate) const COPIES: u16 = 9;

/// First format in which operators can move sections and pause balancing.
const BALANCING: u16 = 10;

/// First format with series.
const SERIES: u16 = 11;

/// Oldest format that this program reads and writes, which is also the format of a group whose format was never raised.
pub(crate) const OLDEST: u16 = 5;

/// Last byte of a command that is encoded by its fields, as the table of commands lists them. In formats 7 to 10, the
/// last byte of a command has a value from 0 to 4.
const BY_FIELDS: u8 = 5;

/// Encodes a command in the format `format`.
///
/// # Panics
/// When `format` does not contain the command. A service proposes a command only in groups whose format contains it.
pub(crate) fn encode_command(format: u16, command: &state::Command) -> Vec<u8> {
    let (name, since) = (command.name(), command.since());
    assert!(format >= since, "{name} is of format {since}, and the group's is {format}");
    if let Some(mut body) = command.encode_fields() {
        body.push(BY_FIELDS);
        return body;
    }
    match format {
        ..AUDIT => encode_command_v5(command),
        AUDIT..NEIGHBOURS => v7::encode_command(command, encode_command_v5),
        NEIGHBOURS..COPIES => v8::encode_command(command, |command| encode_command(AUDIT, command)),
        COPIES..BALANCING => v9::encode_command(command, |command| encode_command(NEIGHBOURS, command)),
        BALANCING..SERIES => v10::encode_command(command, |command| encode_command(COPIES, command)),
        _ => v11::encode_command(command, |command| encode_command(BALANCING, command)),
    }
}

/// Decodes a command that was encoded in the format `format`.
pub(crate) fn decode_command(format: u16, body: &[u8]) -> Result<state::Command, Malformed> {
    if let Some((&BY_FIELDS, body)) = body.split_last().filter(|_| format > BALANCING) {
        let decoded = state::Command::decode_fields(body).filter(|command| command.since() <= format);
        return decoded.ok_or_else(|| Malformed(format!("no command of format {format} has these fields")));
    }
    match format {
        ..AUDIT => decode_command_v5(body),
        AUDIT..NEIGHBOURS => v7::decode_command(body, decode_command_v5),
        NEIGHBOURS..COPIES => v8::decode_command(body, |body| decode_command(AUDIT, body)),
        COPIES..BALANCING => v9::decode_command(body, |body| decode_command(NEIGHBOURS, body)),
        BALANCING..SERIES => v10::decode_command(body, |body| decode_command(COPIES, body)),
        _ => v11::decode_command(body, |body| decode_command(BALANCING, body)),
    }
}

/// Encodes a state in the format `format`.
pub(crate) fn encode_state(format: u16, state: &state::State) -> Vec<u8> {
    match format {
        ..AUDIT => {
            let body = rkyv::to_bytes::<rancor::Error>(&state_columns::State::from(state));
            body.expect("encoding into memory does not fail").into_vec()
        }
        AUDIT..NEIGHBOURS => v7::encode_state(state, encode_state(OLDEST, state)),
        NEIGHBOURS..COPIES => v8::encode_state(state, encode_state(AUDIT, state)),
        COPIES..BALANCING => v9::encode_state(state, encode_state(NEIGHBOURS, state)),
        BALANCING..SERIES => v10::encode_state(state, encode_state(COPIES, state)),
        _ => v11::encode_state(state, encode_state(BALANCING, state)),
    }
}

/// Decodes a state that was encoded in the format `format`.
pub(crate) fn decode_state(format: u16, body: &[u8]) -> Result<state::State, Malformed> {
    decode_laid_out(format, body, &[])
}

/// Decodes a state and appends `lanes` to its layout. The formats before [`SERIES`] do not encode lanes, so the decoder
/// of a later format passes the lanes that it has read.
fn decode_laid_out(format: u16, body: &[u8], lanes: &[Lanes]) -> Result<state::State, Malformed> {
    let state = match format {
        ..AUDIT => decode_state_v5(body, lanes),
        AUDIT..NEIGHBOURS => v7::decode_state(body, |body| decode_state_v5(body, lanes)),
        NEIGHBOURS..COPIES => v8::decode_state(body, |body| decode_laid_out(AUDIT, body, lanes)),
        COPIES..BALANCING => v9::decode_state(body, |body| decode_laid_out(NEIGHBOURS, body, lanes)),
        BALANCING..SERIES => v10::decode_state(body, |body| decode_laid_out(COPIES, body, lanes)),
        _ => v11::decode_state(body, |body, lanes| decode_laid_out(BALANCING, body, lanes)),
    };
    Ok(state::State { rules: state::Rules::of_format(format), ..state? })
}

/// Appends `rest` to the encoding of an earlier format, followed by the length of `rest` as 4 bytes, little-endian.
/// `rest` encodes the additions of a later format.
fn append(mut earlier: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len()).expect("what a format adds is bounded");
    earlier.extend_from_slice(rest);
    earlier.extend_from_slice(&length.to_le_bytes());
    earlier
}

/// Splits a body that [`append`] has joined. Returns the encoding of the earlier format and the encoding of the
/// additions.
fn split(body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let short = || Malformed("the state ends early".to_owned());
    let (body, length) = body.split_last_chunk().ok_or_else(short)?;
    body.len().checked_sub(u32::from_le_bytes(*length) as usize).map(|at| body.split_at(at)).ok_or_else(short)
}

fn encode_command_v5(command: &state::Command) -> Vec<u8> {
    let body = rkyv::to_bytes::<rancor::Error>(&command::Command::from(command));
    body.expect("encoding into memory does not fail").into_vec()
}

fn decode_command_v5(body: &[u8]) -> Result<state::Command, Malformed> {
    let decoded = rkyv::from_bytes::<command::Command, rancor::Error>(&aligned(body));
    Ok(decoded.map_err(malformed)?.into_core()?)
}

fn decode_state_v5(body: &[u8], lanes: &[Lanes]) -> Result<state::State, Malformed> {
    let decoded = rkyv::from_bytes::<state_columns::State, rancor::Error>(&aligned(body));
    Ok(decoded.map_err(malformed)?.into_core(lanes)?)
}

/// Copies the body to an aligned address, which rkyv needs. Bytes from a file or a socket may be at any address.
fn aligned(body: &[u8]) -> AlignedVec<16> {
    let mut aligned = AlignedVec::with_capacity(body.len());
    aligned.extend_from_slice(body);
    aligned
}

fn malformed(error: rancor::Error) -> Malformed {
    Malformed(error.to_string())
}

/// Description of the fault of a decoded body that does not match the format although its bytes are intact.
type Contradiction = &'static str;

#[cfg(test)]
mod tests;
