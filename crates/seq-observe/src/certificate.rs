//! Expiry of the certificates of nodes, judged by the clock of this machine.

use std::time::{Duration, SystemTime};

use seq_core::node_events::CERTIFICATE_WARNING_SECONDS;
use seq_proto::v1::StatusResponse;
use serde::Serialize;

use crate::advice::Advice;

const DAY: Duration = Duration::from_secs(86_400);

/// Remaining validity of a certificate below which the verdict on its set contains a warning.
const WARN_BELOW: Duration = Duration::from_secs(CERTIFICATE_WARNING_SECONDS);

/// Last second of the year 9999, in seconds since 1970. It is the latest time that can be converted to text.
const LAST_SECOND: u64 = 253_402_300_799;

/// The certificate of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateView {
    /// End of its validity, in UTC.
    pub expires: String,
    /// `valid`, `expiring` (within 14 days) or `expired`.
    pub state: Validity,
    #[serde(skip)]
    days_left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    Valid,
    Expiring,
    Expired,
}

impl CertificateView {
    /// Returns whether the certificate stays valid for two weeks or longer.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state == Validity::Valid
    }

    /// Returns the certificate whose end of validity `response` states. Returns `None` if the node has no TLS, or if
    /// its release does not report its certificate.
    pub(crate) fn of(response: &StatusResponse, now: SystemTime) -> Option<CertificateView> {
        let not_after = response.certificate_not_after?.min(LAST_SECOND);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(not_after);
        let (state, left) = match at.duration_since(now) {
            Ok(left) if left < WARN_BELOW => (Validity::Expiring, left),
            Ok(left) => (Validity::Valid, left),
            Err(_) => (Validity::Expired, Duration::ZERO),
        };
        Some(CertificateView { expires: seq_command::utc::text(at), state, days_left: left.as_secs() / DAY.as_secs() })
    }
}

/// Nodes whose certificates expire soon or have expired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiry {
    expired: Vec<String>,
    expiring: Vec<String>,
}

impl Expiry {
    /// Adds the certificate of a node, if it has one.
    pub(crate) fn add(&mut self, node: &str, certificate: Option<&CertificateView>) {
        let Some(certificate) = certificate else { return };
        match (certificate.state, certificate.days_left) {
            (Validity::Valid, _) => {}
            (Validity::Expired, _) => self.expired.push(format!("{node} ({})", certificate.expires)),
            (Validity::Expiring, 0) => self.expiring.push(format!("{node} (within a day)")),
            (Validity::Expiring, 1) => self.expiring.push(format!("{node} (in 1 day)")),
            (Validity::Expiring, days) => self.expiring.push(format!("{node} (in {days} days)")),
        }
    }

    /// Adds the name of a node that does not respond because its certificate has expired.
    pub(crate) fn add_expired(&mut self, node: &str) {
        self.expired.push(node.to_owned());
    }

    /// Returns whether the named node was added as a node that does not respond because its certificate has expired.
    pub(crate) fn is_cause(&self, node: &str) -> bool {
        self.expired.iter().any(|expired| expired == node)
    }

    pub(crate) fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// Returns a warning that names all added nodes, for the end of a verdict. Returns `None` if all certificates are
    /// valid for at least [`WARN_BELOW`].
    pub(crate) fn warning(&self) -> Option<Advice> {
        let expired = (!self.expired.is_empty()).then(|| format!("certificate expired: {}", self.expired.join(", ")));
        let expiring =
            (!self.expiring.is_empty()).then(|| format!("certificate expires soon: {}", self.expiring.join(", ")));
        let parts: Vec<String> = expired.into_iter().chain(expiring).collect();
        (!parts.is_empty()).then(|| Advice::new(parts.join("; ")).next("`seqsvr cert rotate`"))
    }
}
