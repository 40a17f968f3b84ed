//! Identity of a span in its trace, and the current span of a task.

use std::fmt;
use std::future::Future;

/// Length in bytes of a header value of version 0.
const LENGTH: usize = 55;

/// Flag in a header that states that the caller records its trace.
const SAMPLED: u128 = 1;

/// Identity of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub(super) u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Identity of a span that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: TraceId,
    pub(super) span: u64,
    /// Whether it is a span of another process.
    pub(super) is_remote: bool,
    /// Whether the span is that of a caller's request, or a descendant of such a span. The number of these spans
    /// depends on the callers.
    pub(super) is_of_caller: bool,
}

impl Context {
    /// Returns the identity of the first span of a new trace, with random numbers.
    pub(super) fn draw() -> Context {
        let (trace, span) = (TraceId(fastrand::u128(1..)), fastrand::u64(1..));
        Context { trace, span, is_remote: false, is_of_caller: false }
    }

    /// Returns the identity of a new span in the same trace, with a random number.
    pub(super) fn below(self) -> Context {
        Context { span: fastrand::u64(1..), is_remote: false, ..self }
    }
}

/// The value of the header.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{:016x}-01", self.trace, self.span)
    }
}

/// Returns the caller's span from the value of a header; `None` if the header is malformed, or if the caller does not
/// record its trace. Fields that a later version of the header adds are ignored.
pub(super) fn parse(header: &[u8]) -> Option<Context> {
    let fields = header.first_chunk::<LENGTH>()?;
    let version = hex(&fields[..2])?;
    let is_whole = match header.get(LENGTH) {
        None => version < 0xff,
        Some(next) => (1..0xff).contains(&version) && *next == b'-',
    };
    if !is_whole || [2, 35, 52].iter().any(|at| fields[*at] != b'-') {
        return None;
    }
    let (trace, span, flags) = (hex(&fields[3..35])?, hex(&fields[36..52])?, hex(&fields[53..])?);
    let is_sampled = flags & SAMPLED == SAMPLED && trace > 0 && span > 0;
    is_sampled.then_some(Context {
        trace: TraceId(trace),
        span: u64::try_from(span).ok()?,
        is_remote: true,
        is_of_caller: false,
    })
}

/// Parses a number of at most 32 hexadecimal digits, in lower case.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

tokio::task_local! {
    static CURRENT: Context;
}

/// Returns the current span of the task, if the span is recorded.
pub(super) fn current() -> Option<Context> {
    CURRENT.try_with(|current| *current).ok()
}

/// Runs `work` with `context` as the current span.
pub(super) async fn within<W: Future>(context: Context, work: W) -> W::Output {
    CURRENT.scope(context, work).await
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_names_the_span_of_a_caller_that_records_its_trace() {
        let trace = TraceId(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        let caller = Context { trace, span: 0x00f0_67aa_0ba9_02b7, is_remote: true, is_of_caller: false };
        assert_eq!(parse(HEADER.as_bytes()), Some(caller));
        assert_eq!(caller.to_string(), HEADER);
        assert_eq!(caller.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let later = HEADER.replacen("00", "cc", 1);
        assert_eq!(parse(later.as_bytes()), Some(caller));
        assert_eq!(parse(format!("{later}-what-follows").as_bytes()), Some(caller));
        assert_eq!(parse(HEADER.replace("-01", "-03").as_bytes()), Some(caller), "further flags are ignored");
    }

    #[test]
    fn any_other_header_names_none() {
        let with = |from: &str, to: &str| HEADER.replacen(from, to, 1);
        for header in [
            String::new(),
            with("-01", "-00"),
            with("-01", "-0"),
            with("00-", "ff-"),
            with("00-", "0g-"),
            with("4bf9", "4BF9"),
            with("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            with("00f067aa0ba902b7", &"0".repeat(16)),
            with("-00f0", "_00f0"),
            format!("{HEADER}-more"),
            format!("{HEADER}0"),
            format!("{}0", HEADER.replacen("00", "cc", 1)),
            format!(" {HEADER}"),
        ] {
            assert_eq!(parse(header.as_bytes()), None, "{header:?}");
        }
    }

    #[tokio::test]
    async fn the_current_span_is_that_of_the_task() {
        assert_eq!(current(), None);
        let context = Context::draw();
        within(context, async { assert_eq!(current(), Some(context)) }).await;
        assert_eq!(current(), None);
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(header: Vec<u8>) {
            prop_assert_eq!(parse(&header), None);
        }

        #[test]
        fn every_span_is_read_as_it_is_written(trace in 1_u128.., span in 1_u64..) {
            let context = Context { trace: TraceId(trace), span, is_remote: true, is_of_caller: false };
            prop_assert_eq!(parse(context.to_string().as_bytes()), Some(context));
        }
    }
}
