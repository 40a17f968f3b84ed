//! Alerts about clocks, and about the ids that follow them.

use std::process::Command;

use super::{Scene, Setup};
use crate::wrong_clock::WrongClock;

pub(super) const ALERTS: &[&str] = &["SeqsvrClockWrong", "SeqsvrClockAhead", "SeqsvrLanesResting", "SeqsvrSeriesEnds"];

/// Returns the date forty days ago.
fn forty_days_ago() -> String {
    let date = Command::new("date").args(["-u", "-d", "-40 days", "+%F"]).output().unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

#[test]
#[ignore = "six minutes, with Prometheus and libfaketime; `just alerts`"]
fn alerts_of_ids_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS, ..Setup::default() });
    let clock = WrongClock::new(&scene.place).expect("libfaketime is installed");
    scene.allocs[0].take().unwrap().terminate();
    let args = ["alloc", "--set", &scene.set, "--name", "a1", "--cores", "1"];
    scene.allocs[0] = Some(clock.server(&scene.place, "a1", &args));
    let addr = scene.addr(7401);
    let change = |scene: &Scene, args: &[&str]| {
        let done = scene.place.seqsvr(&[&["series"], args, &["--yes", "--addr", &addr]].concat());
        assert!(done.status.success(), "{done:?}");
    };
    // 25 bits of seconds are 388 days.
    let epoch = forty_days_ago();
    scene.stage(
        "a series whose time ends in 348 days is created",
        &["SeqsvrSeriesEnds"],
        |scene| {
            let shape = ["--bits", "25/6/16", "--unit", "s", "--epoch", &epoch, "--allow-short"];
            change(scene, &[&["create", "short"], &shape[..]].concat());
        },
        |scene| change(scene, &["retire", "short"]),
    );
    change(&scene, &["create", "media", "--shape", "instagram"]);
    // Calls for a lane of each section, so that some are of allocator 1.
    let lanes: Vec<String> = (0..16).map(|section| (section * 512).to_string()).collect();
    let url = format!("{}/api/id/next/media?lane=", scene.addr(7400));
    let calls = format!(
        "while :; do for lane in {}; do curl -so /dev/null -X POST \"{url}$lane\"; done; done",
        lanes.join(" ")
    );
    let callers = scene.place.server_of("sh".as_ref(), "callers", &["-c", &calls]);
    scene.stage(
        "the clock of allocator 1 steps an hour ahead, under calls for ids",
        &["SeqsvrClockWrong", "SeqsvrClockAhead", "SeqsvrLanesResting"],
        |_| clock.step(3_600),
        |_| clock.step(0),
    );
    drop(callers);
    scene.print();
}
