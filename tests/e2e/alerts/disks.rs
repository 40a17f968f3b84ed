//! Alerts about full and slow disks.

use std::io;
use std::process::{Child, Command, Stdio};

use super::{Scene, Setup};
use crate::cluster::Server;

pub(super) const ALERTS: &[&str] =
    &["SeqsvrStoreDiskFull", "SeqsvrStoreDiskSlow", "SeqsvrSectionWritesSlow", "SeqsvrCeilingStalls"];

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_disks_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { disks: &[1, 2, 3], alerts: ALERTS, ..Setup::default() });
    let remount = |size: &'static str| {
        move |scene: &mut Scene| {
            let options = format!("remount,size={size}");
            assert!(Command::new("mount").args(["-o", &options]).arg(scene.data(1)).status().unwrap().success());
        }
    };
    scene.stage("512 MiB are left on the disk of store 1", &["SeqsvrStoreDiskFull"], remount("512M"), remount("4G"));
    let tracers = std::cell::RefCell::new(Vec::new());
    let alerts = ["SeqsvrStoreDiskSlow", "SeqsvrSectionWritesSlow", "SeqsvrCeilingStalls"];
    let load = std::cell::Cell::new(None);
    scene.stage(
        "every sync of a store takes 0.12 s more, under a load on few users",
        &alerts,
        |scene| {
            *tracers.borrow_mut() = slow_syncs(scene);
            load.set(Some(
                scene.load("load", &["--endpoint", "many", "--uids", "100", "--batch", "100", "--concurrency", "4"]),
            ));
        },
        |_| {
            drop(load.take());
            end_tracers(tracers.take());
        },
    );
    scene.print();
}

/// Slows every sync of every store down.
pub(super) fn slow_syncs(scene: &Scene) -> Vec<Child> {
    scene.stores.iter().flatten().map(|store| slow_syncs_of(store).expect("strace runs")).collect()
}

/// Slows every sync of a store down by 0.12 s. The error is that strace cannot be started.
pub(crate) fn slow_syncs_of(store: &Server) -> io::Result<Child> {
    let trace = ["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=120000", "-o", "/dev/null"];
    let pid = store.pid().as_raw_nonzero().to_string();
    Command::new("strace").args(["-f", "-p", &pid]).args(trace).stderr(Stdio::null()).spawn()
}

/// Ends the delay of syncs.
pub(crate) fn end_tracers(tracers: Vec<Child>) {
    for mut tracer in tracers {
        // On SIGTERM, the tracer detaches; on SIGKILL, it would leave the process stopped.
        let pid = rustix::process::Pid::from_child(&tracer);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        tracer.wait().unwrap();
    }
}
