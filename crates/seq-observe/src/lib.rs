//! The state of a cluster as operators see it. All commands and pages use this model.
//!
//! [`Cluster::sample`] requests the status of the seed nodes and of all nodes that their responses name, and merges the
//! responses. The result contains the sets, each with a verdict, the nodes that respond, and the nodes that do not.
//! [`Cluster::attention`] lists the faults and remarks, the most urgent first. Each has a sentence, the operator's next
//! step and a page of the runbook. The rules for them are in two tables. The first condition of [`verdict::CONDITIONS`]
//! that holds determines the verdict on a set. [`verdict::REMARKS`] contains the remarks that may follow the verdict.

pub mod activity;
pub mod advice;
pub mod alloc_state;
mod certificate;
pub mod cluster;
pub mod events;
mod feed;
pub mod migration;
pub mod node_log;
pub mod observer;
mod query;
pub mod response;
mod sample;
pub mod section;
pub mod settings;
pub mod verdict;

pub use certificate::CertificateView;
pub use cluster::{Cluster, attention};
pub use events::ClusterEvent;
pub use observer::{BusySection, Observation, Observer};
