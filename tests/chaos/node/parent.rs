//! The parent of an allocator's process: it reaps the process and reports its death to the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Node;

/// The unit of allocators in the package.
const UNIT: &str = include_str!("../../../deploy/systemd/seqsvr-alloc@.service");

/// Start of the unit's line with the command that reports a death.
const REPORT: &str = "ExecStopPost=-/usr/bin/seqsvr ";

/// Exit code of a guard whose server was killed.
const KILLED: i32 = 128 + 9;

/// A parent that reports deaths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// A supervisor like systemd: the test reaps the process, and then runs the command of the unit.
    Supervisor,
    /// `seqsvr alloc --guard`.
    Guard,
}

/// The result of the command that reports a death.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Reported {
    /// Returns whether the store noted the death.
    pub(crate) fn is_noted(&self) -> bool {
        self.code == Some(0) && self.text.starts_with("the store has noted ")
    }

    /// Returns whether the store took the report, which changed nothing.
    pub(crate) fn changed_nothing(&self) -> bool {
        self.code == Some(0) && self.text.starts_with("nothing changed: ")
    }
}

impl Node {
    /// Sets the parent of the process from the next start on. `dir` is the directory of the runtime directories.
    pub(crate) fn set_parent(&mut self, parent: Parent, dir: &Path) {
        match parent {
            Parent::Supervisor => {
                let runtime = dir.join(format!("run-{}", self.name));
                self.env("RUNTIME_DIRECTORY", runtime.display().to_string());
                self.runtime = Some(runtime);
            }
            Parent::Guard => self.args.insert(1, "--guard".to_owned()),
        }
        self.parent = Some(parent);
    }

    /// Kills the server, like a crash; its parent reaps it and reports its death.
    pub(crate) fn crash(&mut self) {
        match self.parent.expect("the process has a parent") {
            Parent::Supervisor => self.kill(),
            Parent::Guard => kill_process(self.server(), Signal::KILL).unwrap(),
        }
        self.reap_and_report();
    }

    /// Waits until the server that was killed is reaped, and its death is reported.
    pub(crate) fn reap_and_report(&mut self) {
        if self.parent == Some(Parent::Guard) {
            let status = self.wait_exit();
            assert_eq!(status.code(), Some(KILLED), "the guard exits as its server did");
            let noted = format!("of {} died", self.name);
            let log = self.log();
            let said = log.lines().rfind(|line| line.starts_with("guard: ")).unwrap_or_default();
            assert!(said.starts_with("guard: the store has noted ") && said.ends_with(&noted), "{said:?}");
            return;
        }
        if self.child.is_some() {
            self.wait_exit();
        }
        let reported = self.report_death(None);
        assert!(reported.is_noted(), "{reported:?}");
    }

    /// Runs the command with which the unit reports a death, on the node's host, for the process with the number in
    /// this file, by default in the runtime directory.
    pub(crate) fn report_death(&self, number: Option<&Path>) -> Reported {
        let line = UNIT.lines().find_map(|line| line.strip_prefix(REPORT)).expect("the unit reports deaths");
        let word = |word: &str| match word {
            "${SET_FILE}" => self.flag("--set"),
            "${NAME}" => self.name.clone(),
            word => word.to_owned(),
        };
        let runtime = self.runtime.as_ref().expect("a supervisor has a runtime directory").display();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host.namespace, "env", &format!("RUNTIME_DIRECTORY={runtime}")]);
        command.arg(env!("CARGO_BIN_EXE_seqsvr")).args(line.split(' ').map(word)).stdin(Stdio::null());
        if let Some(number) = number {
            command.arg("--process-file").arg(number);
        }
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        Reported { code: output.status.code(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// Keeps the number of the running process in another file; returns its path.
    pub(crate) fn keep_number(&self) -> PathBuf {
        let runtime = self.runtime.as_ref().expect("a supervisor has a runtime directory");
        let kept = runtime.with_extension("kept");
        fs::copy(self.number_file(), &kept).unwrap();
        kept
    }

    /// Returns whether the running process has drawn its number.
    pub(crate) fn has_number(&self) -> bool {
        self.number_file().exists()
    }

    /// Returns the process id of the server, which is the only child of a guard.
    pub(crate) fn server(&self) -> Pid {
        let child = Pid::from_child(self.child.as_ref().unwrap());
        if self.parent != Some(Parent::Guard) {
            return child;
        }
        let guard = child.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap();
        let server = children.trim().parse().unwrap_or_else(|_| panic!("children of the guard: {children:?}"));
        Pid::from_raw(server).unwrap()
    }

    /// Empties the runtime directory, as systemd does before a start.
    pub(super) fn renew_runtime(&self) {
        if let Some(runtime) = &self.runtime {
            let _ = fs::remove_dir_all(runtime);
            fs::create_dir(runtime).unwrap();
        }
    }

    fn number_file(&self) -> PathBuf {
        self.runtime.as_ref().expect("a supervisor has a runtime directory").join("process")
    }

    fn flag(&self, name: &str) -> String {
        let at = self.args.iter().position(|arg| arg == name).unwrap_or_else(|| panic!("{} has {name}", self.name));
        self.args[at + 1].clone()
    }
}
