//! Trace spans of the requests that migrations need.

use futures::future::BoxFuture;
use seq_core::migration::{Effect, Proposal};
use seq_kit::telemetry::traces::{self, Span, TraceId};

/// Begins the trace span of the request that an effect of the coordinator requires.
pub(super) fn of(effect: &Effect) -> Span {
    if !traces::are_on() {
        return Span::none();
    }
    let (name, migration, to, sections) = match effect {
        Effect::Arm { migration, to, sections } => ("migration arm", Some(*migration), Some(*to), sections.len()),
        Effect::Arrive { to, arrive } => {
            let first = arrive.sections.first().map(|one| one.migration);
            ("migration arrive", first, Some(*to), arrive.sections.len())
        }
        Effect::StartReturn { to, start } => ("migration start return", Some(start.of), Some(*to), 0),
        Effect::Complete { to, complete } => ("migration complete", Some(complete.id), Some(*to), 0),
        Effect::Ask { of, migration } => ("migration ask", Some(*migration), Some(*of), 0),
        Effect::Commit(proposal) => match proposal {
            Proposal::Arrived(arrived) => ("migration note arrivals", None, None, arrived.sections.len()),
            Proposal::Complete(complete) => ("migration complete here", Some(complete.id), None, 0),
            Proposal::DepartSilent(departs) => ("migration depart silent", None, None, departs.len()),
        },
    };
    let mut span = traces::sampled(name);
    if let Some(migration) = migration {
        span.set("seqsvr.migration", migration.to_string());
    }
    if let Some(to) = to {
        span.set("seqsvr.to_set_id", to.0);
    }
    if sections > 0 {
        span.set("seqsvr.sections", sections);
    }
    span
}

/// Wraps `request` in `span`, which ends with the request. The returned future returns the outcome of the request and
/// the id of its trace. `failure` returns the reason of a failure from an outcome, or `None` if the outcome is a
/// success.
pub(super) fn follow<T: Send + 'static>(
    mut span: Span,
    request: BoxFuture<'static, T>,
    failure: fn(&T) -> Option<String>,
) -> BoxFuture<'static, (T, Option<TraceId>)> {
    Box::pin(async move {
        let outcome = span.scope(request).await;
        if let Some(why) = failure(&outcome) {
            span.fail(why);
        }
        let trace = span.trace_id();
        (outcome, trace)
    })
}
