//! The parent of an AllocSvr process in a container (`seqsvr alloc --guard`). It starts the server as a child process,
//! passes signals on to it, waits for its end, reports its death to the store, and exits as the server did.
//!
//! A process in a container is its process 1, which the container ends with. So no other process of the container can
//! report that it has ended, unless it is the parent.
//!
//! **Invariant:** the server ends no later than the guard, because the operating system kills the server when the guard
//! ends (`process_number.rs`). The guard sends the report only after it has reaped the server.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use seq_command::exit::Exit;
use seq_command::output::note;
use seq_command::process::{self, PassedOn, draw_instance, pass_on};
use seq_command::{client_runtime, environment};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::died;
use super::process_number::Guarded;

/// The flag that makes the program a guard.
const FLAG: &str = "--guard";

/// Maximum time for a report, so that the restart of the container is not delayed.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the server `name` of the set file `set` as a child process, with the arguments of this process. Never returns
/// after the server has ended, because only the exit of the process can pass every status of the server on.
///
/// # Errors
/// The server cannot be started.
pub(super) fn run(set: &Path, name: &str) -> anyhow::Result<Exit> {
    let status = client_runtime()?.block_on(async {
        let number = draw_instance();
        // The handlers are installed before the server starts, so that no signal is lost.
        let mut signals = Signals::new()?;
        let mut server = start(number)?;
        let status = signals.pass_on_until_end(&mut server).await?;
        match died::report((set, name), number, REPORT_TIMEOUT).await {
            Ok(incarnation) => note(format_args!("guard: {}", died::text(name, incarnation))),
            Err(error) => note(format_args!("guard: the death of {name} is not reported: {error:#}")),
        }
        anyhow::Ok(status)
    })?;
    process::exit_as(status)
}

fn start(number: u64) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let args: Vec<OsString> = std::env::args_os().skip(1).filter(|arg| arg != FLAG).collect();
    let guarded = Guarded { guard: std::process::id(), number };
    let server = Command::new(&program).args(args).env(environment::GUARD, guarded.text()).spawn();
    server.with_context(|| format!("cannot start {}", program.display()))
}

/// The signals that a guard passes on.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Signals { interrupt: interrupt?, terminate: terminate?, hangup: hangup? })
    }

    /// Passes signals on to the server until it has ended and is reaped. Returns its status.
    async fn pass_on_until_end(&mut self, server: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            let signal = tokio::select! {
                status = server.wait() => return status,
                _ = self.interrupt.recv() => PassedOn::Interrupt,
                _ = self.terminate.recv() => PassedOn::Terminate,
                _ = self.hangup.recv() => PassedOn::Hangup,
            };
            // The id is known until the server is reaped.
            if let Some(Err(error)) = server.id().map(|pid| pass_on(signal, pid)) {
                note(format_args!("guard: {signal:?} is not passed on: {error}"));
            }
        }
    }
}
