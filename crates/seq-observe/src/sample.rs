//! Collects the responses of a cluster's nodes, and the nodes and sets that these responses name.

use std::collections::{BTreeMap, BTreeSet};

use seq_command::store_client::NodeRole;
use seq_core::clock_offset::{self, ClockOffset};
use seq_proto::v1::status_response::Role;
use seq_proto::v1::{RouteSet, Routes, SetInfo, SetState, StatusResponse};

/// Error text for a node to which no client connects because the node's certificate has expired.
pub(crate) const EXPIRED: &str = "its certificate has expired: `seqsvr cert rotate`";

/// The response of one node, or the error.
pub(crate) type StatusResult = Result<StatusResponse, String>;

/// Number of route tables that are read from a set. One table is enough, because it names all AllocSvrs of its set and
/// of the other sets; a second table is read in case the first is old. The table of a set with thousands of sections is
/// large, and all of its AllocSvrs together would send megabytes for each observation.
const TABLES: usize = 2;

/// Responses of nodes, and the nodes and sets that they name.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Responses or errors of nodes, by address.
    pub(crate) responses: BTreeMap<String, StatusResult>,
    /// Sets of the cluster that responses name, by name.
    pub(crate) sets: BTreeMap<String, NamedSet>,
    /// Set and role of nodes that responses name, by address.
    pub(crate) nodes: BTreeMap<String, (String, NodeRole)>,
    /// Addresses of the AllocSvrs and proxies whose route tables arrived.
    pub(crate) tables: BTreeSet<String>,
    /// Clocks of nodes that respond, by address.
    pub(crate) clocks: BTreeMap<String, ClockOffset>,
}

/// A set as another set knows it.
#[derive(Debug, Default)]
pub(crate) struct NamedSet {
    /// Whether the set is closed.
    pub(crate) closed: bool,
    /// Uids of the layout; empty if they are unknown.
    pub(crate) uids: (u64, u64),
}

impl Sample {
    /// Adds the nodes that the status of one node names. If `all_sets` is true, also adds the other sets that the
    /// status names, and their nodes.
    pub(crate) fn learn_status(&mut self, response: &StatusResponse, all_sets: bool) {
        let set = &response.set;
        match &response.role {
            Some(Role::Store(store)) => {
                let stores = store.members.iter().map(|member| (&member.addr, NodeRole::Store));
                let allocs = store.allocs.iter().map(|alloc| (&alloc.addr, NodeRole::Alloc));
                stores.chain(allocs).for_each(|(addr, role)| self.add(addr, set, role));
                store.sets.iter().filter(|_| all_sets).for_each(|info| self.learn_set(info));
            }
            Some(Role::Alloc(alloc)) => {
                alloc.store_addrs.iter().for_each(|addr| self.add(addr, set, NodeRole::Store));
            }
            // A proxy has no role in its status, and belongs to no set. The nodes that it knows are in its routes.
            None => {}
        }
    }

    fn learn_set(&mut self, info: &SetInfo) {
        let closed = info.state() == SetState::Closed;
        let named = self.sets.entry(info.name.clone()).or_default();
        named.closed |= closed;
        named.uids = (info.uid_start, info.uid_end);
        info.stores.iter().for_each(|addr| self.add(addr, &info.name, NodeRole::Store));
        info.allocs.iter().for_each(|addr| self.add(addr, &info.name, NodeRole::Alloc));
    }

    /// Adds the AllocSvrs that a route table names. If `all_sets` is true, also adds the other sets that the table
    /// names, and their AllocSvrs.
    pub(crate) fn learn_routes(&mut self, routes: &Routes, all_sets: bool) {
        routes.nodes.iter().for_each(|node| self.add(&node.addr, &routes.set, NodeRole::Alloc));
        for RouteSet { name, allocs, .. } in routes.sets.iter().filter(|_| all_sets) {
            self.sets.entry(name.clone()).or_default();
            allocs.iter().for_each(|addr| self.add(addr, name, NodeRole::Alloc));
        }
    }

    /// Adds the route table that the AllocSvr or proxy at `addr` sent, and the nodes that the table names.
    pub(crate) fn add_table(&mut self, addr: String, routes: &Routes, all_sets: bool) {
        self.learn_routes(routes, all_sets);
        self.tables.insert(addr);
    }

    /// Returns the addresses of AllocSvrs and proxies whose route tables are to be requested next. All proxies that
    /// respond are included, and so many AllocSvrs of each set that [`TABLES`] tables of the set are read, unless a
    /// request fails. `requested` contains the addresses that were returned before, and the returned addresses are
    /// added to it.
    pub(crate) fn unread_tables(&self, requested: &mut BTreeSet<String>) -> Vec<String> {
        let of_set = |addr: &String| match self.responses.get(addr) {
            Some(Ok(StatusResponse { role: Some(Role::Alloc(_)), set, .. })) => Some(set.as_str()),
            _ => None,
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for set in self.tables.iter().filter_map(of_set) {
            *counts.entry(set).or_default() += 1;
        }
        let mut next = Vec::new();
        for (addr, response) in &self.responses {
            let is_wanted = match response {
                Err(_) | Ok(StatusResponse { role: Some(Role::Store(_)), .. }) => false,
                Ok(StatusResponse { role: None, .. }) => true,
                Ok(StatusResponse { set, .. }) => counts.get(set.as_str()).is_none_or(|count| *count < TABLES),
            };
            if is_wanted && !requested.contains(addr) {
                next.push(addr.clone());
                if let Some(set) = of_set(addr) {
                    *counts.entry(set).or_default() += 1;
                }
            }
        }
        requested.extend(next.iter().cloned());
        next
    }

    fn add(&mut self, addr: &str, set: &str, role: NodeRole) {
        self.nodes.entry(addr.to_owned()).or_insert_with(|| (set.to_owned(), role));
    }

    /// Returns the addresses of nodes that responses named and that were not queried yet. Nodes of closed sets are
    /// excluded, because their machines may no longer exist.
    pub(crate) fn unasked(&self) -> BTreeSet<String> {
        let closed = |set: &String| self.sets.get(set).is_some_and(|set| set.closed);
        let unasked =
            |(addr, (set, _)): &(&String, &(String, NodeRole))| !closed(set) && !self.responses.contains_key(*addr);
        self.nodes.iter().filter(unasked).map(|(addr, _)| addr.clone()).collect()
    }

    /// Returns the nodes whose clocks are wrong, by address, with the milliseconds by which each clock is ahead of the
    /// median of all nodes' clocks. A clock is wrong if it differs from the median by more than one second plus the
    /// error of its measurement. The result does not depend on the clock of this machine, because an error of that
    /// clock shifts all measurements equally.
    pub(crate) fn clocks_off(&self) -> BTreeMap<&str, i64> {
        let middle = clock_offset::middle(self.clocks.values().map(|clock| clock.ahead_ms));
        let Some(middle) = middle else { return BTreeMap::new() };
        let differs = |clock: &ClockOffset| (clock.ahead_ms - middle).abs() > 1_000 + clock.error_ms;
        let wrong = self.clocks.iter().filter(|(_, clock)| differs(clock));
        wrong.map(|(addr, clock)| (addr.as_str(), clock.ahead_ms - middle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::{AllocStatus, StoreStatus};

    use super::*;

    #[test]
    fn few_tables_of_each_set_are_read_and_each_is_requested_once() {
        let response = |set: &str, role| Ok(StatusResponse { set: set.to_owned(), role, ..StatusResponse::default() });
        let alloc = |set| response(set, Some(Role::Alloc(AllocStatus::default())));
        let mut sample = Sample::default();
        let mut add = |addr: &str, status| drop(sample.responses.insert(addr.to_owned(), status));
        add("a:0", Err("refused".to_owned()));
        add("a:1", alloc("im-a"));
        add("a:4", response("im-a", Some(Role::Store(StoreStatus::default()))));
        add("p:1", response("", None));
        let mut requested = BTreeSet::new();
        assert_eq!(sample.unread_tables(&mut requested), ["a:1", "p:1"]);
        assert_eq!(sample.unread_tables(&mut requested), Vec::<String>::new());
        sample.add_table("a:1".to_owned(), &Routes::default(), true);
        for addr in ["a:2", "a:3", "a:5", "b:1"] {
            sample.responses.insert(addr.to_owned(), alloc(if addr < "b" { "im-a" } else { "im-b" }));
        }
        assert_eq!(sample.unread_tables(&mut requested), ["a:2", "b:1"], "the table of a:1 counts");
        assert_eq!(sample.unread_tables(&mut requested), ["a:3"], "no table of a:2 arrived");
        sample.add_table("a:3".to_owned(), &Routes::default(), true);
        assert_eq!(sample.unread_tables(&mut requested), Vec::<String>::new(), "two tables of im-a arrived");
    }
}
