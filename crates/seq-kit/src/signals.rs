//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::tasks::{Kind, TaskGroup};

/// Exit code after a second signal, as a shell reports a process that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

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
        group.cancel();
        let name = either(&mut interrupt, &mut terminate).await;
        tracing::warn!(signal = name, "exiting at once");
        std::process::exit(EXIT_INTERRUPTED);
    });
    Ok(())
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
