//! Tenants at real ports: their tokens and certificates, their uids, their quotas, and the replacement of their file.

use std::fmt::Write;
use std::fs;
use std::process::Output;

use seq_auth::{Authorities, ExpectedServer, Files, Trust};
use seq_channel::Pool;
use seq_proto::status::reason;
use seq_proto::v1::ActivateRequest;
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_testkit::eventually;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster::{Place, seqsvr_json};
use crate::tls::{Cluster, LOADS, load, text};

/// Returns the file of the tenants. `chat` authenticates by the certificate of client/backend, `push` by a token or the
/// certificate of client/push.
fn tenants(push: &str) -> String {
    let mut file =
        "[[tenant]]\nname = \"chat\"\nuids = [\"0..5_000_000\"]\ncertificates = [\"backend\"]\n\n".to_owned();
    writeln!(
        file,
        "[[tenant]]\nname = \"push\"\nuids = [\"5_000_000..10_000_000\"]\ncertificates = [\"push\"]\n{push}"
    )
    .unwrap();
    file
}

/// Starts a cluster with these tenants.
pub(crate) fn start(push: &str) -> Cluster {
    Cluster::start_with(|place| {
        write(place, push);
        let settings = format!("[tenants]\nfile = \"{}\"\n", place.path("tenants.toml").display());
        fs::write(place.path("settings.toml"), settings).unwrap();
        vec!["--config".to_owned(), place.path("settings.toml").display().to_string()]
    })
}

fn write(place: &Place, push: &str) {
    fs::write(place.path("tenants.toml"), tenants(push)).unwrap();
}

/// Creates a token of `push`; returns the token and its hash.
fn token() -> (String, String) {
    let made = seqsvr_json(&["tenant", "token", "push"]);
    let part = |name: &str| made[name].as_str().unwrap().to_owned();
    (part("token"), part("hash"))
}

/// Runs a command with a token.
fn with_token(cluster: &Cluster, token: &str, args: &[&str]) -> Output {
    let addr = cluster.url(7400);
    let more = ["--token", token, "--addr", &addr, "--deadline-ms", "3000"];
    cluster.place.seqsvr(&[args, &more[..]].concat())
}

/// Asserts that a command was refused for a reason.
#[track_caller]
fn refused(output: &Output, why: &str) {
    assert!(!output.status.success() && text(&output.stderr).contains(why), "{why}: {output:?}");
}

#[test]
fn a_tenant_uses_its_own_uids_within_its_quotas_through_every_endpoint() {
    let (secret, hash) = token();
    let push = format!("tokens = [\"{hash}\"]\nmax_count = 10\nmax_advance = 0\nconnections = 50\n");
    let mut cluster = start(&push);
    let place = &cluster.place;

    // gRPC, with a token or a certificate.
    assert!(with_token(&cluster, &secret, &["next", "5000001", "-n", "10"]).status.success());
    refused(&with_token(&cluster, &secret, &["next", "5000001", "-n", "11"]), "COUNT_ABOVE_QUOTA");
    refused(&with_token(&cluster, &secret, &["next", "42"]), "OTHER_TENANTS_UID");
    refused(&with_token(&cluster, &secret, &["current", "42"]), "OTHER_TENANTS_UID");
    refused(&with_token(&cluster, &secret, &["advance", "5000001", "1000", "--yes"]), "ADVANCE_TOO_FAR");
    refused(&with_token(&cluster, "push.wrong", &["next", "5000001"]), "UNKNOWN_TOKEN");
    let url = cluster.url(7401);
    let next =
        |holder: &str, uid: &str| place.seqsvr_as(holder, &["next", uid, "--addr", &url, "--deadline-ms", "3000"]);
    refused(&next("client/backend", "5000001"), "OTHER_TENANTS_UID");
    assert!(next("client/backend", "42").status.success() && next("operator/admin", "5000001").status.success());
    assert!(place.seqsvr(&["cert", "issue", "client/guest"]).status.success());
    refused(&next("client/guest", "42"), "NO_TENANT");

    // Over JSON and text, at both nodes, so that a node forwards.
    let bearer = format!("authorization: Bearer {secret}");
    for port in [7400, 7401] {
        let post = |header: &str, uid: &str| {
            let sent = cluster.curl(None, &["-X", "POST", "-H", header], port, &format!("/api/seq/next/{uid}"));
            text(&sent.stdout).trim().to_owned()
        };
        assert!(post(&bearer, "5000001").parse::<u64>().unwrap() > 10);
        assert!(post(&bearer, "42").starts_with("OTHER_TENANTS_UID"));
        for wrong in ["authorization: Bearer push.wrong", "authorization: Basic eDp5", "x-other: 1"] {
            assert!(post(wrong, "5000001").starts_with("UNKNOWN_TOKEN"), "{wrong}");
        }
        let json = ["-H", &bearer, "-H", "content-type: application/json", "-d", "{\"uid\":\"42\"}"];
        let json = cluster.curl(None, &json, port, "/seqsvr.v1.SequenceService/Next");
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["code"], "permission_denied", "{json}");
    }

    redis_has_the_quotas(&cluster, &secret);
    loads_carry_the_token(&cluster, &secret);

    // Ports that accept a token instead of a certificate require a certificate for every other request.
    let denied = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let authorities = Authorities::load(&Files::in_dir(&place.path("certs"), "")).unwrap();
        let pool = Pool::with_dial(1, seq_channel::tls::dial(authorities));
        let channel = pool.get(&format!("{}:7400", place.host)).unwrap();
        HandoverServiceClient::new(channel).activate(ActivateRequest::default()).await.unwrap_err()
    });
    assert_eq!(reason(&denied).as_deref(), Some("ROLE_DENIED"), "{denied:?}");
    assert!(cluster.metric(7480, "seqsvr_auth_failures_total{node=\"a1\"}") >= 2.0);

    // A replaced token is valid at once, and a damaged file changes nothing.
    let (newer, hash) = token();
    write(place, &push.replace(push.split('"').nth(1).unwrap(), &hash));
    eventually("the new token is known", || {
        with_token(&cluster, &newer, &["next", "5000001"]).status.success().then_some(())
    });
    refused(&with_token(&cluster, &secret, &["next", "5000001"]), "UNKNOWN_TOKEN");
    write(place, "unknown = 1\n");
    eventually("the damaged file is noticed", || {
        (cluster.metric(7480, "seqsvr_tenant_reloads_total{node=\"a1\",outcome=\"failed\"}") > 0.0).then_some(())
    });
    assert!(with_token(&cluster, &newer, &["next", "5000001"]).status.success());

    // No log contains a token, or its secret part.
    let logs = ["a1", "a2"].map(|node| fs::read_to_string(place.path(&format!("{node}.log"))).unwrap());
    for token in [&secret, &newer] {
        let part = token.strip_prefix("push.").unwrap();
        assert!(!logs.iter().any(|log| log.contains(part)), "{logs:?}");
    }
    cluster.stop();
}

/// Checks logins, uids and quotas over the Redis protocol.
fn redis_has_the_quotas(cluster: &Cluster, secret: &str) {
    let redis = |args: &[&str]| text(&cluster.redis(None, args).stdout).trim().to_owned();
    let login = ["--no-auth-warning", "--user", "push", "--pass", secret];
    assert!(redis(&[&login[..], &["INCR", "seq:5000001"]].concat()).parse::<u64>().unwrap() > 12);
    assert!(redis(&["--no-auth-warning", "-a", secret, "INCR", "seq:5000001"]).parse::<u64>().is_ok());
    assert!(redis(&[&login[..], &["INCR", "seq:42"]].concat()).contains("is not one of the tenant's"));
    assert!(redis(&[&login[..], &["MGET", "seq:5000001", "seq:42"]].concat()).contains("is not one of the tenant's"));
    assert!(redis(&[&login[..], &["SET", "seq:5000001", "5000"]].concat()).contains("ERR"));
    assert!(redis(&["INCR", "seq:5000001"]).starts_with("NOAUTH"));
    assert!(
        redis(&["--no-auth-warning", "--user", "push", "--pass", "wrong", "INCR", "seq:5000001"]).contains("NOAUTH")
    );
    assert!(text(&cluster.redis(Some("client.backend"), &["INCR", "seq:42"]).stdout).trim().parse::<u64>().is_ok());
}

#[test]
fn a_tenant_uses_the_series_that_it_names_through_every_endpoint() {
    const OTHER: &str = "OTHER_TENANTS_SERIES";
    let (secret, hash) = token();
    let push = format!("series = [\"posts\"]\ntokens = [\"{hash}\"]\nmax_count = 10\nmax_advance = 100\n");
    let mut cluster = start(&push);
    let url = cluster.url(7400);
    for series in ["posts", "bills"] {
        let create = ["series", "create", series, "--counter", "--yes", "--addr", &url];
        let made = cluster.place.seqsvr_as("operator/admin", &create);
        assert!(made.status.success(), "{made:?}");
    }

    // gRPC.
    assert!(with_token(&cluster, &secret, &["id", "next", "posts", "-n", "10"]).status.success());
    refused(&with_token(&cluster, &secret, &["id", "next", "posts", "-n", "11"]), "COUNT_ABOVE_QUOTA");
    refused(&with_token(&cluster, &secret, &["id", "next", "posts", "--after", "5000"]), "AFTER_TOO_FAR");
    assert!(with_token(&cluster, &secret, &["id", "next", "posts", "--after", "50"]).status.success());
    refused(&with_token(&cluster, &secret, &["id", "next", "bills"]), OTHER);
    let chat = ["id", "next", "posts", "--addr", &url, "--deadline-ms", "3000"];
    refused(&cluster.place.seqsvr_as("client/backend", &chat), OTHER);
    assert!(cluster.place.seqsvr_as("operator/admin", &chat).status.success());
    let listed = with_token(&cluster, &secret, &["series", "list"]);
    assert!(text(&listed.stdout).contains("posts") && !text(&listed.stdout).contains("bills"), "{listed:?}");

    // HTTP, at both nodes, so that a node forwards.
    let bearer = format!("authorization: Bearer {secret}");
    for port in [7400, 7401] {
        let post = |path: &str| {
            let sent = cluster.curl(None, &["-X", "POST", "-H", &bearer], port, path);
            text(&sent.stdout).trim().to_owned()
        };
        assert!(post("/api/id/next/posts").parse::<u64>().unwrap() > 50);
        assert!(post("/api/id/next/bills").starts_with(OTHER));
        let json = ["-H", &bearer, "-H", "content-type: application/json", "-d", "{\"series\":\"bills\"}"];
        let json = cluster.curl(None, &json, port, "/seqsvr.v1.IdService/Next");
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["code"], "permission_denied", "{json}");
    }

    // Redis.
    let login = ["--no-auth-warning", "--user", "push", "--pass", &secret];
    let redis = |args: &[&str]| text(&cluster.redis(None, &[&login[..], args].concat()).stdout).trim().to_owned();
    assert!(redis(&["INCR", "id:posts"]).parse::<u64>().unwrap() > 50);
    assert!(redis(&["INCR", "id:bills"]).contains(OTHER));
    assert!(redis(&["SET", "id:posts", "100000"]).contains("ADVANCE_TOO_FAR"));
    let metric = "seqsvr_tenant_refused_total{node=\"a1\",tenant=\"push\",cause=\"series\"}";
    assert!(cluster.metric(7480, metric) > 0.0);
    cluster.stop();
}

/// Runs loads over every endpoint, with the right token and with another.
fn loads_carry_the_token(cluster: &Cluster, secret: &str) {
    let redis = format!("{}:7478", cluster.place.host);
    for endpoint in LOADS {
        let uids = ["--concurrency", "8", "--first-uid", "5000000", "--uids", "1000"];
        let load = [&load(endpoint, &redis)[..], &uids, &["--calls", "200", "--check"]].concat();
        let output = with_token(cluster, secret, &load);
        assert!(output.status.success(), "{endpoint}: {output:?}");
        assert!(!with_token(cluster, "push.wrong", &load).status.success(), "{endpoint}");
    }
}

#[test]
fn a_tenant_that_floods_is_cut_to_its_share_and_others_are_not() {
    const SECONDS: u64 = 5;
    let cluster = start("calls_per_s = 100\nconnections = 20\n");
    let place = &cluster.place;
    assert!(place.seqsvr(&["cert", "issue", "client/push"]).status.success());
    let seconds = SECONDS.to_string();
    let load = |holder: &str, args: &[&str]| {
        let url = cluster.url(7400);
        let common =
            ["bench", "--endpoint", "grpc", "--addr", &url, "--duration-s", &seconds, "--warmup-s", "0", "-o", "json"];
        let output = place.seqsvr_as(holder, &[&common[..], args].concat());
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let (flood, calm) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| load("client/push", &["--rate", "2000", "--first-uid", "5000000"]));
        let calm = scope.spawn(|| load("client/backend", &["--rate", "100", "--check"]));
        (flood.join().unwrap(), calm.join().unwrap())
    });
    assert_eq!(calm["failed_items"], serde_json::json!({}), "{calm:#}");
    let refused = flood["failed_items"]["QUOTA_EXCEEDED"].as_u64();
    assert!(refused > Some(0), "{flood:#}");
    // The node admits the numbers of one second at once, and then the rate until the load ends, which may be late.
    let admitted = cluster.metric(7480, "seqsvr_tenant_numbers_total{node=\"a1\",tenant=\"push\"}");
    let lasted = flood["seconds"].as_f64().unwrap();
    assert!(admitted > 0.0 && admitted <= 100.0 * (lasted + 2.0), "{admitted} in {lasted} s");
    assert!(cluster.metric(7480, "seqsvr_tenant_refused_total{node=\"a1\",tenant=\"push\",cause=\"rate\"}") > 0.0);
}

/// Maximum number of connections of the tenant at a node.
const CONNECTIONS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_token_above_the_connections_of_its_tenant_is_no_wrong_password() {
    let (secret, hash) = tokio::task::block_in_place(token);
    let push = format!("tokens = [\"{hash}\"]\nconnections = {CONNECTIONS}\n");
    let cluster = tokio::task::block_in_place(|| start(&push));
    let trust =
        Authorities::load(&Files::in_dir(&cluster.place.path("certs"), "client/backend")).map(Trust::from).unwrap();
    let mut open = Vec::new();
    for number in 1..=2 * CONNECTIONS {
        let stream = TcpStream::connect((cluster.place.host, 7479)).await.unwrap();
        let host = cluster.place.host.to_string();
        let mut stream = trust.connect(&host, &ExpectedServer::any(), stream, None).await.unwrap();
        stream.write_all(format!("AUTH push {secret}\r\n").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut reply = vec![0; 512];
        let length = stream.read(&mut reply).await.unwrap();
        let reply = String::from_utf8_lossy(&reply[..length]).into_owned();
        let expected = if number <= CONNECTIONS { "+OK\r\n" } else { "-TRYAGAIN TOO_MANY_CONNECTIONS " };
        assert!(reply.starts_with(expected), "{number}: {reply}");
        open.push(stream);
    }
    let metric = |name: &str| cluster.metric(7480, name);
    tokio::task::block_in_place(|| {
        let refused = "seqsvr_tenant_refused_total{node=\"a1\",tenant=\"push\",cause=\"connections\"}";
        eventually("the refusals are counted", || (metric(refused) >= CONNECTIONS as f64).then_some(()));
        assert_eq!(metric("seqsvr_auth_failures_total{node=\"a1\"}"), 0.0, "no password was wrong");
    });
}

/// Uses the certificates of a proxy and of an AllocSvr, as an intruder on a proxy's host has them. The certificate of a
/// proxy that a tenant names is limited to the tenant's uids and quotas, independent of the proxy's treatment of its
/// own callers; other certificates reach all users.
#[test]
fn a_proxy_is_cut_to_the_tenant_that_names_it() {
    let edge = "\n[[tenant]]\nname = \"edge\"\nuids = [\"0..1_000_000\"]\nkeys = [\"main/edge:*\"]\n\
                certificates = [\"proxy/p1\"]\nmax_count = 10\n";
    let cluster = start(edge);
    let place = &cluster.place;
    let created = place.seqsvr(&["keyspace", "create", "main", "--yes", "--set", &cluster.set]);
    assert!(created.status.success(), "{created:?}");
    for holder in ["proxy/p1", "proxy/p2"] {
        assert!(place.seqsvr(&["cert", "issue", holder, "--host", &place.host.to_string()]).status.success());
    }
    let url = cluster.url(7401);
    let send = |holder: &str, args: &[&str]| {
        place.seqsvr_as(holder, &[args, &["--addr", &url, "--deadline-ms", "3000"]].concat())
    };
    assert!(send("proxy/p1", &["next", "42", "-n", "10"]).status.success());
    refused(&send("proxy/p1", &["next", "42", "-n", "11"]), "COUNT_ABOVE_QUOTA");
    refused(&send("proxy/p1", &["advance", "42", "1000000", "--yes"]), "ADVANCE_TOO_FAR");
    for method in ["next", "current"] {
        refused(&send("proxy/p1", &[method, "2000000"]), "OTHER_TENANTS_UID");
    }
    for holder in ["proxy/p2", "alloc/im-a/a2"] {
        let allocated = send(holder, &["next", "6000000", "-n", "11"]);
        assert!(allocated.status.success(), "{holder}: {allocated:?}");
    }

    // The proxy itself has no tenants, so every caller may use it within the proxy's rights.
    let [listen, http] = [7600, 7680].map(|port| format!("{}:{port}", place.host));
    let args = ["proxy", "--set", &cluster.set, "--name", "p1", "--listen", &listen, "--http", &http, "--cores", "1"];
    let _proxy = place.server("p1", &args);
    // The call uses JSON, because an SDK would go on to the AllocSvrs itself.
    let post = |path: &str| {
        let post = ["-X", "POST", "-H", "connect-timeout-ms: 3000"];
        text(&cluster.curl(Some("client.backend"), &post, 7600, path).stdout).to_owned()
    };
    let next = |uid: &str| post(&format!("/api/seq/next/{uid}"));
    eventually("the proxy serves", || next("42").trim().parse::<u64>().ok());
    let refusal = "OTHER_TENANTS_UID";
    eventually("an AllocSvr refuses the uid", || next("2000000").contains(refusal).then_some(()));
    eventually("the proxy serves keys", || post("/api/key/next/main/edge:1").trim().parse::<u64>().ok());
    let refused = post("/api/key/next/main/other:1");
    assert!(refused.contains("OTHER_TENANTS_KEY") && refused.contains("other:1"), "{refused}");
    let counted = |port: u16, node: &str| {
        let metric = ["seqsvr_tenant_refused_total{node=\"", node, "\",tenant=\"edge\",cause=\"uid\"}"].concat();
        cluster.metric(port, &metric)
    };
    assert!(counted(7480, "a1") + counted(7481, "a2") >= 3.0, "counted as the tenant's");
}

/// Quota of the flooding tenant, in calls per second at each of two nodes, and its calls per second to both.
const QUOTA: u64 = 300;
const FLOOD: u64 = 10 * 2 * QUOTA;

#[test]
#[ignore = "measures: wants an optimized build and an idle machine; `just tenants`"]
fn a_flood_of_ten_times_a_quota_beside_a_calm_tenant() {
    let cluster = start(&format!("calls_per_s = {QUOTA}\nconnections = 50\n"));
    let place = &cluster.place;
    let urls = [cluster.url(7400), cluster.url(7401)];
    let run = |holder: &str, args: &[&str]| {
        let common =
            ["--addr", &urls[0], "--addr", &urls[1], "--duration-s", "20", "--deadline-ms", "5000", "-o", "json"];
        let output = place.seqsvr_as(holder, &[args, &common[..]].concat());
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let calm =
        || run("client/backend", &["bench", "--endpoint", "grpc", "--rate", "500", "--uids", "4000000", "--check"]);
    assert!(place.seqsvr(&["cert", "issue", "client/push"]).status.success());
    let mut table = "flood      sent/s  admitted/s  refused/s  calm p50 us  p99 us  failed\n".to_owned();
    let mut row = |name: &str, flood: Option<Value>, calm: &Value| {
        let latency = |which: &str| calm["latency"][which].as_f64().unwrap_or_default();
        let per_s = |items: u64| items as f64 / 20.0;
        let [sent, admitted, refused] = match &flood {
            None => [0.0; 3],
            Some(flood) => {
                // Each protocol has a different reason for the refusal.
                let refused = flood["failed_items"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
                let admitted = flood["numbers"].as_u64().unwrap_or_default();
                [per_s(admitted + refused), per_s(admitted), per_s(refused)]
            }
        };
        let (p50, p99, failed) = (latency("p50_us"), latency("p99_us"), &calm["failed"]);
        writeln!(table, "{name:8} {sent:8.0} {admitted:11.0} {refused:10.0} {p50:12.0} {p99:7.0} {failed:>7}").unwrap();
    };
    row("none", None, &calm());
    let rate = FLOOD.to_string();
    let redis = format!("{}:7479", place.host);
    for endpoint in ["grpc", "many", "stream", "json", "resp"] {
        let args = ["--rate", &rate, "--concurrency", "40", "--first-uid", "5000000", "--uids", "4000000"];
        let args = [&load(endpoint, &redis)[..], &args].concat();
        let (flood, calm) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| run("client/push", &args));
            let calm = calm();
            (flood.join().unwrap(), calm)
        });
        row(endpoint, Some(flood), &calm);
    }
    row("none", None, &calm());
    println!("{table}");
}

#[test]
fn tenants_need_tls_and_a_sound_file() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let settings = place.path("settings.toml").display().to_string();
    let file = place.path("tenants.toml");
    fs::write(&settings, format!("[tenants]\nfile = \"{}\"\n", file.display())).unwrap();
    let refuse = |what: &str| {
        let mut server = place.server("a1", &["alloc", "--set", &set, "--name", "a1", "--config", &settings]);
        assert_eq!(server.wait_exit(), Some(64), "{}", server.log());
        assert!(server.log().contains(what), "{}", server.log());
    };
    refuse("tenants.toml: cannot be read");
    fs::write(&file, "[[tenant]]\nname = \"im\"\nquota = 1\n").unwrap();
    refuse("tenants.toml:");
    fs::write(&file, tenants("")).unwrap();
    refuse("tenants need TLS");
    let checked = seqsvr_json(&["tenant", "check", &file.display().to_string()]);
    assert_eq!(checked["items"][0]["uids"][0], "0..5000000", "{checked:#}");
}
