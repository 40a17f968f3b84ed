//! Determines the changes in a set that must precede the stop of the processes on one host. They are derived from the
//! store's lists of its members and of the set's AllocSvrs.

use std::collections::BTreeSet;

use seq_command::exit::{Exit, Failure};
use seq_command::output::grouped;
use seq_core::plan::Fingerprint;
use seq_proto::Reason;
use seq_proto::v1::{ListMembersResponse, ListNodesResponse, MemberState, NodeState};
use serde::Serialize;

/// Changes in one set that drain a host.
///
/// Invariant: after these changes, all processes on the host can stop at the same time. Every section still has an
/// owner, and the store still has a majority.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct SetPlan {
    pub(super) set: String,
    /// Raft ids of the StoreSvrs on the host. They remain members of the store.
    stores: Vec<u64>,
    /// AllocSvrs on the host that are not drained yet, or that are drained but still own sections.
    pub(super) allocs: Vec<AllocPlan>,
    /// Raft id of the StoreSvr that becomes the leader of the store, because the present leader is on the host. It is
    /// `None` if the present leader is on another host.
    pub(super) leader: Option<u64>,
    /// Fingerprint of the dry run of the transfer that makes the StoreSvr `leader` the leader.
    #[serde(skip)]
    pub(super) leader_plan: Fingerprint,
}

/// An allocator that is to be drained.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct AllocPlan {
    pub(super) name: String,
    /// Number of sections that the allocator owns.
    pub(super) sections: u32,
    /// Whether the drain of the allocator is already in progress.
    #[serde(skip)]
    pub(super) is_drained: bool,
    /// Fingerprint of the dry run of the drain.
    #[serde(skip)]
    pub(super) plan: Fingerprint,
}

/// Returns the host of an address `host:port`.
pub(super) fn host_of(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Returns the hosts in the addresses of a set's nodes.
pub(super) fn hosts<'a>(members: &'a ListMembersResponse, nodes: &'a ListNodesResponse) -> BTreeSet<&'a str> {
    let stores = members.members.iter().map(|member| host_of(&member.addr));
    stores.chain(nodes.nodes.iter().map(|node| host_of(&node.addr))).collect()
}

impl SetPlan {
    /// Determines the changes that drain the host `host`, from the store's list of members and its list of AllocSvrs.
    ///
    /// # Errors
    /// Without the processes on the host, the store would have no majority, or no AllocSvr could own the host's
    /// sections.
    pub(super) fn new(
        host: &str,
        members: &ListMembersResponse,
        nodes: &ListNodesResponse,
    ) -> Result<SetPlan, Failure> {
        let set = members.set.clone();
        let (here, elsewhere): (Vec<&MemberState>, Vec<&MemberState>) =
            members.members.iter().partition(|member| host_of(&member.addr) == host);
        let voters = members.members.iter().filter(|member| member.voter).count();
        let mut ready: Vec<_> = elsewhere.into_iter().filter(|store| store.voter && store.caught_up).collect();
        if here.iter().any(|store| store.voter) && ready.len() <= voters / 2 {
            return Err(no_majority(host, &set, ready.len(), voters));
        }
        let leads = here.iter().any(|store| store.id == members.leader);
        // The StoreSvrs are sorted by the part of the log that they lack, and then by round trip. A round trip of 0
        // means that it is unknown, and sorts last.
        ready.sort_by_key(|store| (store.lag, store.round_trip_us.wrapping_sub(1), store.id));
        let leader = ready.first().map(|store| store.id).filter(|_| leads);

        let (allocs, others): (Vec<&NodeState>, Vec<&NodeState>) =
            nodes.nodes.iter().partition(|node| host_of(&node.addr) == host);
        let allocs: Vec<_> = allocs.into_iter().filter(|node| !node.drained || node.sections > 0).collect();
        if !allocs.is_empty() && !others.iter().any(|node| node.living && !node.drained && !node.leaving) {
            return Err(last_nodes(host, &set));
        }
        let alloc = |node: &NodeState| AllocPlan {
            name: node.name.clone(),
            sections: node.sections,
            is_drained: node.drained,
            plan: Fingerprint::NONE,
        };
        Ok(SetPlan {
            set,
            stores: here.iter().map(|store| store.id).collect(),
            allocs: allocs.into_iter().map(alloc).collect(),
            leader,
            leader_plan: Fingerprint::NONE,
        })
    }

    /// Returns the names of all allocators that are drained.
    pub(super) fn names(&self) -> Vec<String> {
        self.allocs.iter().map(|alloc| alloc.name.clone()).collect()
    }

    /// Returns whether nothing needs to be changed.
    pub(super) fn is_done(&self) -> bool {
        self.allocs.is_empty() && self.leader.is_none()
    }

    /// Returns a text that describes the changes.
    pub(super) fn steps(&self) -> String {
        let moved = self.allocs.iter();
        let moved = moved.map(|alloc| format!("{} sections of {} move", grouped(alloc.sections.into()), alloc.name));
        let steps: Vec<_> = moved.chain(self.leader.map(|leader| format!("store {leader} leads"))).collect();
        if steps.is_empty() { "nothing to do".to_owned() } else { steps.join(", ") }
    }
}

fn no_majority(host: &str, set: &str, ready: usize, voters: usize) -> Failure {
    let message = format!(
        "without the stores of {host}, {ready} of {voters} voters of set {set} would respond, which is no majority ({})",
        Reason::NoMajority
    );
    Failure::new(Exit::Unhealthy, message).reason(Reason::NoMajority.to_string()).hint(
        "start the stores that do not respond, `seqsvr store members` lists them, and wait until they have caught up",
    )
}

fn last_nodes(host: &str, set: &str) -> Failure {
    let message = format!("no allocator of another host could own the sections of set {set} ({})", Reason::LastNode);
    Failure::new(Exit::Failed, message)
        .reason(Reason::LastNode.to_string())
        .hint(format!("start or undrain an allocator that is not on {host} first"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(leader: u64) -> ListMembersResponse {
        let member = |(id, host): (u64, &str)| MemberState {
            id,
            addr: format!("{host}:7201"),
            voter: true,
            caught_up: true,
            round_trip_us: 300 * id,
            ..MemberState::default()
        };
        let members = [(1, "h1"), (2, "h2"), (3, "[::1]")].map(member).into();
        ListMembersResponse { set: "im-a".to_owned(), leader, members, ..ListMembersResponse::default() }
    }

    fn nodes() -> ListNodesResponse {
        let node = |(name, host, sections): (&str, &str, u32)| NodeState {
            name: name.to_owned(),
            addr: format!("{host}:7100"),
            living: true,
            sections,
            ..NodeState::default()
        };
        let nodes = [("a1", "h1", 6), ("a2", "h2", 4)].map(node).into();
        ListNodesResponse { set: "im-a".to_owned(), nodes, unowned: 0 }
    }

    fn refusal(members: &ListMembersResponse, nodes: &ListNodesResponse) -> String {
        SetPlan::new("h1", members, nodes).unwrap_err().to_string()
    }

    #[test]
    fn sections_move_and_the_nearest_store_leads() {
        let plan = SetPlan::new("h1", &members(1), &nodes()).unwrap();
        assert_eq!((plan.stores.as_slice(), plan.leader), ([1].as_slice(), Some(2)));
        assert_eq!(plan.steps(), "6 sections of a1 move, store 2 leads");
        assert_eq!(SetPlan::new("h2", &members(1), &nodes()).unwrap().steps(), "4 sections of a2 move");

        let mut unknown = members(1);
        unknown.members[1].round_trip_us = 0;
        assert_eq!(
            SetPlan::new("h1", &unknown, &nodes()).unwrap().leader,
            Some(3),
            "an unknown round trip is the last"
        );
        unknown.members[2].lag = 5;
        assert_eq!(SetPlan::new("h1", &unknown, &nodes()).unwrap().leader, Some(2), "the log counts first");
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        let mut drained = nodes();
        (drained.nodes[0].drained, drained.nodes[0].sections) = (true, 0);
        let plan = SetPlan::new("h1", &members(2), &drained).unwrap();
        assert!(plan.is_done() && plan.steps() == "nothing to do", "{plan:?}");
        drained.nodes[0].sections = 2;
        assert_eq!(SetPlan::new("h1", &members(2), &drained).unwrap().steps(), "2 sections of a1 move");
    }

    #[test]
    fn a_host_that_the_set_cannot_spare_is_refused() {
        let mut silent = members(1);
        silent.members[2].caught_up = false;
        assert_eq!(
            refusal(&silent, &nodes()),
            "without the stores of h1, 1 of 3 voters of set im-a would respond, which is no majority (NO_MAJORITY)"
        );
        for (living, drained, leaving) in [(false, false, false), (true, true, false), (true, false, true)] {
            let mut nodes = nodes();
            let a2 = &mut nodes.nodes[1];
            (a2.living, a2.drained, a2.leaving) = (living, drained, leaving);
            assert_eq!(
                refusal(&members(1), &nodes),
                "no allocator of another host could own the sections of set im-a (LAST_NODE)"
            );
        }
    }

    #[test]
    fn addresses_have_hosts() {
        assert_eq!(["h1:7201", "[::1]:7201", "10.0.0.1:1"].map(host_of), ["h1", "::1", "10.0.0.1"]);
        let (members, nodes) = (members(1), nodes());
        assert_eq!(Vec::from_iter(hosts(&members, &nodes)), ["::1", "h1", "h2"]);
    }
}
