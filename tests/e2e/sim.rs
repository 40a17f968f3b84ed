//! The simulator from the command line.

use crate::cluster::{seqsvr, seqsvr_json};

#[test]
fn seeds_are_run_and_run_again_the_same() {
    let summary = seqsvr_json(&["sim", "run", "--seeds", "6", "--from", "40"]);
    assert_eq!((&summary["seeds"], &summary["violation"]), (&6.into(), &serde_json::Value::Null), "{summary:#}");
    assert!(summary["simulated_hours"].as_f64().unwrap() > 0.0);
    let once = seqsvr_json(&["sim", "replay", "--seed", "41"]);
    assert_eq!(seqsvr_json(&["sim", "replay", "--seed", "41"]), once);
    assert!(!once["trace"].as_array().unwrap().is_empty());
}

#[test]
fn a_planted_bug_is_caught_and_its_seed_shows_it_again() {
    let hunted = &seqsvr_json(&["sim", "bugs", "--bug", "no-freeze"])["items"];
    assert_eq!((&hunted[0]["bug"], &hunted[0]["missed"]), (&"no-freeze".into(), &0.into()), "{hunted:#}");
    let unknown = seqsvr(&["sim", "replay", "--seed", "1", "--bug", "no-such"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("expiry-from-answer"));
}
