//! TLS, certificates that are replaced or revoked, and tokens.

use std::fs;
use std::time::{Duration, SystemTime};

use seq_auth::Identity;
use seq_auth::authority::{Authority, Request};
use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::{Value, json};

use crate::call::CallError;
use crate::cluster::{Cluster, Shape};
use crate::driver::{Driver, Sdk};
use crate::load;
use crate::place::{Place, seqsvr_json};
use crate::proxy::Proxy;

const SECURE: Shape = Shape { tls: true, ..Shape::USUAL };

/// Returns the field `tls` of a request to open a client, with the files of a place.
fn files(place: &Place) -> Value {
    let file = |name: &str| place.path(&format!("certs/{name}")).display().to_string();
    json!({"ca": file("ca.crt"), "cert": file("client.backend.pem")})
}

/// Returns the fields of a request to open a client with the certificate of the backend.
fn secured(cluster: &Cluster) -> Value {
    json!({"tls": files(&cluster.place)})
}

pub(super) fn tls(sdk: &Sdk) {
    let cluster = Cluster::start(SECURE);
    let driver = Driver::start(sdk);
    let uids = cluster.uids();
    for coalesce in [true, false] {
        let client = driver.open_with(&cluster.seeds(), json!({"tls": files(&cluster.place), "coalesce": coalesce}));
        client.burst(&uids, 200, 20).wait();
        let given = client.next_many(&uids, &[]).unwrap();
        assert!(given.iter().all(Result::is_ok), "{given:?}");
    }
    driver.history().check(true);

    let short = |tls: Value| json!({"tls": tls, "deadline_ms": 2_000});
    let refused = |seeds: &[String], more: Value| {
        let error = driver.open_and_call(seeds, more, uids[0]).unwrap_err();
        assert_eq!((&*error.kind, error.may_have_applied), ("connect", false), "{error:?}");
        assert!(!error.message.is_empty(), "{error:?}");
        error.message
    };
    // Another authority for a cluster of the same name: neither side trusts the other.
    let stranger = Place::new();
    for args in [&["cert", "ca", "--cluster", "conformance"][..], &["cert", "issue", "client/backend"]] {
        assert!(stranger.seqsvr(args).status.success());
    }
    refused(&cluster.seeds(), short(files(&stranger)));
    // The client trusts the servers, which do not trust its certificate.
    let mut mixed = files(&stranger);
    mixed["ca"] = files(&cluster.place)["ca"].clone();
    refused(&cluster.seeds(), short(mixed));
    // No TLS, for ports that have it.
    let plain: Vec<String> = cluster.seeds().iter().map(|seed| seed.replace("https", "http")).collect();
    refused(&plain, json!({"deadline_ms": 2_000}));
    // A file that does not exist is named.
    let mut missing = files(&cluster.place);
    missing["ca"] = json!("/nonexistent/ca.crt");
    let message = refused(&cluster.seeds(), short(missing));
    assert!(message.contains("/nonexistent/ca.crt"), "{message}");
    driver.finish();
}

pub(super) fn rotation(sdk: &Sdk) {
    let mut cluster = Cluster::start(SECURE);
    let driver = Driver::start(sdk);
    let client = driver.open_with(&cluster.seeds(), secured(&cluster));
    let uids = cluster.uids();
    load::during(client, &uids, |load| {
        // The authority is rotated first, because every process has to trust it before a certificate of it is used.
        for step in [&["cert", "rotate", "--ca"][..], &["cert", "rotate"]] {
            cluster.wait_reloaded(|| {
                let rotated = cluster.place.seqsvr(step);
                assert!(rotated.status.success(), "{rotated:?}");
            });
            client.command(json!({"op": "reload"})).unwrap();
            driver.open_and_call(&cluster.seeds(), secured(&cluster), uids[0]).unwrap();
            // The nodes need new connections to each other.
            cluster.command(&["node", "drain", "a2", "--yes"]);
            cluster.command(&["node", "undrain", "a2"]);
            cluster.wait_shared();
            load.wait_served();
        }
        // The client needs new connections, too, to nodes whose certificates are of the new authority.
        for index in 0..SECURE.allocs {
            let alloc = &mut cluster.allocs[usize::from(index)];
            assert_eq!(alloc.terminate(), Some(0), "{}", alloc.log());
            cluster.restart(index);
            cluster.wait_shared();
            load.wait_served();
        }
    });
    let figures = driver.history().figures();
    assert!(figures.failed.is_empty(), "{figures:?}");
    driver.end();
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn refused(sdk: &Sdk) {
    let cluster = Cluster::start(SECURE);
    let driver = Driver::start(sdk);
    let open = |seeds: &[String], tls: Value| driver.open_and_call(seeds, json!({"tls": tls, "deadline_ms": 2_000}), 7);
    let check = |what: &str, error: CallError, cause: &str| {
        note(format_args!("{what}: {}", error.message));
        assert_eq!((&*error.kind, error.may_have_applied), ("connect", false), "{error:?}");
        assert!(error.message.to_lowercase().contains(cause), "the message of {what} has no cause: {error:?}");
    };
    open(&cluster.seeds(), files(&cluster.place)).unwrap();

    // The certificate of a server is for the host that callers dial, which is another host.
    let forward = Proxy::forward(cluster.alloc_addr());
    let other_host = format!("https://{}", forward.addr());
    check("another host", open(&[other_host], files(&cluster.place)).unwrap_err(), "certificate");

    let mut expired = files(&cluster.place);
    expired["cert"] = json!(expired_certificate(&cluster.place));
    check("an expired certificate", open(&cluster.seeds(), expired).unwrap_err(), "expired");

    let revoke = cluster.place.seqsvr(&["cert", "revoke", "client/backend"]);
    assert!(revoke.status.success(), "{revoke:?}");
    // While the nodes read the list of revocations, a client may be opened at one of them and have its call refused.
    let refused = || open(&cluster.seeds(), files(&cluster.place)).err().filter(|error| error.kind == "connect");
    let error = eventually("the certificate is refused", refused);
    check("a revoked certificate", error, "revoked");
    driver.end();
}

/// Issues a certificate that has expired a day ago; returns the path of its file.
fn expired_certificate(place: &Place) -> String {
    let authority = Authority::from_pem(&fs::read_to_string(place.path("certs/ca.key")).unwrap()).unwrap();
    let identity = Identity::in_cluster(authority.cluster(), "client/late").unwrap();
    #[expect(clippy::disallowed_methods, reason = "certificates are valid by the wall clock")]
    let now = SystemTime::now();
    let issued = authority.issue(&Request { identity, hosts: Vec::new(), validity: DAY }, now - 2 * DAY).unwrap();
    let path = place.path("certs/late.pem");
    fs::write(&path, format!("{}{}", *issued.key, issued.certificate)).unwrap();
    path.display().to_string()
}

pub(super) fn token(sdk: &Sdk) {
    let made = seqsvr_json(&["tenant", "token", "push"]);
    let part = |name: &str| made[name].as_str().unwrap().to_owned();
    let (token, hash) = (part("token"), part("hash"));
    let tenants = format!(
        "[[tenant]]\nname = \"push\"\nuids = [\"0..50_000\"]\ntokens = [\"{hash}\"]\nmax_count = 10\n\
         [[tenant]]\nname = \"chat\"\nuids = [\"50_000..100_000\"]\ncertificates = [\"backend\"]\n"
    );
    let cluster = Cluster::start_with(SECURE, |_| tenants);
    let driver = Driver::start(sdk);
    let (own, other) = (7, 60_007);
    let with = |token: &str| json!({"tls": {"ca": files(&cluster.place)["ca"]}, "token": token, "deadline_ms": 3_000});
    let client = driver.open_with(&cluster.seeds(), with(&token));
    assert_eq!(client.next_n(own, 10).unwrap().value, 10);
    client.burst(&[own, own + 10_000, own + 20_000], 200, 20).wait();
    assert_eq!(driver.history().figures().failed.len(), 0);
    for (refused, reason) in [
        (client.next_n(own, 11), "COUNT_ABOVE_QUOTA"),
        (client.next(other), "OTHER_TENANTS_UID"),
        (
            client.next_many(&[other], &[]).map(|mut items| items.pop().unwrap()).and_then(|item| item),
            "OTHER_TENANTS_UID",
        ),
    ] {
        let error = refused.unwrap_err();
        assert_eq!((&*error.kind, &*error.reason, error.retryable), ("refused", reason, false), "{error:?}");
        assert!(!error.may_have_applied, "{error:?}");
    }
    let wrong = "push.0123456789abcdef";
    let error = driver.open_and_call(&cluster.seeds(), with(wrong), own).unwrap_err();
    assert!(["connect", "refused"].contains(&&*error.kind) && !error.may_have_applied, "{error:?}");
    assert!(!error.retryable && error.message.contains("token"), "{error:?}");
    let secrets = [token.strip_prefix("push.").unwrap(), "0123456789abcdef"];
    let log = driver.log();
    assert!(secrets.iter().all(|secret| !log.contains(secret) && !error.message.contains(secret)), "{log}");
    driver.end();
}
