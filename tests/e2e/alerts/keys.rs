//! Alerts about the room for keys of keyspaces, and about evictions of their counters.

use super::{Scene, Setup};

pub(super) const ALERTS: &[&str] = &["SeqsvrKeysNearBound", "SeqsvrKeyEvictionFast"];

/// Few keys, which the callers of a minute exceed many times. Idle counters are evicted within two minutes, so new keys
/// get the room of evicted counters all the time.
const SETTINGS: &str = "[alloc]\nmax_keys = 4_000\nkey_idle_ms = 60_000\n";

#[test]
#[ignore = "twenty minutes, with Prometheus; `just alerts`"]
fn alerts_of_keys_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS, settings: SETTINGS, ..Setup::default() });
    let addr = scene.addr(7401);
    let made = scene.place.seqsvr(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    assert!(made.status.success(), "{made:?}");
    // One number of each key, from keys that no call has used before.
    let url = format!("{}/api/key/next/main", scene.addr(7400));
    let calls = format!("n=0; while :; do n=$((n + 1)); curl -so /dev/null -X POST \"{url}/conv:$n:[1-10000]\"; done");
    scene.expect(
        "every call is for a new key, at nodes that may have 4,000 keys and evict those not used for a minute",
        ALERTS,
    );
    let callers = scene.place.server_of("sh".as_ref(), "callers", &["-c", &calls]);
    scene.fired(ALERTS);
    drop(callers);
    scene.ended(ALERTS);
    scene.print();
}
