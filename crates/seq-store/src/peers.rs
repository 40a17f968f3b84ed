//! Who sends: every Raft message names its cluster, its sender, its receiver and the sender's data directory.
//!
//! A data directory has a random number, its nonce. A member remembers, durably, the nonce under which it has first seen
//! each other member, before it lets that member's message count. So a member that lost its disk and came back empty under
//! its old id is refused by everybody: its votes and acknowledgements belonged to the lost disk, and counting new ones
//! could lose what was committed. It comes back under a new id.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use seq_proto::status;
use seq_proto::v1::RaftMessage;
use tonic::{Code, Status};

use crate::storage::{Files, LoadError};

/// Name of the file in the data directory that holds the nonces of the others.
const FILE: &str = "peers";

/// Most ids that are remembered: a store of five that replaces a member every week for a year stays below.
const MAX_PEERS: usize = 256;

/// Format of what the Raft library says, in [`RaftMessage`]: its types as they are, in postcard. It changes with every release
/// of the library that changes one of them.
pub(crate) const FORMAT: u32 = 1;

/// Reason of the refusal of another data directory; the sender cannot recover from it, and stops.
pub(crate) const OTHER_DATA_DIRECTORY: &str = "OTHER_DATA_DIRECTORY";

/// Reason of the refusal of a member that was removed; it stops.
pub(crate) const REMOVED_MEMBER: &str = "REMOVED_MEMBER";

/// Who a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) id: u64,
    /// Number of its data directory, not 0.
    pub(crate) nonce: u64,
}

impl Identity {
    /// A message from this member, which the list of members of that number names.
    pub(crate) fn message(&self, to: u64, membership: u64, payload: Bytes) -> RaftMessage {
        let (cluster_id, from, nonce) = (self.cluster.clone(), self.id, self.nonce);
        RaftMessage { cluster_id, from, to, nonce, payload, membership, format: FORMAT }
    }

    /// Checks what needs no memory of the sender, and that the payload can be read.
    pub(crate) fn check(&self, message: &RaftMessage) -> Result<(), PeerRefusal> {
        self.check_sender(message)?;
        if message.format != FORMAT {
            return Err(PeerRefusal::OtherFormat { from: message.from, format: message.format });
        }
        Ok(())
    }

    /// Checks what needs no memory of the sender.
    pub(crate) fn check_sender(&self, message: &RaftMessage) -> Result<(), PeerRefusal> {
        if message.cluster_id != self.cluster {
            return Err(PeerRefusal::OtherCluster { mine: self.cluster.clone(), theirs: message.cluster_id.clone() });
        }
        if message.to != self.id {
            return Err(PeerRefusal::OtherMember { mine: self.id, meant: message.to });
        }
        if message.nonce == 0 {
            return Err(PeerRefusal::NoNonce { from: message.from });
        }
        Ok(())
    }
}

/// What a member knows of the others.
pub(crate) struct Peers {
    cluster: String,
    /// The nonce under which each id was first seen. Durable before it is here.
    known: Mutex<BTreeMap<u64, u64>>,
    files: Files,
}

impl Peers {
    /// Loads what the data directory remembers.
    pub(crate) fn load(cluster: &str, files: Files) -> Result<Peers, PeersError> {
        let known = match files.read(FILE)? {
            Some(bytes) => {
                let text = std::str::from_utf8(&bytes).map_err(|_| 1);
                let known = text.and_then(decode);
                known.map_err(|line| PeersError::Damaged { place: files.place(FILE), line })?
            }
            None => BTreeMap::new(),
        };
        Ok(Peers { cluster: cluster.to_owned(), known: Mutex::new(known), files })
    }

    /// The nonce seen under an id; 0 when none was.
    pub(crate) fn known(&self, id: u64) -> u64 {
        self.known.lock().get(&id).copied().unwrap_or(0)
    }

    /// Lets a member's message count: it is the one seen before, or it is remembered from now on.
    ///
    /// Ends the process when the disk does not take it: what is not durable must not count, and a disk that failed once is
    /// not asked again.
    pub(crate) fn admit(&self, id: u64, nonce: u64) -> Result<(), PeerRefusal> {
        let mut known = self.known.lock();
        match known.get(&id) {
            Some(seen) if *seen == nonce => Ok(()),
            Some(_) => Err(PeerRefusal::OtherDataDirectory { cluster: self.cluster.clone(), id }),
            None if known.len() == MAX_PEERS => Err(PeerRefusal::TooManyPeers { id }),
            None => {
                let mut next = known.clone();
                next.insert(id, nonce);
                // On the runtime's thread: it happens once in the life of a member.
                if let Err(error) = self.files.write(FILE, encode(&next).as_bytes()) {
                    tracing::error!(file = self.files.place(FILE), %error, "the disk failed; stopping at once");
                    std::process::abort();
                }
                *known = next;
                Ok(())
            }
        }
    }
}

/// Why a message does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerRefusal {
    #[error("this is a store of cluster {mine:?}, not of {theirs:?}")]
    OtherCluster { mine: String, theirs: String },
    #[error("this is store {mine}, not store {meant}")]
    OtherMember { mine: u64, meant: u64 },
    #[error("the message from store {from} does not name its data directory")]
    NoNonce { from: u64 },
    #[error("no member of this store has id {from}")]
    UnknownMember { from: u64 },
    #[error("store {id} was removed from cluster {cluster:?} for good; a disk that comes back gets a new id")]
    Removed { cluster: String, id: u64 },
    #[error("store {from} speaks format {format} between members, and this member format {FORMAT}: run one version")]
    OtherFormat { from: u64, format: u32 },
    #[error("store {id} is one more than the {MAX_PEERS} that a member remembers")]
    TooManyPeers { id: u64 },
    #[error("store {id} of cluster {cluster:?} has another data directory; a lost disk comes back under a new id")]
    OtherDataDirectory { cluster: String, id: u64 },
}

impl From<PeerRefusal> for Status {
    fn from(refusal: PeerRefusal) -> Status {
        let (code, reason) = match refusal {
            PeerRefusal::OtherCluster { .. } => (Code::FailedPrecondition, "OTHER_CLUSTER"),
            PeerRefusal::OtherMember { .. } => (Code::FailedPrecondition, "OTHER_MEMBER"),
            PeerRefusal::NoNonce { .. } => (Code::InvalidArgument, "NO_NONCE"),
            PeerRefusal::UnknownMember { .. } => (Code::PermissionDenied, "UNKNOWN_MEMBER"),
            PeerRefusal::Removed { .. } => (Code::FailedPrecondition, REMOVED_MEMBER),
            PeerRefusal::OtherFormat { .. } => (Code::FailedPrecondition, "OTHER_FORMAT"),
            PeerRefusal::TooManyPeers { .. } => (Code::ResourceExhausted, "TOO_MANY_PEERS"),
            PeerRefusal::OtherDataDirectory { .. } => (Code::FailedPrecondition, OTHER_DATA_DIRECTORY),
        };
        status::with_reason(code, reason, refusal.to_string(), [], None)
    }
}

/// Why the memory of the others cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file is not what was written, or of a newer format.
    #[error("{place} is damaged or of a newer format at line {line}")]
    Damaged {
        /// The file.
        place: String,
        /// The first line that is wrong, from 1.
        line: usize,
    },
}

/// The first line of the file; another format will have another one.
const HEAD: &str = "seqsvr peers 1\n";

/// [`HEAD`], one line a member, `id nonce`, and a last line with the checksum of those before.
fn encode(known: &BTreeMap<u64, u64>) -> String {
    let lines: String = known.iter().map(|(id, nonce)| format!("{id} {nonce:016x}\n")).collect();
    let body = format!("{HEAD}{lines}");
    let checksum = crc32c::crc32c(body.as_bytes());
    format!("{body}crc32c {checksum:08x}\n")
}

/// The error is the number of the first line that is wrong.
fn decode(text: &str) -> Result<BTreeMap<u64, u64>, usize> {
    let rest = text.strip_prefix(HEAD).ok_or(1usize)?;
    let mut known = BTreeMap::new();
    let mut body = HEAD.len();
    for (line, number) in rest.split_inclusive('\n').zip(2..) {
        let (key, value) = line.strip_suffix('\n').and_then(|line| line.split_once(' ')).ok_or(number)?;
        if key == "crc32c" {
            let stored = u32::from_str_radix(value, 16).map_err(|_| number)?;
            let whole = body + line.len() == text.len() && stored == crc32c::crc32c(&text.as_bytes()[..body]);
            return if whole { Ok(known) } else { Err(number) };
        }
        let id = key.parse().map_err(|_| number)?;
        let nonce = u64::from_str_radix(value, 16).map_err(|_| number)?;
        known.insert(id, nonce);
        body += line.len();
    }
    Err(known.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_known_by_its_first_data_directory_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::Dir(dir.path().to_owned());
        let peers = Peers::load("c", files.clone()).unwrap();
        assert_eq!(peers.known(2), 0);
        assert_eq!(peers.admit(2, 7), Ok(()));
        assert_eq!(peers.admit(3, u64::MAX), Ok(()));
        assert_eq!(peers.admit(2, 7), Ok(()));
        drop(peers);

        let peers = Peers::load("c", files.clone()).unwrap();
        assert_eq!((peers.known(2), peers.known(3)), (7, u64::MAX));
        let refusal = peers.admit(2, 8).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "store 2 of cluster \"c\" has another data directory; a lost disk comes back under a new id"
        );
        assert_eq!(peers.known(2), 7, "a refusal changes nothing");
    }

    #[test]
    fn a_damaged_or_cut_file_is_refused() {
        let text = encode(&BTreeMap::from([(1, 2), (3, 4)]));
        assert_eq!(decode(&text), Ok(BTreeMap::from([(1, 2), (3, 4)])));
        for cut in 0..text.len() {
            assert!(decode(&text[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            if let Ok(damaged) = String::from_utf8(damaged) {
                assert_ne!(decode(&damaged), decode(&text), "flip at {at}");
            }
        }
    }

    #[test]
    fn a_message_for_somebody_else_is_refused_by_name() {
        let me = Identity { cluster: "c".into(), id: 1, nonce: 5 };
        let sender = Identity { cluster: "c".into(), id: 2, nonce: 6 };
        let to_me = || sender.message(1, 1, Bytes::new());
        assert_eq!(me.check(&to_me()), Ok(()));
        let check = |message| status::reason(&Status::from(me.check(&message).unwrap_err())).unwrap();
        assert_eq!(check(RaftMessage { to: 3, ..to_me() }), "OTHER_MEMBER");
        assert_eq!(check(RaftMessage { cluster_id: "d".into(), ..to_me() }), "OTHER_CLUSTER");
        assert_eq!(check(RaftMessage { nonce: 0, ..to_me() }), "NO_NONCE");
        for format in [0, FORMAT + 1] {
            let message = RaftMessage { format, ..to_me() };
            assert_eq!(me.check_sender(&message), Ok(()));
            assert_eq!(check(message), "OTHER_FORMAT");
        }
    }
}
