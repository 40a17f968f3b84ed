//! Signals to the process. The first SIGINT or SIGTERM starts an orderly shutdown, and the second ends the process
//! immediately. At SIGHUP a server reads its settings again. A process that runs in a terminal shuts down at SIGHUP,
//! because the terminal was closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_kit::tasks::{Kind, TaskGroup};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Exit code after a second signal. A shell reports the same code for a program that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Time after a signal during which another signal counts as its duplicate. Duplicates occur because `timeout` and
/// wrappers that forward signals send each signal both to the process and to its process group. A user needs more time
/// between two presses of Ctrl-C.
const REPEAT_WINDOW: Duration = Duration::from_millis(100);

/// The signals that end a process, without duplicates.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// Time of the last signal that was no duplicate. A signal within [`REPEAT_WINDOW`] after it is a duplicate.
    last: Option<Instant>,
}

impl Interrupts {
    /// Installs handlers for SIGINT and SIGTERM. From then on, these signals do not end the process by themselves.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn new() -> io::Result<Interrupts> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Interrupts { interrupt, terminate, last: None })
    }

    /// Waits for the next SIGINT or SIGTERM that is no duplicate, and returns its name. Cancel safe.
    pub async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
            };
            if self.last.is_none_or(|last| last.elapsed() >= REPEAT_WINDOW) {
                self.last = Some(Instant::now());
                return name;
            }
        }
    }
}

/// Installs a handler for SIGHUP. From then on, this signal does not end the process by itself.
///
/// # Errors
/// The operating system refuses the handler.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Ends the process at a second signal, without an orderly shutdown.
pub fn exit_at_once() -> ! {
    std::process::exit(EXIT_INTERRUPTED)
}

/// A wait that the next signal ends. Clones share one wait.
#[derive(Clone, Debug, Default)]
pub struct Wait(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Wait {
    /// Waits until the next signal. [`watch`] does not count this signal as the second signal, which would exit the
    /// process.
    pub async fn until_signal(&self) {
        let (ended, end) = oneshot::channel();
        *self.0.lock() = Some(ended);
        let _ = end.await;
    }

    /// Ends the wait. Returns whether a caller was waiting.
    fn end(&self) -> bool {
        self.0.lock().take().is_some_and(|wait| wait.send(()).is_ok())
    }
}

/// Spawns a task that handles signals. At the first SIGINT, SIGTERM or signal of `hangups` it cancels `process`, and at
/// the second SIGINT or SIGTERM it exits the process. If the second signal ended a wait at `wait`, the third signal
/// exits the process. The task belongs to the group `signals`, which must be shut down last, so that a signal can also
/// end a shutdown that hangs.
///
/// # Errors
/// The operating system refuses the handlers.
pub fn watch(process: &TaskGroup, wait: &Wait, signals: &TaskGroup, mut hangups: Option<Signal>) -> io::Result<()> {
    let mut interrupts = Interrupts::new()?;
    let (process, wait, end) = (process.clone(), wait.clone(), signals.token());
    let handler = async move {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        let name = tokio::select! {
            // If a hangup and another signal arrive together, the other signal counts as the first signal. The hangup
            // then has no effect, because it never counts as the second signal.
            biased;
            name = interrupts.next() => name,
            _ = hangup => {
                interrupts.last = Some(Instant::now());
                "SIGHUP"
            }
        };
        tracing::info!(signal = name, "shutting down; a second signal exits at once");
        process.cancel();
        let mut name = interrupts.next().await;
        if wait.end() {
            tracing::info!(signal = name, "the wait for load balancers ends; the next signal exits at once");
            name = interrupts.next().await;
        }
        tracing::warn!(signal = name, "exiting at once");
        exit_at_once();
    };
    signals.spawn("signals", Kind::Disposable, async move {
        let _: Option<()> = end.run_until_cancelled(handler).await;
    });
    Ok(())
}

/// Installs a handler for SIGHUP, which the kernel sends to a process when its terminal is closed. Returns `None`,
/// without installing a handler, if the process ignores SIGHUP because `nohup` started it.
///
/// # Errors
/// The operating system refuses the handler.
pub fn closed_terminal() -> io::Result<Option<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if ignores_hangup(&status) { Ok(None) } else { hangups().map(Some) }
}

/// Returns whether the process with this `/proc/self/status` ignores SIGHUP. Bit 0 of the hexadecimal mask `SigIgn`
/// stands for SIGHUP.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_respected() {
        assert!(ignores_hangup("Name:\tseqsvr\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hangup(""));
    }
}
