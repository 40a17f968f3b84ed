//! The control service for AllocSvrs. The leader serves it, and followers forward its requests to the leader. A task of
//! the leader checks whether AllocSvrs reach the leader at all.

pub(crate) mod forward;
pub(crate) mod losses;
pub(crate) mod raise_rate;
pub(crate) mod reach;
pub(crate) mod service;
