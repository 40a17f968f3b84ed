//! Stop of the process when it no longer knows the contents of the disk. No other module outside the binary ends the
//! process.
//!
//! After a failed sync, the kernel may have dropped the unwritten pages, and a second sync would succeed without them.
//! So no write is retried or acknowledged, and no destructor runs. The process ends by `SIGABRT`, which a shell shows
//! as exit status 134, and reads the disk at its next start. It does not suffice to ask the binary to exit, because a
//! vote or an append could be acknowledged between the failure and the exit.

use std::io::{self, Write};

/// Returns the value of a successful storage operation, or stops the process if the operation failed. `doing` describes
/// the operation in the log.
pub(crate) fn must_succeed<T>(doing: &str, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| abort_on_io_error(doing, &error))
}

/// Stops the process at once, after writing the error to both the log and stderr.
pub(crate) fn abort_on_io_error(doing: &str, error: &dyn std::error::Error) -> ! {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    tracing::error!(doing, %reason, "storage failed, the process stops");
    // The log may be filtered or buffered; stderr is neither.
    let _ = writeln!(io::stderr(), "seqsvr: storage failed while {doing}: {reason}; the process stops");
    std::process::abort();
}
