//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::tasks::{Kind, TaskGroup};

/// Exit code after a second signal, as a shell reports a process that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Signals this soon after the first one repeat it: `timeout` and wrappers that forward signals send to the process and to
/// its group. Shorter than the time between two presses of Ctrl-C.
const REPEAT_WINDOW: Duration = Duration::from_millis(100);

/// Shuts the group down at the first signal and exits at the second. The listening stays on the current runtime, which
/// must live until the shutdown is over.
///
/// # Errors
/// When the system refuses the handlers.
pub fn watch(tasks: &TaskGroup) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let group = tasks.clone();
    // A group of its own, never waited for: the second signal must find a listener while the first group shuts down.
    TaskGroup::new().spawn("signals", Kind::Disposable, async move {
        let name = either(&mut interrupt, &mut terminate).await;
        tracing::info!(signal = name, "shutting down; a second signal exits at once");
        let first = Instant::now();
        group.cancel();
        loop {
            let name = either(&mut interrupt, &mut terminate).await;
            if first.elapsed() < REPEAT_WINDOW {
                continue;
            }
            tracing::warn!(signal = name, "exiting at once");
            std::process::exit(EXIT_INTERRUPTED);
        }
    });
    Ok(())
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
