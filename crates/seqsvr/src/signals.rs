//! SIGINT and SIGTERM: the first starts an orderly shutdown, the second exits at once.

use std::io;
use std::time::Duration;

use seq_kit::tasks::{Kind, TaskGroup};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Exit code after a second signal; the code that a shell reports for SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// Signals within this time of the first one are duplicates: `timeout` and wrappers that forward signals send them to
/// the process and to its group. Shorter than the time between two presses of Ctrl-C.
const REPEAT_WINDOW: Duration = Duration::from_millis(100);

/// Cancels `process` at the first signal and exits at the second. The handler runs on the current runtime, in the group
/// `signals`, which must be shut down last: the second signal ends a shutdown that hangs.
///
/// # Errors
/// When the system refuses the handlers.
pub(crate) fn watch(process: &TaskGroup, signals: &TaskGroup) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (process, end) = (process.clone(), signals.token());
    let handler = async move {
        let name = either(&mut interrupt, &mut terminate).await;
        tracing::info!(signal = name, "shutting down; a second signal exits at once");
        let first = Instant::now();
        process.cancel();
        loop {
            let name = either(&mut interrupt, &mut terminate).await;
            if first.elapsed() < REPEAT_WINDOW {
                continue;
            }
            tracing::warn!(signal = name, "exiting at once");
            std::process::exit(EXIT_INTERRUPTED);
        }
    };
    signals.spawn("signals", Kind::Disposable, async move {
        let _: Option<()> = end.run_until_cancelled(handler).await;
    });
    Ok(())
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
