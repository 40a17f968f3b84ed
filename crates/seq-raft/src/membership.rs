//! The replicated list of the group's members: plans and changes of the list, the service with which operators change
//! it, and the probes between members.

pub(crate) mod changes;
pub(crate) mod format;
mod plan;
pub(crate) mod preconditions;
pub(crate) mod probe;
pub(crate) mod service;

pub(crate) use plan::Refusal;
