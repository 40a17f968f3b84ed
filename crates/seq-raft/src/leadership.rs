//! Leadership of the group: detection of a majority, transfer of leadership, and transfer away from a slow disk.

pub(crate) mod quorum;
pub(crate) mod slow_disk;
pub(crate) mod transfer;
