//! Restores under load: of both sets, twice each; in the middle of a migration; and after the other set was closed.
//!
//! The directories are removed, and a restore of a set uses the same file for all its stores. The callers continue
//! throughout, and one history spans all lineages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seq_proto::v1::{self, MigrationPhase, SetState};

use seq_testkit::eventually;

use super::{Admin, RATE, SPLIT, TWO_SETS, Way, admin, complete, is_in, sections_of, start, start_all, stores, wait};
use crate::cluster::{Cluster, OTHER_SET, seqsvr};
use crate::machine::pause;
use crate::node::Node;
use crate::scene::Scene;

/// Time of load after a backup, so that it lacks raises of ceilings.
const AGE: Duration = Duration::from_secs(2);

/// Time that a set restored after the closing of the other set must wait: longer than its leases.
const AWAITED: Duration = Duration::from_secs(5);

/// Both sets: the source of the migration, and the target.
const BOTH: [Way; 2] = [Way::Out, Way::Back];

/// Each set is lost and restored while the other set serves; then both at the same time, from the same two backups.
pub(in crate::rows) fn twice() {
    let mut scene = Scene::start(TWO_SETS);
    split(&scene);
    let backups = BOTH.map(|way| backup(&scene.cluster, way, "first"));
    for (at, way) in BOTH.into_iter().enumerate() {
        pause(AGE);
        let began = Instant::now();
        let cluster = &mut scene.cluster;
        lose_disks(cluster, way);
        // An old process continues with its lease; the other process is new.
        allocs_of(cluster, way)[1].kill();
        // The other set's store knows the next count.
        assert_eq!(restore(cluster, way, &backups[at], None), at as u64 + 1);
        start_nodes(cluster, way);
        served(&scene, &BOTH, &format!("restore {} of {way:?}", at + 1), began);
    }
    pause(AGE);
    let began = Instant::now();
    let cluster = &mut scene.cluster;
    for way in BOTH {
        allocs_of(cluster, way).iter_mut().for_each(Node::kill);
        lose_disks(cluster, way);
    }
    // No process responds, so the count comes from an operator, by the notes. The sets are in the other order.
    let unknown = try_restore(cluster, Way::Back, &backups[1], None).unwrap_err();
    assert!(unknown.contains("pass --count 3"), "{unknown}");
    for (count, way) in [(3, Way::Back), (4, Way::Out)] {
        restore(cluster, way, &backups[usize::from(way == Way::Back)], Some(count));
    }
    BOTH.into_iter().for_each(|way| start_nodes(cluster, way));
    served(&scene, &BOTH, "restore 3 and 4, of both sets", began);
    assert_eq!(sections_of(&scene.cluster, &scene.cluster.other.stores), SPLIT.len());
    scene.end("two sets restored twice each");
}

/// Age of a backup relative to the migration during which its set is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Before,
    Amid,
}

/// The source of a running migration, and then its target, are restored from backups before the migration and in its
/// middle.
pub(in crate::rows) fn in_migration() {
    let mut scene = Scene::start(TWO_SETS);
    let cases = [Made::Before, Made::Amid].into_iter().flat_map(|made| BOTH.map(|way| (way, made)));
    for (number, (restored, made)) in cases.enumerate() {
        let cluster = &mut scene.cluster;
        let (began, file) = (Instant::now(), format!("migration-{number}"));
        let before = (made == Made::Before).then(|| backup(cluster, restored, &file));
        let id = start(cluster, Way::Out, SPLIT, RATE);
        wait(cluster, Way::Out, id, "three sections departed", |status| status.departed >= 3);
        let from = before.unwrap_or_else(|| backup(cluster, restored, &file));
        wait(cluster, Way::Out, id, "more departed", |status| status.departed >= 6);
        lose_disks(cluster, restored);
        if number % 2 == 0 {
            allocs_of(cluster, restored)[0].kill();
        }
        restore(cluster, restored, &from, None);
        start_nodes(cluster, restored);
        let cluster = &scene.cluster;
        // A restored source rolls the known migrations back, and forgets later migrations. A restored target continues.
        let ending = match (restored, made) {
            (Way::Out, Made::Before) => None,
            (Way::Out, Made::Amid) => Some(MigrationPhase::RolledBack),
            (Way::Back, _) => Some(MigrationPhase::Arrived),
        };
        if let Some(phase) = ending {
            wait(cluster, Way::Out, id, "the migration ends", is_in(phase));
            if phase == MigrationPhase::Arrived {
                complete(cluster, Way::Out, id);
            }
        }
        served(&scene, &BOTH, &format!("{restored:?} restored, backup {made:?}: {ending:?}"), began);
        let cluster = &scene.cluster;
        let of = |way: Way| sections_of(cluster, stores(cluster, way));
        eventually("each section is in one set", || {
            (of(Way::Out) + of(Way::Back) == TWO_SETS.sections as usize).then_some(())
        });
        let arrived = match ending {
            None => of(Way::Back),
            Some(MigrationPhase::Arrived) => SPLIT.len(),
            Some(_) => 0,
        };
        assert_eq!(of(Way::Back), arrived);
        if arrived > 0 {
            home(&scene);
        }
    }
    scene.end("restores of sets in a migration");
}

/// The other set is merged back, closed and stopped; then the first set is restored, from backups before and after
/// these steps.
pub(in crate::rows) fn closed() {
    let mut scene = Scene::start(TWO_SETS);
    split(&scene);
    let before = backup(&scene.cluster, Way::Out, "before");
    pause(AGE);
    home(&scene);
    close(&scene.cluster);
    wait_closed(&scene.cluster);
    let after = backup(&scene.cluster, Way::Out, "after");
    // All processes of the closed set end.
    let cluster = &mut scene.cluster;
    cluster.other.allocs.iter_mut().chain(&mut cluster.other.stores).for_each(Node::kill);
    scene.load.wait_served();

    let began = Instant::now();
    let cluster = &mut scene.cluster;
    lose_disks(cluster, Way::Out);
    restore(cluster, Way::Out, &before, Some(1));
    start_nodes(cluster, Way::Out);
    // In the backup, the closed set has sections, so only the closed set knows where they are.
    eventually("the closed set is awaited", || {
        status(cluster, Way::Out).is_err_and(|text| text.contains("has not responded")).then_some(())
    });
    scene.load.reset();
    pause(AWAITED);
    let waiting = scene.load.report();
    assert!(waiting.unserved.iter().all(|unserved| *unserved >= AWAITED / 2), "{:?}", waiting.unserved);
    scene.cluster.other.stores.iter_mut().for_each(Node::start);
    served(&scene, &[Way::Out], "restore from before the closing", began);
    assert_eq!(sections_of(&scene.cluster, &scene.cluster.stores), TWO_SETS.sections as usize);

    // The backup after the closing belongs to an abandoned history. A new backup has the closing, too.
    wait_closed(&scene.cluster);
    let cluster = &mut scene.cluster;
    let again = backup(cluster, Way::Out, "again");
    pause(AGE);
    cluster.other.stores.iter_mut().for_each(Node::kill);
    let began = Instant::now();
    lose_disks(cluster, Way::Out);
    let given_up = try_restore(cluster, Way::Out, &after, Some(2)).unwrap_err();
    assert!(given_up.contains("of a history that was given up"), "{given_up}");
    restore(cluster, Way::Out, &again, Some(2));
    start_nodes(cluster, Way::Out);
    served(&scene, &[Way::Out], "restore from after the closing, without the closed set", began);
    scene.end("a set restored after another one was closed");
}

/// Splits sections off, and completes the migration.
fn split(scene: &Scene) {
    let cluster = &scene.cluster;
    let id = start(cluster, Way::Out, SPLIT, 200);
    wait(cluster, Way::Out, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
    complete(cluster, Way::Out, id);
    scene.load.wait_served();
}

/// Brings all sections back to the first set.
fn home(scene: &Scene) {
    let cluster = &scene.cluster;
    let id = start_all(cluster, Way::Back);
    wait(cluster, Way::Back, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
    complete(cluster, Way::Back, id);
    assert_eq!(sections_of(cluster, &cluster.stores), TWO_SETS.sections as usize);
    scene.load.wait_served();
}

/// Closes the other set.
fn close(cluster: &Cluster) {
    let request = v1::CloseSetRequest { name: OTHER_SET.to_owned(), ..v1::CloseSetRequest::default() };
    eventually("the set is closed", || {
        let close = async |mut client: Admin| client.close_set(request.clone()).await;
        let response = cluster.set_admin(&cluster.other.stores, close).ok()?;
        (response.state() == SetState::Closed).then_some(())
    });
}

/// Waits until the first set knows that the other set is closed.
fn wait_closed(cluster: &Cluster) {
    let list = async |mut client: Admin| client.list_sets(v1::ListSetsRequest {}).await;
    eventually("the first set knows", || {
        let sets = admin(&cluster.stores, cluster, list).sets;
        sets.iter().any(|set| set.name == OTHER_SET && set.state() == SetState::Closed).then_some(())
    });
}

fn stores_of(cluster: &mut Cluster, way: Way) -> &mut [Node] {
    if way == Way::Out { &mut cluster.stores } else { &mut cluster.other.stores }
}

fn allocs_of(cluster: &mut Cluster, way: Way) -> &mut [Node] {
    if way == Way::Out { &mut cluster.allocs } else { &mut cluster.other.allocs }
}

fn set_file(cluster: &Cluster, way: Way) -> String {
    cluster.path(if way == Way::Out { "set.toml" } else { "other.toml" }).display().to_string()
}

pub(in crate::rows) fn backup(cluster: &Cluster, way: Way, name: &str) -> PathBuf {
    let (file, out) = (set_file(cluster, way), cluster.path(&format!("{name}-{way:?}.backup")));
    let args = ["backup", "create", "--set", &file, "--out", &out.display().to_string()];
    // A set can be without a leader for a moment.
    eventually("a backup is made", || seqsvr(&args).ok());
    out
}

/// Kills all stores of a set, and removes their directories.
pub(in crate::rows) fn lose_disks(cluster: &mut Cluster, way: Way) {
    stores_of(cluster, way).iter_mut().for_each(Node::kill);
    for store in stores(cluster, way) {
        fs::remove_dir_all(cluster.path(&store.name)).unwrap();
    }
}

/// Restores all stores of a set, and returns the count.
pub(in crate::rows) fn restore(cluster: &Cluster, way: Way, backup: &Path, count: Option<u64>) -> u64 {
    try_restore(cluster, way, backup, count).unwrap_or_else(|error| panic!("{error}"))
}

fn try_restore(cluster: &Cluster, way: Way, backup: &Path, count: Option<u64>) -> Result<u64, String> {
    let (file, backup, count) = (set_file(cluster, way), backup.display().to_string(), count.map(|n| n.to_string()));
    let count = count.as_ref().map_or_else(Vec::new, |count| vec!["--count", count]);
    let mut counts = Vec::new();
    for (at, store) in stores(cluster, way).iter().enumerate() {
        let (id, data) = ((at + 1).to_string(), cluster.path(&store.name).display().to_string());
        let args = ["restore", "--from", &backup, "--set", &file, "--id", &id, "--data", &data, "--yes", "-o", "json"];
        let view: serde_json::Value = serde_json::from_str(&seqsvr(&[&args[..], &count].concat())?).unwrap();
        counts.push(view["count"].as_u64().expect("a count"));
    }
    assert!(counts.windows(2).all(|two| two[0] == two[1]), "{counts:?}");
    Ok(counts[0])
}

/// Starts the processes of a set that do not run.
pub(in crate::rows) fn start_nodes(cluster: &mut Cluster, way: Way) {
    stores_of(cluster, way).iter_mut().for_each(Node::ensure_runs);
    allocs_of(cluster, way).iter_mut().for_each(Node::ensure_runs);
}

/// Returns the output of `seqsvr status` for a set, or an error if the set is not ok.
fn status(cluster: &Cluster, way: Way) -> Result<String, String> {
    seqsvr(&["status", "--set", &set_file(cluster, way)])
}

/// Waits until every section is served and these sets are ok; prints the time, and asserts the order.
fn served(scene: &Scene, sets: &[Way], what: &str, began: Instant) {
    scene.load.wait_served();
    println!("  {what}: all served {:.2} s after the loss", began.elapsed().as_secs_f64());
    sets.iter().for_each(|way| eventually("status is ok", || status(&scene.cluster, *way).ok().map(drop)));
    scene.load.report().assert_order();
}
