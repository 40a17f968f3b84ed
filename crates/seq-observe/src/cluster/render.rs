//! Converts the view of a cluster to text. The text has a table of the sets, a table for each kind of node, and the
//! verdicts.

use std::collections::BTreeMap;

use seq_command::output::{Table, grouped};

use super::{CertificateView, Cluster, Unreachable};
use crate::migration;
use crate::verdict::{age, uptime};

impl Cluster {
    /// Returns the text that `seqsvr status` prints. If `wide` is true, the tables have all columns, otherwise only the
    /// most used columns.
    #[must_use]
    pub fn render(&self, wide: bool) -> String {
        let mut sets = Table::new(&["set", "uids", "served", "stores", "allocs", "numbers", "raises", "routes"]);
        for set in &self.sets {
            sets.row([
                set.name.clone(),
                match set.uid_end {
                    0 => "?".to_owned(),
                    end => format!("{}..{}", grouped(set.uid_start), grouped(end)),
                },
                match set.facts.sections {
                    Some(all) => format!("{}/{all}", set.sections_served),
                    None if set.facts.closed => "-".to_owned(),
                    None => format!("{}/?", set.sections_served),
                },
                set.stores.to_string(),
                set.allocs.to_string(),
                grouped(set.allocations),
                grouped(set.raises),
                format!("v{}", set.route_version),
            ]);
        }
        let mut text = sets.render();
        if !self.stores.is_empty() {
            text.push('\n');
            text.push_str(&self.render_stores(wide));
        }
        if !self.allocs.is_empty() {
            text.push('\n');
            text.push_str(&self.render_allocs(wide));
        }
        if !self.proxies.is_empty() {
            text.push('\n');
            text.push_str(&self.render_proxies(wide));
        }
        if !self.unreachable.is_empty() {
            let mut table = Table::new(&["no response", "set", "addr", "state", "for", "why"]);
            for Unreachable { addr, name, set, state, silent_ms, why, .. } in &self.unreachable {
                let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".to_owned());
                let silent = silent_ms.map_or_else(|| "-".to_owned(), age);
                table.row([named(name), named(set), addr.clone(), state.name().to_owned(), silent, why.clone()]);
            }
            text.push('\n');
            text.push_str(&table.render());
        }
        text.push('\n');
        for set in &self.sets {
            if let (Some(numbers), Some(raises)) = (set.numbers_per_second, set.raises_per_second) {
                let numbers = grouped(numbers.round() as u64);
                text.push_str(&format!("{}: {numbers} numbers/s, {raises:.1} raises/s\n", set.name));
            }
            text.push_str(&format!("{}: {}\n", set.name, set.verdict));
            for migration in &set.moves {
                let (id, to) = (migration.id, &migration.to);
                text.push_str(&format!("{}: migration {id} to {to}: {}\n", set.name, migration::line(migration)));
            }
        }
        if let Some(unplaced) = self.unplaced() {
            text.push_str(&format!("cluster: {unplaced}\n"));
        }
        if let Some(unknown) = self.unknown_nodes() {
            text.push_str(&format!("unknown: {unknown}\n"));
        }
        if let Some(warning) = self.expiry_of_proxies() {
            text.push_str(&format!("proxies: {warning}\n"));
        }
        text
    }

    fn render_stores(&self, wide: bool) -> String {
        let narrow = ["store", "set", "addr", "term", "applied", "log", "snapshot", "raises", "up", "version"];
        let mut table = heading(&narrow, &["id", "quorum", "round trips", "http", "certificate", "revision"], wide)
            .right(&[3, 4, 5, 6, 7, 8]);
        for store in &self.stores {
            let cells = [
                format!("{}{}", store.name, if store.leader { "*" } else { "" }),
                store.set.clone(),
                store.addr.clone(),
                store.term.to_string(),
                grouped(store.applied_index),
                grouped(store.last_log_index),
                grouped(store.snapshot_index),
                grouped(store.raises_applied),
                uptime(store.uptime_ms),
                store.version.clone(),
            ];
            let more = [
                store.id.to_string(),
                if store.quorum { "yes".to_owned() } else { format!("no, {}", age(store.quorum_lost_ms)) },
                trips(&store.round_trip_us),
                or_dash(store.http.as_deref()),
                expires(store.certificate.as_ref()),
                store.revision.clone(),
            ];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }

    fn render_allocs(&self, wide: bool) -> String {
        let narrow = [
            "alloc",
            "set",
            "addr",
            "state",
            "sections",
            "lease",
            "numbers",
            "forwarded",
            "raises",
            "routes",
            "up",
            "version",
        ];
        let more = ["incarnation", "refused", "memory", "http", "redis", "certificate", "revision"];
        let mut table = heading(&narrow, &more, wide).right(&[4, 6, 7, 8, 9, 10]);
        for alloc in &self.allocs {
            let cells = [
                alloc.name.clone(),
                alloc.set.clone(),
                alloc.addr.clone(),
                alloc.state.name().to_owned(),
                grouped(alloc.sections.into()),
                match (alloc.lease_remaining_ms, alloc.lease_ended_ms) {
                    (0, 0) => "none".to_owned(),
                    (0, ended) => format!("ended {} ago", age(ended)),
                    (left, _) => age(left),
                },
                grouped(alloc.allocations),
                grouped(alloc.forwarded),
                grouped(alloc.raises),
                format!("v{}", alloc.route_version),
                uptime(alloc.uptime_ms),
                alloc.version.clone(),
            ];
            let more = [
                alloc.incarnation.to_string(),
                grouped(alloc.raises_refused),
                format!("{} KiB", grouped(alloc.slot_bytes / 1_024)),
                or_dash(alloc.http.as_deref()),
                or_dash(alloc.redis.as_deref()),
                expires(alloc.certificate.as_ref()),
                alloc.revision.clone(),
            ];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }

    fn render_proxies(&self, wide: bool) -> String {
        let mut table = heading(&["proxy", "addr", "up", "version"], &["certificate", "revision"], wide).right(&[2]);
        for proxy in &self.proxies {
            let cells = [proxy.name.clone(), proxy.addr.clone(), uptime(proxy.uptime_ms), proxy.version.clone()];
            let more = [expires(proxy.certificate.as_ref()), proxy.revision.clone()];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }
}

/// Returns the time when a node's certificate expires, or a dash if the node has no TLS.
fn expires(certificate: Option<&CertificateView>) -> String {
    or_dash(certificate.map(|certificate| certificate.expires.as_str()))
}

fn heading(narrow: &[&str], more: &[&str], wide: bool) -> Table {
    let columns: Vec<&str> = narrow.iter().chain(more.iter().filter(|_| wide)).copied().collect();
    Table::new(&columns)
}

/// Formats the round trips measured by a leader, in milliseconds.
fn trips(trips: &BTreeMap<String, u64>) -> String {
    let one = |(name, us): (&String, &u64)| format!("{name} {:.1} ms", *us as f64 / 1_000.0);
    let all = trips.iter().map(one).collect::<Vec<_>>().join(", ");
    if all.is_empty() { "-".to_owned() } else { all }
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}
