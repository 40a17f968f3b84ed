//! The web console in a real browser: consoles of clusters of real processes, in headless Chromium.
//!
//! A scenario is a script of `tests/browser`, which drives the browser and checks pages. The test starts the cluster
//! and the console, and acts when the script reports a step. Screenshots go to `target/browser`.
//!
//! `.ci/run` installs Chromium, and puppeteer-core and axe-core below target/node. Without them a test fails in
//! CI, and is skipped elsewhere with a line on stderr.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::cluster::{Place, Server};
use crate::redis::tool;
use crate::redis_node::{MODULES, has_module};

mod changes;
mod cost;
mod looks;
mod scale;
mod states;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/browser");
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/browser");

/// The programs that a scenario needs.
struct Tools {
    node: PathBuf,
    chromium: PathBuf,
}

impl Tools {
    /// Returns the programs; `None` if one is not installed.
    fn find() -> Option<Tools> {
        let (node, chromium) = (tool("node")?, tool("chromium")?);
        (has_module("puppeteer-core") && has_module("axe-core")).then_some(Tools { node, chromium })
    }

    /// Starts a script with the address of a console and further parameters.
    fn script(&self, name: &'static str, place: &Place, console: &Console, parameters: &Value) -> Script {
        fs::create_dir_all(PICTURES).unwrap();
        let mut args = json!({
            "chromium": self.chromium,
            "profile": place.path("profile"),
            "out": PICTURES,
            "origin": console.origin,
            "url": console.url,
        });
        args.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
        let log = place.path(&format!("{name}.log"));
        let mut child = Command::new(&self.node)
            .arg(Path::new(SCRIPTS).join(format!("{name}.mjs")))
            .arg(args.to_string())
            .env("NODE_PATH", MODULES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Script { name, child, lines, log }
    }
}

/// A script that drives a browser. It ends when it is dropped, and the browser with it.
struct Script {
    name: &'static str,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Script {
    /// Returns the next message that is no note; `None` at the end of the script. Each wait of a script has a timeout.
    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.lines.next()?.unwrap();
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            if let Some(error) = message["error"].as_str() {
                panic!("{}.mjs: {error}", self.name);
            }
            match message["note"].as_str() {
                Some(note) => println!("{}: {note}", self.name),
                None => return Some(message),
            }
        }
    }

    /// Waits for a step; returns its values.
    fn wait(&mut self, step: &str) -> Value {
        let message = self.next().unwrap_or_else(|| panic!("{}.mjs ended before the step {step:?}", self.name));
        assert_eq!(message["step"], step, "{message:#}");
        message
    }

    /// Continues the script after a step, with values for it.
    fn go_on(&mut self, values: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{values}").unwrap();
    }

    /// Waits until the script has passed.
    fn end(mut self) {
        if let Some(message) = self.next() {
            panic!("{}.mjs has a further step: {message:#}", self.name);
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}.mjs: {status}", self.name);
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("== log of {}.mjs\n{}", self.name, fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// A console of a cluster.
pub(crate) struct Console {
    server: Server,
    /// URL of its port, without a path.
    pub(crate) origin: String,
    /// URL that it printed for a browser.
    url: String,
}

impl Console {
    /// Starts a console for the nodes that the arguments name.
    pub(crate) fn start(place: &Place, args: &[&str]) -> Console {
        Console::at(place, "127.0.0.1:0", args)
    }

    /// Starts a console with a port.
    fn at(place: &Place, listen: &str, args: &[&str]) -> Console {
        let args = [&["console", "--listen", listen, "-o", "json"], args].concat();
        let mut server = place.server("console", &args);
        let opened = server.ready();
        let text = |name: &str| opened[name].as_str().unwrap_or_else(|| panic!("{name} in {opened:#}")).to_owned();
        assert_eq!(opened["has_login"], text("url").contains("/login?token="), "{opened:#}");
        Console { server, origin: format!("http://{}", text("listen")), url: text("url") }
    }

    /// Ends the console, and starts it anew on the same port.
    fn restart(&mut self, place: &Place, args: &[&str]) {
        let listen = self.origin.trim_start_matches("http://").to_owned();
        self.server.kill();
        *self = Console::at(place, &listen, args);
    }
}

/// Returns the time in milliseconds since 1970.
fn now_ms() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}
