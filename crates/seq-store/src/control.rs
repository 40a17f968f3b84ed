//! The control service, with which AllocSvrs register, renew their leases, raise ceilings and hand sections over. The
//! leader processes its requests, and followers forward them to the leader. A task of the leader checks whether
//! AllocSvrs can reach the leader.

mod deaths;
pub(crate) mod forward;
pub(crate) mod losses;
pub(crate) mod raise_rate;
pub(crate) mod reach;
pub(crate) mod service;
