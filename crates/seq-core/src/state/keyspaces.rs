//! Applies the command that creates a keyspace. The record of a keyspace is in the list of series, because both append
//! to the layout, and names are unique among both. A keyspace has no shape, and is never retired.
//!
//! **Invariant:** the seed of a keyspace never changes. Another seed would assign other counters to its keys, which
//! would begin again.

use alloc::string::String;
use alloc::vec::Vec;

use super::series::CreateSeries;
use super::{CommandRefusal, Fields, State};
use crate::keyspace::{Hashing, Seed};
use crate::layout::{Lanes, SectionRun};

/// Creates a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    /// Name of the keyspace, as in [`Series::name`](crate::series::Series::name).
    pub name: String,
    /// Seed of the keyspace. If a keyspace of this name exists, the keyspace keeps its own seed.
    pub seed: Seed,
    /// Time of the command, in milliseconds since 1970 by the clock of the store.
    pub created_ms: u64,
}

impl CreateKeyspace {
    /// Returns the command that would create the record of the keyspace.
    fn record(&self) -> CreateSeries {
        let CreateKeyspace { name, seed, created_ms } = self.clone();
        CreateSeries { name, shape: Vec::new(), lanes: Lanes::of_keyspace(Hashing::new(seed)), created_ms }
    }
}

impl State {
    /// Returns the sections that the command `create` would give its keyspace. If the keyspace exists already, returns
    /// the sections that it has.
    ///
    /// # Errors
    /// The refusal of the command.
    pub fn foresee_keyspace(&self, create: &CreateKeyspace) -> Result<SectionRun, CommandRefusal> {
        match self.series(&create.name).filter(|known| known.is_keyspace()) {
            Some(known) => Ok(known.sections),
            None => self.foresee_series(&create.record()),
        }
    }

    /// Creates a keyspace, and makes its buckets resident in this set. Returns the sections of the buckets.
    pub(super) fn create_keyspace(&mut self, create: &CreateKeyspace) -> Result<SectionRun, CommandRefusal> {
        match self.series(&create.name).filter(|known| known.is_keyspace()) {
            Some(known) => Ok(known.sections),
            None => self.create_series(&create.record()),
        }
    }
}

/// The 16 bytes.
impl Fields for Seed {
    fn put(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.secret());
    }

    fn take(body: &mut &[u8]) -> Option<Seed> {
        let (seed, rest) = body.split_first_chunk()?;
        *body = rest;
        Some(Seed::new(*seed))
    }
}

#[cfg(test)]
mod tests;
