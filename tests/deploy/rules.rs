//! Rules for pods and their containers: users, images, probes, volumes, memory, sidecars.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::kubernetes::Built;
use crate::manifest::Object;

/// Checks the rules of a workload's pods.
pub(crate) fn check_pods(id: &str, pods: &PodTemplateSpec, built: &Built) {
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
    for container in spec.init_containers.iter().flatten() {
        check_sidecar(&format!("{id}, container {}", container.name), container);
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        let at = format!("{id}, container {}", container.name);
        check_container(&at, container);
        if is_server(container) {
            check_probes(&at, container);
            check_memory(&at, container, spec, built);
        }
        for mount in container.volume_mounts.iter().flatten() {
            assert!(volumes.contains(&*mount.name) || claims.contains(&mount.name), "{at}: no volume {}", mount.name);
        }
    }
}

/// Returns the names of the volumes that each pod of an object claims for itself.
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

/// Returns whether a container is a node of a set or a proxy, and not an application.
fn is_server(container: &Container) -> bool {
    let command = container.args.iter().flatten().next();
    command.is_some_and(|command| ["store", "alloc", "proxy"].contains(&&**command))
}

fn check_probes(at: &str, container: &Container) {
    let ports: BTreeSet<&str> = container.ports.iter().flatten().filter_map(|port| port.name.as_deref()).collect();
    let startup = container.startup_probe.as_ref().map(|probe| ("startupProbe", Some(probe), "/readyz"));
    let others = [
        ("livenessProbe", container.liveness_probe.as_ref(), "/livez"),
        ("readinessProbe", container.readiness_probe.as_ref(), "/readyz"),
    ];
    for (name, probe, path) in others.into_iter().chain(startup) {
        let probe: &Probe = probe.unwrap_or_else(|| panic!("{at}: no {name}"));
        let get = probe.http_get.as_ref().unwrap_or_else(|| panic!("{at}: {name} is no httpGet"));
        assert_eq!(get.path.as_deref(), Some(path), "{at}: {name}");
        assert!(
            matches!(&get.port, IntOrString::String(port) if ports.contains(&**port)),
            "{at}: {name}: no such port"
        );
    }
}

/// Checks the rules of a container that starts before the application and runs next to it.
fn check_sidecar(at: &str, container: &Container) {
    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
    assert!(is_sidecar, "{at} is no sidecar: it has to end before the application starts");
    assert!(container.startup_probe.is_some(), "{at}: no startupProbe: the application does not wait for it");
    let security = container.security_context.as_ref();
    // The pod's own security context applies to the application.
    assert_eq!(security.and_then(|security| security.run_as_non_root), Some(true), "{at}: runs as root");
    let args: Vec<&String> = container.args.iter().flatten().collect();
    for pair in args.windows(2) {
        let (flag, addr) = (pair[0].as_str(), pair[1]);
        let is_on_loopback = addr.starts_with("127.0.0.1:");
        match flag {
            "--listen" | "--redis" => assert!(is_on_loopback, "{at}: {flag} {addr} is not on loopback"),
            "--http" => assert!(!is_on_loopback, "{at}: {flag} {addr}: probes do not reach it"),
            _ => {}
        }
    }
}

/// Minimum memory of a server in addition to its requests, in MiB: idle, with connections and counters of some million
/// uids. It is far above the limit at which a server refuses to start.
const ROOM_MIB: u64 = 128;

/// Checks that the memory limit of a server is above the memory that its settings allow.
fn check_memory(at: &str, container: &Container, spec: &PodSpec, built: &Built) {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = mib(&limits.and_then(|limits| limits.get("memory")).unwrap().0);
    let variable = |name: &str| {
        let variable = container.env.iter().flatten().find(|variable| variable.name == name);
        variable.and_then(|variable| variable.value.clone())
    };
    let from_file = || {
        let file = variable("SEQSVR_CONFIG")?;
        let file = std::path::Path::new(&file).file_name()?;
        let maps = spec.volumes.iter().flatten().filter_map(|volume| volume.config_map.as_ref());
        let mut files = maps.flat_map(|map| &built.config_maps[&map.name]);
        let path = files.find(|path| path.file_name() == Some(file))?;
        let settings: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        settings.get("limits")?.get("memory_mib")?.as_integer().map(|mib| mib.to_string())
    };
    let memory_mib = variable("SEQSVR_LIMITS_MEMORY_MIB").or_else(from_file).map_or(256, |mib| mib.parse().unwrap());
    // A store has no requests from callers.
    let memory_mib = if container.args.iter().flatten().any(|arg| arg == "store") { 0 } else { memory_mib };
    assert!(
        limit >= memory_mib + ROOM_MIB,
        "{at}: {limit} MiB are less than memory_mib = {memory_mib} and {ROOM_MIB} MiB of the process itself"
    );
}

/// Returns a quantity of memory, such as 1Gi, in MiB.
fn mib(quantity: &str) -> u64 {
    let (number, factor) = match quantity.strip_suffix("Gi") {
        Some(number) => (number, 1024),
        None => (quantity.strip_suffix("Mi").unwrap_or_else(|| panic!("memory is in Mi or Gi: {quantity}")), 1),
    };
    number.parse::<u64>().unwrap() * factor
}
