//! Trace spans of the handovers in progress. Each handover has a span, and each attempt of one of its steps has a child
//! span.

use std::collections::BTreeMap;
use std::fmt;

use seq_core::SectionId;
use seq_core::owner::handover::Handover;
use seq_kit::telemetry::traces::{self, Span, TraceId};
use tracing::field::DisplayValue;

use crate::shared::Shared;

/// Trace spans of the handovers in progress, by section. The map stays empty if nothing is traced.
#[derive(Debug, Default)]
pub(crate) struct HandoverSpans(BTreeMap<SectionId, Span>);

impl HandoverSpans {
    /// Begins the span of a handover, before the handover's first step.
    pub(crate) fn begin(&mut self, shared: &Shared, handover: &Handover) {
        if !traces::are_on() {
            return;
        }
        let Handover { section, epoch, to, departure, .. } = handover;
        let mut span = shared.described(traces::sampled("handover"));
        span.set("seqsvr.section", section.0);
        span.set("seqsvr.epoch", epoch.0);
        span.set("seqsvr.to_node_id", to.0);
        if let Some(departure) = departure {
            span.set("seqsvr.to_set_id", departure.set.0);
        }
        self.0.insert(*section, span);
    }

    /// Begins the span of an attempt of a step.
    pub(crate) fn step(&self, section: SectionId, name: &'static str) -> Span {
        self.0.get(&section).map_or_else(Span::none, |span| span.child(name))
    }

    /// Marks a handover as failed, unless its commit follows.
    pub(crate) fn fail(&mut self, section: SectionId, why: impl fmt::Display) {
        if let Some(span) = self.0.get_mut(&section) {
            span.fail(why);
        }
    }

    /// Notes that a handover is committed.
    pub(crate) fn commit(&mut self, section: SectionId) {
        if let Some(span) = self.0.get_mut(&section) {
            span.pass();
        }
    }

    /// Ends the span of a handover.
    pub(crate) fn end(&mut self, section: SectionId) {
        self.0.remove(&section);
    }

    /// Returns the trace of a handover, for a log line.
    pub(crate) fn trace(&self, section: SectionId) -> Option<DisplayValue<TraceId>> {
        self.0.get(&section)?.trace()
    }
}
