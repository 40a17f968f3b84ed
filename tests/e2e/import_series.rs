//! The last ids of other systems are imported into counter series, and exported to another cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seq_testkit::eventually;
use serde_json::json;

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::dev;
use crate::import::run;
use crate::redis::tool;

/// Creates a counter series.
fn create(addr: &str, name: &str, args: &[&str]) {
    let made = seqsvr(&[&["series", "create", name, "--counter", "--yes", "--addr", addr], args].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Takes the next id of a series.
fn next(addr: &str, name: &str) -> String {
    seqsvr_json(&["id", "next", name, "--addr", addr])["ids"][0].as_str().unwrap().to_owned()
}

#[test]
fn the_ids_of_a_cluster_continue_in_another_one() {
    let (places, more) = ([Place::new(), Place::new()], [["bills"], ["tickets"]].concat());
    let servers = places.each_ref().map(dev::start);
    let [from, to] = servers.each_ref().map(|(_, addr)| addr.as_str());
    for addr in [from, to] {
        create(addr, more[0], &["--start", "1001"]);
        create(addr, more[1], &["--increment", "2", "--offset", "2"]);
    }
    for (name, count) in [("bills", 3), ("tickets", 2)] {
        (0..count).for_each(|_| drop(next(from, name)));
    }
    let file = places[0].path("series.csv").display().to_string();
    let (code, text) = run(&["export", "--all-series", "--out", &file, "--addr", from]);
    assert!(code == Some(0) && text.contains("2 of 3 series have an id"), "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "series,id\nbills,1003\ntickets,4\n");

    let import = |args: &[&str]| run(&[&["import", "--from", &file, "--addr", to], args].concat());
    let (code, text) = import(&["--dry-run"]);
    assert!(code == Some(0) && text.contains("2 series: 2 would be raised, 0 at their value or above"), "{text}");
    assert_eq!(run(&["export", "--all-series", "--addr", to]).1.lines().next(), Some("series,id"), "nothing has moved");
    let (code, text) = import(&["--yes"]);
    assert!(code == Some(0) && text.contains("2 series: 2 raised, 0 at their value or above"), "{text}");
    assert_eq!([next(to, "bills"), next(to, "tickets")], ["1004", "6"]);
    let (code, text) = import(&["--yes"]);
    assert!(code == Some(0) && text.contains("2 series: 0 raised, 2 at their value or above"), "{text}");
    assert_eq!([next(to, "bills"), next(to, "tickets")], ["1005", "8"]);

    let lines = run(&["export", "--series", "tickets,bills", "--format", "jsonl", "--addr", to]).1;
    assert!(
        lines.starts_with("{\"series\":\"tickets\",\"id\":\"8\"}\n{\"series\":\"bills\",\"id\":\"1005\"}\n"),
        "{lines}"
    );
    fs::write(&file, lines.replace("1005", "2000").lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    let report = seqsvr_json(&["import", "--from", &file, "--format", "jsonl", "--yes", "--addr", to]);
    assert_eq!(
        [&report["series"], &report["raised"], &report["kept"]],
        [&json!(2), &json!(1), &json!(1)],
        "{report:#}"
    );
    assert_eq!(next(to, "bills"), "2001");
}

#[test]
fn a_flawed_record_of_a_series_is_named_and_nothing_is_raised() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    create(&addr, "tickets", &["--increment", "2", "--offset", "2"]);
    create(&addr, "old", &[]);
    assert!(seqsvr(&["series", "retire", "old", "--yes", "--addr", &addr]).status.success());
    let file = place.path("series.csv").display().to_string();
    fs::write(&file, "series,id\norders,500\ntickets,7\nnosuch,5\ntweets,5\nold,5\n").unwrap();
    let (code, text) = run(&["import", "--from", &file, "--addr", &addr, "--yes"]);
    let flaws = [
        ":3: 7 is no id of series \"tickets\"",
        ":4: ",
        "\"nosuch\"",
        ":5: series \"tweets\" is no counter",
        ":6: series \"old\" is retired",
        "nothing was changed; --skip-invalid",
    ];
    assert!(code == Some(2) && flaws.iter().all(|flaw| text.contains(flaw)), "{text}");
    assert_eq!(next(&addr, "orders"), "1");
    let (code, text) = run(&["import", "--from", &file, "--addr", &addr, "--yes", "--skip-invalid"]);
    assert!(code == Some(0) && text.contains("1 series: 1 raised"), "{text}");
    assert_eq!(next(&addr, "orders"), "501");

    let (code, text) = run(&["export", "--series", "orders,tweets", "--addr", &addr]);
    assert!(code == Some(2) && text.contains("series \"tweets\" is no counter"), "{text}");
    fs::write(&file, "value\n900\n").unwrap();
    let (code, text) = run(&["import", "--from", &file, "--series", "orders", "--addr", &addr, "--yes"]);
    assert!(code == Some(0), "{text}");
    assert_eq!(next(&addr, "orders"), "901");
}

/// Runs a line of a shell with the tested program as `seqsvr`; returns whether it succeeded, and its output.
fn shell(place: &Place, line: &str) -> (bool, String) {
    let bin = Path::new(env!("CARGO_BIN_EXE_seqsvr")).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path).current_dir(place.dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns a program of PostgreSQL, which Debian keeps off the PATH.
fn server_tool(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file());
    found.next().or_else(|| tool(name))
}

#[test]
fn a_sequence_of_postgresql_continues() {
    let [Some(initdb), Some(postgres)] = ["initdb", "postgres"].map(server_tool) else { return };
    if tool("psql").is_none() {
        return;
    }
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let (dir, host) = (place.dir.path().display().to_string(), place.host.to_string());
    // PostgreSQL does not run as root. `setpriv` replaces itself, so the child's id is that of the server.
    let other_user = rustix::process::geteuid().is_root();
    let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
    let user = if other_user { &user[..] } else { &["env"] };
    let own = if other_user { format!("chmod 711 {dir} && chown postgres {dir}/pg") } else { "true".to_owned() };
    let (data, initdb) = (format!("{dir}/pg/data"), initdb.display());
    let made = format!("mkdir {dir}/pg && {own} && {} {initdb} -D {data} -U postgres -A trust", user.join(" "));
    let (is_made, text) = shell(&place, &made);
    assert!(is_made, "{text}");
    let program = postgres.display().to_string();
    let args = [&user[1..], &[&program, "-D", &data, "-k", "", "-h", &host, "-p", "5432"]].concat();
    let mut server = place.server_of(Path::new(user[0]), "postgres", &args);
    let psql = format!("psql -h {host} -U postgres -At");
    eventually("PostgreSQL serves", || shell(&place, &format!("{psql} -c 'SELECT 1'")).0.then_some(()));
    let used =
        "CREATE SEQUENCE invoices_id_seq START 1000; SELECT nextval('invoices_id_seq') FROM generate_series(1, 42)";
    assert!(shell(&place, &format!("{psql} -c \"{used}\"")).0);

    create(&addr, "invoices", &["--start", "1000"]);
    let pipe = format!(
        "{psql} -c 'SELECT last_value FROM invoices_id_seq' | \
         seqsvr import --from - --series invoices --yes --addr {addr}"
    );
    let (is_done, text) = shell(&place, &pipe);
    assert!(is_done && text.contains("1 series: 1 raised"), "{text}");
    assert_eq!(next(&addr, "invoices"), "1042");
    server.interrupt();
    server.wait_exit();
}
