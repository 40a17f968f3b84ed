//! The services for operators: status of a member, and the AllocSvrs of a set.

pub(crate) mod balancing;
pub(crate) mod events;
pub(crate) mod nodes;
pub(crate) mod status;
pub(crate) mod top_sections;
