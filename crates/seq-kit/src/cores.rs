//! Threads with one single-threaded runtime each, usually one for each core, in place of one runtime that moves work
//! between threads.
//!
//! A request that stays on one thread costs half as much CPU time as a request that moves between two threads. So each
//! thread that serves requests has its own runtime and its own listener on the shared port. No task moves between the
//! threads.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

/// Threads with one runtime each. A thread ends when the future that it runs completes. [`Cores::join`] waits for all
/// threads.
#[derive(Debug)]
#[must_use = "threads that are not joined are detached"]
pub struct Cores {
    threads: Vec<JoinHandle<()>>,
}

impl Cores {
    /// Starts one thread for each element of `seeds`. The thread is named `name-index` and runs the future `run(seed)`.
    ///
    /// Each thread has its own runtime. Tasks that the future spawns run on the same thread, and are dropped when the
    /// future completes.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be created. The threads that were already started keep running.
    pub fn start<S, F>(name: &str, seeds: Vec<S>, run: impl Fn(S) -> F + Clone + Send + 'static) -> io::Result<Cores>
    where
        S: Send + 'static,
        F: Future<Output = ()>,
    {
        let mut threads = Vec::with_capacity(seeds.len());
        for (index, seed) in seeds.into_iter().enumerate() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = run.clone();
            let thread = std::thread::Builder::new().name(format!("{name}-{index}"));
            threads.push(thread.spawn(move || runtime.block_on(async move { run(seed).await }))?);
        }
        Ok(Cores { threads })
    }

    /// Waits until all threads have ended. Blocks, so it must be called outside of a runtime.
    ///
    /// # Panics
    /// Propagates the panic of a thread.
    pub fn join(self) {
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Returns the names of the threads that still run.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let running = self.threads.iter().filter(|thread| !thread.is_finished());
        running.map(|thread| thread.thread().name().unwrap_or("unnamed").to_owned()).collect()
    }
}

/// Returns the number of cores available to this process, 1 or above.
#[must_use]
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_seed_has_its_own_thread() {
        let (sender, receiver) = mpsc::channel();
        let cores = Cores::start("core", vec![1, 2, 3], move |seed| {
            let sender = sender.clone();
            async move {
                tokio::task::yield_now().await;
                sender.send((seed, std::thread::current().name().unwrap().to_owned())).unwrap();
            }
        })
        .unwrap();
        cores.join();
        let mut seen: Vec<_> = receiver.try_iter().collect();
        seen.sort();
        assert_eq!(seen, [(1, "core-0".to_owned()), (2, "core-1".to_owned()), (3, "core-2".to_owned())]);
    }
}
