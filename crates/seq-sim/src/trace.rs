//! The trace of a run. It has a hash of all events, which is the same in two runs of the same seed, and optionally the
//! last events as lines of text.

use std::collections::VecDeque;

/// Largest number of lines that are kept. They cover the last few seconds before a violation; earlier events rarely
/// explain it.
const MAX_LINES: usize = 4_000;

/// The trace of a world.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(text: bool) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: text.then(VecDeque::new) }
    }

    /// Records an event at the time `now`. `words` identifies the event in the hash, and `text`, which is called only
    /// if the trace keeps lines, describes it.
    pub(crate) fn note(&mut self, now: u64, words: [u64; 3], text: impl FnOnce() -> String) {
        for word in [now].iter().chain(&words) {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if let Some(lines) = &mut self.lines {
            if lines.len() == MAX_LINES {
                lines.pop_front();
            }
            lines.push_back(format!("{:>12.6} {}", now as f64 / 1e9, text()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.map(Vec::from).unwrap_or_default()
    }
}
