//! The methods for many keys of a keyspace.

use seq_proto::v1;
use tonic::Status;

use crate::allocation::{Allocation, Current};
use crate::attempts::{Attempts, Target};
use crate::batch_call::{BatchMethod, BatchResponse};
use crate::directory::place::{BatchItem, Place};
use crate::node_client;

/// A key of a batch, with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedKey<'a> {
    pub(super) key: &'a [u8],
    pub(super) place: Place,
}

impl BatchItem for PlacedKey<'_> {
    fn place(self) -> Place {
        self.place
    }

    fn key_bytes(self) -> usize {
        self.key.len()
    }
}

/// The method `KeyService.NextMany`, for the keyspace with this name.
pub(super) struct NextKeys<'a>(pub(super) &'a str);

/// The method `KeyService.CurrentMany`, for the keyspace with this name.
pub(super) struct CurrentKeys<'a>(pub(super) &'a str);

impl<'a> BatchMethod for NextKeys<'a> {
    type Item = PlacedKey<'a>;
    type Answer = Allocation;

    fn add_lost(answer: &mut Allocation, attempts: u32) {
        answer.lost += attempts;
    }

    async fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        target: &Target,
        keys: &[PlacedKey<'a>],
        counts: &[u32],
        known_epochs: Vec<u64>,
    ) -> Result<BatchResponse<Allocation>, Status> {
        let request = attempts.request(v1::NextKeysRequest {
            keyspace: self.0.to_owned(),
            raw_keys: raw(keys),
            counts: counts.to_vec(),
            route_version: target.route_version,
            known_epochs,
            ..v1::NextKeysRequest::default()
        });
        let mut node = node_client::of_keys(&target.channel);
        let response = attempts.attempt(node.next_many(request)).await?;
        Ok(BatchResponse::of_numbers(response, keys.len(), counts, target))
    }
}

impl<'a> BatchMethod for CurrentKeys<'a> {
    type Item = PlacedKey<'a>;
    type Answer = Current;

    fn add_lost(_: &mut Current, _: u32) {}

    async fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        target: &Target,
        keys: &[PlacedKey<'a>],
        _counts: &[u32],
        known_epochs: Vec<u64>,
    ) -> Result<BatchResponse<Current>, Status> {
        let request = attempts.request(v1::CurrentKeysRequest {
            keyspace: self.0.to_owned(),
            raw_keys: raw(keys),
            route_version: target.route_version,
            known_epochs,
            ..v1::CurrentKeysRequest::default()
        });
        let mut node = node_client::of_keys(&target.channel);
        let response = attempts.attempt(node.current_many(request)).await?;
        Ok(BatchResponse::of_reads(response, keys.len(), target))
    }
}

/// Returns the bytes of the keys.
fn raw(keys: &[PlacedKey<'_>]) -> Vec<Vec<u8>> {
    keys.iter().map(|item| item.key.to_vec()).collect()
}
