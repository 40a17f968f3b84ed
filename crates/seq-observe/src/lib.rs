//! Model of a cluster for operators. All commands and pages share it.
//!
//! [`Cluster::sample`] requests the status of the seed nodes and of all nodes that they name, and merges the responses.
//! The result has the sets, each with a verdict, the nodes, and the nodes that do not respond. [`Cluster::attention`]
//! lists the faults and remarks, the most urgent first, each with a sentence, the next step and a page of the runbook.
//! Two tables contain the rules. In [`verdict::CONDITIONS`], the first condition that holds determines the verdict on a
//! set; [`verdict::REMARKS`] has the remarks.

pub mod activity;
pub mod advice;
pub mod alloc_state;
mod certificate;
pub mod cluster;
pub mod events;
mod feed;
pub mod migration;
pub mod observer;
mod query;
mod sample;
pub mod section;
pub mod settings;
pub mod verdict;

pub use certificate::CertificateView;
pub use cluster::{Cluster, attention};
pub use feed::ClusterEvent;
pub use observer::{BusySection, Observation, Observer};
