use std::time::Duration;

use super::*;
use expect_test::{Expect, expect};

crate::options! {
    #[derive(Debug)]
    struct Data {
        /// The directory.
        path: String,
    }
}

crate::options! {
    #[derive(Debug)]
    struct Log {
        /// What to log.
        filter: String,
        /// Lines to keep,
        /// at most.
        lines: u16,
        /// Where each line is written.
        #[serde(rename = "flush_ms", with = "durations::ms")]
        flush: Duration,
    }
}

fn sections() -> Vec<Section> {
    let log = Log { filter: "info".to_owned(), lines: 1_000, flush: Duration::from_millis(5) };
    vec![Section::new("data", &Data { path: String::new() }), Section::new("log", &log)]
}

fn layers() -> Layers {
    Layers::new(&sections())
}

fn file(text: &str) -> Result<Layers, ConfigError> {
    layers().text(Path::new("seqsvr.toml"), text)
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn check(layers: Result<Layers, ConfigError>, expect: Expect) {
    let read = |layers: &Layers| layers.read::<Data>("data").and_then(|_| layers.read::<Log>("log"));
    let text = match layers.and_then(|layers| read(&layers).map(|_| layers)) {
        Ok(layers) => {
            let keys = layers.keys().into_iter().map(|key| format!("{} = {}  ({})\n", key.name, key.value, key.origin));
            keys.chain(layers.warnings().iter().map(|warning| format!("warning: {warning}\n"))).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&text);
}

#[test]
fn the_sample_has_every_key_with_its_default_and_its_help() {
    expect![[r#"

        [data]
        # The directory.
        path = ""

        [log]
        # What to log.
        filter = "info"
        # Lines to keep,
        # at most.
        lines = 1_000
        # Where each line is written.
        flush_ms = 5
    "#]]
    .assert_eq(&sample(&sections()));
    let sampled = layers().text(Path::new("sample.toml"), &sample(&sections())).unwrap();
    assert!(sampled.keys().iter().all(|key| key.origin != Origin::Default));
    assert_eq!(sampled.read::<Log>("log").unwrap().flush, Duration::from_millis(5));
}

#[test]
fn later_layers_win_key_by_key() {
    check(
        Ok(layers()),
        expect![[r#"
            data.path = ""  (default)
            log.filter = "info"  (default)
            log.flush_ms = 5  (default)
            log.lines = 1000  (default)
        "#]],
    );
    let layered = file("[data]\npath = \"/srv\"\n\n[log]\nfilter = \"warn\"\nlines = 5\n")
        .and_then(|layers| {
            let is_foreign = |name: &str, value: &str| (name, value) == ("T_ADDR", "x");
            layers.environment("T_", is_foreign, variables(&[("T_LOG_FILTER", "7"), ("T_ADDR", "x"), ("HOME", "/")]))
        })
        .and_then(|layers| layers.flag("--data", "data.path", Some("/flag")))
        .and_then(|layers| layers.flag("--lines", "log.lines", None::<u16>));
    check(
        layered,
        expect![[r#"
            data.path = "/flag"  (--data)
            log.filter = "7"  ($T_LOG_FILTER)
            log.flush_ms = 5  (default)
            log.lines = 5  (seqsvr.toml:6)
        "#]],
    );
}

#[test]
fn errors_name_their_origin_and_key() {
    check(
        file("\n[log]\nfliter = \"warn\"\n"),
        expect![[r#"
            seqsvr.toml:3: log.fliter: unknown key; the nearest is log.filter
        "#]],
    );
    check(
        file("[log]\nlines = \"many\"\n"),
        expect![[r#"
            seqsvr.toml:2: log.lines: "many" is not a whole number from 0 to 65,535
        "#]],
    );
    check(
        file("[log]\nlines = 70000\n"),
        expect![[r#"
            seqsvr.toml:2: log.lines: 70000 is not a whole number from 0 to 65,535
        "#]],
    );
    check(
        file("data = \n"),
        expect![[r#"
        seqsvr.toml:1: string values must be quoted, expected literal string
    "#]],
    );
    check(
        file("log = 5\n"),
        expect![[r#"
            seqsvr.toml:1: log: unknown key; the nearest is log.lines
        "#]],
    );
    check(
        layers().environment("T_", |_, _| false, variables(&[("T_LOG_LINES", "many")])),
        expect![[r#"
            $T_LOG_LINES: log.lines: "many" is not a whole number from 0 to 65,535
        "#]],
    );
}

#[test]
fn a_variable_without_a_key_is_ignored_with_a_warning() {
    check(
        layers().environment("T_", |_, _| false, variables(&[("T_LOG_LINE", "1"), ("T_LOG_LINES", "7")])),
        expect![[r#"
            data.path = ""  (default)
            log.filter = "info"  (default)
            log.flush_ms = 5  (default)
            log.lines = 7  ($T_LOG_LINES)
            warning: $T_LOG_LINE: log_line: unknown key; the nearest is log.lines; it is ignored
        "#]],
    );
}
