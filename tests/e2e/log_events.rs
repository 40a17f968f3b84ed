//! The field `event` of log lines: a line about a fact that is also an event has the name of the event's kind, so that
//! logs and events can be joined.

use std::collections::BTreeSet;

use seq_core::node_events::NodeEventKind;
use seq_core::state::EventKind;
use seq_testkit::eventually;

use crate::cluster::seqsvr_json;
use crate::plans::Cluster;

/// Kinds that the test causes.
const STAGED: [&str; 17] = [
    EventKind::SetDefined.name(),
    EventKind::Terms.name(),
    EventKind::Format.name(),
    EventKind::Leader.name(),
    EventKind::Registered.name(),
    EventKind::FirstOwners.name(),
    EventKind::Drained.name(),
    EventKind::Undrained.name(),
    EventKind::BalancingPaused.name(),
    EventKind::BalancingResumed.name(),
    EventKind::Silent.name(),
    EventKind::Takeover.name(),
    NodeEventKind::Reloaded.name(),
    NodeEventKind::LeaseLost.name(),
    NodeEventKind::LeaseRegained.name(),
    NodeEventKind::QuorumLost.name(),
    NodeEventKind::QuorumRegained.name(),
];

/// Kinds of events that may have no log line here: handovers of single sections, an exit, the first list of the voters,
/// and events that a busy machine may cause.
const WITHOUT_LINE: [&str; 5] = [
    EventKind::Handover.name(),
    EventKind::Leaving.name(),
    EventKind::Members.name(),
    NodeEventKind::ClockStep.name(),
    NodeEventKind::RequestsShed.name(),
];

/// Nodes that run until the end, so that their events are kept.
const NODES: [&str; 5] = ["s1", "s2", "s3", "a1", "a2"];

/// Returns the kinds of all events.
fn listed(cluster: &Cluster) -> BTreeSet<String> {
    let events = seqsvr_json(&["events", "list", "--set", &cluster.set]);
    let events = events["items"].as_array().unwrap().iter();
    events.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

/// Returns the values of the field `event` in the logs.
fn logged(cluster: &Cluster) -> BTreeSet<String> {
    let logs: String = NODES.iter().map(|node| cluster.servers[node].log()).collect();
    let values = logs.split(" event=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    values.map(|(kind, _)| kind.to_owned()).collect()
}

#[test]
fn each_kind_in_the_logs_is_one_of_an_event_and_the_other_way_around() {
    let mut cluster = Cluster::start();
    let run = |cluster: &Cluster, args: &[&str]| {
        let (code, text) = cluster.run(args);
        assert_eq!(code, Some(0), "{args:?}: {text}");
    };
    run(&cluster, &["node", "drain", "a1", "--yes"]);
    run(&cluster, &["node", "undrain", "a1"]);
    run(&cluster, &["section", "balance", "--pause"]);
    run(&cluster, &["section", "balance", "--resume"]);
    cluster.servers["a1"].hang_up();
    cluster.servers.get_mut("a3").unwrap().kill();
    let has = |cluster: &Cluster, kinds: &[&str]| {
        let (listed, logged) = (listed(cluster), logged(cluster));
        kinds.iter().all(|kind| listed.contains(*kind) && logged.contains(*kind)).then_some(())
    };
    eventually("the takeover is an event and in a log", || has(&cluster, &[EventKind::Takeover.name()]));
    for store in ["s1", "s2"] {
        cluster.servers[store].freeze();
    }
    let lost = [NodeEventKind::LeaseLost.name(), NodeEventKind::QuorumLost.name()];
    eventually("the loss of leases and of the majority is in the logs", || {
        lost.iter().all(|kind| logged(&cluster).contains(*kind)).then_some(())
    });
    for store in ["s1", "s2"] {
        cluster.servers[store].thaw();
    }
    eventually("each staged kind is an event and in a log", || has(&cluster, &STAGED));
    eventually("no kind is only in the logs, or only an event", || {
        let (listed, logged) = (listed(&cluster), logged(&cluster));
        let differ: Vec<&String> = listed.symmetric_difference(&logged).collect();
        differ.iter().all(|kind| WITHOUT_LINE.contains(&kind.as_str()) && listed.contains(*kind)).then_some(())
    });
}
