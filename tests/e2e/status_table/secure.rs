//! Conditions of certificates, and of a status without TLS.

use std::time::{Duration, Instant};

use super::{Scene, Table};
use crate::expiry;

const OK: &str = "im-a: ok: 100 of 100 sections are served; 3 of 3 voters respond";

/// Seconds until the certificate of a1 expires: more than the margin in which a1 withdraws.
const EXPIRES_S: u64 = 8;

pub(super) fn certificates(table: &mut Table) {
    let cluster = expiry::cluster();
    let rotate = |days: &str| {
        let rotated = cluster.place.seqsvr(&["cert", "rotate", "--days", days]);
        assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    };
    let addr = cluster.url(7301).replace("https", "http");
    let mut scene = Scene::new(table, &cluster.place, &["--addr", &addr]);
    scene.caused("`--addr http://` of a set with TLS");
    scene.says("the store has TLS", 2, &["has TLS"]);

    let mut scene = Scene::new(scene.table, &cluster.place, &["--set", &cluster.set]);
    scene.well(&[OK]);
    scene.caused("`seqsvr cert rotate --days 5`");
    rotate("5");
    scene.says(
        "certificates expire soon",
        0,
        &[OK, "certificate expires soon: s1 (in 4 days)", "a1 (in 4 days)", "a2 (in 4 days)"],
    );
    scene.ended();
    rotate("90");
    scene.over(&[OK]);

    scene.caused("a1 gets a certificate of 8 s; it withdraws 4 s before the end");
    let expires = Instant::now() + Duration::from_secs(EXPIRES_S);
    expiry::issue(&cluster, EXPIRES_S.cast_signed());
    scene.says("a node withdraws", 3, &["DEGRADED: 100 of 100", "a1: its certificate"]);
    scene.caused("the certificate of a1 expires");
    scene.since = expires;
    scene.says(
        "a certificate has expired",
        3,
        &["DEGRADED: 100 of 100", "certificate expired: a1", "seqsvr cert rotate"],
    );
    scene.ended();
    rotate("90");
    scene.over(&[OK]);
}
