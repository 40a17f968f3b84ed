//! Rows of the settings table for a node's values that are in no settings file. The values of its set file, with keys
//! below `set.`, are the same for all nodes of a set. The node's own values, with keys below `node.`, naturally differ
//! between nodes.

use std::path::Path;

use seq_command::security;
use seq_command::set_file::SetFile;
use seq_core::set_spec::PortSpec;
use seq_kit::config::Origin;
use seq_proto::v1::Setting;
use toml::Value;

use seq_observe::settings::{OWN, WITHHELD};

/// Returns the rows of the store member with the id `id`.
pub(crate) fn of_store(set: &SetFile, id: u64, data: &Path) -> Vec<Setting> {
    let mut rows = of_set(set);
    let Some((index, spec)) = set.spec.stores.iter().enumerate().find(|(_, store)| store.id == id) else { return rows };
    let entry = format!("store[{index}]");
    rows.push(own("name", &*spec.name, set.origin(&format!("{entry}.name"))));
    rows.push(own("id", Value::Integer(id.cast_signed()), flag("--id")));
    rows.push(own("data", data.display().to_string(), flag("--data")));
    rows.extend(of_file(set, &entry, &spec.ports()));
    rows
}

/// Returns the rows of the AllocSvr with the name `name`.
pub(crate) fn of_alloc(set: &SetFile, name: &str) -> Vec<Setting> {
    let mut rows = of_set(set);
    let Some((index, spec)) = set.spec.allocs.iter().enumerate().find(|(_, alloc)| alloc.name == name) else {
        return rows;
    };
    let entry = format!("alloc[{index}]");
    rows.push(own("name", name, flag("--name")));
    let weight = own("weight", i64::from(spec.weight), set.origin(&format!("{entry}.weight")));
    rows.push(Setting { default: "1".to_owned(), ..weight });
    rows.extend(of_file(set, &entry, &spec.ports()));
    rows
}

/// Returns the rows of a proxy, which are taken from its flags.
pub(crate) fn of_proxy(
    name: &str,
    seeds: (&str, &[String]),
    ports: &[(&str, &str, &str)],
    is_secure: bool,
) -> Vec<Setting> {
    let default_name = "proxy";
    let origin = if name == default_name { Origin::Default } else { flag("--name") };
    let mut rows = vec![Setting { default: format!("{default_name:?}"), ..own("name", name, origin) }];
    let (seeds_flag, seeds) = seeds;
    rows.push(own("seeds", list(seeds.iter().map(String::as_str)), flag(seeds_flag)));
    rows.extend(ports.iter().map(|(key, name, addr)| own(key, *addr, flag(name))));
    rows.push(certificate(is_secure));
    rows
}

/// Returns the row of the step of raises, which an AllocSvr applies without a restart when it changes.
pub(crate) fn step(set: &SetFile) -> Setting {
    let step = i64::try_from(set.spec.step).unwrap_or(i64::MAX);
    setting("set.step".to_owned(), step.into(), &set.origin("step"))
}

/// Returns the rows for the values of a set file that are the same for all nodes of the set.
fn of_set(set: &SetFile) -> Vec<Setting> {
    let spec = &set.spec;
    let row = |key: &str, value: Value| setting(format!("set.{key}"), value, &set.origin(key));
    let by_default = |default: Value, row: Setting| Setting { default: default.to_string(), ..row };
    vec![
        row("name", spec.name.as_str().into()),
        by_default(spec.name.as_str().into(), row("cluster", set.cluster().into())),
        by_default("start".into(), row("genesis", spec.genesis.name().into())),
        row("uids", format!("{}..{}", spec.uids.start, spec.uids.end).into()),
        row("section_size", i64::from(spec.section_size).into()),
        step(set),
        by_default(false.into(), row("plaintext", (!set.is_secure()).into())),
        row("store", list(spec.stores.iter().map(|store| store.addr.as_str()))),
    ]
}

/// Returns the rows for a node's entry in a set file: the path of the file, the ports, and the certificate.
fn of_file(set: &SetFile, entry: &str, ports: &[PortSpec<'_>]) -> Vec<Setting> {
    let mut rows = vec![own("set", set.path.display().to_string(), flag("--set"))];
    for PortSpec { key, addr, listen } in ports.iter().copied() {
        let listen_key = format!("listen.{key}");
        for (key, addr) in [(key, addr), (&*listen_key, listen)] {
            rows.extend(addr.map(|addr| own(key, addr, set.origin(&format!("{entry}.{key}")))));
        }
    }
    rows.push(certificate(set.is_secure()));
    rows
}

/// Returns the row for the certificate. The row does not state the path of the certificate's file, because this file
/// also contains the private key.
fn certificate(is_secure: bool) -> Setting {
    let origin = if is_secure { security::origin_of_dir() } else { Origin::Default };
    let row = own("certificate", "", origin);
    if is_secure { Setting { value: WITHHELD.to_owned(), ..row } } else { row }
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    Value::Array(texts.map(Value::from).collect())
}

fn flag(flag: &str) -> Origin {
    Origin::Flag { flag: flag.to_owned() }
}

fn own(key: &str, value: impl Into<Value>, origin: Origin) -> Setting {
    setting(format!("{OWN}{key}"), value.into(), &origin)
}

fn setting(key: String, value: Value, origin: &Origin) -> Setting {
    Setting { key, value: value.to_string(), default: String::new(), origin: origin.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};
    use seq_command::set_file;

    use super::*;

    fn check(rows: &[Setting], expect: Expect) {
        let mut text = String::new();
        for Setting { key, value, default, origin } in rows {
            writeln!(text, "{key} = {value} ({origin}; default: {default})").unwrap();
        }
        expect.assert_eq(&text);
    }

    fn dev() -> SetFile {
        set_file::parse(Path::new("dev.toml"), set_file::DEV).unwrap()
    }

    #[test]
    fn a_node_of_a_set_states_its_file_and_its_ports() {
        check(
            &of_store(&dev(), 2, Path::new("/srv/s2")),
            expect![[r#"
            set.name = "dev" (dev.toml:2; default: )
            set.cluster = "dev" (default; default: "dev")
            set.genesis = "start" (default; default: "start")
            set.uids = "0..1000000" (dev.toml:5; default: )
            set.section_size = 100000 (dev.toml:8; default: )
            set.step = 10000 (dev.toml:11; default: )
            set.plaintext = true (dev.toml:14; default: false)
            set.store = ["127.0.0.1:7201", "127.0.0.1:7202", "127.0.0.1:7203"] (dev.toml:16; default: )
            node.name = "s2" (dev.toml:28; default: )
            node.id = 2 (--id; default: )
            node.data = "/srv/s2" (--data; default: )
            node.set = "dev.toml" (--set; default: )
            node.addr = "127.0.0.1:7202" (dev.toml:29; default: )
            node.admin = "127.0.0.1:7205" (dev.toml:31; default: )
            node.http = "127.0.0.1:7212" (dev.toml:32; default: )
            node.raft = "127.0.0.1:7208" (dev.toml:30; default: )
            node.certificate = "" (default; default: )
        "#]],
        );
        check(
            &of_alloc(&dev(), "a2")[8..],
            expect![[r#"
                node.name = "a2" (--name; default: )
                node.weight = 1 (default; default: 1)
                node.set = "dev.toml" (--set; default: )
                node.addr = "127.0.0.1:7101" (dev.toml:55; default: )
                node.peer = "127.0.0.1:7105" (dev.toml:56; default: )
                node.http = "127.0.0.1:7181" (dev.toml:57; default: )
                node.redis = "127.0.0.1:7178" (dev.toml:58; default: )
                node.redis_cluster = "127.0.0.1:7174" (dev.toml:59; default: )
                node.certificate = "" (default; default: )
            "#]],
        );
        let text =
            set_file::DEV.replace("name = \"a2\"", "name = \"a2\"\nlisten = { addr = \"127.0.0.1:9\" }\nweight = 3");
        let set = set_file::parse(Path::new("dev.toml"), &text).unwrap();
        check(
            &of_alloc(&set, "a2")[8..],
            expect![[r#"
                node.name = "a2" (--name; default: )
                node.weight = 3 (dev.toml:56; default: 1)
                node.set = "dev.toml" (--set; default: )
                node.addr = "127.0.0.1:7101" (dev.toml:57; default: )
                node.listen.addr = "127.0.0.1:9" (dev.toml:55; default: )
                node.peer = "127.0.0.1:7105" (dev.toml:58; default: )
                node.http = "127.0.0.1:7181" (dev.toml:59; default: )
                node.redis = "127.0.0.1:7178" (dev.toml:60; default: )
                node.redis_cluster = "127.0.0.1:7174" (dev.toml:61; default: )
                node.certificate = "" (default; default: )
            "#]],
        );
    }

    #[test]
    fn a_proxy_states_its_flags() {
        let seeds = ["10.0.0.1:7100".to_owned(), "10.0.0.2:7100".to_owned()];
        let ports = [("addr", "--listen", "127.0.0.1:7600"), ("http", "--http", "127.0.0.1:7680")];
        check(
            &of_proxy("p1", ("--seeds", &seeds), &ports, false),
            expect![[r#"
            node.name = "p1" (--name; default: "proxy")
            node.seeds = ["10.0.0.1:7100", "10.0.0.2:7100"] (--seeds; default: )
            node.addr = "127.0.0.1:7600" (--listen; default: )
            node.http = "127.0.0.1:7680" (--http; default: )
            node.certificate = "" (default; default: )
        "#]],
        );
    }
}
