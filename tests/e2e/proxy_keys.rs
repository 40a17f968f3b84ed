//! Keys at `seqsvr proxy`, in front of a set of two AllocSvrs: every endpoint, and an owner that is killed.

use std::collections::BTreeMap;
use std::fs;

use seq_proto::v1;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::v1::next_stream_response::Outcome;
use seq_testkit::eventually;
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::{Place, Server, digits, seqsvr_json};
use crate::proxy::{PORTS, http, readyz, reason};
use crate::redis::tool;
use crate::redis_keys::ask;

/// Keys in buckets of both AllocSvrs.
const KEYS: [&str; 8] = ["conv:1", "conv:2", "conv:3", "{a}:x", "{b}:y", "slash/and space", "100%", "z"];

/// A set of two AllocSvrs with the keyspace `main`, and a proxy.
struct Set {
    servers: BTreeMap<&'static str, Server>,
    /// Address of an AllocSvr.
    direct: String,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Set {
    fn start() -> Set {
        let place = Place::new();
        let file = place.set_file("three-node.toml").display().to_string();
        let config = place.path("seqsvr.toml").display().to_string();
        fs::write(&config, "[redis]\nkeyspace = \"main\"\n").unwrap();
        let mut servers = BTreeMap::new();
        for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
            let data = place.path(name).display().to_string();
            servers.insert(name, place.server(name, &["store", "--set", &file, "--id", id, "--data", &data]));
        }
        for name in ["a1", "a2"] {
            servers.insert(name, place.server(name, &["alloc", "--set", &file, "--name", name, "--cores", "1"]));
        }
        let [grpc, redis, http] = PORTS.map(|port| format!("{}:{port}", place.host));
        let ports = ["--listen", &grpc, "--redis", &redis, "--http", &http, "--config", &config];
        let args = [&["proxy", "--set", &file, "--cores", "1"][..], &ports].concat();
        servers.insert("proxy", place.server("proxy", &args));
        seqsvr_json(&["health", "--wait-s", "60", "--set", &file]);
        seqsvr_json(&["keyspace", "create", "main", "--yes", "--set", &file]);
        eventually("the proxy is ready", || readyz(&place).filter(|(ready, _)| *ready));
        let direct = format!("http://{}:7401", place.host);
        eventually("each bucket has an owner, and both AllocSvrs have buckets", || {
            let shown = seqsvr_json(&["keyspace", "show", "main", "--addr", &direct]);
            let runs = shown["runs"].as_array()?;
            let of = |owner: &str| {
                let runs = runs.iter().filter(|run| run["owner"] == owner);
                runs.map(|run| run["buckets"].as_u64().unwrap()).sum::<u64>()
            };
            (of("a1") > 0 && of("a2") > 0 && of("a1") + of("a2") == 16_384).then_some(())
        });
        Set { servers, direct, place }
    }

    async fn client(&self) -> KeyServiceClient<Channel> {
        KeyServiceClient::connect(format!("http://{}:{}", self.place.host, PORTS[0])).await.unwrap()
    }
}

fn next(key: &str) -> v1::NextKeyRequest {
    v1::NextKeyRequest { keyspace: "main".into(), key: key.to_owned(), count: 1, ..v1::NextKeyRequest::default() }
}

fn many(keys: &[&str], counts: &[u32]) -> v1::NextKeysRequest {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    v1::NextKeysRequest { keyspace: "main".into(), keys, counts: counts.to_vec(), ..v1::NextKeysRequest::default() }
}

/// Sends one message in its own stream.
async fn stream(client: &mut KeyServiceClient<Channel>, keys: &[&str]) -> v1::NextManyResponse {
    let message = v1::NextKeysMessage { tag: 9, request: Some(many(keys, &[])), ..v1::NextKeysMessage::default() };
    let mut responses = client.next_stream(tokio_stream::iter([message])).await.unwrap().into_inner();
    let response = responses.message().await.unwrap().expect("a response to the message");
    match response.outcome {
        Some(Outcome::Response(given)) if response.tag == 9 => given,
        other => panic!("{other:?}"),
    }
}

/// Returns a key as it is written in a path.
fn in_path(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Takes a number, again and again until a call is served. A call is refused only while it can be repeated.
async fn served(client: &mut KeyServiceClient<Channel>, key: &str) -> u64 {
    for _ in 0..100 {
        match client.next(next(key)).await {
            Ok(given) => return given.into_inner().value,
            Err(status) => assert!(is_repeatable(&status), "{key}: {status:?}"),
        }
    }
    panic!("{key} was refused a hundred times");
}

fn is_repeatable(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded)
}

#[tokio::test]
async fn every_endpoint_of_a_proxy_serves_keys_in_one_order_past_a_killed_owner() {
    let mut set = Set::start();
    let (mut client, host) = (set.client().await, set.place.host.to_string());
    eventually("the proxy knows the keyspace", || {
        let path = "GET /api/key/current/main/never";
        http(&set.place, PORTS[0], path, "").filter(|(status, _)| status.contains(" 200 "))
    });
    let cli = tool("redis-cli");
    for key in KEYS {
        let first = client.next(next(key)).await.unwrap().into_inner();
        assert_eq!((first.value, first.prev), (1, 0), "{key}");
        let given = client.next_many(many(&[key, key, ""], &[1, 3, 1])).await.unwrap().into_inner();
        assert_eq!((given.values, given.prevs), (vec![2, 5, 0], vec![1, 2, 0]));
        let errors: Vec<_> = given.errors.iter().map(|error| (error.index, error.reason.as_str())).collect();
        assert_eq!(errors, [(2, "KEY_SIZE")]);
        let streamed = stream(&mut client, &[key]).await;
        assert_eq!((streamed.values, streamed.prevs), (vec![6], vec![5]));
        let body = serde_json::json!({"keyspace": "main", "key": key}).to_string();
        let json = http(&set.place, PORTS[0], "POST /seqsvr.v1.KeyService/Next", &body).unwrap().1;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["value"], &json["prev"]), (&"7".into(), &"6".into()));
        let text = http(&set.place, PORTS[0], &format!("POST /api/key/next/main/{}", in_path(key)), "").unwrap();
        assert_eq!(text.1.trim_end(), "8");
        let mut last = 8;
        if let Some(cli) = &cli {
            let redis = |args: &[&str]| ask(cli, (&host, &PORTS[1].to_string()), args);
            assert_eq!(redis(&["INCR", key]), "9");
            assert_eq!(redis(&["INCRBY", key, "2"]), "11");
            assert_eq!(redis(&["MGET", key, "never"]), "11");
            assert_eq!(redis(&["SET", key, "20"]), "OK");
            last = 20;
        }
        let read = v1::CurrentKeyRequest { keyspace: "main".into(), key: key.to_owned(), ..Default::default() };
        let read = client.current(read).await.unwrap().into_inner();
        assert_eq!((read.value, read.exactness()), (last, v1::Exactness::Exact));
        // A caller of a node gets the next number.
        let direct = &seqsvr_json(&["next", "--key", key, "--addr", &set.direct])["items"][0];
        assert_eq!(digits(&direct["value"]), last + 1);
    }
    refused(&mut client).await;

    set.servers.get_mut("a1").unwrap().kill();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for round in 0..3 {
        for key in KEYS {
            let value = served(&mut client, key).await;
            let before = last.insert(key, value).unwrap_or(9);
            assert!(value > before, "{key} got {value} after {before} in round {round}");
        }
    }
    if let Some(cli) = &cli {
        for key in KEYS {
            let value: u64 = ask(cli, (&host, &PORTS[1].to_string()), &["INCR", key]).parse().unwrap();
            assert_eq!(value, last[key] + 1);
        }
    }
    assert_eq!(set.servers.get_mut("proxy").unwrap().terminate(), Some(0));
}

/// Makes calls that are refused, with the reasons that an AllocSvr gives.
async fn refused(client: &mut KeyServiceClient<Channel>) {
    let unknown = v1::NextKeyRequest { keyspace: "none".into(), ..next("a") };
    assert_eq!(reason(client.next(unknown).await), "UNKNOWN_KEYSPACE");
    assert_eq!(reason(client.next(next("")).await), "KEY_SIZE");
    let advance = |to| v1::AdvanceKeyRequest {
        keyspace: "main".into(),
        key: KEYS[0].to_owned(),
        to: Some(to),
        ..v1::AdvanceKeyRequest::default()
    };
    let past = client.advance(advance(1)).await.unwrap_err();
    assert!(past.message().contains("conv:1"), "{past:?}");
    assert_eq!(seq_proto::status::reason(&past).as_deref(), Some("ALREADY_PAST"));
    let far = client.advance(advance(1 << 61)).await.unwrap_err();
    assert_eq!(seq_proto::status::reason(&far).as_deref(), Some("ADVANCE_TOO_FAR"));
    assert!(seq_proto::status::metadata(&far, "bound").is_some_and(|bound| bound != "0"));
    assert!(client.advance(advance(1_000)).await.unwrap().into_inner().epoch >= 1);
    assert_eq!(client.next(next(KEYS[0])).await.unwrap().into_inner().value, 1_001);
}
