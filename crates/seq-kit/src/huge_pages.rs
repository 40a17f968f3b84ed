//! Transparent huge pages of this process, which it does without.
//!
//! With pages of 2 MiB, the kernel clears 2 MiB and makes them resident as soon as one byte of them is written. An idle
//! StoreSvr had 98 MiB in huge pages, and 40 MiB without them. A node that takes over thousands of sections had to wait
//! for the clearing, and served their first numbers up to 0.1 s later. The advantage of huge pages is a table that the
//! TLB of the processor maps, but random access to 4 to 32 million counters, partly in huge pages, used only 0.6 to
//! 2.4 % less CPU time (`docs/performance.md`).
//!
//! The memory allocator of the program does not ask for huge pages either (its feature `no_thp`), which matters for
//! memory that is written before `main`. [`disable`] is for hosts whose kernel uses huge pages without being asked.

use rustix::thread::disable_transparent_huge_pages;

/// Makes the kernel map memory that this process uses from now on with pages of the usual size. Where the kernel
/// refuses the call, for example by a seccomp profile, the process has the huge pages that the host is configured for.
pub fn disable() {
    _ = disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use rustix::thread::transparent_huge_pages_are_disabled;

    #[test]
    fn huge_pages_are_disabled() {
        assert!(!transparent_huge_pages_are_disabled().unwrap());
        super::disable();
        assert!(transparent_huge_pages_are_disabled().unwrap());
    }
}
