//! Pages as they are, in a cluster without faults: looks, weights, the keyboard, and addresses that nobody should open.

use serde_json::json;

use super::scale::LargeCluster;
use super::{Console, Tools};
use crate::cluster::{Place, Server, seqsvr_json};
use crate::plans::Cluster;

/// Starts a load of 1,000 numbers a second for 2,000 uids of all sections.
pub(super) fn load(cluster: &Cluster, uids: u64) -> Server {
    let addr = format!("http://{}:7400", cluster.place.host);
    let (uids, stride) = ("2000", (uids / 2_000).to_string());
    let load = ["--endpoint", "many", "--batch", "10", "--uids", uids, "--uid-stride", &stride, "--rate", "100"];
    cluster.place.server("bench", &[&["bench", "--addr", &addr, "--duration", "600s"], &load[..]].concat())
}

#[test]
fn every_page_is_served_without_complaint_and_can_be_read_by_everybody() {
    let Some(tools) = Tools::find() else { return };
    let cluster = Cluster::start();
    let _load = load(&cluster, 10_000_000);
    seqsvr_json(&["next", "7", "--set", &cluster.set]);
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    tools.script("pages", &cluster.place, &console, &json!({})).end();
}

#[test]
fn pages_are_light_and_drawn_at_once_also_with_42_950_sections() {
    let Some(tools) = Tools::find() else { return };
    let cluster = Cluster::start_with_uids(4_295_000_000);
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    let limits = json!({ "/": 25_000, "/map": 75_000 });
    tools.script("weight", &cluster.place, &console, &json!({ "limits": limits })).end();
}

#[test]
#[ignore = "measures: minutes; see CONTRIBUTING.md"]
fn pages_are_light_and_drawn_at_once_also_with_ten_sets_of_a_hundred_allocators() {
    let Some(tools) = Tools::find() else { return };
    let (place, cluster) = (Place::new(), LargeCluster::start());
    let console = Console::start(&place, &["--addr", &cluster.addr]);
    // The page of the map lists its thousand owners, and pages are not compressed.
    let limits = json!({ "/": 40_000, "/map": 90_000, "/nodes": 400_000, "/sections": 400_000 });
    tools.script("weight", &place, &console, &json!({ "limits": limits })).end();
}

#[test]
fn the_keyboard_alone_leads_to_a_section_and_updates_leave_focus_and_selection() {
    let Some(tools) = Tools::find() else { return };
    // With more sections than rows, so that the map can be zoomed.
    let cluster = Cluster::start_with_uids(100_000_000);
    let _load = load(&cluster, 100_000_000);
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    tools.script("keyboard", &cluster.place, &console, &json!({})).end();
}

#[test]
fn an_address_with_markup_is_text_or_not_found() {
    let Some(tools) = Tools::find() else { return };
    let place = Place::new();
    // The console of a development cluster is in its process.
    let mut dev = place.server("dev", &["dev", "--ports", "random", "-o", "json"]);
    let ready = dev.ready();
    let url = ready["console"].as_str().unwrap().to_owned();
    let console = Console { server: dev, origin: url.trim_end_matches('/').to_owned(), url };
    tools.script("hostile", &place, &console, &json!({})).end();
}
