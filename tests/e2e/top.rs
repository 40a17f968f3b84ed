//! The live view: a page of a real cluster with a fault, in a pseudo terminal and without one.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{seqsvr, seqsvr_json};
use crate::plans::Cluster;

/// `seqsvr top` in a terminal of 24 lines and 90 columns that `script` opens; ended on drop.
struct Terminal {
    child: Child,
    screen: std::path::PathBuf,
}

impl Terminal {
    fn open(cluster: &Cluster) -> Terminal {
        let screen = cluster.place.path("screen");
        let program = env!("CARGO_BIN_EXE_seqsvr");
        let command = format!(
            "stty rows 24 cols 90; {program} top --set {} --interval 300ms; echo ended $?; stty -a",
            cluster.set
        );
        let child = Command::new("script")
            .args(["-q", "-f", "-e", "-c", &command])
            .arg(&screen)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("script(1) is part of util-linux");
        Terminal { child, screen }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows a text.
    fn see(&self, text: &str) {
        eventually(&format!("the screen shows {text:?}"), || {
            self.emulated().screen().contents().contains(text).then_some(())
        });
    }

    /// Returns a terminal that has obeyed all that was written.
    fn emulated(&self) -> vt100::Parser {
        let mut terminal = vt100::Parser::new(24, 90, 0);
        terminal.process(&std::fs::read(&self.screen).unwrap_or_default());
        terminal
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the rules that name a fault, without the rule about the free space of this machine's disk.
fn rules(page: &Value) -> Vec<&str> {
    let rules = page["attention"].as_array().unwrap().iter().map(|found| found["rule"].as_str().unwrap());
    rules.filter(|rule| *rule != "disk").collect()
}

#[test]
fn a_lost_allocator_is_on_the_page_with_the_command_and_the_terminal_is_restored() {
    let mut cluster = Cluster::start();
    let once = || seqsvr_json(&["top", "--once", "--set", &cluster.set]);
    let page = once();
    assert_eq!((rules(&page), page["allocs"].as_array().unwrap().len()), (vec![], 3), "{page:#}");
    let kinds: Vec<&str> =
        page["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"registered") && kinds.contains(&"leader"), "{kinds:?}");

    let mut terminal = Terminal::open(&cluster);
    terminal.see("SECTIONS");
    terminal.press("1");
    terminal.see("NODES");
    let killed = std::time::Instant::now();
    cluster.servers.remove("a3");
    terminal.see("no response of allocator a3");
    println!("named on the screen after {:.1} s", killed.elapsed().as_secs_f64());
    terminal.see("seqsvr node drain");
    let page = eventually("the takeover is listed", || {
        let page = seqsvr_json(&["top", "--once", "--set", &cluster.set]);
        let taken = page["events"].as_array()?.iter().any(|event| event["kind"] == "takeover" && event["node"] == "a3");
        taken.then_some(page)
    });
    assert_eq!(rules(&page), ["silent allocators"], "{page:#}");
    assert_eq!(page["attention"][0]["runbook"], "process.md#seqsvrdown");
    // The takeover is pushed to the screen.
    terminal.press("4");
    terminal.see("was silent for");

    terminal.press("q");
    terminal.see("ended 0");
    terminal.see("icanon");
    let end = terminal.emulated();
    let (screen, text) = (end.screen(), end.screen().contents());
    assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{text}");
    assert!(text.contains(" icanon") && text.contains(" echo "), "lines are edited and echoed again: {text}");
}

#[test]
fn the_page_is_text_where_there_is_no_terminal_and_an_output_that_closes_is_no_panic() {
    let cluster = Cluster::start();
    let output = seqsvr(&["top", "--once", "--set", &cluster.set]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("3 MIGRATIONS") && text.contains("a3 "), "{text}");

    let (code, text) = cluster.run(&["top"]);
    assert_eq!((code, text.contains("the output is no terminal")), (Some(1), true), "{text}");
    assert!(text.contains("seqsvr top --once"), "{text}");

    let command = format!("{} top --once --set {} | true", env!("CARGO_BIN_EXE_seqsvr"), cluster.set);
    let closed = Command::new("sh").args(["-c", &command]).output().unwrap();
    let errors = String::from_utf8_lossy(&closed.stderr);
    assert!(!errors.contains("panicked"), "{errors}");
}
