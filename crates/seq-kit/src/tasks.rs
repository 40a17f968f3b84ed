//! Task groups. All tasks of a process are spawned in a task group, so that every task is awaited at shutdown.
//!
//! If a critical task ends before shutdown, e.g. by an error or a panic, the whole group shuts down. A disposable task
//! may end at any time. At shutdown the group asks all tasks to end, waits for them, and names the tasks that do not
//! end.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks that are shut down together. Clones are handles to the same group. The tasks of a group may run on
/// several runtimes.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    shutdown: CancellationToken,
    tracker: TaskTracker,
    /// Number of running tasks by name. The tasks that are still counted after the timeout of the shutdown are those
    /// that hang.
    running: Mutex<BTreeMap<&'static str, usize>>,
    /// The first critical task that ended too early.
    failed: Mutex<Option<&'static str>>,
}

/// The effect that the end of a task has before shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shutdown of the group, because the process needs the task.
    Critical,
    /// No effect on the group. The task may end at any time. For example, the handler of a connection ends with the
    /// connection.
    Disposable,
}

impl TaskGroup {
    /// Creates an empty group.
    #[must_use]
    pub fn new() -> TaskGroup {
        TaskGroup::default()
    }

    /// Spawns a task on the current runtime. The task should end soon after [`TaskGroup::shutting_down`] completes.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn(&self, name: &'static str, kind: Kind, task: impl Future<Output = ()> + Send + 'static) {
        let guard = Running::enter(self.inner.clone(), name, kind);
        self.inner.tracker.spawn(async move {
            let _guard = guard;
            task.await;
        });
    }

    /// Returns the token that is cancelled when the group shuts down.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.inner.shutdown.clone()
    }

    /// Completes when the group shuts down. Cancel safe.
    pub async fn shutting_down(&self) {
        self.inner.shutdown.cancelled().await;
    }

    /// Cancels the group's token, so that its tasks end. Does not wait for them.
    pub fn cancel(&self) {
        self.inner.shutdown.cancel();
    }

    /// Returns a value that cancels the group's token when it is dropped, so that the tasks end in an orderly way if
    /// their owner is dropped.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Returns the name of the critical task that shut the group down because it ended too early; `None` if there is
    /// none.
    #[must_use]
    pub fn failed(&self) -> Option<&'static str> {
        *self.inner.failed.lock()
    }

    /// Cancels the group's token, and waits until all its tasks have ended.
    ///
    /// # Errors
    /// [`Hung`] names the tasks that still run after `timeout`.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), Hung> {
        self.cancel();
        self.inner.tracker.close();
        tokio::time::timeout(timeout, self.inner.tracker.wait())
            .await
            .map_err(|_| Hung { tasks: self.inner.running.lock().keys().copied().collect() })
    }
}

/// Cancels a group when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(TaskGroup);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Error of tasks that did not end in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("still running: {}", tasks.join(", "))]
pub struct Hung {
    /// Names of the tasks.
    pub tasks: Vec<&'static str>,
}

/// Guard of a running task. Its drop handles the end of the task, even if the task panics.
struct Running {
    inner: Arc<Inner>,
    name: &'static str,
    kind: Kind,
}

impl Running {
    fn enter(inner: Arc<Inner>, name: &'static str, kind: Kind) -> Running {
        *inner.running.lock().entry(name).or_default() += 1;
        Running { inner, name, kind }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.inner.running.lock();
        if let Some(count) = running.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                running.remove(self.name);
            }
        }
        drop(running);
        if self.kind == Kind::Critical && !self.inner.shutdown.is_cancelled() {
            tracing::error!(task = self.name, "a critical task ended; shutting down");
            self.inner.failed.lock().get_or_insert(self.name);
            self.inner.shutdown.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn the_end_of_a_critical_task_ends_the_group() {
        let group = TaskGroup::new();
        group.spawn("worker", Kind::Critical, async {});
        tokio::time::timeout(TIMEOUT, group.shutting_down()).await.unwrap();
        assert_eq!(group.failed(), Some("worker"));
    }

    #[tokio::test]
    async fn a_group_whose_owner_is_given_up_ends_in_order() {
        let group = TaskGroup::new();
        let stopping = group.token();
        group.spawn("worker", Kind::Critical, async move { stopping.cancelled().await });
        drop(group.cancel_on_drop());
        assert_eq!(group.shutdown(TIMEOUT).await, Ok(()));
        assert_eq!(group.failed(), None);
    }

    #[tokio::test]
    async fn a_disposable_task_may_end() {
        let group = TaskGroup::new();
        group.spawn("connection", Kind::Disposable, async {});
        assert_eq!(group.shutdown(TIMEOUT).await, Ok(()));
        assert_eq!(group.failed(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_names_tasks_that_hang() {
        let group = TaskGroup::new();
        group.spawn("stuck", Kind::Critical, std::future::pending());
        assert_eq!(group.shutdown(TIMEOUT).await, Err(Hung { tasks: vec!["stuck"] }));
    }
}
