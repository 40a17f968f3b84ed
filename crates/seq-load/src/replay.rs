//! Replay of a recorded trace of messages: every message allocates one number for each member of its group, in one
//! call, and every reply is checked.
//!
//! [`trace`] reads the recording, [`drive`] sends it, and [`high_water`] joins the order of several runs.

pub mod drive;
pub mod high_water;
pub mod trace;
