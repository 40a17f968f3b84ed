//! The manifests of deploy/kubernetes, as kustomize builds them, checked against rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::machine::sh;
use crate::manifest::{Kustomization, Object, Target, documents};
use crate::rules;

/// The labels of pods, or the labels that a selector requires.
type Labels = BTreeMap<String, String>;

/// A built kustomization, with its bases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    pub(crate) objects: Vec<Object>,
    /// The files of each ConfigMap, by its name.
    pub(crate) config_maps: BTreeMap<String, Vec<PathBuf>>,
    namespace: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes")
}

impl Built {
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Builds a directory like kustomize, limited to the features that these kustomizations use.
pub(crate) fn build(dir: &Path) -> Built {
    let mut built = Built::default();
    apply(dir, &mut built);
    built
}

/// Adds the resources of a kustomization, and applies its changes; a component changes the resources of the
/// kustomization that names it.
fn apply(dir: &Path, built: &mut Built) {
    let kustomization = Kustomization::read(dir);
    for resource in &kustomization.resources {
        let path = dir.join(resource);
        if path.is_dir() {
            let inner = build(&path);
            built.objects.extend(inner.objects);
            built.config_maps.extend(inner.config_maps);
            built.namespace = inner.namespace;
        } else {
            built.objects.extend(documents(&path).into_iter().map(|document| Object::read(&path, document)));
        }
    }
    for generator in &kustomization.config_map_generator {
        let files = generator.files.iter().map(|file| dir.join(file)).collect();
        built.config_maps.insert(generator.name.clone(), files);
    }
    for component in &kustomization.components {
        apply(&dir.join(component), built);
    }
    for patch in &kustomization.patches {
        let path = dir.join(&patch.path);
        for document in documents(&path) {
            merge(&mut built.objects, Object::read(&path, document), patch.target.as_ref());
        }
    }
    if let Some(namespace) = kustomization.namespace {
        built.namespace = namespace;
    }
    for image in &kustomization.images {
        for container in built.objects.iter_mut().filter_map(pods_mut).flat_map(containers_mut) {
            if container.image.as_deref() == Some(&image.name) {
                container.image = Some(format!("{}:{}", image.name, image.new_tag));
            }
        }
    }
}

/// Merges a patch into the objects of its target, or into the object of its own kind and name.
fn merge(objects: &mut [Object], patch: Object, target: Option<&Target>) {
    let id = patch.id();
    let is_patched = |object: &&mut Object| target.map_or(object.id() == id, |target| object.is_target(target));
    let patched: Vec<&mut Object> = objects.iter_mut().filter(is_patched).collect();
    assert!(!patched.is_empty(), "a patch of no {id}");
    for object in patched {
        match (object, patch.clone()) {
            (Object::StatefulSet(object), Object::StatefulSet(patch)) => object.merge_from(patch),
            (Object::Deployment(object), Object::Deployment(mut patch)) => {
                patch.metadata.name.clone_from(&object.metadata.name);
                object.merge_from(patch);
            }
            (Object::Service(object), Object::Service(patch)) => object.merge_from(patch),
            (Object::Budget(object), Object::Budget(patch)) => object.merge_from(patch),
            (Object::Policy(object), Object::Policy(patch)) => object.merge_from(patch),
            _ => panic!("a patch of {id}, which is not patched"),
        }
    }
}

fn pods_mut(object: &mut Object) -> Option<&mut PodTemplateSpec> {
    match object {
        Object::StatefulSet(it) => Some(&mut it.spec.as_mut()?.template),
        Object::Deployment(it) => it.spec.as_mut().map(|spec| &mut spec.template),
        _ => None,
    }
}

fn containers_mut(pods: &mut PodTemplateSpec) -> impl Iterator<Item = &mut Container> {
    let spec = pods.spec.as_mut().into_iter();
    spec.flat_map(|spec| spec.init_containers.iter_mut().flatten().chain(&mut spec.containers))
}

fn labels(pods: &PodTemplateSpec) -> Labels {
    pods.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default()
}

fn required(selector: &LabelSelector) -> Labels {
    assert!(selector.match_expressions.is_none(), "no rule for expressions in selectors");
    selector.match_labels.clone().unwrap_or_default()
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// Returns the containers of a pod, in the order in which they start.
fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Returns the names of the containers' ports.
fn port_names(spec: &PodSpec) -> BTreeSet<String> {
    let ports = containers(spec).flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| port.name.clone()).collect()
}

/// Returns every directory with a kustomization.
fn kustomizations() -> Vec<PathBuf> {
    let mut dirs = vec![root().join("base")];
    dirs.extend(std::fs::read_dir(root().join("overlays")).unwrap().map(|entry| entry.unwrap().path()));
    dirs
}

/// Returns the workloads: the templates of pods, each with the name of its object.
fn workloads(built: &Built) -> Vec<(String, &PodTemplateSpec)> {
    built.objects.iter().filter_map(|object| Some((object.id(), object.pods()?))).collect()
}

#[test]
fn every_kustomization_is_sound() {
    for dir in kustomizations() {
        println!("{}: {} objects", dir.display(), check(&dir));
    }
}

/// Checks the objects of a directory; returns their number.
fn check(dir: &Path) -> usize {
    let built = build(dir);
    let workloads = workloads(&built);
    assert!(!workloads.is_empty());
    for (id, pods) in &workloads {
        rules::check_pods(id, pods, &built);
        let is_bounded = built.objects.iter().any(|object| bounds(object, &labels(pods)));
        assert!(is_bounded, "{id}: no PodDisruptionBudget selects its pods");
    }
    for object in &built.objects {
        check_selection(object, &workloads);
    }
    for (name, files) in &built.config_maps {
        check_config(name, files);
    }
    built.objects.len()
}

/// Breaks every rule once.
#[test]
fn faults_are_found() {
    for (file, from, to, found) in [
        ("store.yaml", "readinessProbe:", "readinesProbe:", "has no fields"),
        ("alloc.yaml", "path: /readyz", "path: /livez", "readinessProbe"),
        ("alloc.yaml", "path: /livez, port: http", "path: /livez, port: web", "no such port"),
        ("kustomization.yaml", "newTag: 0.1.0", "newTag: latest", "has no version"),
        ("kustomization.yaml", "newTag: 0.1.0", "newTag: 0.0.9", "another version"),
        ("kustomization.yaml", "im-a-config", "im-b-config", "nothing makes ConfigMap im-a-config"),
        ("proxy.yaml", "targetPort: redis", "targetPort: resp", "have no port resp"),
        ("network.yaml", "component: proxy", "component: router", "selects no pods"),
        (
            "alloc.yaml",
            "kind: PodDisruptionBudget\nmetadata:\n  name: im-a-alloc",
            "kind: Namespace\nmetadata:\n  name: x",
            "",
        ),
        ("network.yaml", "- {port: raft}", "- {port: rafts}", "have no port rafts"),
        ("store.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "variables of Services"),
        ("store.yaml", "runAsNonRoot: true", "runAsNonRoot: false", ""),
        ("store.yaml", "drop: [ALL]", "drop: [NET_RAW]", ""),
        (
            "store.yaml",
            "mountPath: /data}",
            "mountPath: /data}\n            - {name: more, mountPath: /more}",
            "no volume more",
        ),
        ("alloc.yaml", "$(POD_NAME)", "$(NODE_NAME)", "no variable for $(NODE_NAME)"),
        ("alloc.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 20", "20 s are less"),
        ("alloc.yaml", "            limits: {memory: 1Gi}", "", "no limit on memory"),
        ("set.toml", "step = 10_000", "steps = 10_000", "ConfigMap im-a-config"),
        ("seqsvr.toml", "memory_mib = 256", "memory_mib = 25", "ConfigMap im-a-config"),
        ("seqsvr.toml", "memory_mib = 256", "memory_mib = 1000", "1024 MiB are less than memory_mib = 1000 and"),
        ("store.yaml", "limits: {memory: 1Gi}", "limits: {memory: 120Mi}", "120 MiB are less than"),
    ] {
        break_and_check("base", &format!("base/{file}"), (from, to), found);
    }
}

#[test]
fn faults_of_a_sidecar_are_found() {
    let proxy = "components/sidecar/proxy.yaml";
    for (file, from, to, found) in [
        (proxy, "          restartPolicy: Always\n", "", "no sidecar: it has to end before the application starts"),
        (proxy, "127.0.0.1:7600", "0.0.0.0:7600", "--listen 0.0.0.0:7600 is not on loopback"),
        (proxy, "127.0.0.1:7679", "0.0.0.0:7679", "--redis 0.0.0.0:7679 is not on loopback"),
        (proxy, "0.0.0.0:7680", "127.0.0.1:7680", "--http 127.0.0.1:7680: probes do not reach it"),
        (
            proxy,
            "startupProbe:\n            httpGet: {path: /readyz",
            "startupProbe:\n            httpGet: {path: /livez",
            "startupProbe",
        ),
        (proxy, "          startupProbe:", "          unusedProbe:", "has no fields"),
        (proxy, "value: \"128\"", "value: \"256\"", "256 MiB are less than memory_mib = 256 and"),
        (proxy, "runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
        (proxy, "secretName: sidecar-certs", "secretNam: sidecar-certs", "has no fields"),
        (proxy, "- name: seqsvr-certs\n          secret", "- name: other\n          secret", "no volume seqsvr-certs"),
        ("components/sidecar/network.yaml", "- {port: seqsvr-http}", "- {port: http}", "have no port http"),
        ("components/sidecar/kustomization.yaml", "newTag: 0.1.0", "newTag: latest", "has no version"),
        (
            "components/sidecar/kustomization.yaml",
            "seqsvr/sidecar=true",
            "seqsvr/sidecar=yes",
            "a patch of no Deployment",
        ),
        ("overlays/sidecar/namespace.yaml", "seqsvr/caller: \"true\"", "x: \"true\"", "seqsvr/caller"),
    ] {
        break_and_check("overlays/sidecar", file, (from, to), found);
    }
}

/// Replaces a text in a copy of the manifests, and checks that the rules find the fault in the kustomization `dir`.
fn break_and_check(dir: &str, file: &str, (from, to): (&str, &str), found: &str) {
    let copy = tempfile::tempdir().unwrap();
    sh(&format!("cp -r {}/. {}", root().display(), copy.path().display()));
    let path = copy.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from:?}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    let fault =
        std::panic::catch_unwind(|| check(&copy.path().join(dir))).expect_err(&format!("not found: {file}: {to}"));
    let fault = fault.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(fault.contains(found), "{file}: {to}: {fault}");
}

/// Returns whether an object bounds the disruption of pods with these labels.
fn bounds(object: &Object, labels: &Labels) -> bool {
    let Object::Budget(budget) = object else { return false };
    budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|one| selects(&required(one), labels))
}

/// Checks that the pods and ports which an object names exist.
fn check_selection(object: &Object, workloads: &[(String, &PodTemplateSpec)]) {
    let id = object.id();
    let selected = |selector: &Labels| -> Vec<&PodSpec> {
        let pods = workloads.iter().filter(|(_, pods)| selects(selector, &labels(pods)));
        let specs: Vec<&PodSpec> = pods.filter_map(|(_, pods)| pods.spec.as_ref()).collect();
        assert!(!specs.is_empty(), "{id}: its selector {selector:?} selects no pods");
        specs
    };
    match object {
        Object::Namespace(namespace) => {
            let has_sidecars =
                workloads.iter().any(|(_, pods)| labels(pods).get("seqsvr/sidecar").is_some_and(|is| is == "true"));
            let is_caller = namespace.metadata.labels.iter().flatten().any(|(name, _)| name == "seqsvr/caller");
            assert!(is_caller || !has_sidecars, "{id}: without seqsvr/caller its sidecars reach no allocator");
        }
        Object::StatefulSet(set) => {
            let spec = set.spec.as_ref().unwrap();
            let pods = &spec.template;
            assert!(selects(&required(&spec.selector), &labels(pods)), "{id}: its selector is not of its pods");
        }
        Object::Deployment(deployment) => {
            let spec = deployment.spec.as_ref().unwrap();
            assert!(
                selects(&required(&spec.selector), &labels(&spec.template)),
                "{id}: its selector is not of its pods"
            );
        }
        Object::Service(service) => {
            let spec = service.spec.as_ref().unwrap();
            for pods in selected(spec.selector.as_ref().unwrap_or(&Labels::new())) {
                for port in spec.ports.iter().flatten() {
                    let Some(IntOrString::String(target)) = &port.target_port else { panic!("{id}: a port by number") };
                    assert!(port_names(pods).contains(target), "{id}: its pods have no port {target}");
                }
            }
        }
        Object::Budget(budget) => {
            let spec = budget.spec.as_ref().unwrap();
            selected(&required(spec.selector.as_ref().unwrap()));
            assert_eq!(spec.max_unavailable, Some(IntOrString::Int(1)), "{id}");
        }
        Object::Policy(policy) => {
            let spec = policy.spec.as_ref().unwrap();
            let selector = spec.pod_selector.as_ref().map(required).unwrap_or_default();
            for pods in selected(&selector) {
                for port in spec.ingress.iter().flatten().flat_map(|rule| rule.ports.iter().flatten()) {
                    let Some(IntOrString::String(name)) = &port.port else { panic!("{id}: a port by number") };
                    assert!(port_names(pods).contains(name), "{id}: its pods have no port {name}");
                }
            }
        }
    }
}

/// Checks the set file and the settings of a ConfigMap with the servers' own checks.
fn check_config(name: &str, files: &[PathBuf]) {
    for file in files {
        let is_set = std::fs::read_to_string(file).unwrap().contains("[[store]]");
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        let checks = if is_set { vec!["config", "check"] } else { vec!["config", "show", "--config"] };
        let output = command.args(checks).arg(file).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ConfigMap {name}: {}: {error}", file.display());
    }
}

/// The pods of a StatefulSet match the nodes of the set file by name, id and port.
#[test]
fn the_pods_are_the_nodes_of_the_set_file() {
    let built = build(&root().join("base"));
    let file = built.config_maps["im-a-config"].iter().find(|file| file.ends_with("set.toml")).unwrap();
    let set: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    for object in &built.objects {
        let Object::StatefulSet(stateful) = object else { continue };
        let (name, spec) = (stateful.metadata.name.clone().unwrap(), stateful.spec.as_ref().unwrap());
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let names: Vec<String> =
            (first..first + spec.replicas.unwrap()).map(|ordinal| format!("{name}-{ordinal}")).collect();
        let table = if name.ends_with("store") { "store" } else { "alloc" };
        let nodes = set[table].as_array().unwrap();
        let in_file: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
        assert_eq!(in_file, names, "the nodes of {}", file.display());
        let pods = spec.template.spec.as_ref().unwrap();
        let ports: BTreeSet<i32> =
            pods.containers.iter().flat_map(|one| one.ports.iter().flatten()).map(|port| port.container_port).collect();
        let service = spec.service_name.clone().unwrap();
        for (index, node) in nodes.iter().enumerate() {
            if table == "store" {
                assert_eq!(node["id"].as_integer(), Some(i64::from(first) + index as i64));
            }
            for key in ["addr", "peer", "raft", "redis", "http"] {
                let Some(addr) = node.get(key).and_then(|addr| addr.as_str()) else { continue };
                let (host, port) = addr.rsplit_once(':').unwrap();
                let expected = format!("{}.{service}.{}.svc.cluster.local", names[index], built.namespace);
                assert_eq!(host, expected, "{key} of {}", names[index]);
                assert!(ports.contains(&port.parse().unwrap()), "{name}: its container has no port {port}");
            }
        }
    }
}
