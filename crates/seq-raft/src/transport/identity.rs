//! Checks of the sender and the receiver of a Raft message. Each message names its cluster, its sender, its receiver,
//! and the data directories of both.
//!
//! Each data directory has a secret number, its nonce. The replicated list of members contains the fingerprint of each
//! member's nonce. A sender includes its nonce in the message, which proves that its data directory is the one in the
//! receiver's list. It also includes the fingerprint of the receiver's directory, which it takes from its own list. So
//! if a member lost its disk and starts with an empty directory under its old id, it takes no part in the group: all
//! members refuse its messages, and it refuses messages that are meant for the lost directory. It must be added again
//! under a new id. A member never adopts a fingerprint from a message; it trusts only the fingerprints in the list.
//!
//! A member whose log lags behind may receive messages from a leader that is not in its own list yet. It accepts such a
//! message because the message states a list with a greater number than its own, and because the sender knows the
//! fingerprint of the receiver, which only members know once a group exists.

use bytes::Bytes;
use seq_proto::Reason;
use seq_proto::v1::{ProbeRequest, RaftMessage};
use tonic::{Code, Status};

use crate::nonce::{Fingerprint, Nonce};
use crate::storage::Position;

/// Number of the format of [`RaftMessage`] payloads, which are values of the Raft library's types, encoded in postcard.
/// The number changes with every release of the library that changes any of these types, and with every change of
/// [`crate::types::Member`].
pub(crate) const FORMAT: u32 = 3;

/// Identity of this member, with which it sends messages and checks received messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) id: u64,
    /// Nonce of the member's data directory.
    pub(crate) nonce: Nonce,
    /// Newest format of commands and states that the member's program can read. The member reports this value to the
    /// other members.
    pub(crate) newest_format: u16,
}

impl Identity {
    /// Returns the fingerprint of the member's data directory.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.nonce.fingerprint()
    }

    /// Creates a message from this member to the member `to`, whose data directory has the fingerprint `receiver`.
    /// `membership` is the number of the newest list of members that names this member.
    pub(crate) fn message(&self, to: u64, receiver: Fingerprint, membership: u64, payload: Bytes) -> RaftMessage {
        RaftMessage {
            cluster_id: self.cluster.clone(),
            from: self.id,
            to,
            nonce: Bytes::copy_from_slice(&self.nonce.bytes()),
            payload,
            membership,
            format: FORMAT,
            receiver: Bytes::copy_from_slice(&receiver.bytes()),
            newest_format: self.newest_format.into(),
        }
    }

    /// Creates a probe for the member `to`. `membership` is the number of the newest list of members that names this
    /// member. `position` is the state of this member's log, which is given only while this member starts.
    pub(crate) fn probe(&self, to: u64, membership: u64, position: Option<&Position>) -> ProbeRequest {
        let starting = position.is_some();
        let position = position.copied().unwrap_or_default();
        ProbeRequest {
            cluster_id: self.cluster.clone(),
            from: self.id,
            to,
            fingerprint: self.fingerprint().bytes().to_vec(),
            membership,
            vote_term: position.vote.map_or(0, |vote| vote.leader_id.term),
            last_log: position.last.map(|last| seq_proto::v1::LogPosition {
                term: last.leader_id.term,
                leader: last.leader_id.node_id,
                index: last.index,
            }),
            starting,
            newest_format: self.newest_format.into(),
            digests: Vec::new(),
        }
    }

    /// Makes those checks of a received message that need no list of members. Returns the sender's nonce.
    pub(crate) fn check(&self, message: &RaftMessage) -> Result<Nonce, PeerRefusal> {
        let from = message.from;
        self.check_receiver(&message.cluster_id, message.to)?;
        let nonce = Nonce::from_bytes(&message.nonce).ok_or(PeerRefusal::NoNonce { from })?;
        if message.format != FORMAT {
            return Err(PeerRefusal::OtherFormat { from, format: message.format });
        }
        if message.receiver != self.fingerprint().bytes()[..] {
            return Err(PeerRefusal::OtherReceiver { from, mine: self.id });
        }
        Ok(nonce)
    }

    /// Checks that a received probe is meant for this member. Returns the fingerprint of the sender's data directory.
    pub(crate) fn check_probe(&self, probe: &ProbeRequest) -> Result<Fingerprint, PeerRefusal> {
        self.check_receiver(&probe.cluster_id, probe.to)?;
        Fingerprint::from_bytes(&probe.fingerprint).ok_or(PeerRefusal::NoNonce { from: probe.from })
    }

    fn check_receiver(&self, cluster: &str, to: u64) -> Result<(), PeerRefusal> {
        if cluster != self.cluster {
            return Err(PeerRefusal::OtherCluster { mine: self.cluster.clone(), theirs: cluster.to_owned() });
        }
        if to != self.id {
            return Err(PeerRefusal::OtherMember { mine: self.id, meant: to });
        }
        Ok(())
    }
}

/// Reason why a message from another member is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerRefusal {
    #[error("this is a store of cluster {mine:?}, not of {theirs:?}")]
    OtherCluster { mine: String, theirs: String },
    #[error("this is store {mine}, not store {meant}")]
    OtherMember { mine: u64, meant: u64 },
    #[error("the message from store {from} does not name its data directory")]
    NoNonce { from: u64 },
    #[error("the message from store {from} is meant for another data directory of store {mine}")]
    OtherReceiver { from: u64, mine: u64 },
    #[error("no member of this store has id {from}")]
    UnknownMember { from: u64 },
    #[error("store {id} was removed from cluster {cluster:?} for good; a disk that comes back gets a new id")]
    Removed { cluster: String, id: u64 },
    #[error("store {from} is {name:?}, and the certificate of the message's sender is of {holder:?}")]
    OtherHolder { from: u64, name: String, holder: String },
    #[error("store {from} sends messages of format {format}, and this member of format {FORMAT}: run one version")]
    OtherFormat { from: u64, format: u32 },
    #[error(
        "store {from} reads formats up to {newest}, and the group writes format {format} since it was upgraded: start a newer \
         release of that store"
    )]
    Outdated { from: u64, newest: u16, format: u16 },
    #[error("store {id} of cluster {cluster:?} has another data directory; a lost disk comes back under a new id")]
    OtherDataDirectory { cluster: String, id: u64 },
    #[error(
        "store {id} of cluster {cluster:?} lacks what it acknowledged: {lost}; its data directory is an older copy; replace it \
         under a new id"
    )]
    AcknowledgedDataLost { cluster: String, id: u64, lost: String },
}

impl From<PeerRefusal> for Status {
    fn from(refusal: PeerRefusal) -> Status {
        let text = refusal.to_string();
        let reason = match refusal {
            PeerRefusal::OtherCluster { .. } => Reason::OtherCluster,
            PeerRefusal::OtherMember { .. } => return Reason::OtherMember.status_as(Code::FailedPrecondition, text),
            PeerRefusal::NoNonce { .. } => Reason::NoNonce,
            // This is not a failed precondition, because the intended directory may be used again later.
            PeerRefusal::OtherReceiver { .. } => Reason::OtherReceiver,
            PeerRefusal::UnknownMember { .. } => return Reason::UnknownMember.status_as(Code::PermissionDenied, text),
            PeerRefusal::Removed { .. } => Reason::RemovedMember,
            PeerRefusal::OtherHolder { .. } => Reason::OtherHolder,
            PeerRefusal::OtherFormat { .. } => Reason::OtherFormat,
            PeerRefusal::Outdated { .. } => Reason::OutdatedMember,
            PeerRefusal::OtherDataDirectory { .. } => Reason::OtherDataDirectory,
            PeerRefusal::AcknowledgedDataLost { .. } => Reason::AcknowledgedDataLost,
        };
        reason.status(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64) -> Identity {
        Identity { cluster: "c".into(), id, nonce: Nonce::draw(), newest_format: 1 }
    }

    #[test]
    fn a_message_for_another_receiver_is_refused_by_name() {
        let (me, sender) = (member(1), member(2));
        let to_me = || sender.message(1, me.fingerprint(), 1, Bytes::new());
        assert_eq!(me.check(&to_me()), Ok(sender.nonce));
        let check = |message| seq_proto::status::reason(&Status::from(me.check(&message).unwrap_err())).unwrap();
        assert_eq!(check(RaftMessage { to: 3, ..to_me() }), "OTHER_MEMBER");
        assert_eq!(check(RaftMessage { cluster_id: "d".into(), ..to_me() }), "OTHER_CLUSTER");
        for nonce in [&[][..], &[0; 16], &[1; 15], &[1; 17]] {
            assert_eq!(check(RaftMessage { nonce: nonce.to_vec().into(), ..to_me() }), "NO_NONCE");
        }
        for format in [0, FORMAT + 1] {
            assert_eq!(check(RaftMessage { format, ..to_me() }), "OTHER_FORMAT");
        }
        // An emptied disk under the old id, and a sender that names no directory.
        assert_eq!(check(sender.message(1, member(1).fingerprint(), 1, Bytes::new())), "OTHER_RECEIVER");
        assert_eq!(check(RaftMessage { receiver: Bytes::new(), ..to_me() }), "OTHER_RECEIVER");
    }

    #[test]
    fn a_probe_names_the_directory_and_does_not_prove_it() {
        let (me, sender) = (member(1), member(2));
        let probe = sender.probe(1, 0, None);
        assert_eq!(me.check_probe(&probe), Ok(sender.fingerprint()));
        let nonce = sender.nonce.bytes();
        assert!(!probe.fingerprint.windows(nonce.len()).any(|part| part == nonce));
        let none = ProbeRequest { fingerprint: Vec::new(), ..probe };
        assert_eq!(me.check_probe(&none), Err(PeerRefusal::NoNonce { from: 2 }));
    }
}
