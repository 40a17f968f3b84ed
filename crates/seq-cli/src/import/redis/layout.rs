//! Parses responses of Redis servers. They state the role and mode of a server, or the masters of a Redis Cluster and
//! their slots.

use std::collections::BTreeMap;

use redis::InfoDict;

/// Number of slots of every Redis Cluster.
const SLOTS: usize = 16_384;

/// The facts about a server in its response to INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// Whether the server is a node of a Redis Cluster.
    pub(super) is_cluster: bool,
    /// Address of the server's master. It is `None` if the server itself is a master.
    pub(super) master: Option<String>,
    /// The id of the process, which changes with a restart.
    pub(super) run_id: String,
}

/// A node of a Redis Cluster to which slots are assigned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Master {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The masters of a Redis Cluster. Each slot has one master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The masters, in order of their ids.
    pub(super) masters: Vec<Master>,
    /// Index in `masters` of the master of each slot.
    owners: Vec<u16>,
}

/// Parses a server's response to INFO.
///
/// # Errors
/// The server has no keys because it is a sentinel, is still loading its keys, or does not report its role.
pub(super) fn server(info: &InfoDict) -> Result<Server, String> {
    let text = |key: &str| info.get::<String>(key).unwrap_or_default();
    if text("loading") == "1" || text("async_loading") == "1" {
        return Err("the server is loading its keys from disk: repeat the command when it has all keys".to_owned());
    }
    let mode = text("redis_mode");
    if mode == "sentinel" {
        return Err("the server is a sentinel, which has no keys: name the master that it watches".to_owned());
    }
    let master = match &*text("role") {
        "master" => None,
        "slave" | "replica" => Some(format!("{}:{}", text("master_host"), text("master_port"))),
        other => return Err(format!("INFO states role {other:?}, so it is unknown whether the server has all keys")),
    };
    let is_cluster = mode == "cluster" || text("cluster_enabled") == "1";
    Ok(Server { is_cluster, master, run_id: text("run_id") })
}

/// Parses a node's response to CLUSTER NODES. `asked` is the host to which the request was sent. It replaces the node's
/// own host if that is empty in the response. If `prefers_names` is true, the names of nodes are preferred to their IP
/// addresses.
///
/// # Errors
/// Keys would be missing, because a slot has no master, its master is failing, or it is being migrated to another
/// master. Or the response is malformed.
pub(super) fn layout(nodes: &str, asked: &str, prefers_names: bool) -> Result<Layout, String> {
    let mut owned: BTreeMap<Master, Vec<(usize, usize)>> = BTreeMap::new();
    for line in nodes.lines().filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(' ').collect();
        let bad = || format!("CLUSTER NODES has the line {line:?}, which cannot be parsed");
        let [id, addr, flags, _, _, _, _, _, slots @ ..] = &*fields else { return Err(bad()) };
        if slots.is_empty() || !flags.split(',').any(|flag| flag == "master") {
            continue;
        }
        let (host, port) = address(addr, asked, prefers_names).ok_or_else(bad)?;
        if flags.contains("fail") || flags.contains("noaddr") {
            return Err(format!("the master {host}:{port} is {flags}, so the keys of its slots cannot be read"));
        }
        if let Some(moving) = slots.iter().find(|slot| slot.starts_with('[')) {
            let slot = moving.trim_start_matches('[').split('-').next().unwrap_or_default();
            return Err(format!(
                "slot {slot} of {host}:{port} is on its way to another node: repeat the command when it has arrived"
            ));
        }
        let ranges = slots.iter().map(|text| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < SLOTS).then_some((first, last))
        });
        let ranges: Option<Vec<(usize, usize)>> = ranges.collect();
        owned.insert(Master { id: (*id).to_owned(), host, port }, ranges.ok_or_else(bad)?);
    }
    let mut owners: Vec<Option<u16>> = vec![None; SLOTS];
    for (index, ranges) in (0..).zip(owned.values()) {
        ranges.iter().for_each(|(first, last)| owners[*first..=*last].fill(Some(index)));
    }
    let without = owners.iter().filter(|owner| owner.is_none()).count();
    if let Some(first) = owners.iter().position(Option::is_none) {
        return Err(format!(
            "{without} of {SLOTS} slots have no master, slot {first} first: the cluster is not complete"
        ));
    }
    Ok(Layout { masters: owned.into_keys().collect(), owners: owners.into_iter().flatten().collect() })
}

impl Layout {
    /// Returns whether the other layout has masters with the same ids, and the same master for each slot.
    pub(super) fn is_same(&self, other: &Layout) -> bool {
        let ids = |layout: &Layout| layout.masters.iter().map(|master| master.id.clone()).collect::<Vec<_>>();
        ids(self) == ids(other) && self.owners == other.owners
    }
}

/// Parses an address in CLUSTER NODES, which has the form `ip:port@bus,name,...`, and returns the host and the port.
/// `asked` is the host if the address has none. If `prefers_names` is true, a name is preferred to the IP address.
fn address(text: &str, asked: &str, prefers_names: bool) -> Option<(String, u16)> {
    let mut parts = text.split(',');
    let (host, port) = parts.next()?.split('@').next()?.rsplit_once(':')?;
    let name = parts.next().filter(|name| !name.is_empty() && *name != "?" && !name.contains('='));
    let host = match (host, name) {
        ("", Some(name)) => name,
        ("", None) => asked,
        (_, Some(name)) if prefers_names => name,
        (host, _) => host,
    };
    Some((host.to_owned(), port.parse().ok().filter(|port| *port > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
aa 10.0.0.1:7001@17001,host-1 myself,master - 0 0 1 connected 0-5460
bb 10.0.0.2:7002@17002,host-2 master - 0 1 2 connected 5461-10922
dd 10.0.0.4:7004@17004 slave aa 0 1 1 connected
cc 10.0.0.3:7003@17003,,shard-id=x master - 0 1 3 connected 10923-16382 16383
ee :0@0 master,noaddr - 0 1 9 disconnected
";

    fn info(lines: &str) -> Result<Server, String> {
        server(&InfoDict::new(lines))
    }

    #[test]
    fn a_master_alone_and_a_node_of_a_cluster_are_told_apart() {
        let alone = info("redis_mode:standalone\r\nrun_id:x\r\nrole:master\r\n").unwrap();
        assert_eq!(alone, Server { is_cluster: false, master: None, run_id: "x".to_owned() });
        assert!(info("redis_mode:cluster\r\nrole:master\r\n").unwrap().is_cluster);
        assert!(info("role:master\r\ncluster_enabled:1\r\n").unwrap().is_cluster);
        let replica = info("role:slave\r\nmaster_host:10.0.0.8\r\nmaster_port:6379\r\n").unwrap();
        assert_eq!(replica.master.as_deref(), Some("10.0.0.8:6379"));
        for (lines, flaw) in [
            ("role:master\r\nloading:1\r\n", "the server is loading"),
            ("redis_mode:sentinel\r\n", "the server is a sentinel"),
            ("", "INFO states role \"\""),
        ] {
            assert!(info(lines).unwrap_err().starts_with(flaw), "{lines}");
        }
    }

    #[test]
    fn every_slot_has_a_master() {
        let addrs = |names| -> Vec<String> {
            let masters = layout(NODES, "asked", names).unwrap().masters;
            masters.iter().map(|master| format!("{}:{}", master.host, master.port)).collect()
        };
        assert_eq!(addrs(false), ["10.0.0.1:7001", "10.0.0.2:7002", "10.0.0.3:7003"]);
        assert_eq!(addrs(true), ["host-1:7001", "host-2:7002", "10.0.0.3:7003"]);
        let own = NODES.replace("10.0.0.1:7001@17001,host-1", ":7001@17001");
        assert_eq!(layout(&own, "asked", false).unwrap().masters[0].host, "asked");
    }

    #[test]
    fn a_cluster_that_is_not_whole_is_refused() {
        for (from, to, flaw) in [
            (" 5461-10922", " 5462-10922", "1 of 16384 slots have no master, slot 5461 first"),
            ("5461-10922", "5461-10922 [93->-cc]", "slot 93 of 10.0.0.2:7002 is on its way"),
            ("host-2 master", "host-2 master,fail?", "the master 10.0.0.2:7002 is master,fail?"),
            ("5461-10922", "5461-19999", "CLUSTER NODES has the line"),
        ] {
            let error = layout(&NODES.replace(from, to), "asked", false).unwrap_err();
            assert!(error.starts_with(flaw), "{error}");
        }
        let whole = layout(NODES, "asked", false).unwrap();
        let moved = NODES.replace(" 16383", "").replace("0-5460", "0-5460 16383");
        assert!(whole.is_same(&layout(NODES, "asked", true).unwrap()));
        assert!(!whole.is_same(&layout(&moved, "asked", false).unwrap()));
    }
}
