//! The pods of the manifests as processes: started with the arguments, variables and files that the manifests state, and
//! probed as they state it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::container::{Container, Mount, volume};
use crate::image::Image;
use crate::kubernetes::{Built, build, root};
use crate::machine::{eventually, sh, try_run};
use crate::manifest::Object;
use crate::net::Net;

/// The name that callers reach the proxies by.
const SERVICE: &str = "seqsvr.seqsvr.svc";

/// One pod of a workload.
struct Pod {
    /// The name that other pods reach it by.
    dns: String,
    spec: PodSpec,
    container: Container,
}

impl Pod {
    /// Whether a probe of the container succeeds, from outside of the pod as a kubelet sends it.
    fn passes(&self, probe: &Option<Probe>) -> bool {
        let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        let IntOrString::String(name) = &get.port else { panic!("a port by number") };
        let ports = self.spec.containers[0].ports.iter().flatten();
        let port = ports.clone().find(|port| port.name.as_ref() == Some(name)).unwrap().container_port;
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let url = format!("{scheme}://{}:{port}{}", self.container.host.ip, get.path.as_deref().unwrap_or("/"));
        try_run("curl", &["-skf", "--max-time", "2", &url]).is_ok()
    }

    /// States what the manifest has for the container: `ordinal` is that of the pod.
    fn configure(&mut self, ordinal: i32, built: &Built, certs: &Path, dir: &Path) {
        let (spec, container) = (&self.spec.containers[0], &mut self.container);
        for variable in spec.env.iter().flatten() {
            let source = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
            let value = match source.map(|field| &*field.field_path) {
                None => variable.value.clone().unwrap(),
                Some("metadata.name") => container.name.clone(),
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
            let from = dir.join(format!("{}.{}", container.name, mount.name));
            match self.spec.volumes.iter().flatten().find(|volume| volume.name == mount.name) {
                Some(volume) => {
                    fs::create_dir(&from).unwrap();
                    if let Some(config) = &volume.config_map {
                        for file in &built.config_maps[&config.name] {
                            fs::copy(file, from.join(file.file_name().unwrap())).unwrap();
                        }
                    }
                    if let Some(secret) = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_deref()) {
                        copy_secret(secret, certs, &from);
                    }
                }
                None => drop(volume(from.clone())),
            }
            let is_read_only = mount.read_only == Some(true);
            container.mounts.push(Mount { from, to: mount.mount_path.clone(), is_read_only });
        }
    }
}

/// Copies the files of a Secret, as docs/install.md makes it.
fn copy_secret(name: &str, certs: &Path, to: &Path) {
    let prefix = match name {
        "im-a-store-certs" => "store.im-a.",
        "im-a-alloc-certs" => "alloc.im-a.",
        "proxy-certs" => "proxy.",
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

/// The pods of all workloads, none started.
fn pods(built: &Built, image: &Image, net: &mut Net, certs: &Path, dir: &Path) -> Vec<Pod> {
    let mut pods = Vec::new();
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
            let container = Container::new(&name, image, net, dir);
            let mut pod = Pod { dns, spec: object.pods().unwrap().spec.clone().unwrap(), container };
            pod.configure(ordinal, built, certs, dir);
            pods.push(pod);
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
    let set = built.config_maps["im-a-config"].iter().find(|file| file.ends_with("set.toml")).unwrap();
    let set = set.display().to_string();
    seqsvr(&["cert", "issue", "--set", &set, "proxy/proxy", "client/backend", "--host", SERVICE]);

    let mut pods = pods(&built, &image, &mut net, &certs, dir.path());
    let hosts: String = pods.iter().map(|pod| format!("{} {}\n", pod.container.host.ip, pod.dns)).collect();
    for pod in &mut pods {
        pod.container.start(&hosts);
    }
    let proxy = pods.iter().find(|pod| pod.container.name.starts_with("proxy")).unwrap().container.host.ip;
    fs::write(&hosts_file, format!("{hosts}{proxy} {SERVICE}\n")).unwrap();
    for pod in &pods {
        let (name, spec) = (&pod.container.name, &pod.spec.containers[0]);
        eventually(&format!("{name} is ready"), || pod.passes(&spec.readiness_probe).then_some(()));
        assert!(pod.passes(&spec.liveness_probe), "{name}");
    }
    assert_eq!(seqsvr(&["next", "42", "--addr", &format!("https://{SERVICE}:7600")]), "1");
    let alloc = pods.iter().find(|pod| pod.container.name.starts_with("im-a-alloc")).unwrap();
    assert_eq!(seqsvr(&["next", "42", "--addr", &format!("https://{}:7100", alloc.dns)]), "2");
    for pod in &pods {
        println!("{:14} {:3} MiB resident, idle", pod.container.name, pod.container.resident_mib());
    }
    // In the order in which nothing waits for what is gone.
    for pod in pods.iter_mut().rev() {
        assert_eq!(pod.container.terminate(), Some(0), "{}", pod.container.name);
    }
}
