//! CPU time that a page of the console costs while it follows the cluster: at the nodes, at the console and in the
//! browser.

use std::time::Duration;

use serde_json::json;

use super::looks::load;
use super::{Console, Tools};
use crate::alerts::wait;
use crate::plans::Cluster;

/// Length of a measurement. Each round has a measurement without the page and a measurement with it.
const WINDOW: Duration = Duration::from_secs(30);
const ROUNDS: usize = 4;

/// Shares of one core that the nodes and the console used.
#[derive(Clone, Copy, Debug)]
struct Shares {
    nodes: f64,
    console: f64,
}

fn measure(cluster: &Cluster, console: &Console) -> Shares {
    let used = || (cluster.servers.values().map(|node| node.cpu_s()).sum::<f64>(), console.server.cpu_s());
    let begin = used();
    wait(WINDOW);
    let end = used();
    let share = |end: f64, begin: f64| (end - begin) / WINDOW.as_secs_f64();
    Shares { nodes: share(end.0, begin.0), console: share(end.1, begin.1) }
}

fn median(shares: &[Shares], of: impl Fn(&Shares) -> f64) -> f64 {
    let mut values: Vec<f64> = shares.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

#[test]
#[ignore = "measures: minutes; see CONTRIBUTING.md"]
fn a_page_that_follows_costs_the_nodes_little() {
    let Some(tools) = Tools::find() else { return };
    let uids = 4_295_000_000;
    let cluster = Cluster::start_with_uids(uids);
    let _load = load(&cluster, uids);
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    let mut script = tools.script("follow", &cluster.place, &console, &json!({ "path": "/map" }));
    let (mut without, mut with, mut browser) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        script.wait("closed");
        without.push(measure(&cluster, &console));
        script.go_on(&json!({}));
        script.wait("open");
        with.push(measure(&cluster, &console));
        script.go_on(&json!({ "goesOn": round < ROUNDS }));
        browser.push(script.wait("measured")["share"].as_f64().unwrap());
        script.go_on(&json!({}));
    }
    script.end();
    let [nodes, consoles] = [|one: &Shares| one.nodes, |one: &Shares| one.console];
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    println!("share of a core  without the page  with it  (medians of {ROUNDS} rounds of {WINDOW:?})");
    for (name, of) in [("six nodes", nodes), ("console", consoles)] {
        println!("{name:<16} {:>16} {:>8}", percent(median(&without, of)), percent(median(&with, of)));
    }
    browser.sort_by(f64::total_cmp);
    println!("{:<16} {:>16} {:>8}", "page in browser", "-", percent(browser[ROUNDS / 2]));
    let more = median(&with, nodes) - median(&without, nodes);
    assert!(more < 0.1, "the page costs the nodes {} of a core", percent(more));
}
