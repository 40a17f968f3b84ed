//! The command CLUSTER of the port for clients of Redis Cluster, with the replies of Redis 7. The slots come from
//! `resp/cluster.rs`. A reply that names a state which does not exist here, such as a replica or a failure report, has
//! the value of a healthy cluster of Redis without replicas.

use std::fmt::Write;

use seq_api::service::{Redirects, SequenceService};
use seq_core::keyspace::{BUCKETS, Bucket};

use super::{Invocation, loading};
use crate::resp::Endpoint;
use crate::resp::cluster::{Shown, Slots};
use crate::resp::encode::{Excerpt, Replies};

/// Subcommands of CLUSTER that would change the cluster, or a node's place in it.
const CHANGING: &[&str] = &[
    "addslots",
    "addslotsrange",
    "bumpepoch",
    "delslots",
    "delslotsrange",
    "failover",
    "flushslots",
    "forget",
    "meet",
    "replicate",
    "reset",
    "saveconfig",
    "set-config-epoch",
    "setslot",
];

/// Executes CLUSTER.
pub(super) fn execute<F: SequenceService>(
    endpoint: &Endpoint<F>,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let Some(nodes) = &endpoint.node.cluster else {
        // This is the text of Redis. Clients recognize it, and then do not request the cluster's slots.
        return replies.error("ERR", format_args!("This instance has cluster support disabled"));
    };
    let sub = invocation.word(1);
    match (&*sub, invocation.args.count()) {
        ("keyslot", 3) => return replies.integer(Bucket::of(invocation.get(2)).index().into()),
        ("myid", 2) => return replies.bulk(nodes.own().map_or(&b""[..], |own| own.id.as_bytes())),
        ("slots" | "shards" | "nodes" | "info", 2) => {}
        ("countkeysinslot", 3) | ("getkeysinslot", 4) => {
            let text = format_args!(
                "CLUSTER {sub} is refused: a node keeps hashes of keys, without a list or a count for each slot"
            );
            return replies.error("ERR", text);
        }
        (sub, _) if CHANGING.contains(&sub) => {
            let text = "slots are assigned by the set's store: `seqsvr node drain` and `seqsvr section move` move them";
            return replies.error("ERR", format_args!("CLUSTER {sub} is refused: {text}"));
        }
        _ => {
            let sub = Excerpt(invocation.get(1));
            return replies.error("ERR", format_args!("unknown subcommand or wrong number of arguments for {sub}"));
        }
    }
    let Some(slots) = endpoint.slots() else { return loading(replies) };
    match &*sub {
        "slots" => of_ranges(&slots, replies),
        "shards" => shards(&slots, replies),
        "nodes" => replies.verbatim(&nodes_text(&slots)),
        _ => replies.verbatim(&info(&slots)),
    }
}

/// Returns the treatment of a command whose slot belongs to another node. A command with keys of several slots
/// is served by forwarding, because no node owns all of them.
pub(super) fn redirects<F: SequenceService>(endpoint: &Endpoint<F>, invocation: &Invocation<'_, '_>) -> Redirects {
    let redirects = endpoint.redirects();
    let step = match invocation.name {
        b"MGET" | b"EXISTS" => 1,
        b"MSET" => 2,
        _ => return redirects,
    };
    if redirects == Redirects::Forward {
        return redirects;
    }
    let mut slots = invocation.iter().step_by(step).map(Bucket::of);
    let first = slots.next();
    if slots.all(|slot| Some(slot) == first) { Redirects::Refuse } else { Redirects::Forward }
}

/// Encodes the reply to CLUSTER SLOTS.
fn of_ranges(slots: &Slots, replies: &mut Replies) {
    replies.array(slots.ranges.len());
    for (first, last, node) in &slots.ranges {
        let Shown { id, host, port } = slots.node(*node).expect("the node of a range is in the table");
        replies.array(3);
        replies.integer((*first).into());
        replies.integer((*last).into());
        replies.array(4);
        replies.bulk(host.as_bytes());
        replies.integer((*port).into());
        replies.bulk(id.as_bytes());
        replies.map(0);
    }
}

/// Encodes the reply to CLUSTER SHARDS.
fn shards(slots: &Slots, replies: &mut Replies) {
    replies.array(slots.shown().count());
    for (node, Shown { id, host, port }) in slots.shown() {
        replies.map(2);
        replies.bulk(b"slots");
        let ranges: Vec<_> = slots.ranges_of(node).collect();
        replies.array(ranges.len() * 2);
        for (first, last) in ranges {
            replies.integer(first.into());
            replies.integer(last.into());
        }
        replies.bulk(b"nodes");
        replies.array(1);
        replies.map(7);
        let text = |key: &str, value: &str, replies: &mut Replies| {
            replies.bulk(key.as_bytes());
            replies.bulk(value.as_bytes());
        };
        text("id", id, replies);
        replies.bulk(b"port");
        replies.integer((*port).into());
        text("ip", host, replies);
        text("endpoint", host, replies);
        text("role", "master", replies);
        replies.bulk(b"replication-offset");
        replies.integer(0);
        text("health", "online", replies);
    }
}

/// Returns the text of CLUSTER NODES. The port for the messages between nodes is 0, because nodes exchange none of
/// Redis.
fn nodes_text(slots: &Slots) -> String {
    let mut text = String::new();
    for (node, Shown { id, host, port }) in slots.shown() {
        let flags = if slots.own == Some(node) { "myself,master" } else { "master" };
        let version = slots.version;
        write!(text, "{id} {host}:{port}@0 {flags} - 0 0 {version} connected").expect("a String takes every write");
        for (first, last) in slots.ranges_of(node) {
            let last = if first == last { String::new() } else { format!("-{last}") };
            write!(text, " {first}{last}").expect("a String takes every write");
        }
        text.push('\n');
    }
    text
}

/// Returns the text of CLUSTER INFO.
fn info(slots: &Slots) -> String {
    let assigned: usize = slots.ranges.iter().map(|(first, last, _)| usize::from(last - first) + 1).sum();
    let state = if assigned == usize::from(BUCKETS) { "ok" } else { "fail" };
    let (nodes, version) = (slots.shown().count(), slots.version);
    let size = slots.shown().filter(|(node, _)| slots.ranges_of(*node).next().is_some()).count();
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{assigned}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\ncluster_size:{size}\r\n\
         cluster_current_epoch:{version}\r\ncluster_my_epoch:{version}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    )
}
