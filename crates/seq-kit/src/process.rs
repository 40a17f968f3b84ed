//! What the system says of this process.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
