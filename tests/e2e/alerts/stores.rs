//! Alerts about leaders, majorities, voters and leases.

use seq_testkit::eventually;

use super::{FILES, Scene, Setup};
use crate::cluster::{Server, seqsvr, seqsvr_json};
use crate::differing;

pub(super) const ALERTS: &[&str] = &[
    "SeqsvrLeaderChanges",
    "SeqsvrVoterSilent",
    "SeqsvrDown",
    "SeqsvrNoLeader",
    "SeqsvrNoQuorum",
    "SeqsvrNoLease",
    "SeqsvrLeasesExpire",
];

pub(super) const ALERTS_OF_STATES: &[&str] = &["SeqsvrStateDiffers"];

pub(super) const ALERTS_OF_LINEAGES: &[&str] = &["SeqsvrLineageBegun"];

pub(super) const ALERTS_OF_MIGRATIONS: &[&str] = &["SeqsvrMigrationStuck"];

/// A second set of one store and one allocator, in addition to the three nodes.
const SECOND: &str = r#"
plaintext = true
name = "im-b"
cluster = "three-node"
genesis = "create"
uids = "0..10_000_000"
section_size = 100_000
step = 10_000

[[store]]
id = 1
name = "s1"
addr = "HOST:7321"
raft = "HOST:7327"
admin = "HOST:7324"
http = "HOST:7331"

[[alloc]]
name = "a1"
addr = "HOST:7420"
peer = "HOST:7424"
redis = "HOST:7432"
http = "HOST:7430"
"#;

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_stores_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS, ..Setup::default() });
    let _load = scene.load("load", &["--rate", "200", "--uids", "10000000"]);
    scene.stage(
        "the leadership is transferred every second",
        &["SeqsvrLeaderChanges"],
        |scene| {
            for to in (1..=3).cycle().take(9) {
                let set = scene.set.clone();
                let lead = seqsvr(&["store", "lead", "--to", &to.to_string(), "--set", &set]);
                assert!(lead.status.success(), "{}", String::from_utf8_lossy(&lead.stderr));
                scene.poll();
            }
        },
        |_| {},
    );
    scene.stage(
        "store 3 is killed",
        &["SeqsvrVoterSilent", "SeqsvrDown"],
        |scene| {
            scene.stores[2] = None;
        },
        |scene| scene.start_store(3),
    );
    for _ in 0..2 {
        // The outages are short, and the alert fires when a lease expires for the third time within ten minutes.
        (scene.stores[1], scene.stores[2]) = (None, None);
        eventually("no store leads", || scene.poll().contains("SeqsvrNoLeader").then_some(()));
        (2..=3).for_each(|store| scene.start_store(store));
        let over = ["SeqsvrNoLeader", "SeqsvrNoQuorum", "SeqsvrNoLease"];
        eventually("a store leads", || {
            let firing = scene.poll();
            over.iter().all(|alert| !firing.contains(*alert)).then_some(())
        });
    }
    let alerts = ["SeqsvrNoLeader", "SeqsvrNoQuorum", "SeqsvrNoLease", "SeqsvrLeasesExpire"];
    scene.stage(
        "stores 2 and 3 are killed, for the third time",
        &alerts,
        |scene| {
            (scene.stores[1], scene.stores[2]) = (None, None);
        },
        |scene| (2..=3).for_each(|store| scene.start_store(store)),
    );
    scene.print();
}

#[test]
#[ignore = "a minute, with Prometheus; `just alerts`"]
fn alerts_of_states_fire_and_resolve() {
    let setup = Setup { alerts: ALERTS_OF_STATES, store_settings: differing::OFTEN, ..Setup::default() };
    let mut scene = Scene::start(&setup);
    let (backup, set) = (scene.place.path("set.backup").display().to_string(), scene.set.clone());
    seqsvr_json(&["backup", "create", "--set", &set, "--out", &backup]);
    scene.stage(
        "store 3 begins with another ceiling than the others",
        ALERTS_OF_STATES,
        |scene| {
            scene.allocs.iter_mut().chain(&mut scene.stores).flatten().for_each(Server::kill);
            for store in 1..=3 {
                std::fs::remove_dir_all(scene.data(store)).unwrap();
            }
            differing::form(&scene.place, &backup);
            (1..=3).for_each(|store| scene.start_store(store));
            (0..2).for_each(|alloc| scene.start_alloc(alloc, FILES));
        },
        |_| {},
    );
    scene.stays("SeqsvrStateDiffers", "until store 3 is replaced");
    scene.print();
}

#[test]
#[ignore = "a minute, with Prometheus; `just alerts`"]
fn alerts_of_lineages_fire() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_LINEAGES, ..Setup::default() });
    let path = |scene: &Scene, name: &str| scene.place.path(name).display().to_string();
    let (set, second) = (scene.set.clone(), second_file(&scene));
    let mut other = second_store(&scene, "im-b", &["--form"]);
    let _alloc = scene.place.server("im-b-a1", &["alloc", "--set", &second, "--name", "a1", "--cores", "1"]);
    create_second(&scene);
    // Each backup has its own directory, so that the notes of one restore are not found with the other backup.
    let backups = [(&set, "first"), (&second, "second")].map(|(set, dir)| {
        std::fs::create_dir(scene.place.path(dir)).unwrap();
        let out = path(&scene, &format!("{dir}/set.backup"));
        seqsvr_json(&["backup", "create", "--set", set, "--out", &out]);
        out
    });
    let restore = |set: &str, from: &str, id: &str, data: &str, more: &[&str]| {
        let args = ["restore", "--from", from, "--set", set, "--id", id, "--data", data, "--yes"];
        seqsvr_json(&[&args[..], more].concat());
    };
    other.kill();
    restore(&second, &backups[1], "1", &path(&scene, "im-b-again"), &["--count", "5"]);
    let _other = second_store(&scene, "im-b-again", &[]);
    eventually("the second set is out of quarantine", || {
        seqsvr(&["status", "--set", &second]).status.success().then_some(())
    });
    scene.stage(
        "a set is restored `--offline` with `--count 1`, and another one counts 5",
        ALERTS_OF_LINEAGES,
        |scene| {
            scene.allocs.iter_mut().chain(&mut scene.stores).flatten().for_each(Server::kill);
            for id in 1..=3 {
                let data = scene.data(id);
                std::fs::remove_dir_all(&data).unwrap();
                let data = data.display().to_string();
                restore(&set, &backups[0], &id.to_string(), &data, &["--count", "1", "--offline"]);
                scene.start_store(id);
            }
            (0..2).for_each(|alloc| scene.start_alloc(alloc, FILES));
        },
        |_| {},
    );
    scene.stays("SeqsvrLineageBegun", "until a day later, or the next restore");
    scene.print();
}

/// Writes the file of the second set; returns its path.
fn second_file(scene: &Scene) -> String {
    let path = scene.place.path("second.toml");
    std::fs::write(&path, SECOND.replace("HOST", &scene.place.host.to_string())).unwrap();
    path.display().to_string()
}

/// Starts the store of the second set in a directory of this name.
fn second_store(scene: &Scene, dir: &str, more: &[&str]) -> Server {
    let [file, data] = ["second.toml", dir].map(|name| scene.place.path(name).display().to_string());
    let args = ["store", "--set", &file, "--id", "1", "--data", &data];
    scene.place.server(dir, &[&args[..], more].concat())
}

/// Waits until the second set has joined the cluster of the first one.
fn create_second(scene: &Scene) {
    let (file, join) = (scene.place.path("second.toml").display().to_string(), scene.addr(7301));
    eventually("the second set is created", || {
        seqsvr(&["set", "create", "--set", &file, "--join", &join, "--yes"]).status.success().then_some(())
    });
}

#[test]
#[ignore = "two minutes, with Prometheus; `just alerts`"]
fn alerts_of_migrations_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_MIGRATIONS, ..Setup::default() });
    let second = second_file(&scene);
    let other = std::cell::Cell::new(Some(second_store(&scene, "im-b", &["--form"])));
    let _alloc = scene.place.server("im-b-a1", &["alloc", "--set", &second, "--name", "a1", "--cores", "1"]);
    create_second(&scene);
    let first = scene.addr(7301);
    eventually("a slow migration begins", || {
        let split = ["set", "split", "im-a", "--at", "5000000", "--into", "im-b", "--rate", "1", "--yes"];
        seqsvr(&[&split[..], &["--addr", &first]].concat()).status.success().then_some(())
    });
    scene.stage(
        "the store of the other set is killed during a migration",
        ALERTS_OF_MIGRATIONS,
        |_| drop(other.take()),
        |scene| other.set(Some(second_store(scene, "im-b", &[]))),
    );
    scene.print();
}
