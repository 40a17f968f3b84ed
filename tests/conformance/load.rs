//! Load during a fault: small bursts at a fixed rate that does not depend on the results of earlier bursts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seq_testkit::eventually;

use crate::driver::{Burst, Client, now_ns};

/// Interval of the bursts, and the calls of each: 400 calls a second.
const INTERVAL: Duration = Duration::from_millis(50);
const CALLS: u64 = 20;

/// A load that runs during a fault.
pub(crate) struct Load<'c> {
    client: Client<'c>,
    uids: &'c [u64],
    stopping: AtomicBool,
}

/// Runs calls for random uids of `uids` while `fault` runs, which gets the load; returns when all calls have ended.
pub(crate) fn during<'c>(client: Client<'c>, uids: &'c [u64], fault: impl FnOnce(&Load<'c>)) {
    let load = Load { client, uids, stopping: AtomicBool::new(false) };
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
            bursts.push(self.client.burst(self.uids, CALLS, CALLS));
            std::thread::park_timeout(INTERVAL);
            bursts.retain_mut(|burst| !burst.poll());
        }
        bursts.into_iter().for_each(Burst::wait);
    }
}
