//! Load during a fault: small bursts at a fixed rate that does not depend on the results of earlier bursts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seq_testkit::eventually;
use serde_json::json;

use crate::driver::{Burst, Client, now_ns};

/// Interval of the bursts, and the calls of each: 400 calls a second.
const INTERVAL: Duration = Duration::from_millis(50);
const CALLS: u64 = 20;

/// A load that runs during a fault.
pub(crate) struct Load<'c> {
    client: Client<'c>,
    uids: &'c [u64],
    /// The keyspace of the keys of the uids; `None` for the uids themselves.
    keyspace: Option<&'c str>,
    stopping: AtomicBool,
}

/// Runs calls for random uids of `uids` while `fault` runs, which gets the load; returns when all calls have ended.
pub(crate) fn during<'c>(client: Client<'c>, uids: &'c [u64], fault: impl FnOnce(&Load<'c>)) {
    run(Load { client, uids, keyspace: None, stopping: AtomicBool::new(false) }, fault);
}

/// Works like [`during`], for the keys of the uids in a keyspace.
pub(crate) fn of_keys<'c>(client: Client<'c>, keyspace: &'c str, uids: &'c [u64], fault: impl FnOnce(&Load<'c>)) {
    run(Load { client, uids, keyspace: Some(keyspace), stopping: AtomicBool::new(false) }, fault);
}

fn run<'c>(load: Load<'c>, fault: impl FnOnce(&Load<'c>)) {
    std::thread::scope(|scope| {
        // The callers also end if the fault panics.
        let _stop = Stop(&load.stopping);
        // A panic of the load names the row.
        let row = std::thread::current().name().unwrap_or_default().to_owned();
        std::thread::Builder::new().name(row).spawn_scoped(scope, || load.run()).expect("a thread");
        load.wait_served();
        fault(&load);
    });
}

/// Ends the callers when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load<'_> {
    /// Waits until each uid got a number in a call that began after this point.
    pub(crate) fn wait_served(&self) {
        let now = now_ns();
        let history = self.client.driver.history();
        eventually("every uid is served", || history.served_since(now, self.uids).then_some(()));
    }

    fn run(&self) {
        let mut bursts: Vec<Burst<'_>> = Vec::new();
        while !self.stopping.load(Ordering::Relaxed) {
            let more = self.keyspace.map_or_else(|| json!({}), |keyspace| json!({"keyspace": keyspace}));
            bursts.push(self.client.burst_with(self.uids, CALLS, CALLS, more));
            std::thread::park_timeout(INTERVAL);
            bursts.retain_mut(|burst| !burst.poll());
        }
        bursts.into_iter().for_each(Burst::wait);
    }
}
