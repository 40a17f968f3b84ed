//! An operator's day with two sets of real processes: they are defined, users are split off under load, rolled back,
//! split again, one set is lost and comes back, and is merged.
//!
//! The page docs/operator-day.md is made from the commands and their output: `UPDATE_EXPECT=1` writes it. Measured
//! values differ from run to run, so they are left out of the comparison.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, seqsvr_json};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operator-day.md");

const INTRODUCTION: &str = "# An operator's day

Two sets of one cluster, from their definition to their merge: the commands with their output. A test runs them against
real processes and wrote this page: `UPDATE_EXPECT=1 cargo test -p seqsvr --test e2e sets::`. All commands are explained in
[operations/changes.md](operations/changes.md#sets-of-a-cluster); `SEQSVR_ADDR` names a store of the first set.
";

/// The processes of both sets, and the page of the commands.
struct Day {
    stores: Vec<Server>,
    allocs: Vec<Server>,
    page: String,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

const STORES: [u64; 3] = [1, 2, 3];
const ALLOCS: [&str; 2] = ["a1", "a2"];

impl Day {
    fn new() -> Day {
        let place = Place::new();
        let day = Day { stores: Vec::new(), allocs: Vec::new(), page: INTRODUCTION.to_owned(), place };
        fs::create_dir_all(day.place.path("sets/two")).unwrap();
        for name in ["a", "b"] {
            let text = fs::read_to_string(
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sets/two").join(format!("{name}.toml")),
            );
            fs::write(day.file(name), text.unwrap().replace("127.0.0.1", &day.place.host.to_string())).unwrap();
        }
        day
    }

    fn file(&self, set: &str) -> PathBuf {
        self.place.path(&format!("sets/two/{set}.toml"))
    }

    fn start_stores(&mut self, set: &str) {
        for id in STORES {
            let name = format!("{set}-s{id}");
            let (file, data) = (self.file(set).display().to_string(), self.place.path(&name).display().to_string());
            let id = id.to_string();
            self.stores.push(self.place.server(&name, &["store", "--set", &file, "--id", &id, "--data", &data]));
        }
    }

    fn start_allocs(&mut self, set: &str) {
        for name in ALLOCS {
            let file = self.file(set).display().to_string();
            let args = ["alloc", "--set", &file, "--name", name, "--cores", "1"];
            self.allocs.push(self.place.server(&format!("{set}-{name}"), &args));
        }
    }

    fn addr(&self, port: u16) -> String {
        format!("https://{}:{port}", self.place.host)
    }

    fn text(&mut self, text: &str) {
        write!(self.page, "\n{text}\n").unwrap();
    }

    /// Runs a command that ends with `code`, and adds it to the page.
    fn run(&mut self, command: &str, code: i32) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
            .args(command.split_whitespace())
            .current_dir(self.place.dir.path())
            .env("SEQSVR_ADDR", self.addr(7301))
            .env("COLUMNS", "120")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "seqsvr {command}: {printed}");
        let shown = without_middle(&printed).replace(&self.place.host.to_string(), "127.0.0.1");
        let shown = shown.replace(" --addr https://127.0.0.1:7301", "");
        write!(self.page, "\n```console\n$ seqsvr {command}\n{shown}```\n").unwrap();
        printed
    }

    /// Returns the number of sections of a set by the records of its own store.
    fn sections(&self, set: &str) -> u64 {
        let shown =
            self.place.seqsvr_json(&["set", "show", set, "--addr", &self.addr(7301), "--addr", &self.addr(7321)]);
        shown["sections"].as_u64().unwrap()
    }

    /// Allocates a seq at an AllocSvr of the first set.
    fn take(&self, uid: &str) -> Option<u64> {
        let output = self.place.seqsvr(&["next", uid, "--addr", &self.addr(7400), "-o", "json"]);
        let items: Value = serde_json::from_slice(&output.stdout).ok()?;
        output.status.success().then(|| digits(&items["items"][0]["value"]))
    }
}

/// Returns the text with only the first and the last of many lines of progress.
fn without_middle(text: &str) -> String {
    let is_progress = |line: &&str| line.contains("/s  ETA ");
    let progress: Vec<&str> = text.lines().filter(is_progress).collect();
    let mut shown = String::new();
    for line in text.lines() {
        let is_middle = is_progress(&line) && line != progress[0];
        if !is_middle {
            shown.push_str(line);
            shown.push('\n');
        }
        if is_progress(&line) && line == progress[0] && progress.len() > 1 && !shown.contains("\n...\n") {
            shown.push_str("...\n");
        }
    }
    shown
}

/// Returns the page without the values that differ from run to run: progress, pauses, ids and plans.
fn comparable(page: &str) -> String {
    let is_kept = |line: &&str| {
        let is_progress = *line == "..." || line.contains("/s  ETA ") || line.contains(" paused ");
        // These lines have the epoch and the ceiling of a section, the last tried member, and the time of a set's last
        // response.
        let is_set = line.starts_with("im-b ") && (line.ends_with(" ago") || line.ends_with(" never"));
        let is_state = is_set || line.starts_with("99  ") || line.starts_with("error: set im-b");
        !is_progress && !is_state
    };
    let mut lines = Vec::new();
    for line in page.lines().filter(is_kept) {
        // Pauses are shown if the section departed and arrived under the same leader.
        let line = line.split("  pause p50").next().unwrap_or_default();
        let words = line.split_whitespace().map(|word| {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            let is_measured = word.contains('.') && word.parse::<f64>().is_ok();
            let is_id = (digits >= 8 || word.len() == 16)
                && word.bytes().all(|byte| byte.is_ascii_hexdigit() || b"(),:`".contains(&byte));
            let is_time = word.len() == 20 && word.ends_with('Z');
            if is_measured || is_id || is_time { "N" } else { word }
        });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines.join("\n")
}

/// Returns the id of the migration that a command has started.
fn started(printed: &str) -> String {
    printed.split("migration ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn an_operators_day() {
    let mut day = Day::new();
    day.text("Each node gets a certificate of its own, and the operator one.");
    day.run("cert issue --set sets/two/", 0);
    day.text("The stores of both sets run. The files define them: the first one with all sections.");
    day.start_stores("a");
    day.start_stores("b");
    eventually("the stores respond", || {
        let dry = ["set", "apply", "--dry-run", day.place.dir.path().to_str().unwrap()];
        day.place.seqsvr(&dry).status.success().then_some(())
    });
    day.run("set apply sets/two/ --yes", 0);
    // After this command, the next command works at any of the sets.
    for store in [7301, 7321] {
        let sets = day.place.seqsvr_json(&["set", "list", "--addr", &day.addr(store)]);
        assert_eq!(sets["items"].as_array().map(Vec::len), Some(2), "{sets:#}");
    }
    day.start_allocs("a");
    day.start_allocs("b");
    eventually("numbers are allocated", || day.take("9999999"));
    eventually("the sets know each other", || {
        let sets = day.place.seqsvr_json(&["set", "list", "--addr", &day.addr(7301)]);
        let sets = sets["items"].as_array().unwrap().clone();
        (sets.len() == 2 && sets.iter().all(|set| set["allocs"].as_array().unwrap().len() == 2)).then_some(())
    });
    day.run("set list", 0);

    day.text("The upper half of the users is split off, under load. First the plan alone.");
    day.run("set split im-a --at 5_000_000 --into im-b --dry-run", 0);
    split_under_load(&mut day);
    assert_eq!((day.sections("im-a"), day.sections("im-b")), (50, 50));
    day.text("No number of the load was refused, repeated or skipped in the meantime.");

    lose_and_return(&mut day);

    day.text("The sets are merged again, and the empty one is closed.");
    day.run("set merge im-b --into im-a --yes", 0);
    assert_eq!(day.sections("im-a"), 100);
    let sets = day.place.seqsvr_json(&["set", "list", "--addr", &day.addr(7301)]);
    assert!(sets["items"].as_array().unwrap().iter().any(|set| set["state"] == "closed"), "{sets:#}");
    day.run("set list", 0);
    let page = day.page.clone();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(PAGE, page).unwrap();
    } else {
        let kept = fs::read_to_string(PAGE).unwrap();
        assert_eq!(comparable(&page), comparable(&kept), "docs/operator-day.md; UPDATE_EXPECT=1 writes it anew");
    }
}

/// Splits, rolls back and splits again, under a load that checks that every seq follows the seq before it.
fn split_under_load(day: &mut Day) {
    let addrs = [7400, 7401, 7420, 7421].map(|port| day.addr(port));
    let certs = day.place.path("certs").display().to_string();
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let addrs = addrs.iter().flat_map(|addr| ["--addr", addr]);
            let args = ["bench", "--seamless", "--uids", "10000000", "--rate", "500", "--duration-s", "25"];
            let args: Vec<&str> =
                args.into_iter().chain(["--deadline-ms", "20000", "--certs", &certs]).chain(addrs).collect();
            seqsvr_json(&args)
        });
        let id = started(&day.run("set split im-a --at 5_000_000 --into im-b --rate 20 --yes", 0));
        day.run(&format!("migration pause {id}"), 0);
        day.run("migration list", 0);
        day.text("It is rolled back: all sections return.");
        day.run(&format!("migration rollback {id} --yes --wait"), 0);
        assert_eq!(day.sections("im-a"), 100);
        day.text("Once more, to the end.");
        let id = started(&day.run("set split im-a --at 5_000_000 --into im-b --yes --wait", 0));
        day.run(&format!("migration complete {id} --yes"), 0);
        day.run("set list", 0);
        load.join().unwrap()
    });
    assert_eq!(load["failed_items"], serde_json::json!({}), "{load:#}");
    for fault in ["decreases", "duplicates", "chain_breaks", "gaps"] {
        assert_eq!(load["order"][fault], 0, "{load:#}");
    }
}

/// Loses the second set completely, and starts it again.
fn lose_and_return(day: &mut Day) {
    day.text(
        "All processes of the second set end. Users of the first one are served as before; the others wait for it.",
    );
    let before = day.take("9999999").unwrap();
    day.stores.drain(STORES.len()..).for_each(drop);
    day.allocs.drain(ALLOCS.len()..).for_each(drop);
    assert!(day.take("42").is_some(), "a user of the first set");
    let addr = day.addr(7400);
    let refused = day.place.seqsvr(&["next", "9999999", "--addr", &addr, "--deadline-ms", "3000"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{stderr}");
    day.run("section show --uid 9_999_999", 0);
    day.start_stores("b");
    day.start_allocs("b");
    let after = eventually("the second set serves again", || day.take("9999999"));
    assert!(after > before, "{after} after {before}");
}
