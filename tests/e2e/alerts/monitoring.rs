//! Prometheus and Alertmanager, as Debian packages them, with the shipped configurations except for addresses and
//! intervals.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Setup, rules};
use crate::cluster::{Place, Server};

/// Intervals of scrapes and evaluations.
const INTERVAL: &str = "1s";

/// Metrics ports of the set's processes.
const TARGETS: [u16; 5] = [7311, 7312, 7313, 7480, 7481];

/// Port of the receiver of notifications.
pub(super) const WEBHOOK: u16 = 9099;

/// Starts a Prometheus at port 9090 of the place, and an Alertmanager at port 9093 if the scene has one.
pub(super) fn start(place: &Place, scheme: &str, setup: &Setup<'_>) -> Vec<Server> {
    let host = place.host;
    let mut started = Vec::new();
    if setup.notifies {
        let config = read("alertmanager.yaml").replace("127.0.0.1:9099", &format!("{host}:{WEBHOOK}"));
        fs::write(place.path("alertmanager.yaml"), config).unwrap();
        let args = [
            format!("--config.file={}", place.path("alertmanager.yaml").display()),
            format!("--storage.path={}", place.path("alertmanager").display()),
            format!("--web.listen-address={host}:9093"),
            // There is no second Alertmanager.
            "--cluster.listen-address=".to_owned(),
        ];
        started.push(place.server_of(
            "prometheus-alertmanager".as_ref(),
            "alertmanager",
            &args.each_ref().map(|arg| &**arg),
        ));
    }
    let mut rules = rules::dir();
    if !setup.waits.is_empty() {
        rules = place.path("rules");
        rules::shorten(&rules, setup.waits);
    }
    fs::write(place.path("prometheus.yaml"), config(place, scheme, &rules, setup.notifies).to_string()).unwrap();
    let args = [
        format!("--config.file={}", place.path("prometheus.yaml").display()),
        format!("--storage.tsdb.path={}", place.path("prometheus").display()),
        format!("--web.listen-address={host}:9090"),
    ];
    started.push(place.server_of("prometheus".as_ref(), "prometheus", &args.each_ref().map(|arg| &**arg)));
    started
}

/// Returns a file of deploy/prometheus.
pub(super) fn read(name: &str) -> String {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    fs::read_to_string(dir.join(name)).unwrap()
}

fn config(place: &Place, scheme: &str, rules: &Path, notifies: bool) -> Value {
    let mut config: Value = serde_norway::from_str(&read("prometheus.yaml")).unwrap();
    config["global"] = json!({ "scrape_interval": INTERVAL, "evaluation_interval": INTERVAL });
    config["rule_files"] = json!([rules.join("*.yaml")]);
    config["alerting"] = json!({ "alertmanagers": [] });
    if notifies {
        let targets = [format!("{}:9093", place.host)];
        config["alerting"] = json!({ "alertmanagers": [{ "static_configs": [{ "targets": targets }] }] });
    }
    let scrape = &mut config["scrape_configs"][0];
    scrape["scheme"] = scheme.into();
    match scheme {
        "https" => scrape["tls_config"]["ca_file"] = place.path("certs/ca.crt").display().to_string().into(),
        _ => drop(scrape.as_object_mut().unwrap().remove("tls_config")),
    }
    assert_eq!(scrape["static_configs"][0]["targets"].as_array().map(Vec::len), Some(TARGETS.len()));
    scrape["static_configs"][0]["targets"] = json!(TARGETS.map(|port| format!("{}:{port}", place.host)));
    config
}
