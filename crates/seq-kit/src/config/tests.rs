use expect_test::{Expect, expect};
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, Serialize, Deserialize)]
struct Config {
    data: Option<String>,
    log: Log,
}

#[derive(Debug, Serialize, Deserialize)]
struct Log {
    filter: String,
    lines: u16,
}

fn layers() -> Layers {
    Layers::new(&Config { data: None, log: Log { filter: "info".to_owned(), lines: 10 } })
}

fn file(text: &str) -> Result<Layers, ConfigError> {
    layers().text(Path::new("seqsvr.toml"), text)
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn check(layers: Result<Layers, ConfigError>, expect: Expect) {
    let text = match layers.and_then(Layers::load::<Config>) {
        Ok(loaded) => {
            let keys = loaded.keys.iter().map(|key| format!("{} = {}  ({})\n", key.name, key.text(), key.origin));
            keys.chain(loaded.warnings.iter().map(|warning| format!("warning: {warning}\n"))).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&text);
}

#[test]
fn later_layers_win_key_by_key() {
    check(
        Ok(layers()),
        expect![[r#"
        data =   (default)
        log.filter = "info"  (default)
        log.lines = 10  (default)
    "#]],
    );
    let layered = file("data = \"/srv\"\n\n[log]\nfilter = \"warn\"\nlines = 5\n")
        .and_then(|layers| {
            let is_foreign = |name: &str, value: &str| (name, value) == ("T_ADDR", "x");
            layers.environment("T_", is_foreign, variables(&[("T_LOG_FILTER", "7"), ("T_ADDR", "x"), ("HOME", "/")]))
        })
        .and_then(|layers| layers.flag("--data", "data", Some("/flag")))
        .and_then(|layers| layers.flag("--lines", "log.lines", None::<u16>));
    check(
        layered,
        expect![[r#"
        data = "/flag"  (--data)
        log.filter = "7"  ($T_LOG_FILTER)
        log.lines = 5  (seqsvr.toml:5)
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
        seqsvr.toml:2: log.lines: invalid type: found string "many", expected a whole number from 0 to 65535
    "#]],
    );
    check(
        file("[log]\nlines = 70000\n"),
        expect![[r#"
        seqsvr.toml:2: log.lines: invalid value signed int `70000`, expected a whole number from 0 to 65535
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
            seqsvr.toml:1: log: unknown key; the nearest is data
        "#]],
    );
    check(
        layers().environment("T_", |_, _| false, variables(&[("T_LOG_LINES", "many")])),
        expect![[r#"
        $T_LOG_LINES: log.lines: invalid type: found string "many", expected a whole number from 0 to 65535
    "#]],
    );
}

#[test]
fn a_variable_without_a_key_is_ignored_with_a_warning() {
    check(
        layers().environment("T_", |_, _| false, variables(&[("T_LOG_LINE", "1"), ("T_LOG_LINES", "7")])),
        expect![[r#"
            data =   (default)
            log.filter = "info"  (default)
            log.lines = 7  ($T_LOG_LINES)
            warning: $T_LOG_LINE: log_line: unknown key; the nearest is log.lines; it is ignored
        "#]],
    );
}
