//! Thread per core: several single-threaded runtimes in place of one that shares its work.
//!
//! A call that stays on one thread costs half the CPU of one that hops between two, so each serving thread has its own
//! runtime and its own listener on the shared port. Nothing moves between them.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

/// Threads with a runtime each. They end when their futures do; [`Cores::join`] waits for that.
#[derive(Debug)]
#[must_use = "threads that nobody joins are detached"]
pub struct Cores {
    threads: Vec<JoinHandle<()>>,
}

impl Cores {
    /// Starts one thread, named `name-index`, for each seed, and runs on it what `run` makes of the seed.
    ///
    /// Each thread is a runtime of its own: what the future spawns stays on its thread, and is dropped when the future
    /// ends.
    ///
    /// # Errors
    /// When the system gives no thread or no runtime; threads that were started by then run on.
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

    /// Waits for every thread. Blocks; call it outside of a runtime.
    ///
    /// # Panics
    /// With the panic of a thread that panicked.
    pub fn join(self) {
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// The names of the threads that still run.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let running = self.threads.iter().filter(|thread| !thread.is_finished());
        running.map(|thread| thread.thread().name().unwrap_or("unnamed").to_owned()).collect()
    }
}

/// How many cores this process may use, 1 or above.
#[must_use]
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_seed_has_a_thread_of_its_own() {
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
