//! The commands of the program that need no code of a server. They are the commands for clients and operators, and the
//! tools `replay`, `bench`, `check` and `sim`.

#![allow(missing_docs, reason = "the public items are commands: their help is at the variants of the command line")]

pub mod bench;
pub mod cert;
pub mod check;
mod cluster_client;
pub mod console;
mod counter_series;
pub mod diagnose;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod export;
pub mod health;
pub mod host;
pub mod id;
mod id_client;
pub mod import;
mod item_report;
pub mod keyspace;
pub mod migration;
pub mod next_command;
pub mod node;
mod order_report;
pub mod replay;
pub mod section;
pub mod series;
pub mod services;
pub mod set;
mod settle;
mod shape_args;
pub mod sim;
pub mod status;
pub mod store;
pub mod top;
