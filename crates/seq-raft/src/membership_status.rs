//! Membership of an id in the group, decided from committed entries.
//!
//! The number of a list of members is the position of its entry in the log. A message carries the number of the newest
//! list that names its sender. If the receiver's newest committed list has a greater number and does not name the
//! sender, the receiver concludes that the sender was removed. If the receiver's list has a smaller number, the
//! receiver is behind. It must then accept the message, because the sender may be the leader of the group.
//!
//! **Invariant:** a member is reported as removed only if its removal is permanent. The lists that name an id follow
//! each other without a gap. The first of these lists was proposed when the id was new, the id is claimed before its
//! member is removed, and a claimed id is not added again.

use std::sync::OnceLock;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::type_config::alias::WatchReceiverOf;
use seq_proto::v1;

use crate::nonce::Fingerprint;
use crate::storage::{Raft, Replica};
use crate::types::{StoredMembership, TypeConfig};

/// Returns the number of a list of members, which is the position of its entry in the log, counted from 1. Returns 0 if
/// there is no list.
pub(crate) fn number(membership: &StoredMembership) -> u64 {
    membership.log_id().as_ref().map_or(0, |id| id.index() + 1)
}

/// Newest list of members in this member's own log. The list is known once the Raft library runs, and its number is 0
/// before then.
#[derive(Default)]
pub(crate) struct OwnMembership(OnceLock<WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>>);

impl OwnMembership {
    /// Watches the lists of this instance from now on.
    pub(crate) fn watch(&self, raft: &Raft) {
        // Holds a receiver instead of the instance, because the instance holds the network, which holds this value.
        assert!(self.0.set(raft.server_metrics()).is_ok(), "there is one instance");
    }

    /// Returns the number of the newest list of members that names this member; 0 when no list does.
    pub(crate) fn number(&self) -> u64 {
        let Some(metrics) = self.0.get() else { return 0 };
        let metrics = metrics.borrow_watched();
        let list = &metrics.membership_config;
        list.membership().get_node(&metrics.id).map_or(0, |_| number(list))
    }
}

/// Membership of an id in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStatus {
    /// This member knows no group yet.
    NoGroup,
    /// The group never had the id.
    UnknownMember,
    /// The group has the id, or the sender knows a newer list of members that names the id.
    Member,
    /// The group has the id with another data directory.
    OtherDirectory,
    /// The group had the id.
    Removed,
}

impl MembershipStatus {
    /// Returns the value for the wire. [`MembershipStatus::OtherDirectory`] has no value, because it is sent as a
    /// refusal.
    pub(crate) fn to_wire(self) -> v1::MembershipStatus {
        match self {
            MembershipStatus::OtherDirectory => v1::MembershipStatus::Unspecified,
            MembershipStatus::NoGroup => v1::MembershipStatus::NoGroup,
            MembershipStatus::UnknownMember => v1::MembershipStatus::UnknownMember,
            MembershipStatus::Member => v1::MembershipStatus::Member,
            MembershipStatus::Removed => v1::MembershipStatus::Removed,
        }
    }
}

/// The part of the group's state that decides the membership of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Number of the newest committed list.
    newest: u64,
    /// Whether the newest committed list, or a later uncommitted list, names this data directory for the id; `None` if
    /// neither list names the id.
    named: Option<bool>,
    /// Whether the id is claimed.
    claimed: bool,
}

/// Returns the membership of a sender with `id` and `directory`, by the entries that this member has applied. `theirs`
/// is the number of the list in the sender's message.
pub(crate) fn status_of(
    raft: &Raft,
    replica: &dyn Replica,
    id: u64,
    directory: Fingerprint,
    theirs: u64,
) -> MembershipStatus {
    let fingerprint = |list: &StoredMembership| list.membership().get_node(&id).map(|member| member.fingerprint);
    let effective = fingerprint(&raft.server_metrics().borrow_watched().membership_config);
    // Reads both under one lock, because an id is claimed only after a list that names it was applied.
    let known = replica.read_members(|members, ids| Known {
        newest: number(members),
        named: fingerprint(members).or(effective).map(|named| named == directory),
        claimed: ids.binary_search(&id).is_ok(),
    });
    decide(known, theirs)
}

fn decide(known: Known, theirs: u64) -> MembershipStatus {
    let Known { newest, named, claimed } = known;
    match theirs {
        _ if named == Some(true) => MembershipStatus::Member,
        _ if named == Some(false) => MembershipStatus::OtherDirectory,
        0 if newest == 0 => MembershipStatus::NoGroup,
        0 if claimed => MembershipStatus::Removed,
        0 => MembershipStatus::UnknownMember,
        theirs if theirs > newest => MembershipStatus::Member,
        theirs if theirs < newest => MembershipStatus::Removed,
        // The sender's list is the newest list here, which does not name the sender.
        _ => MembershipStatus::UnknownMember,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_that_was_named_before_a_list_without_it_is_removed() {
        const NO: Option<bool> = None;
        let known = |newest, named, claimed| Known { newest, named, claimed };
        for (known, theirs, expected) in [
            (known(0, NO, false), 0, MembershipStatus::NoGroup),
            // The very first list reaches members that have no list.
            (known(0, NO, false), 1, MembershipStatus::Member),
            (known(5, Some(true), false), 0, MembershipStatus::Member),
            (known(5, Some(true), true), 3, MembershipStatus::Member),
            // An emptied disk, with any number.
            (known(5, Some(false), false), 0, MembershipStatus::OtherDirectory),
            (known(5, Some(false), true), 9, MembershipStatus::OtherDirectory),
            (known(5, NO, false), 0, MembershipStatus::UnknownMember),
            (known(5, NO, true), 0, MembershipStatus::Removed),
            // This member is behind: it must accept the leader that its list does not name.
            (known(5, NO, false), 9, MembershipStatus::Member),
            (known(5, NO, true), 4, MembershipStatus::Removed),
            (known(5, NO, false), 4, MembershipStatus::Removed),
            (known(5, NO, false), 5, MembershipStatus::UnknownMember),
        ] {
            assert_eq!(decide(known, theirs), expected, "{known:?} and {theirs}");
        }
    }
}
