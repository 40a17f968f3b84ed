//! Two sets of one cluster as real processes, with three stores and two allocators each. All sections begin in the
//! first set.

use std::fs;
use std::path::{Path, PathBuf};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server};

pub(crate) const STORES: [u64; 3] = [1, 2, 3];
pub(crate) const ALLOCS: [&str; 2] = ["a1", "a2"];

/// The gRPC ports of all allocators.
pub(crate) const ALLOC_PORTS: [u16; 4] = [7400, 7401, 7420, 7421];

/// The files of both sets, like `sets/two`, on the address of a test.
pub(crate) struct TwoSets {
    pub(crate) place: Place,
    /// Scheme of the addresses of nodes: `https` with TLS, else `http`.
    scheme: &'static str,
}

/// The processes of a set.
pub(crate) struct SetServers {
    pub(crate) stores: Vec<Server>,
    pub(crate) allocs: Vec<Server>,
}

impl TwoSets {
    /// Writes the files of two sets of these uids; no process runs yet.
    pub(crate) fn new(uids: u64) -> TwoSets {
        TwoSets::with_security(uids, "plaintext = true\n", "http")
    }

    /// Works like [`TwoSets::new`], with TLS and a certificate for each process, for `operator/admin` and for
    /// `client/backend`.
    pub(crate) fn secure(uids: u64) -> TwoSets {
        let sets = TwoSets::with_security(uids, "", "https");
        for set in ["a", "b"] {
            let file = sets.file(set).display().to_string();
            let issued = sets.place.seqsvr(&["cert", "issue", "--set", &file]);
            assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        }
        let issued = sets.place.seqsvr(&["cert", "issue", "client/backend"]);
        assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        sets
    }

    fn with_security(uids: u64, security: &str, scheme: &'static str) -> TwoSets {
        let place = Place::new();
        fs::create_dir_all(place.path("sets/two")).unwrap();
        for set in ["a", "b"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../sets/two/{set}.toml"));
            let text = fs::read_to_string(path).unwrap().replace("127.0.0.1", &place.host.to_string());
            let text = text.replace("0..10_000_000", &format!("0..{uids}"));
            let text = format!("{security}{text}");
            fs::write(place.path(&format!("sets/two/{set}.toml")), text).unwrap();
        }
        TwoSets { place, scheme }
    }

    /// Starts both sets, and waits until seqs are allocated.
    pub(crate) fn start(&self) -> [SetServers; 2] {
        let servers = ["a", "b"].map(|set| SetServers { stores: self.stores(set, set), allocs: self.allocs(set) });
        eventually("the sets are defined", || {
            let dir = self.place.path("sets/two").display().to_string();
            self.place.seqsvr(&["set", "apply", &dir, "--yes"]).status.success().then_some(())
        });
        self.wait_known();
        eventually("numbers are allocated", || {
            self.place.seqsvr(&["next", "7", "--addr", &self.addr(7400)]).status.success().then_some(())
        });
        servers
    }

    /// Starts the stores of a set with directories of this name.
    pub(crate) fn stores(&self, set: &str, dirs: &str) -> Vec<Server> {
        let start = |id: u64| {
            let (file, data, id) = (self.file(set).display().to_string(), self.data(dirs, id), id.to_string());
            self.place.server(&format!("{dirs}-s{id}"), &["store", "--set", &file, "--id", &id, "--data", &data])
        };
        STORES.map(start).into()
    }

    /// Starts the allocators of a set.
    pub(crate) fn allocs(&self, set: &str) -> Vec<Server> {
        ALLOCS.map(|name| self.alloc(set, name)).into()
    }

    pub(crate) fn alloc(&self, set: &str, name: &str) -> Server {
        let file = self.file(set).display().to_string();
        self.place.server(&format!("{set}-{name}"), &["alloc", "--set", &file, "--name", name, "--cores", "1"])
    }

    pub(crate) fn file(&self, set: &str) -> PathBuf {
        self.place.path(&format!("sets/two/{set}.toml"))
    }

    pub(crate) fn data(&self, dirs: &str, id: u64) -> String {
        self.place.path(&format!("{dirs}-s{id}")).display().to_string()
    }

    pub(crate) fn addr(&self, port: u16) -> String {
        format!("{}://{}:{port}", self.scheme, self.place.host)
    }

    /// Waits until each set knows the allocators of the other set.
    pub(crate) fn wait_known(&self) {
        for port in [7301, 7321] {
            eventually("the sets know each other", || {
                let output = self.place.seqsvr(&["set", "list", "--addr", &self.addr(port), "-o", "json"]);
                let list: Value = serde_json::from_slice(&output.stdout).ok()?;
                let sets = list["items"].as_array()?;
                (sets.len() == 2 && sets.iter().all(|set| set["allocs"].as_array().is_some_and(|list| list.len() == 2)))
                    .then_some(())
            });
        }
    }

    /// Runs a command at the first set's store; returns its output.
    pub(crate) fn run(&self, args: &[&str]) -> Value {
        self.place.seqsvr_json(&[args, &["--addr", &self.addr(7301), "--timeout-s", "120"]].concat())
    }

    /// Runs a command at the first set's store.
    pub(crate) fn cli(&self, args: &[&str]) {
        let output = self.place.seqsvr(&[args, &["--addr", &self.addr(7301), "--timeout-s", "120"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Splits the upper half of the users off, and completes the migration.
    pub(crate) fn split_for_good(&self, at: &str) {
        self.cli(&["set", "split", "im-a", "--at", at, "--into", "im-b", "--yes", "--wait"]);
        let id = self.run(&["migration", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
        self.cli(&["migration", "complete", &id, "--yes"]);
    }

    /// Returns the number of sections of a set by the records of its own store.
    pub(crate) fn sections(&self, set: &str) -> u64 {
        let shown =
            self.place.seqsvr_json(&["set", "show", set, "--addr", &self.addr(7301), "--addr", &self.addr(7321)]);
        shown["sections"].as_u64().unwrap()
    }
}

impl SetServers {
    /// Kills all processes of the set.
    pub(crate) fn kill(&mut self) {
        self.stores.iter_mut().chain(&mut self.allocs).for_each(Server::kill);
    }
}
