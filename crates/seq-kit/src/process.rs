//! What the system says of this process, and what the process may use of it.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Processor time that the process has used since it started, in all its threads.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The same in whole microseconds, as it goes over the wire.
#[must_use]
pub fn cpu_us() -> u64 {
    u64::try_from(cpu_time().as_micros()).unwrap_or(u64::MAX)
}

/// Fewest open files that a server starts with: its own files and connections to other nodes, its metrics port, and a
/// few callers.
pub const MIN_FILES: u64 = 512;

/// Below this many a server starts with a warning: a thousand clients with a few connections each do not fit.
pub const GOOD_FILES: u64 = 4_096;

/// The system lets the process open too few files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the process may open {most} files and a server needs {MIN_FILES}: raise the hard limit (LimitNOFILE, ulimit -Hn)"
)]
pub struct TooFewFiles {
    /// How many it may open.
    pub most: u64,
}

/// Raises the number of files that the process may open from the soft limit to the hard one, and answers it. Without
/// this the usual soft limit of 1,024 is what connections, data and snapshots share.
///
/// # Errors
/// [`TooFewFiles`] when it stays below [`MIN_FILES`].
pub fn raise_file_limit() -> Result<u64, TooFewFiles> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit is stated as none.
    let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let raised =
        most(current) < most(maximum) && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let files = most(if raised { maximum } else { current });
    if files < MIN_FILES {
        return Err(TooFewFiles { most: files });
    }
    if files < GOOD_FILES {
        tracing::warn!(files, good = GOOD_FILES, "few files may be open: that bounds the connections; see LimitNOFILE");
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_files_becomes_the_hard_one() {
        let before = getrlimit(Resource::Nofile);
        let files = raise_file_limit().unwrap();
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.current, before.maximum);
        assert_eq!(after.current.unwrap_or(u64::MAX), files);
    }

    #[test]
    fn work_takes_time() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
