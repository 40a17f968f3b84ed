//! Services for operators: the status of a member, the event log of a set, the list and drains of a set's AllocSvrs,
//! and balancing.

pub(crate) mod balancing;
pub(crate) mod events;
pub(crate) mod nodes;
pub(crate) mod status;
pub(crate) mod top_sections;
