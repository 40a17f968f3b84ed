//! A broken invariant stops the process: a wrong number is worse than a restart.

use std::backtrace::Backtrace;

/// From now on a panic on any thread is logged and aborts the process. For server roles: a task or thread that died
/// alone would leave the others to serve from a state that an assertion just called broken.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        tracing::error!(thread = thread.name().unwrap_or("unnamed"), %backtrace, "{info}");
        // The logger may be filtered or not yet set up; the reason must not be lost.
        eprintln!("aborting: {info}");
        std::process::abort();
    }));
}
