//! The services of deploy/compose, checked against rules and run as processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use seq_testkit::eventually;
use serde::Deserialize;
use serde_json::Value;

use crate::container::{Container, Mount, volume};
use crate::image::Image;
use crate::machine::sh;
use crate::manifest::documents;
use crate::net::Net;

/// The part of the format that compose.yaml uses, with merged keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compose {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "x-node")]
    _node: Value,
    services: BTreeMap<String, Service>,
    volumes: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    image: String,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(default)]
    depends_on: BTreeMap<String, Value>,
    healthcheck: Option<Healthcheck>,
    restart: String,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    cap_drop: Vec<String>,
    #[serde(default)]
    security_opt: Vec<String>,
    stop_grace_period: Option<String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default, rename = "profiles")]
    _profiles: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Healthcheck {
    test: Vec<String>,
    #[serde(rename = "interval")]
    _interval: String,
    #[serde(rename = "timeout")]
    _timeout: String,
    #[serde(rename = "retries")]
    _retries: u32,
    #[serde(rename = "start_period")]
    _start_period: String,
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose")
}

/// Merges keys of YAML (`<<`), which the deserializer of JSON values does not support.
fn merge(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    if let Some(Value::Object(base)) = fields.remove("<<") {
        for (name, value) in base {
            fields.entry(name).or_insert(value);
        }
    }
    fields.values_mut().for_each(merge);
}

fn compose() -> Compose {
    let mut document = documents(&dir().join("compose.yaml")).remove(0);
    merge(&mut document);
    serde_json::from_value(document).unwrap()
}

/// Returns the nodes of seqsvr, which run until they are stopped.
fn nodes(compose: &Compose) -> impl Iterator<Item = (&String, &Service)> {
    compose.services.iter().filter(|(_, service)| {
        service.image.starts_with("seqsvr:") && ["store", "alloc", "proxy"].contains(&&*service.command[0])
    })
}

#[test]
fn the_services_are_sound() {
    let compose = compose();
    for (name, service) in &compose.services {
        let tag = service.image.rsplit_once(':').map(|(_, tag)| tag);
        assert!(tag.is_some_and(|tag| tag != "latest"), "{name}: image {} has no version", service.image);
        for volume in &service.volumes {
            let from = volume.split(':').next().unwrap();
            let exists =
                if from.starts_with('.') { dir().join(from).exists() } else { compose.volumes.contains_key(from) };
            assert!(exists, "{name}: no volume or path {from}");
        }
        assert!(
            service.ports.iter().all(|port| port.starts_with("127.0.0.1:")),
            "{name}: ports are open to the network"
        );
        assert!(service.depends_on.keys().all(|other| compose.services.contains_key(other)), "{name}");
    }
    for (name, service) in nodes(&compose) {
        assert_eq!(service.image, format!("seqsvr:{}", env!("CARGO_PKG_VERSION")), "{name}");
        assert!(service.healthcheck.is_some() && service.read_only && service.restart == "unless-stopped", "{name}");
        assert_eq!(
            (&*service.cap_drop, &*service.security_opt),
            (&["ALL".to_owned()][..], &["no-new-privileges:true".to_owned()][..])
        );
        assert_eq!(service.stop_grace_period.as_deref(), Some("60s"), "{name}");
    }
    // The hosts in the set files are exactly the services.
    let mut hosts = BTreeSet::new();
    for set in ["im-a", "im-b"] {
        let set: toml::Table =
            std::fs::read_to_string(dir().join(format!("sets/{set}.toml"))).unwrap().parse().unwrap();
        for node in ["store", "alloc"].iter().flat_map(|table| set[*table].as_array().unwrap()) {
            hosts.insert(node["addr"].as_str().unwrap().split(':').next().unwrap().to_owned());
        }
    }
    hosts.insert("proxy".to_owned());
    assert_eq!(hosts, nodes(&compose).map(|(name, _)| name.clone()).collect());
}

/// Starts two sets as `docker compose up` does: each service starts once its dependencies are healthy.
#[test]
#[ignore = "needs root, and the image of `cargo xtask dist`"]
fn two_sets_run_from_the_image_as_compose_starts_them() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::unpack(&dir.path().join("image"));
    let (mut net, compose) = (Net::new(), compose());
    let volumes: BTreeMap<&String, PathBuf> =
        compose.volumes.keys().map(|name| (name, volume(dir.path().join(format!("{name}.volume"))))).collect();
    let sets = dir.path().join("sets");
    sh(&format!("cp -r {} {}", self::dir().join("sets").display(), sets.display()));
    let mut container = |name: &str, service: &Service| {
        let mut container = Container::new(name, &image, &mut net, dir.path());
        container.args = service.command.clone();
        container.env = service.environment.clone().into_iter().collect();
        container.mounts = service
            .volumes
            .iter()
            .map(|volume| {
                let parts: Vec<&str> = volume.split(':').collect();
                let from = volumes.get(&parts[0].to_owned()).cloned().unwrap_or_else(|| sets.clone());
                Mount { from, to: parts[1].to_owned(), is_read_only: parts.get(2) == Some(&"ro") }
            })
            .collect();
        container
    };
    for name in ["certs-a", "certs-b"] {
        let mut once = container(name, &compose.services[name]);
        let (code, output) = once.run("");
        assert_eq!(code, Some(0), "{name}: {output}");
    }
    let mut running: Vec<Container> = nodes(&compose).map(|(name, service)| container(name, service)).collect();
    let hosts: String = running.iter().map(|one| format!("{} {}\n", one.host.ip, one.name)).collect();
    for one in &mut running {
        one.start(&hosts);
    }
    let mut define = container("define", &compose.services["define"]);
    // The service restarts on failure.
    eventually("both sets are defined", || (define.run(&hosts).0 == Some(0)).then_some(()));
    let mut client = container("client", &compose.services["client"]);
    let mut run = |args: &[&str]| {
        client.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        client.run(&hosts)
    };
    for (name, service) in nodes(&compose) {
        let test: Vec<&str> = service.healthcheck.as_ref().unwrap().test.iter().map(String::as_str).collect();
        assert_eq!(test[..2], ["CMD", "/seqsvr"]);
        eventually(&format!("{name} is healthy"), || (run(&test[2..]).0 == Some(0)).then_some(()));
    }
    assert_eq!(run(&["next", "42"]), (Some(0), "1".to_owned()));
    let (code, sets) = run(&["set", "list", "--identity", "operator/admin", "--addr", "https://a-a1:7100"]);
    assert!(code == Some(0) && sets.contains("im-a") && sets.contains("im-b"), "{sets}");
    println!("{sets}");
    running.sort_by_key(|one| !one.name.starts_with("proxy") && !one.name.contains("-a"));
    for one in &mut running {
        assert_eq!(one.terminate(), Some(0), "{}", one.name);
    }
}
