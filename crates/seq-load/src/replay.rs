//! Replay of a recorded trace of messages. Every message allocates one number for each member of its group, in one
//! call, and every reply is checked.
//!
//! [`trace`] reads the recording, and [`drive`] sends it. [`high_water`] extends the check of the order over several
//! runs.

pub mod drive;
pub mod high_water;
pub mod trace;
