//! Leadership of a member: its majority, its transfer to another member, and the disk that it depends on.

pub(crate) mod quorum;
pub(crate) mod slow_disk;
pub(crate) mod transfer;
