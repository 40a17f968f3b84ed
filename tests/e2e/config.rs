//! The settings of running nodes over TLS: nodes that differ from the others are named, secrets and paths of keys stay
//! at the nodes, and changes that apply without a restart show.

use std::fs;

use prost::Message;
use seq_auth::{Credentials, Files};
use seq_channel::Pool;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetConfigRequest, GetConfigResponse};
use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::{Place, Server};

/// The password of the Redis ports, which no response may have.
const SECRET: &str = "correct-horse-7";

/// Ports for gRPC of the nodes of the set and of the proxy: for peers and callers, for Raft, and for operators.
const PORTS: [u16; 9] = [7301, 7304, 7307, 7303, 7400, 7404, 7401, 7405, 7600];

/// The set of `three-node.toml` and a proxy, with a common settings file, and other settings for s3 and a2.
struct Cluster {
    set: String,
    s3: Server,
    a2: Server,
    _others: Vec<Server>,
    /// Dropped after the servers, whose logs it has.
    place: Place,
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let set = place.secure_set_file("three-node.toml").display().to_string();
        let issued = place.seqsvr(&["cert", "issue", "viewer/console", "proxy/p1", "--host", &place.host.to_string()]);
        assert!(issued.status.success(), "{issued:?}");
        let base = format!("[redis]\npassword = \"{SECRET}\"\n[log]\nfilter = \"info,openraft=warn\"\n");
        let config = |name: &str, more: &str| {
            let path = place.path(name);
            fs::write(&path, format!("{base}{more}")).unwrap();
            path.display().to_string()
        };
        let [common, of_s3] = [config("common.toml", ""), config("s3.toml", "[store]\nlog_retained_entries = 7000\n")];
        let of_a2 = config("a2.toml", "");
        fs::write(&of_a2, base.replace("info,", "debug,")).unwrap();
        let store = |id: &str, config: &str| {
            let (name, data) = (format!("s{id}"), place.path(&format!("s{id}")).display().to_string());
            place.server(&name, &["store", "--set", &set, "--id", id, "--data", &data, "--config", config])
        };
        let alloc = |name: &str, config: &str| {
            place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1", "--config", config])
        };
        let [listen, http] = [7600, 7680].map(|port| format!("{}:{port}", place.host));
        let proxy = ["proxy", "--set", &set, "--name", "p1", "--listen", &listen, "--http", &http, "--config", &common];
        let others = vec![store("1", &common), store("2", &common), alloc("a1", &common), place.server("p1", &proxy)];
        let (s3, a2) = (store("3", &of_s3), alloc("a2", &of_a2));
        let cluster = Cluster { set, s3, a2, _others: others, place };
        let proxy = cluster.url(7600);
        let nodes = ["health", "--set", &cluster.set, "--addr", &proxy, "--wait", "60s"];
        let healthy = cluster.place.seqsvr(&nodes);
        assert!(healthy.status.success(), "{healthy:?}");
        cluster
    }

    fn url(&self, port: u16) -> String {
        format!("https://{}:{port}", self.place.host)
    }

    /// Runs `config diff`; returns its exit code, its JSON and its text on stderr.
    fn diff(&self, args: &[&str]) -> (Option<i32>, Value, String) {
        let output = self.place.seqsvr(&[&["config", "diff", "-o", "json"], args].concat());
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), json, String::from_utf8(output.stderr).unwrap())
    }

    /// Requests the settings of a node at a port.
    fn settings(&self, port: u16) -> GetConfigResponse {
        let credentials = Credentials::load(Files::in_dir(&self.place.path("certs"), "operator/admin")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let addr = format!("{}:{port}", self.place.host);
        runtime.block_on(async {
            let pool = Pool::with_dial(1, seq_channel::tls::dial(credentials));
            let mut node = StatusServiceClient::new(pool.get(&addr).unwrap());
            node.get_config(GetConfigRequest {}).await.unwrap_or_else(|status| panic!("{addr}: {status}")).into_inner()
        })
    }
}

/// Returns the keys of differences, with their nodes and values.
fn keys(diff: &Value) -> Vec<(String, Vec<(String, Value)>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let nodes = |item: &Value| {
        let nodes = item["nodes"].as_array().unwrap();
        nodes.iter().map(|node| (text(&node["node"]), node["value"].clone())).collect()
    };
    diff["items"].as_array().unwrap().iter().map(|item| (text(&item["key"]), nodes(item))).collect()
}

#[test]
fn nodes_with_other_settings_are_named_and_secrets_stay_at_the_nodes() {
    let mut cluster = Cluster::start();
    let of_a2 = cluster.place.path("a2.toml");

    // A store with a majority against it, and two allocators of which neither is the majority.
    let differing = |diff: &Value| {
        let of_s3 = ("store.log_retained_entries".to_owned(), vec![("s3".to_owned(), json!(7_000))]);
        assert_eq!(keys(diff)[0], of_s3, "{diff:#}");
        let item = &diff["items"][0];
        let place = format!("{}:6", cluster.place.path("s3.toml").display());
        let stated = [&item["set"], &item["kind"], &item["majority"], &item["nodes"][0]["origin"]];
        assert_eq!(stated, [&json!("im-a"), &json!("store"), &json!(5_000), &json!(place)], "{diff:#}");
    };
    for from in [["--set", &cluster.set], ["--addr", &cluster.url(7401)], ["--addr", &cluster.url(7304)]] {
        let (code, diff, stderr) = cluster.diff(&from);
        differing(&diff);
        let filters = ["info,openraft=warn", "debug,openraft=warn"].map(|filter| json!(filter));
        let [one, other] = filters;
        let of_allocs = ("log.filter".to_owned(), vec![("a1".to_owned(), one), ("a2".to_owned(), other)]);
        assert_eq!(keys(&diff)[1..], [of_allocs], "{diff:#}");
        assert_eq!((code, &diff["compared"], &*stderr), (Some(1), &json!(5), ""), "{diff:#}");
    }
    let (_, diff, _) = cluster.diff(&["--set", &cluster.set, "--all"]);
    let own = keys(&diff).into_iter().filter(|(key, _)| key.starts_with("node.")).map(|(key, _)| key);
    let own: Vec<String> = own.collect();
    assert!(own.contains(&"node.data".to_owned()) && own.contains(&"node.peer".to_owned()), "{own:?}");

    // The secret and the paths of private keys are in no response, at whichever port.
    let certs = cluster.place.path("certs").display().to_string();
    for port in PORTS {
        let settings = cluster.settings(port);
        let bytes = settings.encode_to_vec();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!has(SECRET) && !has(&certs) && !has(".pem"), "{port}: {settings:#?}");
        let value = |key: &str| settings.settings.iter().find(|row| row.key == key).map(|row| &*row.value);
        assert_eq!([value("redis.password"), value("node.certificate")], [Some("(set)"); 2], "{port}");
        assert!(bytes.len() < 16_384, "{port}: {} bytes", bytes.len());
    }
    let show = ["config", "show", "--origin", "--addr", &cluster.url(7600)];
    let shown = cluster.place.seqsvr_json(&show);
    let row = |key: &str| shown["items"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    let password = json!({ "key": "redis.password", "value": "(set)", "default": "",
                           "origin": format!("{}:2", cluster.place.path("common.toml").display()) });
    assert_eq!((row("redis.password"), &row("node.name")["origin"]), (password, &json!("--name")));

    // A viewer does not get the settings; the error names the role that does.
    for command in [&show[..], &["config", "diff", "--set", &cluster.set]] {
        let refused = cluster.place.seqsvr_as("viewer/console", command);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        let is_clear = stderr.contains("viewer/console may not call seqsvr.v1.StatusService/GetConfig")
            && stderr.contains("--identity operator/NAME");
        assert!(refused.status.code() == Some(1) && is_clear, "{stderr}");
    }

    // A setting that SIGHUP applies is shown at once, and a setting that needs a restart is not.
    let text = fs::read_to_string(&of_a2).unwrap().replace("debug,", "info,");
    fs::write(&of_a2, format!("{text}[alloc]\nretry_max_ms = 450\n")).unwrap();
    cluster.a2.hang_up();
    let of_stores = || {
        let (_, diff, _) = cluster.diff(&["--set", &cluster.set]);
        let keys = keys(&diff);
        (keys.len() == 1).then_some(keys)
    };
    assert_eq!(eventually("a2 has the common filter", of_stores)[0].0, "store.log_retained_entries");

    // A node that does not respond is named, and is no difference.
    cluster.s3.kill();
    let (code, diff, stderr) = cluster.diff(&["--addr", &cluster.url(7400), "--timeout", "1s"]);
    let named = stderr.contains("store s3: ") && stderr.contains("its settings are not compared");
    assert!(named && code == Some(8) && keys(&diff).is_empty(), "{code:?} {stderr} {diff:#}");
    assert_eq!((&diff["silent"][0]["node"], &diff["compared"]), (&json!("s3"), &json!(4)), "{diff:#}");
    let gone = cluster.place.seqsvr(&["config", "show", "--addr", &cluster.url(7303)]);
    assert_eq!(gone.status.code(), Some(4), "{gone:?}");
}
