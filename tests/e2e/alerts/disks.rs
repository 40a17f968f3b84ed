//! Alerts about disks: full ones, and slow ones.

use std::process::{Command, Stdio};

use super::{Scene, Setup};

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
            for store in scene.stores.iter().flatten() {
                let pid = store.pid().as_raw_nonzero().to_string();
                let mut command = Command::new("strace");
                command.args([
                    "-f",
                    "-p",
                    &pid,
                    "-e",
                    "trace=fdatasync,fsync",
                    "-e",
                    "inject=fdatasync,fsync:delay_enter=120000",
                ]);
                tracers.borrow_mut().push(command.args(["-o", "/dev/null"]).stderr(Stdio::null()).spawn().unwrap());
            }
            load.set(Some(
                scene.load("load", &["--endpoint", "many", "--uids", "100", "--batch", "100", "--concurrency", "4"]),
            ));
        },
        |_| {
            drop(load.take());
            for mut tracer in tracers.take() {
                // On SIGTERM it detaches; killed, it would leave the process stopped.
                let pid = rustix::process::Pid::from_child(&tracer);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
                tracer.wait().unwrap();
            }
        },
    );
    scene.print();
}
