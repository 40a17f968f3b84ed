//! The state machine of this crate's tests. It is a list of words, and also contains the ids of members.

use crate::state_machine::{Malformed, StateMachine};
use crate::storage::Observer;

/// Command that appends a word or claims the id of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Append(Vec<u8>),
    ClaimId(u64),
}

/// All words so far, and the claimed ids. `NEWEST` is the newest format, which differs between simulated releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal<const NEWEST: u16 = OLDEST> {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) ids: Vec<u64>,
}

/// Oldest format. The next format has other numbers for the commands, and encodes the fields of the state in another
/// order.
pub(crate) const OLDEST: u16 = 3;

/// Returns an observer that only applies the commands.
pub(crate) fn unobserved<const NEWEST: u16>() -> Observer<Journal<NEWEST>> {
    Box::new(StateMachine::apply)
}

impl<const NEWEST: u16> StateMachine for Journal<NEWEST> {
    type Command = Command;
    /// Number of words after the command.
    type Output = usize;

    const FORMAT: u16 = NEWEST;
    const OLDEST_FORMAT: u16 = OLDEST;
    const FIRST_FORMAT: u16 = OLDEST;
    const STRICT_FORMAT: u16 = OLDEST + 1;

    fn apply(&mut self, command: &Command) -> usize {
        match command {
            Command::Append(word) => self.words.push(word.clone()),
            Command::ClaimId(id) => {
                if let Err(place) = self.ids.binary_search(id) {
                    self.ids.insert(place, *id);
                }
            }
        }
        self.words.len()
    }

    fn raise_format(&mut self, _: u16) {}

    fn encode_command(format: u16, command: &Command) -> Vec<u8> {
        let [append, claim] = numbers(format);
        match command {
            Command::Append(word) => [&[append], &word[..]].concat(),
            Command::ClaimId(id) => [&[claim], &id.to_le_bytes()[..]].concat(),
        }
    }

    fn decode_command(format: u16, body: &[u8]) -> Result<Command, Malformed> {
        let [append, claim] = numbers(format);
        match body {
            [number, word @ ..] if *number == append => Ok(Command::Append(word.to_vec())),
            [number, id @ ..] if *number == claim => {
                let id = <[u8; 8]>::try_from(id).map_err(|_| Malformed::from("an id has 8 bytes"))?;
                Ok(Command::ClaimId(u64::from_le_bytes(id)))
            }
            _ => Err(Malformed::from("no command")),
        }
    }

    fn encode(&self, format: u16) -> Vec<u8> {
        let encoded = match format {
            OLDEST => postcard::to_stdvec(&(&self.words, &self.ids)),
            _ => postcard::to_stdvec(&(&self.ids, &self.words)),
        };
        encoded.expect("encoding into memory does not fail")
    }

    fn decode(format: u16, body: &[u8]) -> Result<Journal<NEWEST>, Malformed> {
        let decoded = match format {
            OLDEST => postcard::from_bytes(body),
            _ => postcard::from_bytes(body).map(|(ids, words)| (words, ids)),
        };
        let (words, ids) = decoded.map_err(|error| Malformed(error.to_string()))?;
        Ok(Journal { words, ids })
    }

    fn member_ids(&self) -> &[u64] {
        &self.ids
    }

    fn history(&self) -> u64 {
        1
    }

    fn claim_member_id(id: u64) -> Command {
        Command::ClaimId(id)
    }
}

/// Returns the numbers that encode `Append` and `ClaimId` in `format`.
fn numbers(format: u16) -> [u8; 2] {
    if format == OLDEST { [0, 1] } else { [2, 3] }
}
