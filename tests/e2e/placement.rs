//! Sections that an operator moves, and a pause of balancing, in a cluster of processes.

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::seqsvr_json;
use crate::plans::Cluster;

impl Cluster {
    /// Returns the owner of a section, and the allocator that an operator moved it to.
    fn owner(&self, section: &str) -> (String, String) {
        let view = seqsvr_json(&["section", "show", section, "--set", &self.set]);
        let text = |key: &str| view[key].as_str().unwrap_or_default().to_owned();
        (text("owner"), text("moved_to"))
    }

    fn json(&self, args: &[&str]) -> Value {
        seqsvr_json(&[args, &["--set", &self.set]].concat())
    }
}

#[test]
fn a_section_moves_alone_stays_and_is_taken_over_when_its_node_dies() {
    let mut cluster = Cluster::start();
    let (before, _) = cluster.owner("3");
    let to = ["a1", "a2", "a3"].into_iter().find(|name| *name != before).unwrap();
    let (code, text) = cluster.run(&["section", "move", "3", "--to", "a9", "--yes"]);
    assert!(code == Some(1) && text.contains("UNKNOWN_NODE"), "{text}");

    let (code, shown) = cluster.run(&["section", "move", "3", "--to", to, "--dry-run"]);
    assert!(code == Some(0) && shown.contains("plan: "), "{shown}");
    let (code, text) = cluster.run(&["section", "move", "3", "--to", to]);
    assert!(code == Some(2) && text.contains("pass --yes"), "{text}");
    assert_eq!(cluster.owner("3"), (before.clone(), String::new()), "nothing was changed");
    let made = cluster.json(&["section", "move", "3", "--to", to, "--yes", "--wait"]);
    assert!(made["changed"] == true && made["to_move"] == 0, "{made:#}");
    assert_eq!(made["sections"][0]["owner"], before.as_str());
    assert_eq!(cluster.owner("3"), (to.to_owned(), to.to_owned()));
    let (_, status) = cluster.run(&["status"]);
    assert!(status.contains("1 section is where an operator moved it"), "{status}");
    let (_, audit) = cluster.run(&["audit", "list"]);
    assert!(audit.contains(&format!("section move --to {to} 3")), "{audit}");

    cluster.servers.get_mut(to).unwrap().kill();
    eventually("another allocator takes the section over", || (cluster.owner("3").0 != to).then_some(()));
    assert_eq!(cluster.owner("3").1, to, "the move is kept");
    cluster.start_alloc(to);
    eventually("the section returns", || (cluster.owner("3").0 == to).then_some(()));
    assert_eq!(cluster.json(&["section", "move", "3", "--balanced", "--yes"])["changed"], true);
    assert_eq!(cluster.owner("3").1, "");
}

#[test]
fn a_pause_of_balancing_is_in_status_until_it_is_resumed() {
    let cluster = Cluster::start();
    let (code, text) = cluster.run(&["section", "balance"]);
    assert!(code == Some(0) && text.starts_with("balancing of set im-a is not paused"), "{text}");
    let plan = cluster.json(&["section", "balance", "--pause", "--dry-run"])["plan"].as_str().unwrap().to_owned();
    let made = cluster.json(&["section", "balance", "--pause", "--plan", &plan]);
    assert!(made["changed"] == true && made["paused"] == true, "{made:#}");
    // The pause survives a change of the leader.
    let leader = cluster.json(&["store", "members"])["leader"].as_u64().unwrap();
    let (code, text) = cluster.run(&["store", "lead", "--to", &(leader % 3 + 1).to_string()]);
    assert_eq!(code, Some(0), "{text}");
    let remark = "balancing is paused by unauthenticated since 20";
    eventually("the new leader knows of it", || cluster.run(&["status"]).1.contains(remark).then_some(()));
    let status = cluster.json(&["status"]);
    assert_eq!(status["sets"][0]["balancing_paused"]["by"], "unauthenticated", "{status:#}");
    let (code, text) = cluster.run(&["section", "balance", "--plan", &plan, "--resume"]);
    assert!(code == Some(5) && text.contains("STALE_PLAN"), "{text}");
    let (code, text) = cluster.run(&["section", "balance", "--resume"]);
    assert!(code == Some(0) && text.contains("is resumed"), "{text}");
    assert!(!cluster.run(&["status"]).1.contains("balancing"));
}

#[test]
fn handovers_to_a_node_that_stands_still_are_one_line_of_the_log() {
    let cluster = Cluster::start();
    let list = cluster.json(&["section", "list", "--owner", "a1"]);
    let sections: Vec<String> =
        list["items"].as_array().unwrap().iter().take(12).map(|one| one["first_section"].to_string()).collect();
    assert_eq!(sections.len(), 12);
    cluster.servers["a2"].freeze();
    let mut args = vec!["section", "move", "--to", "a2", "--yes"];
    args.extend(sections.iter().map(String::as_str));
    let (code, text) = cluster.run(&args);
    assert_eq!(code, Some(0), "{text}");
    let failed = || cluster.servers["a1"].log().matches("a step of a handover failed").count();
    eventually("a handover fails", || (failed() > 0).then_some(()));
    eventually("the node is given up", || {
        let list = cluster.json(&["node", "list"]);
        let nodes = list["nodes"].as_array().unwrap().clone();
        nodes.iter().any(|node| node["name"] == "a2" && node["sections"] == 0).then_some(())
    });
    assert_eq!(failed(), 1, "{}", cluster.servers["a1"].log());
    cluster.servers["a2"].thaw();
}
