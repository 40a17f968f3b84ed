//! One node's lane: room for so many calls, the line they stand in, and the task that talks to the node.

use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::Status;

use super::line::{Bounds, Call, End, Generation, Joined, Line, Outcome};
use super::stream;
use crate::attempts::Shared;

/// The lane to one node. When it goes, so does its stream.
#[derive(Debug)]
pub(crate) struct Lane {
    addr: Arc<str>,
    /// Places for calls. A caller holds its own, so a call that is dropped gives it back whatever it was waiting for.
    room: Semaphore,
    ends: Arc<Ends>,
    task: Mutex<Option<AbortHandle>>,
}

/// What callers and task share.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(super) line: Mutex<Line>,
    /// Signalled when the line's timer is due sooner than the task knows.
    pub(super) sooner: Notify,
}

impl Lane {
    pub(crate) fn new(addr: Arc<str>, bounds: Bounds) -> Lane {
        Lane {
            addr,
            room: Semaphore::new(bounds.calls),
            ends: Arc::new(Ends { line: Mutex::new(Line::new(bounds)), sooner: Notify::new() }),
            task: Mutex::new(None),
        }
    }

    /// The node's address.
    pub(crate) fn addr(&self) -> &Arc<str> {
        &self.addr
    }

    /// Sends a call with whoever else is there; `told` is where it is told. Waits for room first when the lane is full.
    ///
    /// Cancel safe: a dropped call is not sent if it was not yet, and its answer is thrown away if it was.
    pub(crate) async fn ask(&self, shared: &Shared, call: Call, told: oneshot::Receiver<Outcome>) -> Outcome {
        let _place = match self.room.try_acquire() {
            Ok(place) => place,
            Err(_) => match tokio::time::timeout_at(call.deadline, self.room.acquire()).await {
                Ok(place) => place.expect("the room of a lane is never closed"),
                Err(_) => return Outcome::Late { sent: false },
            },
        };
        let Joined { open, wake, sooner } = {
            let mut line = self.ends.line.lock();
            if line.is_closed(Instant::now) {
                return Outcome::NotServed;
            }
            line.join(call)
        };
        if let Some(waker) = wake {
            waker.wake();
        }
        if sooner {
            self.ends.sooner.notify_one();
        }
        if let Some(generation) = open {
            self.open(shared, generation);
        }
        // The line tells everybody; that it is gone with a call in it is not foreseen, so the call may have been sent.
        told.await.unwrap_or_else(|_| Outcome::Failed { status: stream::ended("the lane is gone"), sent: true })
    }

    fn open(&self, shared: &Shared, generation: Generation) {
        match shared.client(&self.addr) {
            Ok(client) => {
                let task = stream::start(self.ends.clone(), generation, client, shared.pool.runtime());
                *self.task.lock() = Some(task);
            }
            Err(error) => _ = self.ends.end(generation, End::NeverSent(Status::unavailable(error.to_string()))),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl Ends {
    /// Ends a stream and tells who loses by it. Answers the generation to open next, if somebody is in line.
    pub(super) fn end(&self, generation: Generation, end: End) -> Option<Generation> {
        let ended = self.line.lock().end(generation, &end);
        for (mut call, sent) in ended.failed {
            call.tell(match &end {
                End::Broke(status) | End::NeverSent(status) | End::Gone(status) => {
                    Outcome::Failed { status: status.clone(), sent }
                }
                End::NotServed { .. } => Outcome::NotServed,
            });
        }
        ended.open
    }

    /// Tells everybody whose deadline has passed.
    pub(super) fn expire(&self, now: Instant) {
        let late = self.line.lock().expire(now);
        for (told, sent) in late {
            // Nobody listens who was dropped meanwhile.
            _ = told.send(Outcome::Late { sent });
        }
    }
}
