//! The control service for AllocSvrs: on the leader, through a follower, and whether this leader is reached at all.

pub(crate) mod forward;
pub(crate) mod losses;
pub(crate) mod raise_rate;
pub(crate) mod reach;
pub(crate) mod service;
