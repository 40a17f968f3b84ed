//! Alerts about certificates, tenants, and refused requests.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Scene, Setup};

pub(super) const ALERTS: &[&str] = &[
    "SeqsvrCertificateExpiresSoon",
    "SeqsvrCertificateExpires",
    "SeqsvrRequestsDenied",
    "SeqsvrAuthFailures",
    "SeqsvrTenantReloadsFail",
    "SeqsvrCertificateReloadsFail",
];
pub(super) const ALERTS_OF_HANDSHAKES: &[&str] = &["SeqsvrHandshakesRefused"];

/// The file of a tenant with a certificate.
const TENANTS: &str = "[[tenant]]\nname = \"chat\"\nuids = [\"0..10_000_000\"]\ncertificates = [\"backend\"]\n";

/// Refused requests: the rules tolerate ten.
const REFUSED: usize = 20;

/// Connections without a handshake: a node keeps at most 1,024 handshakes in progress, and closes each after 15 s.
const SILENT: usize = 1_200;
const SILENT_FOR: Duration = Duration::from_secs(12);

#[test]
#[ignore = "half an hour, as root, with Prometheus; `just alerts`"]
fn alerts_of_security_fire_and_resolve() {
    let settings = "[tenants]\nfile = \"DIR/tenants.toml\"\n";
    let mut scene =
        Scene::start(&Setup { secure: true, settings, tenants: TENANTS, alerts: ALERTS, ..Setup::default() });
    let rotate = |scene: &Scene, days: &str| {
        let rotated = scene.place.seqsvr(&["cert", "rotate", "--days", days]);
        assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    };
    scene.expect("certificates of two days", &["SeqsvrCertificateExpiresSoon", "SeqsvrCertificateExpires"]);
    rotate(&scene, "2");

    let refused = |scene: &Scene, args: &[&str]| {
        for _ in 0..REFUSED {
            assert!(!scene.call(args).status.success(), "{args:?}");
        }
    };
    let (set, addr) = (scene.set.clone(), scene.addr(7400));
    scene.expect("a caller's certificate is used to drain a node, twenty times", &["SeqsvrRequestsDenied"]);
    refused(&scene, &["node", "drain", "a1", "--set", &set, "--yes", "--timeout-s", "4"]);
    scene.ended(&["SeqsvrRequestsDenied"]);
    scene.expect("twenty calls with a token that no tenant has", &["SeqsvrAuthFailures"]);
    refused(&scene, &["next", "1", "--addr", &addr, "--token", "chat.wrong"]);
    scene.ended(&["SeqsvrAuthFailures"]);

    let (tenants, pem) = (scene.place.path("tenants.toml"), scene.place.path("certs/alloc.im-a.a2.pem"));
    scene.expect("the tenants file is cut off", &["SeqsvrTenantReloadsFail"]);
    fs::write(&tenants, "[[tenant").unwrap();
    scene.expect("the certificate file of a2 is cut off", &["SeqsvrCertificateReloadsFail"]);
    let whole = fs::read(&pem).unwrap();
    fs::write(&pem, &whole[..whole.len() / 2]).unwrap();

    scene.fired(&["SeqsvrTenantReloadsFail", "SeqsvrCertificateReloadsFail"]);
    fs::write(&tenants, TENANTS).unwrap();
    fs::write(&pem, whole).unwrap();
    scene.ended(&["SeqsvrTenantReloadsFail", "SeqsvrCertificateReloadsFail"]);
    scene.fired(&["SeqsvrRequestsDenied", "SeqsvrAuthFailures"]);
    scene.fired(&["SeqsvrCertificateExpiresSoon", "SeqsvrCertificateExpires"]);
    rotate(&scene, "90");
    scene.ended(&["SeqsvrCertificateExpiresSoon", "SeqsvrCertificateExpires"]);
    scene.print();
}

#[test]
#[ignore = "a quarter of an hour, with Prometheus; `just alerts`"]
fn alerts_of_handshakes_fire_and_resolve() {
    // This process needs as many files.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let mut scene = Scene::start(&Setup { secure: true, alerts: ALERTS_OF_HANDSHAKES, ..Setup::default() });
    let silent = |scene: &Scene| -> Vec<TcpStream> {
        (0..SILENT).map(|_| TcpStream::connect((scene.place.host, 7400)).unwrap()).collect()
    };
    scene.expect("1,200 connections without a handshake at allocator 1, again every 12 s", ALERTS_OF_HANDSHAKES);
    let (mut callers, mut since) = (silent(&scene), Instant::now());
    scene.fired_under(ALERTS_OF_HANDSHAKES, |scene| {
        if since.elapsed() > SILENT_FOR {
            callers.clear();
            (callers, since) = (silent(scene), Instant::now());
        }
    });
    drop(callers);
    scene.ended(ALERTS_OF_HANDSHAKES);
    scene.print();
}
