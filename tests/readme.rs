//! Runs the README and the page for users of other systems: every command of their `console` blocks, in order, against
//! the cluster that the README's first command starts, and compares the output with the page.
//!
//! Words are compared exactly, but numbers only if the command prints sequence numbers, because times and versions
//! differ from run to run. `...` matches any text within a line, and alone any lines. The cluster listens on free ports
//! in this test, so its addresses replace the addresses in the README.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const README: &str = include_str!("../README.md");

const COMING_FROM: &str = include_str!("../docs/coming-from.md");

/// The command that starts the cluster.
const START: &str = "cargo run --release -- dev";

/// The command that runs all tests, which include this test.
const TESTS: &str = "cargo test --workspace";

/// Timeout until the cluster prints that it is ready. It is generous because other tests share the cores.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn every_command_prints_the_output_shown() {
    let mut shown = examples(README);
    let start = shown.remove(0);
    assert_eq!(start.command, START, "the first command of the README starts the cluster");
    let set_up = 1 + shown.iter().filter(|example| example.command.starts_with("cargo ")).count();
    assert_eq!(set_up, 2, "the README has two set-up commands");
    assert!(shown.iter().any(|example| example.command == TESTS), "the second runs the tests");

    let place = Place::new();
    let cluster = Cluster::start(&place, &start);
    shown.retain(|example| example.command != TESTS);
    for example in shown.iter().chain(&examples(COMING_FROM)) {
        let output = cluster.run(&place, &example.command);
        compare(example, &output);
    }
    cluster.stop();
}

/// A command of a page and its printed output.
struct Example {
    command: String,
    output: Vec<String>,
}

/// Returns the commands of the `console` blocks, in order. A command that ends in `\` continues on the next line.
fn examples(readme: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let command = command.split("  #").next().unwrap_or(command).trim_end();
            found.push(Example { command: command.to_owned(), output: Vec::new() });
        } else if inside {
            found.last_mut().expect("a block starts with a command").output.push(line.to_owned());
        }
    }
    found
}

/// A directory with the layout of the repository for the commands: `target/release/seqsvr` is the program under test.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        // The directory is on the program's file system, for a hard link: the program prints its own path, so a
        // symbolic link would not do.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let release = dir.path().join("target/release");
        std::fs::create_dir_all(&release).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_seqsvr"), release.join("seqsvr")).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        for name in ["tests", "sets"] {
            std::os::unix::fs::symlink(root.join(name), dir.path().join(name)).unwrap();
        }
        Place { dir }
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("target/release/seqsvr")
    }
}

/// The running development cluster.
struct Cluster {
    process: Child,
    /// Addresses in the README, and the addresses that replace them.
    addresses: HashMap<String, String>,
}

impl Cluster {
    fn start(place: &Place, start: &Example) -> Cluster {
        let mut process = Command::new(place.program())
            .args(["dev", "--ports", "random"])
            .current_dir(place.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(process.stdout.take().unwrap());
        let mut output = Vec::new();
        while output.len() < start.output.len() {
            match lines.recv_timeout(READY_TIMEOUT) {
                Ok(line) => output.push(line),
                Err(error) => panic!("{error} after {output:#?} of {:#?}", start.output),
            }
        }
        let addresses = start.output.iter().zip(&output).flat_map(|(shown, real)| {
            addresses(shown).map(str::to_owned).zip(addresses(real).map(str::to_owned)).collect::<Vec<_>>()
        });
        let cluster = Cluster { process, addresses: addresses.collect() };
        compare(start, &output.join("\n"));
        cluster
    }

    /// Runs one command line of a page in a shell.
    fn run(&self, place: &Place, command: &str) -> String {
        let here = self.addresses.iter().fold(command.to_owned(), |line, (shown, real)| line.replace(shown, real));
        let default = "127.0.0.1:7100";
        let addr = self.addresses.get(default).unwrap_or_else(|| panic!("the README does not show {default}"));
        let result = Command::new("sh")
            .args(["-c", &here])
            .current_dir(place.dir.path())
            .env("SEQSVR_ADDR", format!("http://{addr}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "`{command}` ended with {}: {error}", result.status);
        String::from_utf8(result.stdout).unwrap()
    }

    /// Ends the cluster like Ctrl-C.
    fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the cluster ended with {status}");
    }
}

impl Drop for Cluster {
    /// Kills the cluster of a failed test.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads lines on a separate thread, so that waiting for a line can time out.
fn lines_of(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is dropped once the cluster is ready; the pipe is still drained.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Returns every `a.b.c.d:port` of a line.
fn addresses(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).filter(|word| {
        let parts = word.rsplit_once(':');
        parts.is_some_and(|(host, port)| host.split('.').count() == 4 && !port.is_empty())
    })
}

/// Panics unless the output matches the page.
fn compare(example: &Example, output: &str) {
    let asks_for_numbers = ["next", "current"].iter().any(|word| example.command.split(' ').any(|part| part == *word));
    let shape = |line: &str| if asks_for_numbers { words(line) } else { words(&without_figures(line)) };
    let shown: Vec<String> = example.output.iter().map(|line| shape(line)).collect();
    // If the disk is nearly full, the output has a remark about it.
    let real: Vec<String> =
        output.lines().map(|line| line.split_once("; disk of ").map_or(line, |(line, _)| line)).map(shape).collect();
    assert!(fit(&shown, &real), "`{}` shows\n{shown:#?}\nbut prints\n{real:#?}", example.command);
}

/// Returns whether `real` matches `shown`, in which a line `...` matches any number of lines.
fn fit(shown: &[String], real: &[String]) -> bool {
    match shown {
        [] => real.is_empty(),
        [first, rest @ ..] if first == "..." => (0..=real.len()).any(|skipped| fit(rest, &real[skipped..])),
        [first, rest @ ..] => real.first().is_some_and(|real| line_fits(first, real)) && fit(rest, &real[1..]),
    }
}

/// Returns whether `real` matches `shown`, in which `...` matches any text.
fn line_fits(shown: &str, real: &str) -> bool {
    let Some((start, rest)) = shown.split_once("...") else { return shown == real };
    let Some(left) = real.strip_prefix(start) else { return false };
    left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| line_fits(rest, &left[at..]))
}

/// Returns the words of a line with one space between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the line without the parts that differ from run to run: `#` for each number, no mark of the leader, and no
/// `--addr`, which is printed only for an address other than the default.
fn without_figures(line: &str) -> String {
    let line = line.split(" --addr http").next().unwrap_or(line).replace('*', "");
    let mut kept = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if !c.is_ascii_digit() {
            kept.push(c);
            continue;
        }
        let mut end = c;
        while let Some(c) = rest.next_if(|c| c.is_ascii_digit() || [',', '.'].contains(c)) {
            end = c;
        }
        kept.push('#');
        if !end.is_ascii_digit() {
            kept.push(end);
        }
    }
    kept
}

#[test]
fn a_difference_is_detected() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let fits = |shown: &str, real: &str| fit(&lines(shown), &lines(real));
    assert!(fits("a\n...\nb", "a\nx\ny\nb") && fits("a\n...", "a") && fits("a ... (b)", "a c d (b)"));
    assert!(!fits("a\nb", "a\nc") && !fits("a", "a\nb") && !fits("a ... b", "a c") && !fits("a\nb", "a"));
    assert_eq!(without_figures("ready in 0.84 s. 15,441,260 numbers, s2*"), "ready in # s. # numbers, s#");
    let found: Vec<&str> = addresses("gRPC 127.0.0.1:7100 and http://127.0.0.1:7180/metrics").collect();
    assert_eq!(found, ["127.0.0.1:7100", "127.0.0.1:7180"]);
}
