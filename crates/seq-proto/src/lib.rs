//! The messages on the wire: types that are generated from `proto/`, and the validation that converts them to types of
//! `seq_core`.
//!
//! No message from the wire is trusted before [`convert`], [`control`], [`inter_set`] or [`owners`] has checked it.
//! [`reason`] lists the reasons of refusals with their codes and retry hints, and [`status`] encodes refusals.
//! [`codec`] encodes gRPC messages. [`roles`] lists the methods that each role may call, and [`ports`] lists the
//! services on each port.

pub mod activity;
#[cfg(test)]
mod api_reference;
pub mod codec;
pub mod control;
pub mod convert;
pub mod dial;
pub mod inter_set;
mod json;
pub mod node_events;
pub mod owners;
pub mod ports;
pub mod reason;
pub mod refusals;
pub mod roles;
pub mod series;
pub mod settings;
pub mod staged;
pub mod status;

pub use reason::Reason;

/// Types and services generated from `proto/seqsvr/v1` by `cargo xtask generate`.
#[expect(
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    clippy::too_many_lines,
    reason = "generated"
)]
pub mod v1 {
    include!("generated/seqsvr.v1.rs");

    // JSON, by the mapping of proto3.
    include!("generated/seqsvr.v1.serde.rs");
}

/// The descriptors of every message and service, for reflection and for lints.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
