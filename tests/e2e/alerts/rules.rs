//! The shipped alert rules, copies of them with shorter waits, and the check that each rule has a scene.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{allocators, ceilings, disks, ids, keys, ownership, security, stores, upgrades, writes};

/// The alerts of all scenes.
const SCENES: [&[&str]; 22] = [
    allocators::ALERTS,
    allocators::ALERTS_OF_FILES,
    allocators::ALERTS_OF_OVERLOAD,
    ceilings::ALERTS_OF_HEADROOM,
    ceilings::ALERTS_OF_RATES,
    ceilings::ALERTS_OF_SNAPSHOTS,
    disks::ALERTS,
    ids::ALERTS,
    keys::ALERTS,
    ownership::ALERTS_OF_COPIES,
    ownership::ALERTS_OF_ORDER,
    ownership::ALERTS_OF_ROUTES,
    ownership::ALERTS_OF_TAKEOVERS,
    security::ALERTS,
    security::ALERTS_OF_HANDSHAKES,
    stores::ALERTS,
    stores::ALERTS_OF_STATES,
    stores::ALERTS_OF_LINEAGES,
    stores::ALERTS_OF_MIGRATIONS,
    upgrades::ALERTS,
    writes::ALERTS,
    writes::ALERTS_OF_STEPS,
];

/// An alert rule.
pub(super) struct Rule {
    pub(super) alert: String,
    /// The rule's `for`; empty without one.
    pub(super) wait: String,
    /// Path and heading of its page, in the repository.
    pub(super) runbook: String,
}

impl Rule {
    /// Returns a link to the rule's page, relative to docs/runbook/README.md.
    pub(super) fn page(&self) -> String {
        let (path, heading) = self.runbook.split_once('#').unwrap();
        let name = Path::new(path).file_stem().unwrap().to_str().unwrap();
        let link = path.strip_prefix("docs/runbook/").map_or_else(|| path.replace("docs/", "../"), str::to_owned);
        format!("[{name}]({link}#{heading})")
    }
}

/// Returns the directory of the rules.
pub(super) fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/rules")
}

/// Returns the files of the rules, sorted by name.
fn files() -> Vec<(String, Value)> {
    let files = fs::read_dir(dir()).unwrap().map(|file| file.unwrap());
    let read = |file: fs::DirEntry| {
        let rules = serde_norway::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap();
        (file.file_name().into_string().unwrap(), rules)
    };
    files.map(read).collect()
}

/// Returns the rules of a file.
fn rules(file: &mut Value) -> impl Iterator<Item = &mut Value> {
    let groups = file["groups"].as_array_mut().unwrap().iter_mut();
    groups.flat_map(|group| group["rules"].as_array_mut().unwrap())
}

/// Returns the rules of all files.
pub(super) fn all() -> Vec<Rule> {
    let (mut all, mut files) = (Vec::new(), files());
    for rule in files.iter_mut().flat_map(|(_, file)| rules(file)) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if rule["alert"].is_string() {
            let runbook = text(&rule["annotations"]["runbook"]);
            all.push(Rule { alert: text(&rule["alert"]), wait: text(&rule["for"]), runbook });
        }
    }
    all
}

/// Writes copies of the rules to a directory, with these waits of these alerts.
pub(super) fn shorten(to: &Path, waits: &[(&str, &str)]) {
    fs::create_dir(to).unwrap();
    let mut left = waits.to_vec();
    for (name, mut file) in files() {
        for rule in rules(&mut file) {
            if let Some(at) = left.iter().position(|(alert, _)| rule["alert"] == *alert) {
                rule["for"] = left.remove(at).1.into();
            }
        }
        // JSON is valid YAML.
        fs::write(to.join(name), file.to_string()).unwrap();
    }
    assert!(left.is_empty(), "no such alerts: {left:?}");
}

#[test]
fn every_alert_is_staged_in_one_scene() {
    let mut staged = SCENES.concat();
    staged.sort_unstable();
    let rules = all();
    let mut alerts: Vec<&str> = rules.iter().map(|rule| &*rule.alert).collect();
    alerts.sort_unstable();
    assert_eq!(staged, alerts, "scenes on the left, rules on the right");
}

#[test]
fn a_copy_of_the_rules_has_shorter_waits_for_some_alerts() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("rules");
    shorten(&to, &[("SeqsvrMixedVersions", "3s")]);
    let text = fs::read_to_string(to.join("process.yaml")).unwrap();
    let mut copy: Value = serde_norway::from_str(&text).unwrap();
    let wait = |alert: &str, file: &mut Value| rules(file).find(|rule| rule["alert"] == alert).unwrap()["for"].clone();
    assert_eq!((wait("SeqsvrMixedVersions", &mut copy), wait("SeqsvrDown", &mut copy)), ("3s".into(), "30s".into()));
}
