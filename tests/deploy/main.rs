//! The files in deploy/: manifests are parsed into typed objects and checked, and their processes are started.

mod compose;
mod container;
mod image;
mod kubernetes;
#[path = "../chaos/machine.rs"]
#[allow(dead_code, reason = "the faults of the chaos tests are not used here")]
mod machine;
mod manifest;
mod memory;
#[path = "../chaos/memory_groups.rs"]
#[allow(dead_code, reason = "the faults of the chaos tests are not used here")]
mod memory_groups;
#[path = "../chaos/net.rs"]
#[allow(dead_code, reason = "the faults of the chaos tests are not used here")]
mod net;
mod pods;
mod rules;
