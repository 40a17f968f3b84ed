//! Thresholds for the figures in the report of a run, e.g. `numbers_per_second>=50000`.

use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

/// A bound on a figure of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Path of the figure in the report, e.g. `latency.p99_us`.
    figure: String,
    at_least: bool,
    bound: f64,
}

/// The result of a threshold's check.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Path of the figure in the report.
    #[serde(skip)]
    figure: String,
    /// The threshold in the form of `--expect`.
    expected: String,
    /// The value of the figure; `None` if the report has no number at the path of the figure.
    got: Option<f64>,
    /// Whether the figure meets the threshold.
    pass: bool,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let parts =
            text.split_once(">=").map(|parts| (parts, true)).or(text.split_once("<=").map(|parts| (parts, false)));
        let ((figure, bound), at_least) =
            parts.ok_or("neither FIGURE>=NUMBER nor FIGURE<=NUMBER, as numbers_per_second>=50000 or p99_us<=3000")?;
        let figure = figure.trim();
        // `p99_us` is short for `latency.p99_us`.
        let figure = if figure.ends_with("_us") && figure.starts_with(['p', 'm']) && !figure.contains('.') {
            format!("latency.{figure}")
        } else {
            figure.to_owned()
        };
        let bound = bound.trim().replace('_', "").parse().map_err(|_| format!("{:?} is not a number", bound.trim()))?;
        Ok(Threshold { figure, at_least, bound })
    }
}

impl Threshold {
    /// Checks a report against the threshold.
    pub fn check(&self, report: &Value) -> Verdict {
        let got = self.figure.split('.').try_fold(report, |value, key| value.get(key)).and_then(Value::as_f64);
        let pass = got.is_some_and(|got| if self.at_least { got >= self.bound } else { got <= self.bound });
        Verdict { figure: self.figure.clone(), expected: self.to_string(), got, pass }
    }
}

impl Verdict {
    /// Returns the figure's path in the report, e.g. `latency.p99_us`.
    pub fn figure(&self) -> &str {
        &self.figure
    }

    /// Returns whether the figure meets the threshold.
    pub fn pass(&self) -> bool {
        self.pass
    }
}

impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}", self.figure, if self.at_least { ">=" } else { "<=" }, self.bound)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let got = self.got.map_or("the report has no such number".to_owned(), |got| format!("{got:.3}"));
        write!(f, "{:<40} {got}  {}", self.expected, if self.pass { "PASS" } else { "FAIL" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_checked_against_the_report() {
        let report = serde_json::json!({ "numbers_per_second": 50_000.5, "failed": 0, "latency": { "p99_us": 3_000 } });
        let pass = |text: &str| Threshold::from_str(text).unwrap().check(&report).pass();
        assert!(pass("numbers_per_second>=50_000") && !pass("numbers_per_second>=50001"));
        assert!(pass("p99_us<=3000") && pass("latency.p99_us <= 3000") && !pass("p99_us<=2999"));
        assert!(pass("failed<=0") && !pass("nonsense<=1"));
        for bad in ["p99_us", "p99_us<3", "p99_us<=fast", ""] {
            assert!(Threshold::from_str(bad).is_err(), "{bad:?}");
        }
    }
}
