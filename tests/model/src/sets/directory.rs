//! The directory: claims that stores send to each other and to the client, merged by the larger `since`.
//!
//! A claim routes calls. It changes no record and no fence.

use crate::sets::bounds::Bug;
use crate::sets::events::Event;
use crate::sets::protocol::Protocol;
use crate::sets::world::{Claim, Promise, Receiver, World};

impl Protocol {
    /// Merges a claim into the directory of its receiver.
    pub(crate) fn on_claim(&self, world: &mut World, to: Receiver, claim: Claim) {
        let directory = match to {
            Receiver::Client => &mut world.client,
            Receiver::Store(set) => &mut world.stores[set].directory,
        };
        let before = *directory;
        match claim.cmp(&before) {
            std::cmp::Ordering::Less => self.events.mark(Event::GossipOlder),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.events.mark(Event::GossipNewer),
        }
        let adopts = to == Receiver::Client && self.bounds.has(Bug::OlderClaimAdopted);
        *directory = if adopts { claim } else { before.max(claim) };
        let after = *directory;
        world.require(after >= before, Promise::DirectoryGrows);
        if let Receiver::Store(set) = to {
            let fence = &mut world.stores[set].fence;
            match self.bounds.bug {
                Some(Bug::ClaimLowersTheFence) => *fence = (*fence).min(claim.since),
                Some(Bug::NewerClaimIsAFence) => *fence = (*fence).max(claim.since),
                _ => {}
            }
        }
    }
}
