//! Tasks that somebody waits for: the only way to spawn.
//!
//! A critical task that ends before shutdown, by an error or a panic, ends the whole group; a disposable one is only
//! logged. Shutdown cancels, waits, and names what hung.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks with one shutdown. Clones are handles on the same group; tasks may live on several runtimes.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    shutdown: CancellationToken,
    tracker: TaskTracker,
    /// How many tasks of each name are running; what stands here after the wait hung.
    running: Mutex<BTreeMap<&'static str, usize>>,
    /// The first critical task that ended too early.
    failed: Mutex<Option<&'static str>>,
}

/// What the end of a task before shutdown means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The process cannot go on without it.
    Critical,
    /// It may end at any time, as the handler of a connection does.
    Disposable,
}

impl TaskGroup {
    /// A group with no tasks.
    #[must_use]
    pub fn new() -> TaskGroup {
        TaskGroup::default()
    }

    /// Runs a task on the current runtime. The task should end soon after [`TaskGroup::shutting_down`].
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

    /// Cancelled when the group shuts down.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.inner.shutdown.clone()
    }

    /// Completes when the group shuts down. Cancel safe.
    pub async fn shutting_down(&self) {
        self.inner.shutdown.cancelled().await;
    }

    /// Asks every task to end. Does not wait.
    pub fn cancel(&self) {
        self.inner.shutdown.cancel();
    }

    /// The critical task that ended too early and so ended the group.
    #[must_use]
    pub fn failed(&self) -> Option<&'static str> {
        *self.inner.failed.lock()
    }

    /// Asks every task to end and waits for them.
    ///
    /// # Errors
    /// [`Hung`] names the tasks that still run after `patience`.
    pub async fn shutdown(&self, patience: Duration) -> Result<(), Hung> {
        self.cancel();
        self.inner.tracker.close();
        tokio::time::timeout(patience, self.inner.tracker.wait())
            .await
            .map_err(|_| Hung { tasks: self.inner.running.lock().keys().copied().collect() })
    }
}

/// Tasks that did not end in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("still running: {}", tasks.join(", "))]
pub struct Hung {
    /// Their names.
    pub tasks: Vec<&'static str>,
}

/// Present while a task runs; notices its end also when it panics.
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

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn the_end_of_a_critical_task_ends_the_group() {
        let group = TaskGroup::new();
        group.spawn("worker", Kind::Critical, async {});
        tokio::time::timeout(PATIENCE, group.shutting_down()).await.unwrap();
        assert_eq!(group.failed(), Some("worker"));
    }

    #[tokio::test]
    async fn a_disposable_task_may_end() {
        let group = TaskGroup::new();
        group.spawn("connection", Kind::Disposable, async {});
        assert_eq!(group.shutdown(PATIENCE).await, Ok(()));
        assert_eq!(group.failed(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_names_what_hung() {
        let group = TaskGroup::new();
        group.spawn("deaf", Kind::Critical, std::future::pending());
        assert_eq!(group.shutdown(PATIENCE).await, Err(Hung { tasks: vec!["deaf"] }));
    }
}
