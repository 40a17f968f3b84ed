//! Alerts about certificates, tenants, and requests that are refused.

use std::fs;

use super::{Scene, Setup};

/// One tenant, which proves itself by its certificate.
const TENANTS: &str = "[[tenant]]\nname = \"chat\"\nuids = [\"0..10_000_000\"]\ncertificates = [\"backend\"]\n";

/// Requests that are refused: the rules let ten pass.
const REFUSED: usize = 20;

#[test]
#[ignore = "half an hour, as root, with Prometheus; `just alerts`"]
fn alerts_of_security_fire_and_resolve() {
    let settings = "[tenants]\nfile = \"DIR/tenants.toml\"\n";
    let mut scene = Scene::start(&Setup { secure: true, settings, tenants: TENANTS, ..Setup::default() });
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
