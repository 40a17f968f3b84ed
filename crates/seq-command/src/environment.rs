//! Reads the environment variables of the process. Variables that set an argument of the command line are read by clap
//! instead, because the argument's definition contains `env = "..."`.
//!
//! Invariant: no other code of the product reads environment variables. `cargo xtask tidy` checks this.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the variables whose names and values are valid UTF-8. All other variables cannot be settings.
pub fn utf8_variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Returns whether the variable `name` is set and not empty.
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns whether the variable `name` is set but empty. Such a variable counts as unset.
pub fn is_empty(name: &OsStr) -> bool {
    env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Returns whether output must have no colours, because the user has turned them off (`NO_COLOR`) or the terminal has
/// none.
pub fn refuses_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns the socket at which the supervisor that started the process expects notifications (`sd_notify(3)`). Returns
/// `None` if no such supervisor started the process.
pub fn notify_socket() -> Option<OsString> {
    env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty())
}

/// Returns the directory for runtime files that the supervisor made for this process (`RuntimeDirectory=` of a unit).
/// If the supervisor made several, returns the first.
pub fn runtime_directory() -> Option<PathBuf> {
    let dirs = env::var_os("RUNTIME_DIRECTORY").filter(|dirs| !dirs.is_empty())?;
    env::split_paths(&dirs).next()
}

/// Name of the variable by which a guard hands its process id and the number of the process to the server that it
/// starts.
pub const GUARD: &str = "SEQSVR_GUARD";

/// Returns the text that the guard which started this process passed to it; `None` if no guard started it.
pub fn guard() -> Option<String> {
    env::var(GUARD).ok().filter(|text| !text.is_empty())
}

/// Returns the time within which this process must notify its supervisor's watchdog (`sd_watchdog_enabled(3)`). Returns
/// `None` if the supervisor has no watchdog for this process.
pub fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|us| *us > 0 && !is_other).map(Duration::from_micros)
}

/// Returns whether the variable PATH contains the directory `dir`, so that a shell finds the programs in `dir`.
pub fn is_on_path(dir: &Path) -> bool {
    env::var_os("PATH").is_some_and(|dirs| env::split_paths(&dirs).any(|on_path| on_path == dir))
}
