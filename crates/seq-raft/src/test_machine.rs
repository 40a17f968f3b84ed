//! The state machine of this crate's tests: a journal of words, which also holds the ids of members.

use crate::state_machine::{Malformed, StateMachine};
use crate::storage::Observer;

/// Appends a word, or claims an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Append(Vec<u8>),
    ClaimId(u64),
}

/// All words so far, and the claimed ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) ids: Vec<u64>,
}

/// Observes nothing.
pub(crate) fn unobserved() -> Observer<Journal> {
    Box::new(|_| {})
}

impl StateMachine for Journal {
    type Command = Command;
    /// Number of words after the command.
    type Output = usize;

    const FORMAT: u16 = 3;
    const OLDEST_FORMAT: u16 = 3;

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

    fn encode_command(command: &Command) -> Vec<u8> {
        match command {
            Command::Append(word) => [&[0], &word[..]].concat(),
            Command::ClaimId(id) => [&[1], &id.to_le_bytes()[..]].concat(),
        }
    }

    fn decode_command(_: u16, body: &[u8]) -> Result<Command, Malformed> {
        match body {
            [0, word @ ..] => Ok(Command::Append(word.to_vec())),
            [1, id @ ..] => {
                let id = <[u8; 8]>::try_from(id).map_err(|_| Malformed::from("an id has 8 bytes"))?;
                Ok(Command::ClaimId(u64::from_le_bytes(id)))
            }
            _ => Err(Malformed::from("no command")),
        }
    }

    fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(&(&self.words, &self.ids)).expect("encoding into memory does not fail")
    }

    fn decode(_: u16, body: &[u8]) -> Result<Journal, Malformed> {
        let (words, ids) = postcard::from_bytes(body).map_err(|error| Malformed(error.to_string()))?;
        Ok(Journal { words, ids })
    }

    fn member_ids(&self) -> &[u64] {
        &self.ids
    }

    fn claim_member_id(id: u64) -> Command {
        Command::ClaimId(id)
    }
}
