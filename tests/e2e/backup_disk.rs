//! The disk for backups is full: the command names it, leaves no part of the new backup, and removes no older backup.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use seq_testkit::eventually;

use crate::cluster::Place;

/// Room for a few backups of a set of a hundred sections.
const DISK: &str = "size=64k,mode=700";

/// Free bytes on the full disk: enough for the beginning of a backup.
const LEFT: u64 = 4_096;

/// A separate file system, unmounted on drop.
pub(crate) struct Disk(pub(crate) PathBuf);

impl Disk {
    /// Mounts a disk with these options. `None` if this process may not mount disks, which fails under `CI`.
    pub(crate) fn mount(at: PathBuf, options: &str) -> Option<Disk> {
        std::fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Disk(at));
        }
        assert!(std::env::var_os("CI").is_none(), "a file system cannot be mounted");
        eprintln!("skipped: it needs root to mount a file system");
        None
    }

    /// Fills the disk except for [`LEFT`] bytes.
    fn fill(&self) {
        let mut other = File::create(self.0.join("other")).unwrap();
        while other.write_all(&[7; 1_024]).is_ok() {}
        other.set_len(other.metadata().unwrap().len() - LEFT).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_backup_that_does_not_fit_its_disk_leaves_the_older_one() {
    let place = Place::new();
    let Some(disk) = Disk::mount(place.path("disk"), DISK) else { return };
    let file = place.set_file("three-node.toml").display().to_string();
    let _stores = ["1", "2", "3"].map(|id| {
        let data = place.path(id).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &file, "--id", id, "--data", &data])
    });
    let dir = disk.0.display().to_string();
    let backup =
        || place.seqsvr(&["backup", "create", "--set", &file, "--dir", &dir, "--keep", "1", "--timeout-s", "60"]);
    eventually("the first backup is written", || backup().status.success().then_some(()));
    disk.fill();
    let before = disk.files();
    assert_eq!(before.len(), 2, "{before:?}");

    let full = backup();
    let text = String::from_utf8_lossy(&full.stderr).into_owned();
    assert_eq!(full.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot be written: No space left on device") && text.contains(&dir), "{text}");
    assert_eq!(disk.files(), before, "no part of the new backup is left");
    let intact = place.seqsvr(&["backup", "list", &dir]);
    assert!(intact.status.success(), "{}", String::from_utf8_lossy(&intact.stdout));
    let out = disk.0.join("second").display().to_string();
    assert_eq!(place.seqsvr(&["backup", "create", "--set", &file, "--out", &out]).status.code(), Some(1));
    assert_eq!(disk.files(), before);
}
