//! The async runtime on which the Raft library runs. It is tokio, but its random numbers come from `fastrand`.
//!
//! The Raft library uses random numbers only to choose election timeouts, so `fastrand` is good enough. If a simulation
//! seeds the thread's `fastrand` generator, each run with that seed draws the same numbers.

use std::future::Future;
use std::io;
use std::time::Duration;

use futures::FutureExt;
use openraft::AsyncRuntime;
use openraft::impls::TokioRuntime;
use openraft::rt::deterministic_rng::DeterministicRng;

/// Tokio's runtime, in which only [`AsyncRuntime::thread_rng`] is replaced.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

/// Short name of the Raft library's runtime whose random generator can be seeded.
type Seeded = DeterministicRng<TokioRuntime>;

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: Send + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + Send> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = <Seeded as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: Send + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + Send>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        let draw = Seeded::scope(fastrand::u64(..), async { Seeded::thread_rng() });
        draw.now_or_never().expect("drawing waits for nothing")
    }

    fn new(threads: usize) -> Runtime {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F: Future<Output = T>, T>(&mut self, future: F) -> T {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(f: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        TokioRuntime::spawn_blocking(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a seed repeats its numbers and that successive numbers differ. The Raft library's own suite for
    /// runtimes does not check this.
    #[test]
    fn the_threads_seed_repeats_what_is_drawn() {
        let draw = || (0..8).map(|_| format!("{:?}", Runtime::thread_rng())).collect::<Vec<_>>();
        fastrand::seed(7);
        let first = draw();
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
        fastrand::seed(7);
        assert_eq!(draw(), first);
    }

    #[test]
    fn the_suite_of_the_raft_library_passes() {
        openraft::rt::testing::Suite::<Runtime>::test_all();
    }
}
