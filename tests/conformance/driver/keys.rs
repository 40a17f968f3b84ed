//! Calls for keys of a keyspace, which are recorded in the history as calls for uids are.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use serde_json::{Value, json};

use super::client::Client;
use crate::call::{Allocation, CallError, Current, digits, items, result};
use crate::history::Call;

/// A keyspace of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyspace<'d> {
    client: Client<'d>,
    name: &'d str,
}

/// A key, as a request states it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Key<'_> {
    fn value(self) -> Value {
        match self {
            Key::Text(text) => json!(text),
            Key::Bytes(bytes) => {
                let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                    write!(hex, "{byte:02x}").expect("a string takes every text");
                    hex
                });
                json!({"hex": hex})
            }
        }
    }

    /// Returns the number that stands for the key in the history. It is above all uids of a cluster, and a text and its
    /// UTF-8 have the same.
    fn in_history(self) -> u64 {
        let bytes = match self {
            Key::Text(text) => text.as_bytes(),
            Key::Bytes(bytes) => bytes,
        };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        hasher.finish() | 1 << 63
    }
}

impl<'d> Client<'d> {
    /// Returns a keyspace, which need not exist.
    pub(crate) fn keyspace(self, name: &'d str) -> Keyspace<'d> {
        Keyspace { client: self, name }
    }
}

impl Keyspace<'_> {
    /// Sends a request and waits for its result. `call` makes the entry of the history.
    fn send<T: Clone>(
        &self,
        mut request: Value,
        read: impl FnOnce(&Value) -> T,
        call: impl FnOnce(Result<T, CallError>) -> Call,
    ) -> Result<T, CallError> {
        request["keyspace"] = json!(self.name);
        let pending = self.client.send(request);
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let ended = result(&response, read);
        self.client.record(start_ns, end_ns, call(ended.clone()));
        ended
    }

    /// Requests a number of a key.
    pub(crate) fn next(&self, key: Key<'_>) -> Result<Allocation, CallError> {
        self.next_n(key, 1)
    }

    /// Requests `count` numbers of a key.
    pub(crate) fn next_n(&self, key: Key<'_>, count: u32) -> Result<Allocation, CallError> {
        let request = json!({"op": "next_key", "key": key.value(), "count": count});
        let given = self.send(request, Allocation::read, |given| Call::Next(vec![(key.in_history(), given)]));
        assert!(given.as_ref().map_or(true, |given| given.count == count), "{given:?}");
        given
    }

    /// Requests `count` numbers of each of several keys.
    pub(crate) fn next_many(
        &self,
        keys: &[Key<'_>],
        count: u32,
    ) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        let request = json!({"op": "next_keys", "keys": values(keys), "count": count});
        let read = |ok: &Value| items(ok, keys.len(), Allocation::read);
        self.send(request, read, |results| Call::Next(of_items(keys, results)))
    }

    /// Reads the last number of a key.
    pub(crate) fn current(&self, key: Key<'_>) -> Result<Current, CallError> {
        let request = json!({"op": "current_key", "key": key.value()});
        self.send(request, Current::read, |read| Call::Read(vec![(key.in_history(), read)]))
    }

    /// Reads the last numbers of several keys.
    pub(crate) fn current_many(&self, keys: &[Key<'_>]) -> Result<Vec<Result<Current, CallError>>, CallError> {
        let request = json!({"op": "current_keys", "keys": values(keys)});
        let read = |ok: &Value| items(ok, keys.len(), Current::read);
        self.send(request, read, |results| Call::Read(of_items(keys, results)))
    }

    /// Raises a key; returns the epoch.
    pub(crate) fn advance(&self, key: Key<'_>, to: u64) -> Result<u64, CallError> {
        let request = json!({"op": "advance_key", "key": key.value(), "to": to.to_string()});
        self.send(request, |ok| digits(ok, "epoch"), |ended| Call::Advance(key.in_history(), to, ended))
    }
}

fn values(keys: &[Key<'_>]) -> Vec<Value> {
    keys.iter().map(|key| key.value()).collect()
}

/// Returns the result of each item; the error of a call is the error of each of its items.
fn of_items<T>(
    keys: &[Key<'_>],
    results: Result<Vec<Result<T, CallError>>, CallError>,
) -> Vec<(u64, Result<T, CallError>)> {
    let results = results.unwrap_or_else(|error| keys.iter().map(|_| Err(error.clone())).collect());
    keys.iter().map(|key| key.in_history()).zip(results).collect()
}
