//! Searches for the few faults with which a run still breaks a promise.

use crate::{Run, Violation, run};

/// Largest number of runs of a search. If a search reaches this limit, it returns the fewest faults that it has found
/// so far.
const MOST_RUNS: u32 = 600;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// Numbers of the faults that are needed.
    pub faults: Vec<usize>,
    /// The violation in the last run with these faults.
    pub violation: Violation,
    /// Descriptions of the faults, in the same order.
    pub described: Vec<String>,
    /// Number of runs of the search.
    pub runs: u32,
}

/// Finds a few faults of the run `of` with which the run still breaks the same promise. Returns `None` if `of` breaks
/// no promise.
///
/// The search repeats the run without one half of the faults, then without a quarter, and so on down to single faults,
/// and omits each part without which the promise is still broken. It ends when no single fault can be omitted.
#[must_use]
pub fn shrink(of: &Run) -> Option<Shrunk> {
    let whole = run(&Run { trace: false, ..of.clone() });
    let mut violation = whole.violation?;
    let mut faults = of.faults.clone().unwrap_or_else(|| (0..whole.faults.len()).collect());
    let mut runs = 1;
    let mut parts = 1;
    while !faults.is_empty() && runs < MOST_RUNS {
        let size = faults.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..faults.len()).step_by(size) {
            let left_out = start..(start + size).min(faults.len());
            let rest: Vec<usize> = (0..faults.len()).filter(|at| !left_out.contains(at)).map(|at| faults[at]).collect();
            runs += 1;
            let broken = run(&Run { faults: Some(rest.clone()), trace: false, ..of.clone() }).violation;
            if let Some(broken) = broken.filter(|broken| broken.promise == violation.promise) {
                smaller = Some((rest, broken));
                break;
            }
        }
        match smaller {
            Some((rest, broken)) => {
                faults = rest;
                violation = broken;
                parts = parts.saturating_sub(1).max(1);
            }
            None if size == 1 => break,
            None => parts *= 2,
        }
    }
    let described = faults.iter().map(|number| whole.faults[*number].clone()).collect();
    Some(Shrunk { faults, violation, described, runs })
}
