//! Panic hook, which aborts the process. A panic means that an invariant is violated, and a wrong number is worse than
//! a restart.

use std::backtrace::Backtrace;

/// Installs a hook that logs a panic on any thread and then aborts the process. Without the hook, a panic would end
/// only its task or thread. The other threads of a server would continue to serve, although the state of the server is
/// wrong.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        tracing::error!(thread = thread.name().unwrap_or("unnamed"), %backtrace, "{info}");
        // The panic also goes to stderr, because the logger may be filtered or not set up yet.
        eprintln!("aborting: {info}");
        std::process::abort();
    }));
}
