//! The tasks that drive a pool's connections.
//!
//! Invariant: the tasks of a pool are in one set, and dropping the set aborts them all. No task outlives its pool.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Tasks of a pool's connections, all on one runtime.
#[derive(Debug)]
pub(crate) struct ConnectionTasks {
    runtime: Handle,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// Adds tasks to the set as long as the set exists. The tasks hold it, so it must not keep the set alive.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    runtime: Handle,
    tasks: Weak<Mutex<JoinSet<()>>>,
}

impl ConnectionTasks {
    /// Creates an empty set of tasks.
    pub(crate) fn on(runtime: Handle) -> ConnectionTasks {
        ConnectionTasks { runtime, tasks: Arc::default() }
    }

    /// Returns the runtime of the tasks.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the executor for endpoints.
    pub(crate) fn spawner(&self) -> Spawner {
        Spawner { runtime: self.runtime.clone(), tasks: Arc::downgrade(&self.tasks) }
    }
}

impl hyper::rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for Spawner {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The set is gone, so the task is dropped, which closes its connection.
        let Some(tasks) = self.tasks.upgrade() else { return };
        let mut tasks = tasks.lock();
        // Removes the tasks that have ended, to bound the set by the number of connections.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }
}
