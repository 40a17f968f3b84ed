//! The manifests of deploy/kubernetes, as kustomize builds them, against rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, Probe};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::manifest::{Kustomization, Object, documents};

/// The labels of pods, or those that a selector requires.
type Labels = BTreeMap<String, String>;

/// A kustomization with what it stands on, built.
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

/// Builds a directory as kustomize does, for what these kustomizations use of it.
pub(crate) fn build(dir: &Path) -> Built {
    let kustomization = Kustomization::read(dir);
    let mut built = Built::default();
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
    for patch in &kustomization.patches {
        let path = dir.join(&patch.path);
        for document in documents(&path) {
            merge(&mut built.objects, Object::read(&path, document));
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
    built
}

/// Merges a patch into the object of its kind and name.
fn merge(objects: &mut [Object], patch: Object) {
    let id = patch.id();
    let object = objects.iter_mut().find(|object| object.id() == id).unwrap_or_else(|| panic!("a patch of no {id}"));
    match (object, patch) {
        (Object::StatefulSet(object), Object::StatefulSet(patch)) => object.merge_from(patch),
        (Object::Deployment(object), Object::Deployment(patch)) => object.merge_from(patch),
        (Object::Service(object), Object::Service(patch)) => object.merge_from(patch),
        (Object::Budget(object), Object::Budget(patch)) => object.merge_from(patch),
        (Object::Policy(object), Object::Policy(patch)) => object.merge_from(patch),
        _ => panic!("a patch of {id}, which is not patched"),
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
    pods.spec.as_mut().into_iter().flat_map(|spec| &mut spec.containers)
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

/// The names of the ports that a container has.
fn port_names(spec: &PodSpec) -> BTreeSet<String> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| port.name.clone()).collect()
}

/// Every directory with a kustomization.
fn kustomizations() -> Vec<PathBuf> {
    let mut dirs = vec![root().join("base")];
    dirs.extend(std::fs::read_dir(root().join("overlays")).unwrap().map(|entry| entry.unwrap().path()));
    dirs
}

/// The workloads: pods that are served by one object, with its name.
fn workloads(built: &Built) -> Vec<(String, &PodTemplateSpec)> {
    built.objects.iter().filter_map(|object| Some((object.id(), object.pods()?))).collect()
}

#[test]
fn every_kustomization_is_sound() {
    for dir in kustomizations() {
        println!("{}: {} objects", dir.display(), check(&dir));
    }
}

/// Checks what a directory builds; returns the number of its objects.
fn check(dir: &Path) -> usize {
    let built = build(dir);
    let workloads = workloads(&built);
    assert!(!workloads.is_empty());
    for (id, pods) in &workloads {
        check_pods(id, pods, &built);
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

/// Every rule is broken once.
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
    ] {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(root().join("base")).unwrap() {
            let path = entry.unwrap().path();
            let mut text = std::fs::read_to_string(&path).unwrap();
            if path.ends_with(file) {
                assert!(text.contains(from), "{file} has no {from:?}");
                text = text.replace(from, to);
            }
            std::fs::write(dir.path().join(path.file_name().unwrap()), text).unwrap();
        }
        let fault = std::panic::catch_unwind(|| check(dir.path())).expect_err(&format!("{file}: {to}"));
        let fault = fault.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(fault.contains(found), "{file}: {to}: {fault}");
    }
}

fn check_pods(id: &str, pods: &PodTemplateSpec, built: &Built) {
    let spec = pods.spec.as_ref().unwrap();
    assert_eq!(spec.enable_service_links, Some(false), "{id}: variables of Services look like settings");
    assert_eq!(spec.automount_service_account_token, Some(false), "{id}: it calls no API server");
    let grace = spec.termination_grace_period_seconds.unwrap_or(30);
    assert!(grace >= 60, "{id}: {grace} s are less than an orderly stop may take");
    let security = spec.security_context.as_ref().unwrap_or_else(|| panic!("{id}: no securityContext"));
    assert_eq!(security.run_as_non_root, Some(true), "{id}");
    let profile = security.seccomp_profile.as_ref().map(|profile| profile.type_.as_str());
    assert_eq!(profile, Some("RuntimeDefault"), "{id}");
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    assert!(affinity.is_some() || spec.topology_spread_constraints.is_some(), "{id}: all pods may be on one host");
    let volumes: BTreeSet<&str> = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    for volume in spec.volumes.iter().flatten() {
        if let Some(config) = &volume.config_map {
            assert!(built.config_maps.contains_key(&config.name), "{id}: nothing makes ConfigMap {}", config.name);
        }
    }
    let claims = built.objects.iter().find(|object| object.id() == id).map(claims).unwrap_or_default();
    for container in &spec.containers {
        let at = format!("{id}, container {}", container.name);
        check_container(&at, container);
        for mount in container.volume_mounts.iter().flatten() {
            assert!(volumes.contains(&*mount.name) || claims.contains(&mount.name), "{at}: no volume {}", mount.name);
        }
    }
}

/// The names of the volumes that each pod of an object has of its own.
fn claims(object: &Object) -> BTreeSet<String> {
    let Object::StatefulSet(set) = object else { return BTreeSet::new() };
    let templates = set.spec.iter().flat_map(|spec| spec.volume_claim_templates.iter().flatten());
    templates.filter_map(|claim| claim.metadata.name.clone()).collect()
}

fn check_container(at: &str, container: &Container) {
    let image = container.image.as_deref().unwrap_or_default();
    let tag = image.rsplit_once(':').map(|(_, tag)| tag);
    assert!(tag.is_some_and(|tag| tag != "latest"), "{at}: image {image:?} has no version");
    if image.starts_with("seqsvr:") {
        assert_eq!(tag, Some(env!("CARGO_PKG_VERSION")), "{at}: another version than that of the sources");
    }
    let ports: BTreeSet<&str> = container.ports.iter().flatten().filter_map(|port| port.name.as_deref()).collect();
    for (name, probe, path) in [
        ("livenessProbe", &container.liveness_probe, "/livez"),
        ("readinessProbe", &container.readiness_probe, "/readyz"),
    ] {
        let probe: &Probe = probe.as_ref().unwrap_or_else(|| panic!("{at}: no {name}"));
        let get = probe.http_get.as_ref().unwrap_or_else(|| panic!("{at}: {name} is no httpGet"));
        assert_eq!(get.path.as_deref(), Some(path), "{at}: {name}");
        assert!(
            matches!(&get.port, IntOrString::String(port) if ports.contains(&**port)),
            "{at}: {name}: no such port"
        );
    }
    let resources = container.resources.as_ref().unwrap_or_else(|| panic!("{at}: no resources"));
    let has = |of: &Option<BTreeMap<String, _>>, what: &str| of.as_ref().is_some_and(|of| of.contains_key(what));
    assert!(has(&resources.requests, "cpu") && has(&resources.requests, "memory"), "{at}: no requests");
    assert!(has(&resources.limits, "memory"), "{at}: no limit on memory");
    let security = container.security_context.as_ref().unwrap_or_else(|| panic!("{at}: no securityContext"));
    assert_eq!(security.read_only_root_filesystem, Some(true), "{at}");
    assert_eq!(security.allow_privilege_escalation, Some(false), "{at}");
    let dropped = security.capabilities.as_ref().and_then(|capabilities| capabilities.drop.clone());
    assert_eq!(dropped, Some(vec!["ALL".to_owned()]), "{at}");
    let variables: BTreeSet<&str> = container.env.iter().flatten().map(|variable| &*variable.name).collect();
    for argument in container.args.iter().flatten() {
        if let Some(name) = argument.strip_prefix("$(") {
            assert!(variables.contains(name.trim_end_matches(')')), "{at}: no variable for {argument}");
        }
    }
}

/// Whether an object bounds the disruption of pods with these labels.
fn bounds(object: &Object, labels: &Labels) -> bool {
    let Object::Budget(budget) = object else { return false };
    budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|one| selects(&required(one), labels))
}

/// What objects name of others exists there.
fn check_selection(object: &Object, workloads: &[(String, &PodTemplateSpec)]) {
    let id = object.id();
    let selected = |selector: &Labels| -> Vec<&PodSpec> {
        let pods = workloads.iter().filter(|(_, pods)| selects(selector, &labels(pods)));
        let specs: Vec<&PodSpec> = pods.filter_map(|(_, pods)| pods.spec.as_ref()).collect();
        assert!(!specs.is_empty(), "{id}: its selector {selector:?} selects no pods");
        specs
    };
    match object {
        Object::Namespace(_) => {}
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

/// The set file of a ConfigMap passes the checks of the servers, and so do the settings.
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

/// The pods of a StatefulSet are the nodes of the set file: by name, id and port.
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
