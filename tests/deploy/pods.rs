//! The pods of the manifests as processes: each in the file system of the image and in a network of its own, started with
//! the arguments, variables, files and user that its manifest states, and probed as the manifest states it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec, Probe};
use rustix::process::{Pid, Signal, kill_process};

use crate::image::Image;
use crate::kubernetes::{Built, build, root};
use crate::machine::{eventually, sh, try_run};
use crate::manifest::Object;
use crate::net::{Host, Net};

/// The devices that a container has.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// The name that callers reach the proxies by.
const SERVICE: &str = "seqsvr.seqsvr.svc";

/// One pod of a workload.
struct Pod {
    name: String,
    /// The name that other pods reach it by.
    dns: String,
    ordinal: i32,
    host: Host,
    spec: PodTemplateSpec,
    /// Its file system.
    root: PathBuf,
    child: Option<Child>,
}

impl Drop for Pod {
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

impl Pod {
    fn container(&self) -> &Container {
        &self.spec.spec.as_ref().unwrap().containers[0]
    }

    fn log(&self) -> PathBuf {
        self.root.with_extension("log")
    }

    /// The value of a variable of the container.
    fn variable(&self, name: &str) -> String {
        let variable = self.container().env.iter().flatten().find(|variable| variable.name == name).unwrap();
        let Some(source) = &variable.value_from else { return variable.value.clone().unwrap() };
        match source.field_ref.as_ref().unwrap().field_path.as_str() {
            "metadata.name" => self.name.clone(),
            "metadata.labels['apps.kubernetes.io/pod-index']" => self.ordinal.to_string(),
            other => panic!("no field {other} in this test"),
        }
    }

    fn args(&self) -> Vec<String> {
        let value = |arg: &String| match arg.strip_prefix("$(") {
            Some(name) => self.variable(name.trim_end_matches(')')),
            None => arg.clone(),
        };
        self.container().args.iter().flatten().map(value).collect()
    }

    /// Puts the files of its volumes where the container mounts them.
    fn mount(&self, built: &Built, certs: &Path, hosts: &str) {
        let spec = self.spec.spec.as_ref().unwrap();
        for mount in self.container().volume_mounts.iter().flatten() {
            let to = self.root.join(mount.mount_path.trim_start_matches('/'));
            fs::create_dir_all(&to).unwrap();
            let Some(volume) = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name) else { continue };
            if let Some(config) = &volume.config_map {
                for file in &built.config_maps[&config.name] {
                    fs::copy(file, to.join(file.file_name().unwrap())).unwrap();
                }
            }
            if let Some(secret) = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_deref()) {
                // As docs/install.md makes the Secrets.
                let prefix = match secret.strip_suffix("-certs").unwrap() {
                    "im-a-store" => "store.im-a.",
                    "im-a-alloc" => "alloc.im-a.",
                    "proxy" => "proxy.",
                    other => panic!("docs/install.md makes no Secret for {other}"),
                };
                for file in fs::read_dir(certs).unwrap().map(|entry| entry.unwrap().path()) {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    if name == "ca.crt" || name.starts_with(prefix) {
                        fs::copy(&file, to.join(name)).unwrap();
                    }
                }
                sh(&format!("chmod -R g+rX,o-rwx {}", to.display()));
                sh(&format!("chgrp -R 65532 {}", to.display()));
            }
        }
        fs::create_dir_all(self.root.join("etc")).unwrap();
        fs::write(self.root.join("etc/hosts"), hosts).unwrap();
    }

    /// Starts the container's process: on a file system that is read-only but for the volume of its data, as the image's user.
    fn start(&mut self) {
        let root = self.root.display();
        // The file systems that every runtime of OCI adds (runtime-spec, "Default Filesystems", "Default Devices"). A user other
        // than root has no capabilities, and chroot changes to it.
        let devices: String = DEVICES
            .iter()
            .map(|device| format!("touch {root}/dev/{device} && mount --bind /dev/{device} {root}/dev/{device} && "))
            .collect();
        let script = format!(
            "mkdir -p {root}/dev {root}/proc && mount --bind {root} {root} && {devices} mount -t proc proc {root}/proc && \
             mount -o remount,bind,ro {root} && mount --bind {root}.data {root}/data && \
             exec chroot --userspec=65532:65532 --groups= {root} /seqsvr \"$@\""
        );
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host.namespace, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
        for variable in self.container().env.iter().flatten() {
            command.arg(format!("{}={}", variable.name, self.variable(&variable.name)));
        }
        command.args(["unshare", "--mount", "sh", "-c", &script, "sh"]).args(self.args()).stdin(Stdio::null());
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Whether a probe of the container succeeds, from outside of the pod as a kubelet sends it.
    fn passes(&self, probe: &Option<Probe>) -> bool {
        let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        let port = match &get.port {
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(name) => {
                let ports = self.container().ports.iter().flatten();
                ports.clone().find(|port| port.name.as_ref() == Some(name)).unwrap().container_port
            }
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(port) => *port,
        };
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let url = format!("{scheme}://{}:{port}{}", self.host.ip, get.path.as_deref().unwrap_or("/"));
        try_run("curl", &["-skf", "--max-time", "2", &url]).is_ok()
    }

    /// Resident memory, in MiB.
    fn resident_mib(&self) -> u64 {
        let pid = self.child.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Ends the process in order; returns its exit code.
    fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        eventually(&format!("{} ends", self.name), || child.try_wait().unwrap()).code()
    }
}

/// The pods of all workloads, none started.
fn pods(built: &Built, image: &Image, net: &mut Net, dir: &Path) -> Vec<Pod> {
    let mut pods = Vec::new();
    for object in &built.objects {
        let (name, first, replicas, service) = match object {
            Object::StatefulSet(set) => {
                let spec = set.spec.as_ref().unwrap();
                let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
                (set.metadata.name.clone().unwrap(), first, spec.replicas.unwrap(), spec.service_name.clone())
            }
            Object::Deployment(deployment) => (
                deployment.metadata.name.clone().unwrap(),
                0,
                deployment.spec.as_ref().unwrap().replicas.unwrap(),
                None,
            ),
            _ => continue,
        };
        for ordinal in first..first + replicas {
            let name = format!("{name}-{ordinal}");
            let dns =
                format!("{name}.{}.{}.svc.cluster.local", service.as_deref().unwrap_or("none"), built.namespace());
            let root = dir.join(&name);
            image.copy_to(&root);
            let data = dir.join(format!("{name}.data"));
            fs::create_dir(&data).unwrap();
            sh(&format!("chmod 700 {}", data.display()));
            sh(&format!("chown 65532:65532 {}", data.display()));
            // The name of an interface has 15 characters at most.
            let host = net.host(&format!("p{}", pods.len()));
            pods.push(Pod { name, dns, ordinal, host, spec: object.pods().unwrap().clone(), root, child: None });
        }
    }
    pods
}

#[test]
#[ignore = "needs root, and the image of `cargo xtask dist`"]
fn a_set_runs_from_the_image_as_the_manifests_start_it() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::unpack(&dir.path().join("image"));
    image.check();
    let (mut net, built) = (Net::new(), build(&root().join("base")));
    let set = built.config_maps["im-a-config"].iter().find(|file| file.ends_with("set.toml")).unwrap();
    let certs = dir.path().join("certs");
    let hosts_file = dir.path().join("hosts");
    // Names are those of the pods.
    let script = format!("[ ! -e {0} ] || mount --bind {0} /etc/hosts; exec \"$@\"", hosts_file.display());
    let seqsvr = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]).arg(image.binary()).args(args);
        command.env("SEQSVR_CERTS", &certs).env("SEQSVR_IDENTITY", "client/backend");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seqsvr {args:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let set = set.display().to_string();
    seqsvr(&["cert", "issue", "--set", &set, "proxy/proxy", "client/backend", "--host", SERVICE]);

    let mut pods = pods(&built, &image, &mut net, dir.path());
    let hosts: String = pods.iter().map(|pod| format!("{} {}\n", pod.host.ip, pod.dns)).collect();
    for pod in &mut pods {
        pod.mount(&built, &certs, &format!("127.0.0.1 localhost\n{hosts}"));
        pod.start();
    }
    let proxy = pods.iter().find(|pod| pod.name.starts_with("proxy")).unwrap().host.ip;
    fs::write(&hosts_file, format!("{hosts}{proxy} {SERVICE}\n")).unwrap();
    for pod in &pods {
        eventually(&format!("{} is ready", pod.name), || pod.passes(&pod.container().readiness_probe).then_some(()));
        assert!(pod.passes(&pod.container().liveness_probe), "{}", pod.name);
    }
    assert_eq!(seqsvr(&["next", "42", "--addr", &format!("https://{SERVICE}:7600")]), "1");
    let alloc = pods.iter().find(|pod| pod.name.starts_with("im-a-alloc")).unwrap();
    assert_eq!(seqsvr(&["next", "42", "--addr", &format!("https://{}:7100", alloc.dns)]), "2");
    for pod in &pods {
        println!("{:14} {:3} MiB resident, idle", pod.name, pod.resident_mib());
    }
    // In the order in which nothing waits for what is gone.
    for pod in pods.iter_mut().rev() {
        assert_eq!(pod.terminate(), Some(0), "{}", pod.name);
    }
}
