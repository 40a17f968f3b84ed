//! Who may read the console, and what it shows of a cluster that is not there, or cannot decide.

use seq_testkit::eventually;
use serde_json::json;

use super::{Console, Tools, now_ms};
use crate::cluster::{Place, seqsvr};
use crate::tls;

#[test]
fn the_console_is_only_for_browsers_that_have_logged_in_and_a_viewer_sees_no_settings() {
    let Some(tools) = Tools::find() else { return };
    let cluster = tls::Cluster::start();
    let issued = cluster.place.seqsvr(&["cert", "issue", "viewer/console"]);
    assert!(issued.status.success(), "{}", tls::text(&issued.stderr));
    for identity in ["operator/admin", "viewer/console"] {
        let console = Console::start(&cluster.place, &["--set", &cluster.set, "--identity", identity]);
        tools.script("access", &cluster.place, &console, &json!({ "identity": identity })).end();
    }
}

#[test]
fn a_page_of_another_console_loads_itself_again_and_cancels_no_click() {
    let Some(tools) = Tools::find() else { return };
    let place = Place::new();
    let dev = |name: &str, args: &[&str]| {
        let mut dev = place.server(name, &[&["dev", "--ports", "random", "-o", "json"], args].concat());
        let ready = dev.ready();
        let addr = ready["allocs"][0]["grpc"].as_str().unwrap_or_else(|| panic!("{ready:#}")).to_owned();
        (addr, dev)
    };
    let (one, _one) = dev("one", &[]);
    let mut console = Console::start(&place, &["--addr", &one]);
    let mut script = tools.script("reload", &place, &console, &json!({}));
    script.wait("one cluster");
    let (two, _two) = dev("two", &["--sets", "2"]);
    console.restart(&place, &["--addr", &two]);
    script.go_on(&json!({}));
    script.end();
}

#[test]
fn a_console_before_any_node_and_a_store_without_a_majority_say_so() {
    let Some(tools) = Tools::find() else { return };
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let console = Console::start(&place, &["--set", &set]);
    let mut script = tools.script("states", &place, &console, &json!({}));
    script.wait("no node");
    let store = |id: u64| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
    };
    let mut stores: Vec<_> = (1..=3).map(store).collect();
    let alloc = |name| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
    let _allocs = ["a1", "a2"].map(alloc);
    eventually("all sections are served", || seqsvr(&["health", "--set", &set]).status.success().then_some(()));
    script.go_on(&json!({}));
    script.wait("all nodes");
    stores.truncate(1);
    script.go_on(&json!({ "killed": now_ms() }));
    script.wait("one store");
    stores.clear();
    script.go_on(&json!({}));
    script.end();
}
