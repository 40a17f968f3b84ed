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
use crate::series::Series;

/// Creates a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    /// Name of the keyspace, as in [`Series::name`](crate::series::Series::name).
    pub name: String,
    /// Seed of the keyspace. If a keyspace of this name exists, the keyspace keeps its own seed.
    pub seed: Seed,
    /// Whether the keys are the sparse uids, which are the uids that the set files do not declare. A cluster has at
    /// most one such keyspace.
    pub of_uids: bool,
    /// Time of the command, in milliseconds since 1970 by the clock of the store.
    pub created_ms: u64,
}

impl CreateKeyspace {
    /// Returns the command that would create the record of the keyspace.
    fn record(&self) -> CreateSeries {
        let CreateKeyspace { name, seed, of_uids, created_ms } = self.clone();
        let lanes = Lanes::of_keyspace(Hashing::new(seed).with_uids(of_uids));
        CreateSeries { name, shape: Vec::new(), lanes, created_ms }
    }

    /// Returns the record that the command would create, if it exists. The record may have another seed.
    fn existing<'a>(&self, state: &'a State) -> Option<&'a Series> {
        let is_same = |known: &&Series| known.lanes.keys.is_some_and(|keys| keys.has_uids() == self.of_uids);
        state.series(&self.name).filter(is_same)
    }
}

impl State {
    /// Returns the sections that the command `create` would give its keyspace. If the keyspace exists already, returns
    /// the sections that it has.
    ///
    /// # Errors
    /// The refusal of the command.
    pub fn foresee_keyspace(&self, create: &CreateKeyspace) -> Result<SectionRun, CommandRefusal> {
        if let Some(known) = create.existing(self) {
            return Ok(known.sections);
        }
        // The layout would refuse the keyspace, too, but it has no names.
        let of_uids = self.keyspace_of_uids().filter(|of_uids| create.of_uids && of_uids.name != create.name);
        match of_uids {
            Some(Series { name, .. }) => Err(CommandRefusal::KeyspaceOfUidsExists { name: name.clone() }),
            None => self.foresee_series(&create.record()),
        }
    }

    /// Creates a keyspace, and makes its buckets resident in this set. Returns the sections of the buckets.
    pub(super) fn create_keyspace(&mut self, create: &CreateKeyspace) -> Result<SectionRun, CommandRefusal> {
        let foreseen = self.foresee_keyspace(create)?;
        if create.existing(self).is_some() { Ok(foreseen) } else { self.create_series(&create.record()) }
    }

    /// Returns the keyspace whose keys are the sparse uids.
    #[must_use]
    pub fn keyspace_of_uids(&self) -> Option<&Series> {
        self.series.iter().find(|series| series.lanes.keys.is_some_and(|keys| keys.has_uids()))
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
