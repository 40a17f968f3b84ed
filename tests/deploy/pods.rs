//! The pods of the manifests as processes: they are started with the arguments, variables and files of the manifests,
//! and probed by their probes.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{Container as Spec, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use seq_testkit::eventually;

use crate::container::{Container, Mount, volume};
use crate::image::Image;
use crate::kubernetes::{Built, build, root};
use crate::machine::{sh, try_run};
use crate::manifest::Object;
use crate::net::Net;

/// The name by which callers reach the proxies.
const SERVICE: &str = "seqsvr.seqsvr.svc";

/// One pod of a workload.
struct Pod {
    /// The name by which other pods reach the pod.
    dns: String,
    spec: PodSpec,
    container: Container,
}

/// Returns whether a probe of a container succeeds, sent from outside of the pod like a kubelet's probe.
fn passes(container: &Container, spec: &Spec, probe: &Option<Probe>) -> bool {
    let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
    let IntOrString::String(name) = &get.port else { panic!("a port by number") };
    let port = spec.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name)).unwrap().container_port;
    let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let url = format!("{scheme}://{}:{port}{}", container.host.ip, get.path.as_deref().unwrap_or("/"));
    try_run("curl", &["-skf", "--max-time", "2", &url]).is_ok()
}

/// Source of the files of ConfigMaps and Secrets, and the directory for their copies.
struct Files<'a> {
    built: &'a Built,
    certs: &'a Path,
    dir: &'a Path,
}

impl Files<'_> {
    /// Configures a container by its manifest; `name` and `ordinal` belong to the pod.
    fn configure(&self, container: &mut Container, (pod, spec): (&PodSpec, &Spec), (name, ordinal): (&str, i32)) {
        for variable in spec.env.iter().flatten() {
            let source = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
            let value = match source.map(|field| &*field.field_path) {
                None => variable.value.clone().unwrap(),
                Some("metadata.name") => name.to_owned(),
                Some("metadata.labels['apps.kubernetes.io/pod-index']") => ordinal.to_string(),
                Some(other) => panic!("no field {other} in this test"),
            };
            container.env.push((variable.name.clone(), value));
        }
        let value = |arg: &String| match arg.strip_prefix("$(") {
            Some(name) => container.env.iter().find(|(of, _)| of == name.trim_end_matches(')')).unwrap().1.clone(),
            None => arg.clone(),
        };
        container.args = spec.args.iter().flatten().map(value).collect();
        for mount in spec.volume_mounts.iter().flatten() {
            let from = self.dir.join(format!("{}.{}", container.name, mount.name));
            match pod.volumes.iter().flatten().find(|volume| volume.name == mount.name) {
                Some(volume) => {
                    fs::create_dir(&from).unwrap();
                    if let Some(config) = &volume.config_map {
                        for file in &self.built.config_maps[&config.name] {
                            fs::copy(file, from.join(file.file_name().unwrap())).unwrap();
                        }
                    }
                    if let Some(secret) = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_deref()) {
                        copy_secret(secret, self.certs, &from);
                    }
                }
                None => drop(volume(from.clone())),
            }
            let is_read_only = mount.read_only == Some(true);
            container.mounts.push(Mount { from, to: mount.mount_path.clone(), is_read_only });
        }
    }
}

/// Copies the files of a Secret as in docs/install.md.
fn copy_secret(name: &str, certs: &Path, to: &Path) {
    let prefix = match name {
        "im-a-store-certs" => "store.im-a.",
        "im-a-alloc-certs" => "alloc.im-a.",
        "proxy-certs" => "proxy.proxy.",
        "sidecar-certs" => "proxy.sidecar.",
        "backend-certs" => "client.backend.",
        other => panic!("docs/install.md makes no Secret {other}"),
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

/// Returns the pods of all workloads, without processes.
fn pods(files: &Files<'_>, image: &Image, net: &mut Net) -> Vec<Pod> {
    let (mut pods, built) = (Vec::new(), files.built);
    for object in &built.objects {
        let (name, first, replicas, service) = match object {
            Object::StatefulSet(set) => {
                let spec = set.spec.as_ref().unwrap();
                let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
                (set.metadata.name.clone(), first, spec.replicas, spec.service_name.clone())
            }
            Object::Deployment(deployment) => {
                (deployment.metadata.name.clone(), 0, deployment.spec.as_ref().unwrap().replicas, None)
            }
            _ => continue,
        };
        for ordinal in first..first + replicas.unwrap() {
            let name = format!("{}-{ordinal}", name.as_ref().unwrap());
            let dns =
                format!("{name}.{}.{}.svc.cluster.local", service.as_deref().unwrap_or("none"), built.namespace());
            let mut container = Container::new(&name, image, net, files.dir);
            let spec = object.pods().unwrap().spec.clone().unwrap();
            files.configure(&mut container, (&spec, &spec.containers[0]), (&name, ordinal));
            pods.push(Pod { dns, spec, container });
        }
    }
    pods
}

/// Runs the image's binary on the callers' side, with the names of pods from the file `hosts`.
fn seqsvr(image: &Image, dir: &Path, args: &[&str]) -> String {
    let hosts = dir.join("hosts");
    let script = format!("[ ! -e {0} ] || mount --bind {0} /etc/hosts; exec \"$@\"", hosts.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(image.binary()).args(args);
    command.env("SEQSVR_CERTS", dir.join("certs")).env("SEQSVR_IDENTITY", "client/backend");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seqsvr {args:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
#[ignore = "needs root, and the image of `cargo xtask dist`"]
fn a_set_runs_from_the_image_as_the_manifests_start_it() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::unpack(&dir.path().join("image"));
    image.check();
    let (mut net, built) = (Net::new(), build(&root().join("base")));
    let certs = dir.path().join("certs");
    let seqsvr = |args: &[&str]| seqsvr(&image, dir.path(), args);
    let set = built.config_maps["im-a-config"].iter().find(|file| file.ends_with("set.toml")).unwrap();
    let set = set.display().to_string();
    // The certificates are issued as in docs/install.md.
    seqsvr(&["cert", "issue", "--set", &set, "proxy/proxy", "--host", SERVICE]);
    seqsvr(&["cert", "issue", "proxy/sidecar", "client/backend", "--host", "127.0.0.1"]);

    let files = Files { built: &built, certs: &certs, dir: dir.path() };
    let mut pods = pods(&files, &image, &mut net);
    let hosts: String = pods.iter().map(|pod| format!("{} {}\n", pod.container.host.ip, pod.dns)).collect();
    for pod in &mut pods {
        pod.container.start(&hosts);
    }
    let proxy = pods.iter().find(|pod| pod.container.name.starts_with("proxy")).unwrap().container.host.ip;
    fs::write(dir.path().join("hosts"), format!("{hosts}{proxy} {SERVICE}\n")).unwrap();
    for pod in &pods {
        let (container, spec) = (&pod.container, &pod.spec.containers[0]);
        let is_ready = || passes(container, spec, &spec.readiness_probe).then_some(());
        eventually(&format!("{} is ready", container.name), is_ready);
        assert!(passes(container, spec, &spec.liveness_probe), "{}", container.name);
    }
    let service = format!("https://{SERVICE}:7600");
    assert_eq!(seqsvr(&["next", "42", "--addr", &service]), "1");
    let alloc = pods.iter().find(|pod| pod.container.name.starts_with("im-a-alloc")).unwrap();
    let alloc = format!("https://{}:7100", alloc.dns);
    assert_eq!(seqsvr(&["next", "42", "--addr", &alloc]), "2");
    let idle: Vec<u64> = pods.iter().map(|pod| pod.container.memory_mib("VmRSS")).collect();
    let own: Vec<u64> = pods.iter().map(|pod| pod.container.memory_mib("RssAnon")).collect();
    // The first load reaches the allocators through the proxies, the second directly.
    for (addr, endpoint) in [(&service, "grpc"), (&alloc, "sdk")] {
        let load = ["bench", "--addr", addr, "--endpoint", endpoint, "--rate", RATE, "--duration-s", LOAD_S, "--check"];
        println!("{endpoint} to {addr}\n{}", seqsvr(&[&load[..], &["--uids", "1000000"]].concat()));
    }
    for ((pod, idle), own) in pods.iter().zip(idle).zip(own) {
        let (name, most) = (&pod.container.name, pod.container.memory_mib("VmHWM"));
        println!("{name:14} {idle:3} MiB resident, idle ({own} MiB of its own); {most:3} MiB at most, under load");
    }
    let first = pods.iter().find(|pod| pod.container.name == "im-a-alloc-1").unwrap();
    check_second_of_a_name(first, &hosts, &files, &image, &mut net);
    let mut sidecar = Sidecar::new(&files, &image, &mut net);
    sidecar.check(&hosts);
    // The pods end in reverse order, so that no pod waits for a pod that has ended.
    for pod in pods.iter_mut().rev() {
        assert_eq!(pod.container.terminate(), Some(0), "{}", pod.container.name);
    }
}

/// Starts a second pod with the name of a live allocator at another address: it serves no calls and names the first
/// pod's address.
fn check_second_of_a_name(first: &Pod, hosts: &str, files: &Files<'_>, image: &Image, net: &mut Net) {
    let mut second = Container::new("second", image, net, files.dir);
    files.configure(&mut second, (&first.spec, &first.spec.containers[0]), (&first.container.name, 1));
    let config = second.mounts.iter().find(|mount| mount.to == "/etc/seqsvr").unwrap().from.join("set.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(&first.dns, "second.example")).unwrap();
    second.start(&format!("{hosts}{} second.example\n", second.host.ip));
    let refused = || second.output().lines().find(|line| line.contains("NODE_ALIVE")).map(str::to_owned);
    let line = eventually("the second of a name is refused", refused);
    assert!(line.contains(&format!("{}:7100", first.dns)), "{line}");
    let spec = &first.spec.containers[0];
    assert!(!passes(&second, spec, &spec.readiness_probe) && passes(&second, spec, &spec.liveness_probe));
    assert!(passes(&first.container, spec, &spec.readiness_probe), "the first serves on");
    println!("{line}");
    assert_eq!(second.terminate(), Some(0));
}

/// Calls per second, to the proxies and then to the allocators.
const RATE: &str = "3000";

/// Seconds of each load.
const LOAD_S: &str = "10";

/// A pod of overlays/sidecar: an application with its own proxy.
struct Sidecar {
    pod: PodSpec,
    proxy: Container,
    application: Container,
}

impl Sidecar {
    fn new(files: &Files<'_>, image: &Image, net: &mut Net) -> Sidecar {
        let built = build(&root().join("overlays/sidecar"));
        let pod = built.objects.iter().find_map(Object::pods).unwrap().spec.clone().unwrap();
        let mut proxy = Container::new("sidecar", image, net, files.dir);
        let mut application = Container::at(proxy.host.clone(), "application", image, files.dir);
        let spec = &pod.init_containers.as_ref().unwrap()[0];
        files.configure(&mut proxy, (&pod, spec), ("backend-0", 0));
        files.configure(&mut application, (&pod, &pod.containers[0]), ("backend-0", 0));
        Sidecar { pod, proxy, application }
    }

    /// Starts the proxy, then the application, which calls it; ports on loopback cannot be reached from outside.
    fn check(&mut self, hosts: &str) {
        let spec = &self.pod.init_containers.as_ref().unwrap()[0];
        self.proxy.start(hosts);
        let proxy = &self.proxy;
        eventually("the sidecar has started", || passes(proxy, spec, &spec.startup_probe).then_some(()));
        assert!(passes(proxy, spec, &spec.liveness_probe) && passes(proxy, spec, &spec.readiness_probe));
        for port in [7600, 7679] {
            assert!(TcpStream::connect((proxy.host.ip, port)).is_err(), "port {port} is open to the network");
        }
        let stated = std::mem::replace(&mut self.application.args, vec!["next".to_owned(), "42".to_owned()]);
        assert_eq!(self.application.run(hosts), (Some(0), "3".to_owned()));
        // The arguments are as in the manifest, except for the duration.
        self.application.args = stated;
        *self.application.args.last_mut().unwrap() = "2".to_owned();
        let (code, output) = self.application.run(hosts);
        assert_eq!(code, Some(0), "{output}");
        println!("sidecar        {:3} MiB resident", self.proxy.memory_mib("VmRSS"));
        assert_eq!(self.proxy.terminate(), Some(0), "the sidecar");
    }
}
