//! What somebody is to the group, judged from what is committed.
//!
//! A member numbers the lists of members by the position of their entries in the log. A message carries the number of the
//! newest list that names its sender. A receiver whose newest committed list has a greater number and does not name the sender
//! knows that the sender was removed; one whose list has a smaller number is behind, and must listen: the sender may be the
//! leader that it needs.
//!
//! **Invariant:** "removed" is said only of what is removed for good. The lists that name an id are neighbours in the log:
//! its first one was proposed when the id was new, it is claimed before it leaves, and a claimed id is not added again.

use std::sync::OnceLock;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftServerMetrics;
use openraft::type_config::alias::WatchReceiverOf;
use seq_proto::v1;

use crate::claims;
use crate::nonce::Fingerprint;
use crate::storage::SharedState;
use crate::types::{Raft, StoredMembership, TypeConfig};

/// The number of a list of members: its entry's position in the log, from 1; 0 for none.
pub(crate) fn number(membership: &StoredMembership) -> u64 {
    membership.log_id().as_ref().map_or(0, |id| id.index() + 1)
}

/// What this member's log says of itself. It is told once the Raft library runs, and says 0 before.
#[derive(Default)]
pub(crate) struct OwnStanding(OnceLock<WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>>);

impl OwnStanding {
    /// Reads from this instance from now on.
    pub(crate) fn watch(&self, raft: &Raft) {
        // A receiver and not the instance, which holds the network, which holds this.
        assert!(self.0.set(raft.server_metrics()).is_ok(), "there is one instance");
    }

    /// Number of the newest list of members that names this one; 0 when none does.
    pub(crate) fn number(&self) -> u64 {
        let Some(metrics) = self.0.get() else { return 0 };
        let metrics = metrics.borrow_watched();
        let list = &metrics.membership_config;
        list.membership().get_node(&metrics.id).map_or(0, |_| number(list))
    }
}

/// What somebody is to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is no group here yet.
    NoGroup,
    /// The group never had it.
    Stranger,
    /// The group has it, or it knows a newer list that does.
    Member,
    /// The group has its id under another data directory.
    OtherDirectory,
    /// The group had it.
    Removed,
}

impl Standing {
    /// As it is sent. Another directory is refused, not sent.
    pub(crate) fn to_wire(self) -> v1::Standing {
        match self {
            Standing::OtherDirectory => v1::Standing::Unspecified,
            Standing::NoGroup => v1::Standing::NoGroup,
            Standing::Stranger => v1::Standing::Stranger,
            Standing::Member => v1::Standing::Member,
            Standing::Removed => v1::Standing::Removed,
        }
    }
}

/// What a member knows of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Number of the newest committed list.
    newest: u64,
    /// Whether that list, or one after it that may not be committed, names the id in question, and the directory with
    /// it.
    named: Option<bool>,
    /// Whether the id is claimed.
    used: bool,
}

/// Judges by what is applied here. `theirs` is the number that came with the message.
pub(crate) fn judge(raft: &Raft, state: &SharedState, id: u64, directory: Fingerprint, theirs: u64) -> Standing {
    let fingerprint = |list: &StoredMembership| list.membership().get_node(&id).map(|member| member.fingerprint);
    let effective = fingerprint(&raft.server_metrics().borrow_watched().membership_config);
    // Read together: an id is claimed only after a list that names it was applied.
    let known = state.read_with_members(|state, members| Known {
        newest: number(members),
        named: fingerprint(members).or(effective).map(|named| named == directory),
        used: claims::is_used(state, id),
    });
    decide(known, theirs)
}

fn decide(known: Known, theirs: u64) -> Standing {
    let Known { newest, named, used } = known;
    match theirs {
        _ if named == Some(true) => Standing::Member,
        _ if named == Some(false) => Standing::OtherDirectory,
        0 if newest == 0 => Standing::NoGroup,
        0 if used => Standing::Removed,
        0 => Standing::Stranger,
        theirs if theirs > newest => Standing::Member,
        theirs if theirs < newest => Standing::Removed,
        // The list of that number is the one here, and it does not name the sender.
        _ => Standing::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_named_before_a_list_without_it_is_removed() {
        const NO: Option<bool> = None;
        let known = |newest, named, used| Known { newest, named, used };
        for (known, theirs, expected) in [
            (known(0, NO, false), 0, Standing::NoGroup),
            // The first list of all reaches members that have none.
            (known(0, NO, false), 1, Standing::Member),
            (known(5, Some(true), false), 0, Standing::Member),
            (known(5, Some(true), true), 3, Standing::Member),
            // An emptied disk, whatever number it says.
            (known(5, Some(false), false), 0, Standing::OtherDirectory),
            (known(5, Some(false), true), 9, Standing::OtherDirectory),
            (known(5, NO, false), 0, Standing::Stranger),
            (known(5, NO, true), 0, Standing::Removed),
            // The member here is behind: it must hear the leader that it does not know.
            (known(5, NO, false), 9, Standing::Member),
            (known(5, NO, true), 4, Standing::Removed),
            (known(5, NO, false), 4, Standing::Removed),
            (known(5, NO, false), 5, Standing::Stranger),
        ] {
            assert_eq!(decide(known, theirs), expected, "{known:?} and {theirs}");
        }
    }
}
