//! Identity of a data directory. It consists of a secret random number, the nonce, and of the nonce's public
//! fingerprint.
//!
//! A member sends its nonce to prove that its data directory is the directory in the replicated list of members. The
//! list holds only the fingerprint, which is the SHA-256 of the nonce. So a reader of the list, the log, a snapshot or
//! a response to `Probe` cannot impersonate a member.
//!
//! **Invariant:** a nonce is sent only in Raft messages to members, and is never part of a log line or an error.

use std::fmt;

use sha2::{Digest, Sha256};

/// Length of a nonce in bytes. A nonce has 128 random bits, so it cannot be guessed.
const NONCE_BYTES: usize = 16;

/// Length in bytes of a fingerprint, which is a SHA-256.
pub(crate) const FINGERPRINT_BYTES: usize = 32;

/// Secret random number that was drawn when the data directory was created; never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// Draws a new nonce.
    ///
    /// # Panics
    /// When the operating system gives no random numbers.
    pub(crate) fn draw() -> Nonce {
        let mut bytes = [0; NONCE_BYTES];
        while bytes == [0; NONCE_BYTES] {
            getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
        }
        Nonce(bytes)
    }

    /// Returns the nonce of the member with id `member` in a restored group. Every member of the group derives it from
    /// the same secret `seed`.
    pub(crate) fn derived(seed: &[u8; 32], member: u64) -> Nonce {
        let digest = Sha256::new().chain_update(b"seqsvr nonce").chain_update(seed).chain_update(member.to_be_bytes());
        Nonce::from_bytes(&digest.finalize()[..NONCE_BYTES]).expect("a digest does not begin with 128 zero bits")
    }

    /// Converts bytes from a stored record or a message. Returns `None` if the bytes have another length than a nonce
    /// or are all 0.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Nonce> {
        let bytes = <[u8; NONCE_BYTES]>::try_from(bytes).ok()?;
        (bytes != [0; NONCE_BYTES]).then_some(Nonce(bytes))
    }

    /// Returns the secret bytes, for a stored record or for a message to another member.
    pub(crate) fn bytes(&self) -> [u8; NONCE_BYTES] {
        self.0
    }

    /// Returns the public fingerprint of this nonce.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(secret)")
    }
}

/// Public name of a data directory. A sender that knows it has not proved its identity.
#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Value for a data directory whose fingerprint is not known yet.
    pub(crate) const NONE: Fingerprint = Fingerprint([0; FINGERPRINT_BYTES]);

    /// Converts bytes from a stored record or a message. Returns `None` if the bytes have another length than a
    /// fingerprint or equal [`Fingerprint::NONE`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Fingerprint> {
        let fingerprint = Fingerprint(bytes.try_into().ok()?);
        (fingerprint != Fingerprint::NONE).then_some(fingerprint)
    }

    /// Wraps bytes from a stored list of members without a check, because the list was checked before it was written.
    pub(crate) fn stored(bytes: [u8; FINGERPRINT_BYTES]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// Returns the bytes, for a record or a message.
    pub(crate) fn bytes(&self) -> [u8; FINGERPRINT_BYTES] {
        self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to compare two log lines by eye.
        let [a, b, c, d, ..] = self.0;
        write!(f, "Fingerprint({a:02x}{b:02x}{c:02x}{d:02x}..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_names_its_nonce_and_no_other() {
        let (one, other) = (Nonce::draw(), Nonce::draw());
        assert_ne!(one, other);
        assert_eq!(one.fingerprint(), Nonce::from_bytes(&one.bytes()).unwrap().fingerprint());
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(Nonce::from_bytes(&[0; NONCE_BYTES]), None);
        assert_eq!(Nonce::from_bytes(&[1; NONCE_BYTES - 1]), None);
        assert_eq!(Fingerprint::from_bytes(&[0; FINGERPRINT_BYTES]), None);
        assert_eq!(Fingerprint::from_bytes(&one.fingerprint().bytes()), Some(one.fingerprint()));
    }

    #[test]
    fn a_nonce_is_not_printed() {
        let nonce = Nonce::from_bytes(&[0xab; NONCE_BYTES]).unwrap();
        assert_eq!(format!("{nonce:?}"), "Nonce(secret)");
        assert_eq!(format!("{:?}", nonce.fingerprint()).len(), "Fingerprint(12345678..)".len());
    }
}
