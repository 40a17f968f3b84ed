//! Decides from committed log entries whether a Raft id belongs to a member of the group.
//!
//! The number of a list of members is the position of the list's entry in the log. Each message carries the number of
//! the newest list that names the message's sender. If the receiver's newest committed list has a greater number and
//! does not name the sender, the receiver concludes that the sender was removed. If the receiver's list has a smaller
//! number, the receiver has not yet received the sender's list. It must then accept the message, because the sender may
//! be the leader of the group.
//!
//! **Invariant:** a member is reported as removed only if its removal is permanent. Between the first and the last list
//! that names an id, every list names it. The first of these lists was proposed when the id was new. The id is claimed
//! in the replicated state before its member is removed, and a claimed id is never added again.

use std::sync::OnceLock;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::type_config::alias::WatchReceiverOf;
use seq_proto::v1;

use crate::nonce::Fingerprint;
use crate::storage::{Raft, Replica};
use crate::types::{StoredMembership, TypeConfig};

/// Returns the number of a list of members. It is the index of the list's log entry plus 1, or 0 if there is no list.
pub(crate) fn number(membership: &StoredMembership) -> u64 {
    membership.log_id().as_ref().map_or(0, |id| id.index() + 1)
}

/// Newest list of members in this member's own log. The list is available once the Raft library runs. Until then,
/// [`OwnMembership::number`] returns 0.
#[derive(Default)]
pub(crate) struct OwnMembership(OnceLock<WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>>);

impl OwnMembership {
    /// Begins to follow the lists of members in the log of `raft`.
    pub(crate) fn watch(&self, raft: &Raft) {
        // Holds a receiver instead of `raft`, because `raft` holds the network, which holds this value.
        assert!(self.0.set(raft.server_metrics()).is_ok(), "there is one instance");
    }

    /// Returns the number of the newest list of members if that list names this member, otherwise 0.
    pub(crate) fn number(&self) -> u64 {
        let Some(metrics) = self.0.get() else { return 0 };
        let metrics = metrics.borrow_watched();
        let list = &metrics.membership_config;
        list.membership().get_node(&metrics.id).map_or(0, |_| number(list))
    }
}

/// Relation of a Raft id to the group, as one member sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStatus {
    /// The deciding member does not belong to a group yet.
    NoGroup,
    /// The group never had the id.
    UnknownMember,
    /// The group has a member with the id, or the sender knows a list of members that is newer than the receiver's and
    /// names the id.
    Member,
    /// The group has a member with the id, but with another data directory than the sender's.
    OtherDirectory,
    /// The group had a member with the id, and has removed it.
    Removed,
}

impl MembershipStatus {
    /// Returns the value for a message. For [`MembershipStatus::OtherDirectory`] it is `Unspecified`, because a member
    /// reports this status by refusing the call.
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

/// Values from the group's state that decide whether one id belongs to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Number of the newest committed list of members.
    newest: u64,
    /// Whether the newest committed list of members names the sender's data directory for the id. If that list does not
    /// name the id, a newer, uncommitted list decides instead. `None` if neither list names the id.
    named: Option<bool>,
    /// Whether the id is claimed, so that it is or was the id of a member.
    claimed: bool,
}

/// Returns the status of a sender with Raft id `id` and data directory `directory`, according to the entries that this
/// member has applied. `theirs` is the number of the list of members in the sender's message.
pub(crate) fn status_of(
    raft: &Raft,
    replica: &dyn Replica,
    id: u64,
    directory: Fingerprint,
    theirs: u64,
) -> MembershipStatus {
    let fingerprint = |list: &StoredMembership| list.membership().get_node(&id).map(|member| member.fingerprint);
    let effective = fingerprint(&raft.server_metrics().borrow_watched().membership_config);
    // Reads the list and the claimed ids under one lock, because an id is claimed only after a list that names it was
    // applied.
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
        // The sender's list is also the newest list here, and it does not name the sender.
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
