//! SIGINT and SIGTERM: the first starts an orderly shutdown, the second exits at once.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::tasks::{Kind, TaskGroup};

/// Exit code after a second signal; the code that a shell reports for SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// Signals within this time of the first one are duplicates: `timeout` and wrappers that forward signals send them to
/// the process and to its group. Shorter than the time between two presses of Ctrl-C.
const REPEAT_WINDOW: Duration = Duration::from_millis(100);

/// Cancels the group at the first signal and exits at the second. The listener runs on the current runtime, which must
/// run until the shutdown is complete.
///
/// # Errors
/// When the system refuses the handlers.
pub fn watch(tasks: &TaskGroup) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let group = tasks.clone();
    // A separate group, never awaited: the listener must receive the second signal while the first group shuts down.
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
