//! Keeps the event log of a node up to date.

use std::time::Duration;

use seq_api::node_events::NodeEvents;
use seq_kit::tasks::{Kind, TaskGroup};

/// Interval at which the clocks are compared and refused requests are added to the log. A step of the wall clock gets
/// its time from the reading after it, and times of events are shown in seconds.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts a task in `tasks` on the current runtime that keeps `events` up to date until the group shuts down.
pub(crate) fn tick(events: NodeEvents, tasks: &TaskGroup) {
    let stopping = tasks.token();
    let ticking = async move {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            events.tick();
        }
    };
    tasks.spawn("event log", Kind::Disposable, async move {
        stopping.run_until_cancelled(ticking).await;
    });
}
