//! One model of a cluster for operators, which the commands and pages share.
//!
//! [`Cluster::sample`] requests the status of the seed nodes and of all nodes that they name, and merges the responses:
//! the sets with a verdict each, the nodes, and the nodes that do not respond. [`Cluster::attention`] lists the faults
//! and remarks, the worst first, each with a sentence, the next step and a page of the runbook. The rules are data:
//! [`verdict::CONDITIONS`], of which the first that holds is the verdict on a set, and [`verdict::REMARKS`].

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
