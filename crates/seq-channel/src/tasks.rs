//! The tasks that drive a pool's connections.
//!
//! Invariant: all tasks of a pool are in one set, and they are aborted when this set is dropped. So no task outlives
//! its pool.

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

/// Executor that adds tasks to the set as long as the set exists. Its reference to the set is weak, because the tasks
/// hold the executor and would otherwise keep the set alive.
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
        // If the set no longer exists, the task is dropped, which closes its connection.
        let Some(tasks) = self.tasks.upgrade() else { return };
        let mut tasks = tasks.lock();
        // Removes the tasks that have ended, so that the set does not grow beyond the number of connections.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }
}
