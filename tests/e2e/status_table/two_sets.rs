//! Conditions of two sets of one cluster.

use seq_testkit::eventually;

use super::{Scene, Table};
use crate::cluster::Server;
use crate::two_sets::TwoSets;
use crate::verdicts::Pair;

const OK: [&str; 2] = ["im-a: ok: ", "im-b: ok: "];

pub(super) fn two_sets(table: &mut Table) {
    let pair = Pair(TwoSets::new(10_000_000));
    let sets = &pair.0;
    let [file, addr, dir] =
        [sets.file("a").display().to_string(), sets.addr(7301), sets.place.path("sets/two").display().to_string()];
    let mut scene = Scene::new(table, &sets.place, &["--set", &file]);
    scene.caused("the processes of two sets are started");
    let (_stores_a, _allocs_a) = (sets.stores("a", "a"), sets.allocs("a"));
    let (mut stores, mut allocs) = (sets.stores("b", "b"), sets.allocs("b"));
    scene.says("no set is defined", 3, &["UNDEFINED", "seqsvr set init"]);

    scene.ended();
    eventually("the sets are defined", || {
        sets.place.seqsvr(&["set", "apply", &dir, "--yes"]).status.success().then_some(())
    });
    scene.over(&["im-a: ok"]);
    sets.wait_known();

    let mut scene = Scene::new(scene.table, &sets.place, &["--addr", &addr]);
    scene.well(&OK);
    migrations(&mut scene, &pair, &stores);
    dead_target(&mut scene, &pair, &mut allocs);
    lost_and_closed(&mut scene, &pair, &mut stores, &mut allocs);
}

fn migrations(scene: &mut Scene<'_>, pair: &Pair, stores: &[Server]) {
    scene.caused("`seqsvr set migrate im-a --sections 10..20`, one section a second");
    let id = pair.migrate("10..20", "1");
    scene.says("an open migration", 0, &[OK[0], OK[1], "im-a: migration"]);
    scene.caused("`seqsvr migration pause`");
    pair.0.cli(&["migration", "pause", &id]);
    scene.says("a paused migration", 0, &[OK[0], OK[1], "paused"]);
    scene.ended();
    pair.complete(&id);
    scene.over(&OK);

    scene.caused("the stores of the target stand still while sections are on their way to it");
    let mut sections = (20..90).step_by(10);
    let id = eventually("sections are on their way", || {
        let first = sections.next().expect("one of the migrations has sections on their way");
        let id = pair.freeze_on_the_way(stores, first);
        scene.ended();
        let words = ["im-a: UNSERVED", "departed to another set", "im-b: NO QUORUM: no store responds"];
        let delayed = (0..3).map(|_| (scene.look(), scene.since.elapsed())).find(|(look, _)| look.says(3, &words));
        let Some((look, said_after)) = delayed else {
            stores.iter().for_each(Server::thaw);
            pair.complete(&id);
            return None;
        };
        scene.row("sections do not arrive", &words, look, said_after);
        Some(id)
    });
    scene.ended();
    stores.iter().for_each(Server::thaw);
    scene.over(&OK);
    pair.complete(&id);
}

fn dead_target(scene: &mut Scene<'_>, pair: &Pair, allocs: &mut Vec<Server>) {
    let id = pair.migrate("90..100", "1");
    eventually("a section has arrived", || (pair.migrations().last()?["arrived"].as_u64()? > 0).then_some(()));
    scene.caused("the allocators of the target of a migration are killed");
    allocs.iter_mut().for_each(Server::kill);
    scene.says("the allocators of one set are dead", 3, &[OK[0], "im-b: UNSERVED", "start a1, a2 again"]);
    scene.says("a stuck migration", 3, &["im-a: migration", "stuck: "]);
    scene.ended();
    allocs.clear();
    allocs.extend(pair.0.allocs("b"));
    scene.over(&OK);
    pair.complete(&id);
}

fn lost_and_closed(scene: &mut Scene<'_>, pair: &Pair, stores: &mut Vec<Server>, allocs: &mut Vec<Server>) {
    scene.caused("all processes of the other set are killed");
    stores.iter_mut().chain(&mut *allocs).for_each(Server::kill);
    scene.says("a lost set", 3, &[OK[0], "im-b: NO QUORUM: no store responds", "no allocator responds"]);
    scene.ended();
    stores.clear();
    stores.extend(pair.0.stores("b", "b"));
    allocs.clear();
    allocs.extend(pair.0.allocs("b"));
    scene.over(&OK);

    scene.caused("`seqsvr set merge im-b --into im-a`");
    pair.0.cli(&["set", "merge", "im-b", "--into", "im-a", "--yes"]);
    scene.says("a closed set", 0, &[OK[0], "im-b: closed"]);
    scene.caused("the processes of the closed set are killed");
    stores.iter_mut().chain(allocs).for_each(Server::kill);
    scene.says(
        "a closed set that is gone",
        0,
        &[OK[0], "im-b: closed: its users are in other sets; its processes need not run"],
    );
}
