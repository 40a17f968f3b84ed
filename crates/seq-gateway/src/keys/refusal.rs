//! Reasons to refuse a request for keys. A refused request has moved no counter.

use seq_api::keys::KeyRefused;
use seq_core::{Refusal, limits};
use seq_proto::{Reason, status, v1};
use tonic::Status;

use crate::timeout::{Deadline, Refused};

/// Limit on the characters of a request's text that an error repeats.
const MAX_SHOWN: usize = 64;

/// A refusal of a request for keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyRefusal {
    /// No keyspace has the name.
    #[error(
        "no keyspace is named {keyspace:?}: `seqsvr keyspace list` lists them, and a new one is known within a second"
    )]
    UnknownKeyspace { keyspace: String },
    /// The node has just started, and knows no keyspace yet.
    #[error("the node has no routes yet, so it does not know whether keyspace {keyspace:?} exists: repeat the request")]
    NoRoutes { keyspace: String },
    /// The tenant may use no key of the keyspace.
    #[error(
        "the tenant may use no key of keyspace {keyspace:?}: `keys` in the tenants file are its keys, if it has `uids`"
    )]
    OtherTenantsKeyspace { keyspace: String },
    /// The key belongs to none of the prefixes of the tenant.
    #[error("the tenant may not use key {key:?} of keyspace {keyspace:?}: `keys` in the tenants file are its keys")]
    OtherTenantsKey { keyspace: String, key: String },
    /// The key is empty or too long.
    #[error("the key has {bytes} bytes: a key has 1 to {}", limits::MAX_KEY_BYTES)]
    KeySize { bytes: usize },
    /// The fields of the request contradict each other.
    #[error("{0}")]
    Malformed(String),
    /// The key is past the number, or may be past it.
    #[error("key {key:?} is past that number, or may be, and numbers never go back")]
    AlreadyPast { key: String },
    /// The key has used up its numbers.
    #[error("key {key:?} has no {count} numbers left below 2^63")]
    Exhausted { key: String, count: u32 },
    /// The item cannot complete at once, and its message has `now_only`.
    #[error("the item must wait, or another node owns it")]
    WouldWait,
    /// The numbers of the key were refused.
    #[error(transparent)]
    Numbers(#[from] Refusal),
}

/// Returns a text from a request, shortened for use in an error.
pub(super) fn excerpt(text: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() { shown + "..." } else { shown }
}

impl KeyRefusal {
    /// Returns the refusal of a key that is not the tenant's.
    pub(crate) fn other_tenants(keyspace: &str, key: &[u8]) -> KeyRefusal {
        let key = excerpt(&String::from_utf8_lossy(key));
        KeyRefusal::OtherTenantsKey { keyspace: excerpt(keyspace), key }
    }

    /// Returns the refusal of an item, with the key in the place of the uid.
    pub(crate) fn of(refusal: Refusal, key: &[u8]) -> KeyRefusal {
        let key = || excerpt(&String::from_utf8_lossy(key));
        match refusal {
            Refusal::AlreadyPast { .. } => KeyRefusal::AlreadyPast { key: key() },
            Refusal::Exhausted { count, .. } => KeyRefusal::Exhausted { key: key(), count },
            refusal => KeyRefusal::Numbers(refusal),
        }
    }

    /// Returns the refusal of an item of a request for whole keys.
    pub(crate) fn of_whole(refused: KeyRefused, keyspace: &str, key: &[u8]) -> KeyRefusal {
        match refused {
            KeyRefused::OtherTenants => KeyRefusal::other_tenants(keyspace, key),
            KeyRefused::Numbers(refusal) => KeyRefusal::of(refusal, key),
        }
    }

    /// Returns the reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            KeyRefusal::UnknownKeyspace { .. } => Reason::UnknownKeyspace,
            KeyRefusal::NoRoutes { .. } => Reason::Unserved,
            KeyRefusal::OtherTenantsKeyspace { .. } | KeyRefusal::OtherTenantsKey { .. } => Reason::OtherTenantsKey,
            KeyRefusal::KeySize { .. } => Reason::KeySize,
            KeyRefusal::Malformed(_) => Reason::Malformed,
            KeyRefusal::WouldWait => Reason::WouldWait,
            KeyRefusal::AlreadyPast { .. } => Reason::AlreadyPast,
            KeyRefusal::Exhausted { .. } => Reason::Exhausted,
            KeyRefusal::Numbers(refusal) => Reason::of(refusal),
        }
    }

    /// Returns the refusal of the item at `index` of a batch.
    pub(super) fn item(&self, index: u32, deadline: Deadline) -> v1::ItemError {
        match self {
            KeyRefusal::Numbers(refusal) => deadline.item(index, refusal),
            KeyRefusal::WouldWait => status::would_wait(index),
            refusal => refusal.reason().item(index, refusal.to_string()),
        }
    }
}

impl Refused for KeyRefusal {
    fn status_by(&self, deadline: Deadline) -> Status {
        match self {
            KeyRefusal::Numbers(refusal) => deadline.status(refusal),
            KeyRefusal::Malformed(text) => status::malformed(text.clone()),
            refusal => refusal.reason().status(refusal.to_string()),
        }
    }
}
