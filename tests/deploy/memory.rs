//! Servers in a control group with a memory limit below their settings.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seq_testkit::eventually;

/// A control group with a memory limit; removed on drop, with its process.
struct Group {
    dir: PathBuf,
    child: Option<Child>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Group {
    /// Creates a group. A group of version 1 is below the group of this process. A group of version 2 is at the root,
    /// because a group with processes cannot pass its controllers on. The error is the reason why no group can be
    /// created.
    fn new(name: &str, mib: u64) -> Result<Group, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let of_memory = own.lines().find_map(|line| line.split_once(":memory:").map(|(_, group)| group.to_owned()));
        let (parent, file) = match of_memory {
            Some(group) => (format!("/sys/fs/cgroup/memory{group}"), "memory.limit_in_bytes"),
            None => ("/sys/fs/cgroup".to_owned(), "memory.max"),
        };
        let dir = Path::new(&parent).join(format!("seqsvr-test-{}-{name}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let group = Group { dir, child: None };
        let limit = group.dir.join(file);
        fs::write(&limit, (mib << 20).to_string()).map_err(|error| format!("{}: {error}", limit.display()))?;
        Ok(group)
    }

    /// Starts the program in the group; its log goes to a file.
    fn start(&mut self, args: &[&str], log: &Path) {
        let script = format!("echo $$ >{}/cgroup.procs; exec \"$@\"", self.dir.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_seqsvr")]).args(args).stdin(Stdio::null());
        let log = File::create(log).unwrap();
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    fn wait(&mut self) -> Option<i32> {
        let child = self.child.as_mut().unwrap();
        eventually("the process ends", || child.try_wait().unwrap()).code()
    }
}

/// Runs the program in a group with a memory limit until it ends; returns its exit code and its output.
fn run(dir: &Path, mib: u64, args: &[&str]) -> (Option<i32>, String) {
    let log = dir.join("log");
    let mut group = Group::new(args[0], mib).unwrap();
    group.start(args, &log);
    (group.wait(), fs::read_to_string(&log).unwrap())
}

#[test]
fn a_server_whose_settings_do_not_fit_into_its_group_does_not_start() {
    // Groups in a container are often read-only, even for root, so the test is skipped there, also under `CI`.
    if let Err(lack) = Group::new("try", 128) {
        eprintln!("skipped: no control group can be made: {lack}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set.toml");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sets/three-node.toml")).unwrap();
    fs::write(&set, format!("plaintext = true\n{text}")).unwrap();
    let (set, data) = (set.display().to_string(), dir.path().join("data"));
    // The address is used by this process alone: all of 127.0.0.0/8 is on loopback.
    let [.., a, b] = std::process::id().to_be_bytes();
    let (listen, http) = (format!("127.{a}.{b}.1:7600"), format!("127.{a}.{b}.1:7680"));
    let of_proxy = ["proxy", "--plaintext", "--seeds", "127.0.0.1:1", "--listen", &listen, "--http", &http];
    let of_alloc = ["alloc", "--set", &set, "--name", "a1"];
    for args in [&of_proxy[..], &of_alloc] {
        let (code, log) = run(dir.path(), 128, args);
        assert_eq!(code, Some(64), "{log}");
        assert!(log.contains("the memory limit of this process' cgroup is 128 MiB"), "{log}");
        assert!(log.contains("limits.memory_mib = 256") && log.contains("raise the limit to 288 MiB"), "{log}");
        assert!(!log.contains("listening"), "{log}");
    }
    let id = data.display().to_string();
    let (code, log) = run(dir.path(), 32, &["store", "--set", &set, "--id", "1", "--data", &id]);
    assert_eq!(code, Some(64), "{log}");
    assert!(log.contains("cgroup is 32 MiB") && log.contains("a member of a store"), "{log}");
    assert!(!data.exists(), "nothing was changed");

    // With enough memory, the server starts.
    let log = dir.path().join("log");
    let mut group = Group::new("room", 320).unwrap();
    group.start(&of_proxy, &log);
    eventually("the server listens", || fs::read_to_string(&log).unwrap().contains("listening").then_some(()));
    kill_process(Pid::from_child(group.child.as_ref().unwrap()), Signal::TERM).unwrap();
    assert_eq!(group.wait(), Some(0), "{}", fs::read_to_string(&log).unwrap());
}
