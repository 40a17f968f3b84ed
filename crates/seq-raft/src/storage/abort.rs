//! The only module outside the binary that ends the process. It does so when the contents of the disk are no longer
//! known.
//!
//! After a failed sync the kernel may have dropped the unwritten pages, and a second sync would succeed without them.
//! So no write is retried or acknowledged, and no destructor runs. The process ends by `SIGABRT` (a shell shows 134),
//! and the next start reads the disk. To signal the binary would be too late, because a vote or an append could be
//! acknowledged between the failure and the exit.

use std::io::{self, Write};

/// Returns the result of a storage operation; stops the process if the operation failed.
pub(crate) fn must_succeed<T>(doing: &str, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| abort_on_io_error(doing, &error))
}

/// Stops the process at once, with a line to stderr as well as to the log.
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
