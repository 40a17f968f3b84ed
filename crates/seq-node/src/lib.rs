//! Processes of servers. The crate has their settings, the stages that they start and stop in order, and the commands
//! that run a server or work on a server's data.

#![allow(missing_docs, reason = "the public items are commands: their help is at the variants of the command line")]

pub mod alloc;
pub mod audit;
pub mod backup;
pub mod config;
pub mod dev;
pub mod fake;
pub mod member;
pub mod proxy;
mod recover;
pub mod restore;
mod restore_count;
mod serve;
mod settings;
pub mod tenant;
pub mod unsafe_command;
