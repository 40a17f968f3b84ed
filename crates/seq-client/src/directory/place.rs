//! The place of a counter in the routes: its uid, or the bucket of its key.

use seq_core::SectionId;

use super::sections::SetIndex;

/// What determines the section of a counter, and with it the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The counter is that of a uid.
    Uid(u64),
    /// The counter is that of a key.
    Bucket {
        /// The set with which the directory returns the keyspace.
        home: SetIndex,
        /// Section of the key's bucket.
        section: SectionId,
    },
}

impl Place {
    /// Returns the uid; `None` for a key.
    pub(crate) fn uid(self) -> Option<u64> {
        match self {
            Place::Uid(uid) => Some(uid),
            Place::Bucket { .. } => None,
        }
    }
}

impl From<u64> for Place {
    fn from(uid: u64) -> Place {
        Place::Uid(uid)
    }
}

/// An item of a batch call.
pub(crate) trait BatchItem: Copy + Send + Sync {
    /// Returns the place of the item's counter.
    fn place(self) -> Place;

    /// Returns the number of bytes of the item's key; 0 for a uid.
    fn key_bytes(self) -> usize;
}

impl BatchItem for u64 {
    fn place(self) -> Place {
        Place::Uid(self)
    }

    fn key_bytes(self) -> usize {
        0
    }
}
