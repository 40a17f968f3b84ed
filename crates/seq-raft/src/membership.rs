//! Members of the group: plans and changes of the list, the operators' service, and probes of peers.

pub(crate) mod changes;
pub(crate) mod format;
mod plan;
pub(crate) mod preconditions;
pub(crate) mod probe;
pub(crate) mod service;

pub(crate) use plan::Refusal;
