//! A container as a process: in the file system of the image and in its own network, as the image's user.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use seq_testkit::eventually;

use crate::image::Image;
use crate::machine::sh;
use crate::net::{Host, Net};

/// Devices of a container (runtime-spec of OCI, "Default Devices").
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// A directory of the machine in a container.
pub(crate) struct Mount {
    pub(crate) from: PathBuf,
    /// Absolute path in the container.
    pub(crate) to: String,
    pub(crate) is_read_only: bool,
}

/// A container; its process is killed on drop. A failed test prints its log.
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) host: Host,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) mounts: Vec<Mount>,
    root: PathBuf,
    child: Option<Child>,
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("== log of {}\n{}", self.name, fs::read_to_string(self.log()).unwrap_or_default());
        }
    }
}

impl Container {
    /// Creates a container without a process, with a copy of the image in `dir` and its own network.
    pub(crate) fn new(name: &str, image: &Image, net: &mut Net, dir: &Path) -> Container {
        // The name of an interface has at most 15 characters.
        Container::at(net.host(&name[name.len().saturating_sub(7)..]), name, image, dir)
    }

    /// Creates a container in the network of another container, like the containers of a pod.
    pub(crate) fn at(host: Host, name: &str, image: &Image, dir: &Path) -> Container {
        let root = dir.join(name);
        image.copy_to(&root);
        let (args, env, mounts) = (Vec::new(), Vec::new(), Vec::new());
        Container { name: name.to_owned(), host, args, env, mounts, root, child: None }
    }

    fn log(&self) -> PathBuf {
        self.root.with_extension("log")
    }

    /// Starts the process on a file system that is read-only except for mounts. `hosts` are lines of /etc/hosts.
    pub(crate) fn start(&mut self, hosts: &str) {
        let root = self.root.display();
        for dir in ["dev", "proc", "etc"].into_iter().chain(self.mounts.iter().map(|mount| &mount.to[1..])) {
            fs::create_dir_all(self.root.join(dir)).unwrap();
        }
        fs::write(self.root.join("etc/hosts"), format!("127.0.0.1 localhost\n{hosts}")).unwrap();
        let mut script = format!("set -e; mount --bind {root} {root}; mount -t proc proc {root}/proc\n");
        for device in DEVICES {
            script += &format!("touch {root}/dev/{device}; mount --bind /dev/{device} {root}/dev/{device}\n");
        }
        script += &format!("mount -o remount,bind,ro {root}\n");
        for Mount { from, to, is_read_only } in &self.mounts {
            script += &format!("mount --bind {} {root}{to}\n", from.display());
            if *is_read_only {
                script += &format!("mount -o remount,bind,ro {root}{to}\n");
            }
        }
        // A process of a user other than root has no capabilities.
        script += &format!("exec chroot --userspec=65532:65532 --groups= {root} /seqsvr \"$@\"");
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host.namespace, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
        command.args(self.env.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(["unshare", "--mount", "sh", "-c", &script, "sh"]).args(&self.args).stdin(Stdio::null());
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Starts the process and waits until it has ended; returns its exit code and its output.
    pub(crate) fn run(&mut self, hosts: &str) -> (Option<i32>, String) {
        let _ = fs::remove_file(self.log());
        self.start(hosts);
        (self.wait(), fs::read_to_string(self.log()).unwrap().trim().to_owned())
    }

    /// Returns the memory of the process in MiB: the resident memory (`VmRSS`), its anonymous part (`RssAnon`), or the
    /// maximum of the resident memory (`VmHWM`).
    pub(crate) fn memory_mib(&self, field: &str) -> u64 {
        let pid = self.child.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.split(':').next() == Some(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Returns the output of the process.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Waits until the process has ended; returns its exit code.
    fn wait(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        eventually(&format!("{} ends", self.name), || child.try_wait().unwrap()).code()
    }

    /// Ends the process in order; returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), Signal::TERM).unwrap();
        self.wait()
    }
}

/// Creates an empty directory that belongs to the image's user, like a new volume.
pub(crate) fn volume(path: PathBuf) -> PathBuf {
    fs::create_dir(&path).unwrap();
    sh(&format!("chmod 700 {}", path.display()));
    sh(&format!("chown 65532:65532 {}", path.display()));
    path
}
