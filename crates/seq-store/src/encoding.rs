//! Formats 5 to 11 of commands and states. They are archived types with their conversions. No other module of this
//! crate uses rkyv.
//!
//! Types of `seq-core` are never archived themselves, because a renamed field there must not change the bytes on disk.
//! Data with an item for each section is a set of flat vectors of the same length, one for each field. Such vectors are
//! encoded, validated and read ten times as fast as a map.
//!
//! **Never edit a type of this module once it is released**, because the order of its fields is the format.
//! `encoding/tests` holds the bytes of the formats. A change of the state needs a new module next to the modules of the
//! earlier formats. The earlier formats stay readable and, for groups that were not upgraded, writable. A new command
//! needs no module, because it is encoded by the fields in its row of the table of commands
//! ([`Fields`](state::Fields)), followed by [`BY_FIELDS`].
//!
//! Format 6 has the bytes of format 5. It is the first format to which a group could be raised, so a log in format 6 is
//! of a group that was raised. Format 7 (`v7`) adds the audit log. Format 8 (`v8`) adds the knowledge of sets about
//! each other since [`Rules::Eight`](state::Rules::Eight), and the record of a loss of entries. Format 9 (`v9`) adds
//! the copies of sections whose last owner stopped in an orderly way. Format 10 (`v10`) adds moves of sections by
//! operators, and pauses of balancing. Format 11 (`v11`) adds series, and the layout writer. Commands that a format
//! adds are proposed only in groups of that format or a later format.

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

/// The newest format. It is the larger of the format of the newest command and the format of the newest state.
pub(crate) const NEWEST: u16 =
    if state::Command::NEWEST_FORMAT > SERIES { state::Command::NEWEST_FORMAT } else { SERIES };

/// The first format that has an audit log.
const AUDIT: u16 = 7;

/// The first format with the rules of [`state::Rules::Eight`].
const NEIGHBOURS: u16 = 8;

/// The first format that keeps copies of sections.
pub(crate) const COPIES: u16 = 9;

/// The first format in which operators move sections and pause balancing.
const BALANCING: u16 = 10;

/// The first format with series.
const SERIES: u16 = 11;

/// The oldest format, which is also the format of a group that has never raised its format.
pub(crate) const OLDEST: u16 = 5;

/// The last byte of a command that is encoded by the fields in its row of the table of commands. In formats 7 to 10,
/// the last byte of a command is 0 to 4.
const BY_FIELDS: u8 = 5;

/// Encodes a command.
///
/// # Panics
/// When the format does not have the command. A service proposes a command only in groups whose format has the command.
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
        _ => v10::encode_command(command, |command| encode_command(COPIES, command)),
    }
}

/// Decodes a command.
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
        _ => v10::decode_command(body, |body| decode_command(COPIES, body)),
    }
}

/// Encodes a state.
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

/// Decodes a state.
pub(crate) fn decode_state(format: u16, body: &[u8]) -> Result<state::State, Malformed> {
    decode_laid_out(format, body, &[])
}

/// Decodes a state and appends `lanes` to its layout, because the formats before [`SERIES`] have no lanes.
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

/// Appends `rest`, the body of a format's additions, and the length of `rest` as 4 bytes, little-endian.
fn append(mut earlier: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len()).expect("what a format adds is bounded");
    earlier.extend_from_slice(rest);
    earlier.extend_from_slice(&length.to_le_bytes());
    earlier
}

/// Splits a body that [`append`] has joined. Returns the body of the earlier format and the body of the additions.
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

/// Copies the body to an aligned address, which an archive needs. Bytes of a file or a socket lie at any address.
fn aligned(body: &[u8]) -> AlignedVec<16> {
    let mut aligned = AlignedVec::with_capacity(body.len());
    aligned.extend_from_slice(body);
    aligned
}

fn malformed(error: rancor::Error) -> Malformed {
    Malformed(error.to_string())
}

/// Description of a decoded body that contradicts the format although its bytes are intact.
type Contradiction = &'static str;

#[cfg(test)]
mod tests;
