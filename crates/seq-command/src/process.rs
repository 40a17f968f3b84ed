//! Functions for the CPU time, the open-file limit, the memory and the parent of this process.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::time::{ClockId, clock_gettime};
use seq_kit::nonce::draw_nonce;

/// Returns the CPU time that all threads of the process have used since its start.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns [`cpu_time`] in whole microseconds, the unit of `StatusResponse`.
#[must_use]
pub fn cpu_us() -> u64 {
    u64::try_from(cpu_time().as_micros()).unwrap_or(u64::MAX)
}

/// Draws a random number above 0, which identifies one run of a program. The status of a node contains it as
/// `instance`, and the report of the death of an AllocSvr process names the process by it.
///
/// # Panics
/// When the operating system provides no random numbers.
#[must_use]
pub fn draw_instance() -> u64 {
    draw_nonce()
}

/// Keeps the memory of this process out of core dumps, and prevents other processes of the same user from attaching a
/// debugger. The memory contains keys and numbers. A limit on the size of core files would not suffice, because the
/// limit has no effect if the kernel pipes core dumps to a program.
///
/// # Errors
/// The operating system refuses the call.
pub fn hide_memory() -> std::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into)
}

/// Makes the operating system kill this process when its parent ends. Returns whether the parent is the process `pid`,
/// because the parent may have ended before this call.
///
/// # Errors
/// The operating system refuses the call.
pub fn end_with_parent(pid: u32) -> std::io::Result<bool> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(getppid().is_some_and(|parent| u32::try_from(parent.as_raw_nonzero().get()) == Ok(pid)))
}

/// A signal that one process passes on to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOn {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
}

/// Sends a signal to the process `pid`, which must be a child that is not reaped yet.
///
/// # Errors
/// The process has ended.
pub fn pass_on(signal: PassedOn, pid: u32) -> std::io::Result<()> {
    let signal = match signal {
        PassedOn::Interrupt => Signal::INT,
        PassedOn::Terminate => Signal::TERM,
        PassedOn::Hangup => Signal::HUP,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::InvalidInput)?;
    kill_process(pid, signal).map_err(Into::into)
}

/// Ends this process as another process has ended. If a signal ended that process, the exit code is the code that a
/// shell reports.
pub fn exit_as(status: ExitStatus) -> ! {
    std::process::exit(exit_code(status))
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Lowest open-file limit with which a server starts. It suffices for the server's own files, its connections to other
/// nodes, its metrics port, and a few clients.
pub const MIN_FILES: u64 = 512;

/// Open-file limit below which a server logs a warning. Lower limits do not suffice for a thousand clients with several
/// connections each.
pub const GOOD_FILES: u64 = 4_096;

/// The open-file limit of the process is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the process may open {most} files and a server needs {MIN_FILES}: raise the hard limit (LimitNOFILE, ulimit -Hn)"
)]
pub struct TooFewFiles {
    /// The hard limit of the process.
    pub most: u64,
}

/// Raises the soft limit on the open files of this process to the hard limit, and returns the new soft limit. The usual
/// soft limit of 1,024 is too low for the connections, data files and snapshots of a server.
///
/// # Errors
/// [`TooFewFiles`] if the soft limit is below [`MIN_FILES`] afterwards.
pub fn raise_file_limit() -> Result<u64, TooFewFiles> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let raised =
        most(current) < most(maximum) && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let files = most(if raised { maximum } else { current });
    if files < MIN_FILES {
        return Err(TooFewFiles { most: files });
    }
    if files < GOOD_FILES {
        tracing::warn!(files, good = GOOD_FILES, "low open-file limit: it bounds the connections; raise LimitNOFILE");
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
    fn the_memory_of_a_server_is_hidden() {
        hide_memory().unwrap();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }

    #[test]
    fn the_exit_code_of_another_process_is_passed_on() {
        assert_eq!(exit_code(ExitStatus::from_raw(64 << 8)), 64);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137, "killed");
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    }

    #[test]
    fn a_process_knows_its_parent() {
        assert!(!end_with_parent(std::process::id()).unwrap(), "no process is its own parent");
        set_parent_process_death_signal(None).unwrap();
    }

    #[test]
    fn work_uses_cpu_time() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
