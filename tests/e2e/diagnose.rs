//! `seqsvr diagnose` over TLS, with a node that is down, and without any responding node.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server};

/// A secret in this host's settings, which no archive may contain.
const PASSWORD: &str = "correct-horse-battery";

struct Archive {
    code: Option<i32>,
    printed: String,
    dir: tempfile::TempDir,
}

impl Archive {
    fn make(place: &Place, set: &str, out: &str) -> Archive {
        let path = place.path(out);
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.env("SEQSVR_REDIS_PASSWORD", PASSWORD).env("SEQSVR_CERTS", place.path("certs"));
        command.args(["diagnose", "--set", set, "--out"]).arg(&path).stdin(Stdio::null());
        let output = command.output().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if output.status.success() {
            let mut tar = Command::new("tar");
            tar.args(["--strip-components=1", "-xzf"]).arg(&path).arg("-C").arg(dir.path());
            assert!(tar.status().unwrap().success(), "{printed}");
        }
        Archive { code: output.status.code(), printed, dir }
    }

    fn text(&self, name: &str) -> String {
        let summary = fs::read_to_string(self.dir.path().join("summary.txt")).unwrap();
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{summary}"))
    }

    /// Returns whether any file contains this text.
    fn has(&self, text: &str) -> bool {
        fn has(dir: &Path, text: &str) -> bool {
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.is_dir() {
                true => has(&path, text),
                false => String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text),
            })
        }
        has(self.dir.path(), text)
    }
}

#[test]
fn an_archive_has_what_responds_and_names_what_does_not() {
    let place = Place::new();
    let set = place.secure_set_file("three-node.toml").display().to_string();
    let store = |id: u32| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
    };
    let mut stores: Vec<Server> = (1..=3).map(store).collect();
    let alloc = place.server("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "1"]);
    let addr = format!("https://{}:7400", place.host);
    eventually("a number is allocated", || {
        place.seqsvr_as("client/backend", &["next", "1", "--addr", &addr]).status.success().then_some(())
    });

    // Store 3 is down, and a2 was never started.
    stores.pop();
    let archive = Archive::make(&place, &set, "up.tar.gz");
    assert!(archive.code == Some(0) && archive.printed.contains("could not be read"), "{}", archive.printed);
    let summary = archive.text("summary.txt");
    // Each of the two nodes lacks three files. This host may have units that log or not, which is not tested.
    assert_eq!(summary.lines().filter(|line| line.starts_with("missing sets/")).count(), 6, "{summary}");
    assert_eq!(archive.text("sets/im-a/set.toml"), fs::read_to_string(&set).unwrap());
    let status: Value = serde_json::from_str(&archive.text("sets/im-a/status.json")).unwrap();
    assert_eq!(archive.text("sets/im-a/audit.json").trim(), r#"{"items":[]}"#);
    assert_eq!(status["sets"][0]["sections_served"], 100, "{status:#}");
    assert!(archive.text("sets/im-a/members.txt").contains("format"), "{}", archive.text("sets/im-a/members.txt"));
    assert!(archive.text("sets/im-a/a1/metrics.txt").contains("\nseqsvr_build_info{"));
    assert!(archive.text("sets/im-a/s1/readyz.txt").contains("ok"), "{}", archive.text("sets/im-a/s1/readyz.txt"));
    assert!(summary.contains("missing sets/im-a/s3/metrics.txt: "), "{summary}");
    assert!(archive.has("(set)") && !archive.has(PASSWORD) && !archive.has("PRIVATE KEY"));
    let again = Archive::make(&place, &set, "up.tar.gz");
    assert!(
        again.code == Some(2) && again.printed.contains("cannot be written"),
        "no file is replaced: {}",
        again.printed
    );

    drop((alloc, stores));
    let archive = Archive::make(&place, &set, "down.tar.gz");
    assert_eq!(archive.code, Some(0), "{}", archive.printed);
    assert!(archive.text("version.json").contains("0.1.0"));
    assert!(archive.text("summary.txt").contains("missing sets/im-a/status.json: "), "{}", archive.text("summary.txt"));
}
