//! Checks rules about the text of the repository that neither the compiler nor a linter checks.
//!
//! Each rule is a function that receives the files and adds its findings to a list. The unit test of a rule passes it
//! files with a violation and expects the finding.

mod bans;
mod docs;
mod edges;
mod log_events;
mod metrics;
mod proto;
mod rust;
mod sentences;
mod text;

use std::path::Path;

pub(crate) use docs::anchors;
pub(crate) use metrics::{helps as metric_helps, names as metric_names};
pub(crate) use proto::files as proto_files;
pub(crate) use sentences::LIMITS as SENTENCE_LIMITS;

use crate::report;
use crate::source;

/// Runs every rule on the repository.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let sources = source::read_all(root)?;
    let mut findings = Vec::new();
    rust::check(&sources, &mut findings);
    bans::check(&sources, &mut findings);
    docs::check(&sources, &mut findings);
    edges::check(&sources, &mut findings);
    log_events::check(&sources, &mut findings);
    metrics::check(&sources, &mut findings);
    sentences::check(&sources, &mut findings);
    text::check(&sources, &mut findings);
    proto::check(&root.join("proto"), &mut findings)?;
    report::conclude("tidy", findings)
}
