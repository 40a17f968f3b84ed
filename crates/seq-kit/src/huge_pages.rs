//! Transparent huge pages of this process.
//!
//! The allocator of the program asks the kernel to map its memory with pages of 2 MiB. Random access to a large table
//! is faster with such pages, because the TLB of the processor maps all of the table. A process without a large table
//! only gets more resident memory, because the kernel makes all 2 MiB resident as soon as one byte is written: an idle
//! StoreSvr had 98 MiB in huge pages, and 40 MiB without them.
//!
//! Where the kernel refuses the calls, for example by a seccomp profile, the process has huge pages as before.

use rustix::thread::disable_transparent_huge_pages;

/// Makes the kernel map memory that this process uses from now on with pages of the usual size, until [`allow`].
pub fn withhold() {
    _ = disable_transparent_huge_pages(true);
}

/// Lets the kernel use huge pages for this process again, also for memory that is resident already.
pub fn allow() {
    _ = disable_transparent_huge_pages(false);
}

#[cfg(test)]
mod tests {
    use rustix::thread::transparent_huge_pages_are_disabled;

    #[test]
    fn huge_pages_are_withheld_until_they_are_allowed() {
        super::withhold();
        assert!(transparent_huge_pages_are_disabled().unwrap());
        super::allow();
        assert!(!transparent_huge_pages_are_disabled().unwrap());
    }
}
