//! Replay of a recorded trace of messages. Every message allocates one number for each member of its group, in one
//! call, and every reply is checked.
//!
//! [`trace`] reads the recorded messages from a file, and [`drive`] sends the calls. [`high_water`] keeps the largest
//! numbers of a run for the next run, so that the check of the order covers several runs.

pub mod drive;
pub mod high_water;
pub mod trace;
