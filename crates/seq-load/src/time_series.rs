//! The time series of a run, with one row per second, which is saved as a CSV file.

use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::latency::Latency;

/// Rows of the measured part of a run, one for each second, in the order of time. A call counts in the second in which
/// its reply arrived.
#[derive(Debug, Default)]
pub struct TimeSeries {
    rows: Vec<Row>,
    now: Option<Second>,
}

/// A row of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    second: u64,
    calls: u64,
    numbers: u64,
    failed: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

/// The current second.
#[derive(Debug)]
struct Second {
    number: u64,
    calls: u64,
    numbers: u64,
    failed: u64,
    latency: Latency,
}

impl TimeSeries {
    /// Adds the results of a round of calls. `at` is the time from the start of the measured part to the arrival of the
    /// replies, and `took` is the latency of each call. `calls`, `numbers` and `failed` are counts.
    pub fn add(&mut self, at: Duration, calls: u64, numbers: u64, failed: u64, took: Duration) {
        let number = at.as_secs();
        if self.now.as_ref().is_none_or(|second| second.number < number) {
            self.close();
            self.now = Some(Second { number, calls: 0, numbers: 0, failed: 0, latency: Latency::new() });
        }
        let second = self.now.as_mut().expect("it was begun");
        second.calls += calls;
        second.numbers += numbers;
        second.failed += failed;
        second.latency.record_n(took, calls);
    }

    /// Appends the row of the current second. First appends a row of zeros for each second since the last row in which
    /// no reply arrived.
    pub fn close(&mut self) {
        let Some(Second { number, calls, numbers, failed, latency }) = self.now.take() else { return };
        for second in self.rows.len() as u64..number {
            self.rows.push(Row { second, calls: 0, numbers: 0, failed: 0, p50_us: 0, p99_us: 0, max_us: 0 });
        }
        let took = latency.percentiles();
        let (p50_us, p99_us, max_us) = (took.p50_us, took.p99_us, took.max_us);
        self.rows.push(Row { second: number, calls, numbers, failed, p50_us, p99_us, max_us });
    }

    /// Writes one line per second.
    ///
    /// # Errors
    /// If `file` cannot be written.
    pub fn save(&self, file: impl io::Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(file);
        for row in &self.rows {
            writer.serialize(row)?;
        }
        writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_a_row() {
        let mut seconds = TimeSeries::default();
        let millis = Duration::from_millis;
        seconds.add(millis(10), 2, 20, 1, millis(3));
        seconds.add(millis(990), 1, 10, 0, millis(5));
        seconds.add(millis(2_500), 1, 10, 0, millis(7));
        seconds.close();
        let mut file = Vec::new();
        seconds.save(&mut file).unwrap();
        expect_test::expect![[r#"
            second,calls,numbers,failed,p50_us,p99_us,max_us
            0,3,30,1,3001,5003,5003
            1,0,0,0,0,0,0
            2,1,10,0,7003,7003,7003
        "#]]
        .assert_eq(str::from_utf8(&file).unwrap());
    }
}
