//! A client of a driver: its calls, with typed results that are recorded in the history.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Driver, Line, Pending};
use crate::call::{Allocation, CallError, Current, digits, items, result};
use crate::history::{Call, Ended, History};

/// Default deadline of the clients of most rows, in milliseconds: that of the SDKs.
pub(crate) const DEADLINE_MS: u64 = 5_000;

/// A client of a driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'d> {
    pub(crate) driver: &'d Driver,
    /// Name of the client; unique in the driver.
    name: u64,
    deadline_ms: u64,
}

/// A call of `next` without a response.
#[derive(Debug)]
pub(crate) struct PendingNext<'d> {
    pub(crate) pending: Pending,
    uid: u64,
    history: &'d History,
}

/// A burst of calls that has not ended.
#[derive(Debug)]
pub(crate) struct Burst<'d> {
    pending: Pending,
    calls: u64,
    received: u64,
    is_done: bool,
    history: &'d History,
}

impl Driver {
    /// Opens a client. `more` has further fields of the request.
    pub(crate) fn try_open(&self, seeds: &[String], more: Value) -> Result<Client<'_>, CallError> {
        let (client, opening) = self.start_open(seeds, more);
        let (_, response) = opening.wait();
        result(&response, |_| client)
    }

    /// Sends the request to open a client. The client may be used after the response.
    pub(crate) fn start_open(&self, seeds: &[String], more: Value) -> (Client<'_>, Pending) {
        let name = self.clients.fetch_add(1, Ordering::Relaxed);
        let mut request = json!({"op": "open", "client": name.to_string(), "seeds": seeds, "deadline_ms": DEADLINE_MS});
        for (field, value) in more.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let deadline_ms = request["deadline_ms"].as_u64().expect("a number");
        let opening = self.send(request, Duration::from_millis(deadline_ms));
        (Client { driver: self, name, deadline_ms }, opening)
    }

    /// Opens a client that must open.
    pub(crate) fn open(&self, seeds: &[String]) -> Client<'_> {
        self.open_with(seeds, json!({}))
    }

    /// Opens a client that must open. `more` has further fields of the request.
    pub(crate) fn open_with(&self, seeds: &[String], more: Value) -> Client<'_> {
        self.try_open(seeds, more).unwrap_or_else(|error| panic!("{seeds:?}: {error:?}\n{}", self.log()))
    }

    /// Opens a client, and makes one call: returns the error of whichever fails first.
    pub(crate) fn open_and_call(&self, seeds: &[String], more: Value, uid: u64) -> Result<Allocation, CallError> {
        self.try_open(seeds, more).and_then(|client| client.next(uid))
    }
}

impl<'d> Client<'d> {
    /// Sends a request of this client.
    pub(crate) fn send(&self, mut request: Value) -> Pending {
        request["client"] = json!(self.name.to_string());
        let deadline_ms = request["deadline_ms"].as_u64().unwrap_or(self.deadline_ms);
        self.driver.send(request, Duration::from_millis(deadline_ms))
    }

    /// Adds a call to the history.
    pub(super) fn record(&self, start_ns: u64, end_ns: u64, call: Call) {
        self.driver.history().add(Ended { start_ns, end_ns, call });
    }

    pub(crate) fn next(&self, uid: u64) -> Result<Allocation, CallError> {
        self.next_with(uid, json!({}))
    }

    /// Requests `count` numbers.
    pub(crate) fn next_n(&self, uid: u64, count: u32) -> Result<Allocation, CallError> {
        let result = self.next_with(uid, json!({"count": count}));
        assert!(result.as_ref().map_or(true, |allocation| allocation.count == count), "{result:?}");
        result
    }

    /// Requests numbers; `more` has further fields of the request.
    pub(crate) fn next_with(&self, uid: u64, more: Value) -> Result<Allocation, CallError> {
        self.start_next(uid, more).wait()
    }

    /// Sends a request for numbers; `more` has further fields of the request, and may name another op.
    pub(crate) fn start_next(&self, uid: u64, mut more: Value) -> PendingNext<'d> {
        if more["op"].is_null() {
            more["op"] = json!("next");
        }
        more["uid"] = json!(uid.to_string());
        PendingNext { pending: self.send(more), uid, history: self.driver.history() }
    }

    /// Requests numbers of several uids; `counts` is empty for one number each.
    pub(crate) fn next_many(
        &self,
        uids: &[u64],
        counts: &[u32],
    ) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        let mut request = json!({"op": "next_many", "uids": strings(uids)});
        if !counts.is_empty() {
            request["counts"] = json!(counts);
        }
        self.send_many(uids, request)
    }

    /// Requests a number of each of several uids, with a deadline of this call.
    pub(crate) fn next_many_within(
        &self,
        uids: &[u64],
        deadline_ms: u64,
    ) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        self.send_many(uids, json!({"op": "next_many", "uids": strings(uids), "deadline_ms": deadline_ms}))
    }

    fn send_many(&self, uids: &[u64], request: Value) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        let pending = self.send(request);
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let results = result(&response, |ok| items(ok, uids.len(), Allocation::read));
        let of_items = results.clone().unwrap_or_else(|error| vec![Err(error); uids.len()]);
        self.record(start_ns, end_ns, Call::Next(uids.iter().copied().zip(of_items).collect()));
        results
    }

    /// Reads the last number of a uid.
    pub(crate) fn current(&self, uid: u64) -> Result<Current, CallError> {
        let pending = self.send(json!({"op": "current", "uid": uid.to_string()}));
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let read = result(&response, Current::read);
        self.record(start_ns, end_ns, Call::Read(vec![(uid, read.clone())]));
        read
    }

    /// Reads the last numbers of several uids.
    pub(crate) fn current_many(&self, uids: &[u64]) -> Result<Vec<Result<Current, CallError>>, CallError> {
        let pending = self.send(json!({"op": "current_many", "uids": strings(uids)}));
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let results = result(&response, |ok| items(ok, uids.len(), Current::read));
        let of_items = results.clone().unwrap_or_else(|error| vec![Err(error); uids.len()]);
        self.record(start_ns, end_ns, Call::Read(uids.iter().copied().zip(of_items).collect()));
        results
    }

    /// Raises a uid; returns the epoch.
    pub(crate) fn advance(&self, uid: u64, to: u64) -> Result<u64, CallError> {
        let pending = self.send(json!({"op": "advance", "uid": uid.to_string(), "to": to.to_string()}));
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let advanced = result(&response, |ok| digits(ok, "epoch"));
        self.record(start_ns, end_ns, Call::Advance(uid, to, advanced.clone()));
        advanced
    }

    /// Sends a burst of calls, each for a random one of the uids.
    pub(crate) fn burst(&self, uids: &[u64], calls: u64, concurrency: u64) -> Burst<'d> {
        self.burst_with(uids, calls, concurrency, json!({}))
    }

    /// Sends a burst of calls; `more` has further fields of the request.
    pub(crate) fn burst_with(&self, uids: &[u64], calls: u64, concurrency: u64, more: Value) -> Burst<'d> {
        let seed = fastrand::u64(..).to_string();
        let mut request = json!({
            "op": "burst", "uids": strings(uids), "calls": calls, "concurrency": concurrency, "seed": seed,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            request[field] = value.clone();
        }
        let (pending, history) = (self.send(request), self.driver.history());
        Burst { pending, calls, received: 0, is_done: false, history }
    }

    /// Makes a burst of calls of which none may fail, and whose results the driver does not write. Their numbers are
    /// not in the history.
    pub(crate) fn quiet_burst(&self, uids: &[u64], calls: u64, concurrency: u64) {
        let more = json!({"quiet": true});
        let (_, line) = self.burst_with(uids, calls, concurrency, more).pending.wait();
        let counts = result(&line, |ok| (ok["done"].as_u64(), ok["failed"].as_u64()));
        assert_eq!(counts.expect("a burst has no error of its own"), (Some(calls), Some(0)));
    }

    /// Sends a request without a result, e.g. `close`.
    pub(crate) fn command(&self, request: Value) -> Result<Value, CallError> {
        result(&self.send(request).wait().1, Value::clone)
    }
}

impl PendingNext<'_> {
    /// Waits for the result.
    pub(crate) fn wait(self) -> Result<Allocation, CallError> {
        self.timed().0
    }

    /// Waits for the result; returns it with the time that the call took.
    pub(crate) fn timed(self) -> (Result<Allocation, CallError>, Duration) {
        let PendingNext { pending, uid, history } = self;
        let start_ns = pending.start_ns;
        let (end_ns, response) = pending.wait();
        let allocated = result(&response, Allocation::read);
        history.add(Ended { start_ns, end_ns, call: Call::Next(vec![(uid, allocated.clone())]) });
        (allocated, Duration::from_nanos(end_ns - start_ns))
    }
}

impl Burst<'_> {
    /// Records the calls that have ended; returns whether all have.
    pub(crate) fn poll(&mut self) -> bool {
        while !self.is_done
            && let Some(line) = self.pending.try_next_line()
        {
            self.receive(line);
        }
        self.is_done
    }

    /// Waits until all calls have ended.
    pub(crate) fn wait(mut self) {
        while !self.is_done {
            self.receive(self.pending.next_line());
        }
    }

    fn receive(&mut self, (now, line): Line) {
        let Some(call) = line.get("call") else {
            let done = result(&line, |ok| ok["done"].as_u64()).expect("a burst has no error of its own");
            assert_eq!((done, self.received), (Some(self.calls), self.calls), "a line for each call: {line}");
            self.is_done = true;
            return;
        };
        let (start_ns, end_ns) = (digits(call, "start_ns"), digits(call, "end_ns"));
        let (sent, uid) = (self.pending.start_ns, digits(call, "uid"));
        assert!(sent <= start_ns && start_ns <= end_ns && end_ns <= now, "{line} is not between {sent} and {now}");
        self.received += 1;
        let allocated = result(call, Allocation::read);
        self.history.add(Ended { start_ns, end_ns, call: Call::Next(vec![(uid, allocated)]) });
    }
}

fn strings(uids: &[u64]) -> Vec<String> {
    uids.iter().map(u64::to_string).collect()
}
