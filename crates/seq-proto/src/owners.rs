//! Validation and encoding of ownership updates, and of the offers and copies of handovers, on the wire.

use std::sync::Arc;

use seq_core::arbiter::{Departure, PlannedHandover};
use seq_core::high_water::Mark;
use seq_core::owner::handover::HandoverOffer;
use seq_core::owner::{Grant, GrantedCopy, OwnershipUpdate};
use seq_core::route::RouteUpdate;
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, LayoutId, Lineage, Liveness, MigrationId, NodeId, Revision, SectionId, Seq,
    SetId,
};

use crate::convert::RoutesError;
use crate::series;
use crate::v1;

impl From<&OwnershipUpdate> for v1::OwnershipUpdate {
    fn from(update: &OwnershipUpdate) -> v1::OwnershipUpdate {
        let planned = |one: &PlannedHandover| v1::PlannedHandover {
            section: one.section.0,
            epoch: one.epoch.0,
            to_node_id: one.to.0,
            to_incarnation: one.incarnation.0,
            departure: one.departure.as_deref().map(v1::Departure::from),
            // The node's address is in the state of the store, but not in the core's update.
            to_addr: String::new(),
        };
        v1::OwnershipUpdate {
            sections: update.grants.iter().map(|grant| grant.section.0).collect(),
            epochs: update.grants.iter().map(|grant| grant.epoch.0).collect(),
            ceilings: update.grants.iter().map(|grant| grant.ceiling.0).collect(),
            handover_ids: update.grants.iter().map(|grant| grant.handover_id.0).collect(),
            routes: update.routes.as_ref().map(|routes| v1::Routes {
                series: routes.series.iter().map(series::with_seed).collect(),
                ..routes.into()
            }),
            handovers: update.handovers.iter().map(planned).collect(),
            no_other_candidate: update.no_other_candidate,
            copied: update.grants.iter().filter(|grant| grant.copied).map(|grant| grant.section.0).collect(),
            copies: update.copies.iter().map(v1::KeptCopy::from).collect(),
            revision: update.mark.revision.0,
            liveness: update.mark.liveness.0,
        }
    }
}

impl From<&GrantedCopy> for v1::KeptCopy {
    fn from(granted: &GrantedCopy) -> v1::KeptCopy {
        let GrantedCopy { section, epoch, highest, bytes } = granted;
        v1::KeptCopy { section: section.0, epoch: epoch.0, highest: highest.0, copy: bytes.to_vec() }
    }
}

impl From<&Departure> for v1::Departure {
    fn from(departure: &Departure) -> v1::Departure {
        let Departure { set, lineage, migration, addr } = departure;
        v1::Departure { set_id: set.0, lineage: lineage.0, migration_id: migration.0, addr: addr.clone() }
    }
}

impl From<&v1::Departure> for Departure {
    fn from(departure: &v1::Departure) -> Departure {
        let v1::Departure { set_id, lineage, migration_id, addr } = departure;
        let (set, lineage, migration) = (SetId(*set_id), Lineage(*lineage), MigrationId(*migration_id));
        Departure { set, lineage, migration, addr: addr.clone() }
    }
}

/// Error of an ownership update that cannot be decoded. No part of the update was adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipUpdateError {
    /// The response has no ownership update.
    #[error("the response has no ownership update")]
    Missing,
    /// The lists are not parallel.
    #[error("{sections} granted sections do not have as many epochs, ceilings and handover_ids")]
    Lists {
        /// Number of sections.
        sections: usize,
    },
    /// A granted section is outside of the layout, its epoch is 0, or its ceiling is above 2^63-1.
    #[error("invalid grant of section {section} under epoch {epoch} with ceiling {ceiling}")]
    Grant {
        /// The section.
        section: u32,
        /// Epoch of the ownership.
        epoch: u64,
        /// The section's ceiling.
        ceiling: u64,
    },
    /// The section of a copy is outside of the layout, its epoch is 0, or a number in the copy is above 2^63-1.
    #[error("invalid copy of section {section} under epoch {epoch} with the highest number {highest}")]
    Copy {
        /// The section.
        section: u32,
        /// Epoch of the ownership that starts from the copy.
        epoch: u64,
        /// Highest number in the copy.
        highest: u64,
    },
    /// The routes cannot be decoded.
    #[error(transparent)]
    Routes(#[from] RoutesError),
}

/// Decodes the store's ownership update for the node `me`. The sections in the update must be in the layout of the
/// update's routes, or, if the update has no routes, in `layout`.
///
/// # Errors
/// [`OwnershipUpdateError`].
pub fn update(
    update: Option<&v1::OwnershipUpdate>,
    layout: &Layout,
    me: NodeId,
) -> Result<OwnershipUpdate, OwnershipUpdateError> {
    let update = update.ok_or(OwnershipUpdateError::Missing)?;
    let rows = update.sections.len();
    if [update.epochs.len(), update.ceilings.len(), update.handover_ids.len()] != [rows; 3] {
        return Err(OwnershipUpdateError::Lists { sections: rows });
    }
    let routes: Option<RouteUpdate> = update.routes.as_ref().map(TryFrom::try_from).transpose()?;
    let sections = routes.as_ref().map_or(layout, |routes| &routes.layout).sections();
    let mut copied = update.copied.iter().peekable();
    let grant = |row: usize| {
        let (section, epoch, ceiling) = (update.sections[row], update.epochs[row], update.ceilings[row]);
        if section >= sections || epoch == 0 || ceiling > Seq::MAX.0 {
            return Err(OwnershipUpdateError::Grant { section, epoch, ceiling });
        }
        Ok(Grant {
            section: SectionId(section),
            epoch: Epoch(epoch),
            ceiling: Seq(ceiling),
            handover_id: HandoverId(update.handover_ids[row]),
            copied: copied.next_if_eq(&&section).is_some(),
        })
    };
    let granted = |copy: &v1::KeptCopy| {
        let v1::KeptCopy { section, epoch, highest, ref copy } = *copy;
        if section >= sections || epoch == 0 || highest > Seq::MAX.0 {
            return Err(OwnershipUpdateError::Copy { section, epoch, highest });
        }
        let bytes = Arc::new(copy.clone());
        Ok(GrantedCopy { section: SectionId(section), epoch: Epoch(epoch), highest: Seq(highest), bytes })
    };
    let planned = |one: &v1::PlannedHandover| PlannedHandover {
        section: SectionId(one.section),
        epoch: Epoch(one.epoch),
        from: me,
        to: NodeId(one.to_node_id),
        incarnation: Incarnation(one.to_incarnation),
        departure: one.departure.as_ref().map(|departure| Arc::new(departure.into())),
    };
    Ok(OwnershipUpdate {
        grants: (0..rows).map(grant).collect::<Result<_, _>>()?,
        handovers: update.handovers.iter().map(planned).collect(),
        no_other_candidate: update.no_other_candidate,
        copies: update.copies.iter().map(granted).collect::<Result<_, _>>()?,
        routes,
        mark: Mark { revision: Revision(update.revision), liveness: Liveness(update.liveness) },
    })
}

/// Limit on the slots in one message of a staged copy. A message with so many slots has at most half a megabyte, so
/// that it does not delay other messages on its connection.
pub const MAX_STAGED_SLOTS: usize = 65_536;

/// Limit on the keys in one message of a staged copy, for the same reason.
pub const MAX_STAGED_KEYS: usize = 16_384;

/// Error of an invalid message of a handover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The message has no offer.
    #[error("the message has no offer")]
    Missing,
    /// The offer is of another set.
    #[error("section {section} of set {given:?} was offered to a node of set {mine:?}")]
    OtherSet {
        /// The section.
        section: u32,
        /// The set in the offer.
        given: String,
        /// The node's set.
        mine: String,
    },
    /// An offer from another set is meant for a node of another set than this node's set.
    #[error("section {section} was offered to a node of set {given}, and this node is of set {mine}")]
    OtherTarget {
        /// The section.
        section: u32,
        /// The set in the offer.
        given: SetId,
        /// The node's set; 0 if it is not known yet.
        mine: SetId,
    },
    /// Another set offered a section under a layout that differs from this set's layout, so that the section would have
    /// different uids in the two sets.
    #[error("section {section} was offered in layout {given}, and it is of layout {mine} here")]
    OtherLayout {
        /// The section.
        section: u32,
        /// The layout in the offer.
        given: LayoutId,
        /// Hash of the spaces of this node's layout up to and including the space that has the section.
        mine: LayoutId,
    },
    /// The section is outside of the layout.
    #[error("section {section}: the set has sections 0..{sections}")]
    Section {
        /// The section.
        section: u32,
        /// Number of sections in the layout.
        sections: u32,
    },
    /// The epoch or the number of the handover's attempt is impossible for a handover, for example 0.
    #[error("epoch {epoch}, attempt {handover_id}: handovers begin epochs from 2 on, and attempts are counted from 1")]
    Numbers {
        /// The epoch.
        epoch: u64,
        /// The attempt.
        handover_id: u64,
    },
    /// The slots are not in ascending order, do not belong to the section, or have an invalid distance.
    #[error("section {section}: slot {slot} at distance {distance} from {base} is invalid")]
    Slot {
        /// The section.
        section: u32,
        /// The slot.
        slot: u32,
        /// Its distance.
        distance: u64,
        /// The base.
        base: u64,
    },
    /// The keys are not in ascending order, are no hashes of keys, or have an invalid distance.
    #[error("section {section}: key {key:032x} at distance {distance} from {base} is invalid")]
    Key {
        /// The section.
        section: u32,
        /// The hash of the key.
        key: u128,
        /// Its distance.
        distance: u64,
        /// The base.
        base: u64,
    },
    /// The numbers of slots or keys and of distances differ, there are too many of them, or they are not of the kind
    /// that the section has.
    #[error(
        "{slots} slots or keys and {distances} distances: send as many of each, up to {MAX_STAGED_SLOTS} slots of a \
         section of uids, or {MAX_STAGED_KEYS} keys of a bucket, in a message"
    )]
    Lists {
        /// Number of slots or keys.
        slots: usize,
        /// Number of distances.
        distances: usize,
    },
    /// The indexes of advanced uids are not in ascending order, or exceed the number of slots or keys in the message.
    #[error("index {index} of an advanced counter among {slots} is out of order or out of range")]
    Advanced {
        /// The index.
        index: u32,
        /// Number of slots.
        slots: usize,
    },
}

/// Decodes the offer of a handover to this node. `set` and `id` are the name and the id of this node's set. `id` is
/// `SetId(0)` if this node does not know it yet. In that case offers from other sets are refused.
///
/// # Errors
/// [`OfferError`].
pub fn offer(
    offer: Option<&v1::HandoverOffer>,
    set: &str,
    id: SetId,
    layout: &Layout,
) -> Result<HandoverOffer, OfferError> {
    let offer = offer.ok_or(OfferError::Missing)?;
    let v1::HandoverOffer { section, epoch, handover_id, incarnation, from_set_id, .. } = offer;
    if *from_set_id == 0 && offer.set != set {
        return Err(OfferError::OtherSet { section: *section, given: offer.set.clone(), mine: set.to_owned() });
    }
    let Some(layout_id) = layout.id_of(SectionId(*section)) else {
        return Err(OfferError::Section { section: *section, sections: layout.sections() });
    };
    if *from_set_id != 0 {
        check_between_sets(offer, id, layout_id)?;
    }
    if *epoch < 2 || *handover_id == 0 {
        return Err(OfferError::Numbers { epoch: *epoch, handover_id: *handover_id });
    }
    Ok(HandoverOffer {
        section: SectionId(*section),
        epoch: Epoch(*epoch),
        handover_id: HandoverId(*handover_id),
        incarnation: Incarnation(*incarnation),
        from_set: SetId(*from_set_id),
    })
}

/// Checks that an offer from another set is for this set, and that the section has the same uids in both sets.
fn check_between_sets(offer: &v1::HandoverOffer, id: SetId, layout_id: LayoutId) -> Result<(), OfferError> {
    let v1::HandoverOffer { section, to_set_id, layout_id: given, .. } = *offer;
    if to_set_id == 0 || to_set_id != id.0 {
        return Err(OfferError::OtherTarget { section, given: SetId(to_set_id), mine: id });
    }
    if given != layout_id.0 {
        return Err(OfferError::OtherLayout { section, given: LayoutId(given), mine: layout_id });
    }
    Ok(())
}

/// Encodes an offer to a node of another set. `layout_id` is the hash of the spaces of this set's layout up to and
/// including the space that has the section.
#[must_use]
pub fn to_offer_between_sets(offer: &HandoverOffer, to: SetId, layout_id: LayoutId) -> v1::HandoverOffer {
    v1::HandoverOffer { to_set_id: to.0, layout_id: layout_id.0, ..to_offer(offer, "") }
}

/// Encodes an offer to a node of the same set.
#[must_use]
pub fn to_offer(offer: &HandoverOffer, set: &str) -> v1::HandoverOffer {
    v1::HandoverOffer {
        set: set.to_owned(),
        section: offer.section.0,
        epoch: offer.epoch.0,
        handover_id: offer.handover_id.0,
        incarnation: offer.incarnation.0,
        from_set_id: offer.from_set.0,
        ..v1::HandoverOffer::default()
    }
}
