//! The certificate authority of a cluster. It makes certificates, lists of revoked certificates, and the authority that
//! succeeds it.
//!
//! Keys are ECDSA on P-256, which every TLS library supports. An authority never signs a key that exists already. It
//! makes a new key for each certificate, so that replacing a certificate also replaces a private key that may have
//! leaked unnoticed.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::x509::X509Name;
use zeroize::Zeroizing;

use crate::certificate::{CertificateError, chain, parse, time};
use crate::identity::{Identity, IdentityError, name};
use crate::revocations::{ListError, revoked};

/// Time from the start of a certificate's validity to its creation. The validity starts before the creation because the
/// clocks of machines that check the certificate may be slow.
const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// Validity that a list of revocations states. Processes use a list even after its stated validity has ended.
const LIST_VALIDITY: Duration = Duration::from_secs(10 * 365 * DAY);

/// Longest validity of a certificate. No key is in use for so long.
const MAX_VALIDITY: Duration = Duration::from_secs(50 * 365 * DAY);

/// Seconds per day.
const DAY: u64 = 24 * 3600;

/// Common name of an authority.
const COMMON_NAME: &str = "seqsvr certificate authority";

/// An authority with its private key.
pub struct Authority {
    cluster: String,
    /// Certificate of the authority, followed by the certificates of its predecessors that have not expired. All of
    /// them are in PEM.
    bundle: String,
    issuer: Issuer<'static, KeyPair>,
    not_after: SystemTime,
}

/// A certificate and its private key, both in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key; its memory is cleared on drop.
    pub key: Zeroizing<String>,
}

/// A request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identity of the holder.
    pub identity: Identity,
    /// DNS names and IP addresses at which clients connect to the holder. They are written into the certificate.
    pub hosts: Vec<String>,
    /// Length of the validity, from now on.
    pub validity: Duration,
}

impl Authority {
    /// Makes an authority for a cluster.
    ///
    /// # Errors
    /// The cluster's name is invalid, or `validity` is out of range.
    pub fn create(cluster: &str, validity: Duration, now: SystemTime) -> Result<Authority, AuthorityError> {
        let cluster = name("cluster", cluster)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = validity_from(now, validity)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
        params.distinguished_name.push(DnType::OrganizationName, cluster.as_str());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let bundle = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Authority { cluster, bundle, issuer, not_after: now + validity })
    }

    /// Reads an authority from the output of [`Authority::to_pem`], which contains its private key and its bundle.
    ///
    /// # Errors
    /// `pem` contains no certificate or no private key, or a damaged one, or its first certificate is not an
    /// authority's, or the private key does not belong to this certificate.
    pub fn from_pem(pem: &str) -> Result<Authority, AuthorityError> {
        let first = chain(pem)?.remove(0);
        let parsed = parse(&first)?;
        let cluster = cluster_of(parsed.subject()).ok_or(AuthorityError::NoAuthority)?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| AuthorityError::NoKey)?;
        let key = KeyPair::try_from(&key).map_err(|_| AuthorityError::NoKey)?;
        if !parsed.is_ca() || parsed.public_key().subject_public_key.data != key.public_key_raw() {
            return Err(if parsed.is_ca() { AuthorityError::OtherKey } else { AuthorityError::NoAuthority });
        }
        let not_after = time(parsed.validity().not_after);
        let issuer = Issuer::from_ca_cert_der(&first, key)?;
        let bundle = sections(pem).map(|section| format!("{section}\n")).collect();
        Ok(Authority { cluster, bundle, issuer, not_after })
    }

    /// Makes the successor of this authority, with a new private key. The successor's bundle also contains the
    /// unexpired certificates of this authority's bundle, so that certificates signed by former authorities stay valid.
    ///
    /// # Errors
    /// The errors of [`Authority::create`].
    pub fn succeed(&self, validity: Duration, now: SystemTime) -> Result<Authority, AuthorityError> {
        let mut next = Authority::create(&self.cluster, validity, now)?;
        for (der, pem) in chain(&self.bundle)?.iter().zip(sections(&self.bundle)) {
            if time(parse(der)?.validity().not_after) > now {
                next.bundle.push_str(pem);
                next.bundle.push('\n');
            }
        }
        Ok(next)
    }

    /// Returns the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the certificates of the trusted authorities, in PEM. The first is the certificate of this authority.
    #[must_use]
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// Returns the private key and the bundle, in PEM.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let key = Zeroizing::new(self.issuer.key().serialize_pem());
        Zeroizing::new(format!("{}{}", *key, self.bundle))
    }

    /// Returns the time when this authority's certificate expires. Every certificate that the authority signed expires
    /// at that time or earlier.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Makes a key and a certificate of this key for the requested holder.
    ///
    /// # Errors
    /// The identity belongs to another cluster, a host is neither a DNS name nor an IP address, the validity is out of
    /// range, or the certificate would outlive the authority.
    pub fn issue(&self, request: &Request, now: SystemTime) -> Result<Issued, AuthorityError> {
        let mut usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if request.identity.role().serves() {
            usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        self.issue_for(request, usages, now)
    }

    /// Makes a certificate as [`Authority::issue`] does, but with `usages` as its extended key usages, instead of those
    /// of the holder's role. If `usages` is empty, the certificate may be used for any purpose.
    pub(crate) fn issue_for(
        &self,
        request: &Request,
        usages: Vec<ExtendedKeyUsagePurpose>,
        now: SystemTime,
    ) -> Result<Issued, AuthorityError> {
        let Request { identity, hosts, validity } = request;
        if identity.cluster() != self.cluster {
            return Err(AuthorityError::OtherCluster { identity: identity.clone(), cluster: self.cluster.clone() });
        }
        if now + *validity > self.not_after {
            return Err(AuthorityError::Outlives { identity: identity.clone() });
        }
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = validity_from(now, *validity)?;
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(identity.to_string().try_into()?)];
        for host in hosts {
            params.subject_alt_names.push(san(host)?);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: Zeroizing::new(key.serialize_pem()) })
    }

    /// Returns a list of revoked certificates (CRL) in PEM, which contains `serials` and the serials of the list
    /// `former`. The CRL number, which orders the lists, is the time `now` in seconds since 1970.
    ///
    /// # Errors
    /// `former` is not a list of revocations, or a serial is invalid.
    pub fn revoke(&self, former: Option<&str>, serials: &[String], now: SystemTime) -> Result<String, AuthorityError> {
        let mut revoked = former.map(revoked).transpose()?.unwrap_or_default();
        revoked.extend(serials.iter().cloned());
        revoked.sort_unstable();
        revoked.dedup();
        let revoked_certs = revoked.iter().map(|serial| {
            let serial_number = SerialNumber::from_slice(&bytes_of(serial)?);
            let revocation_time = now.into();
            Ok(RevokedCertParams { serial_number, revocation_time, reason_code: None, invalidity_date: None })
        });
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + LIST_VALIDITY).into(),
            crl_number: SerialNumber::from(seconds),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect::<Result<_, AuthorityError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}

/// Returns the time when the first certificate of a PEM bundle, which is an authority's certificate, expires. Every
/// certificate that this authority signed expires at that time or earlier.
///
/// # Errors
/// `bundle` contains no certificate, or a damaged one.
pub fn not_after(bundle: &str) -> Result<SystemTime, AuthorityError> {
    Ok(time(parse(&chain(bundle)?[0])?.validity().not_after))
}

/// Returns the certificate sections of a PEM text.
fn sections(pem: &str) -> impl Iterator<Item = &str> {
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    pem.split_inclusive(end).filter_map(move |section| section.find(begin).map(|at| &section[at..]))
}

fn cluster_of(subject: &X509Name<'_>) -> Option<String> {
    subject.iter_organization().next()?.as_str().ok().map(str::to_owned)
}

fn validity_from(
    now: SystemTime,
    validity: Duration,
) -> Result<(time::OffsetDateTime, time::OffsetDateTime), AuthorityError> {
    if validity.is_zero() || validity > MAX_VALIDITY {
        return Err(AuthorityError::Validity { validity });
    }
    Ok(((now - BACKDATED).into(), (now + validity).into()))
}

fn san(host: &str) -> Result<SanType, AuthorityError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    // Hosts of Compose and of Windows have underscores; certificates with them are checked like all others.
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let name = Some(host).filter(|host| !host.is_empty() && host.bytes().all(valid));
    let name = name.and_then(|name| name.try_into().ok());
    name.map(SanType::DnsName).ok_or_else(|| AuthorityError::Host { host: host.to_owned() })
}

fn bytes_of(serial: &str) -> Result<Vec<u8>, AuthorityError> {
    let byte = |at: usize| serial.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..serial.len()).step_by(2).map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| AuthorityError::Serial { serial: serial.to_owned() })
}

/// Reason why a certificate cannot be made, or why the files of an authority cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The cluster's name is invalid.
    #[error(transparent)]
    Cluster(#[from] IdentityError),
    /// The first certificate is not an authority's.
    #[error("the first certificate was not made by `seqsvr cert ca`")]
    NoAuthority,
    /// The text has no private key.
    #[error("no private key in PEM: a section -----BEGIN PRIVATE KEY----- is missing or damaged")]
    NoKey,
    /// The private key belongs to another certificate.
    #[error("the private key does not belong to the first certificate")]
    OtherKey,
    /// The identity is of another cluster.
    #[error("{identity} is not of cluster {cluster:?}, whose authority this is")]
    OtherCluster {
        /// The identity.
        identity: Identity,
        /// The authority's cluster.
        cluster: String,
    },
    /// The certificate would be valid for longer than its authority.
    #[error("the certificate of {identity} would be valid for longer than the authority: rotate the authority first")]
    Outlives {
        /// The identity.
        identity: Identity,
    },
    /// The validity is out of range.
    #[error("a validity of {} days is not from 1 day to {} years", validity.as_secs() / DAY, MAX_VALIDITY.as_secs() / DAY / 365)]
    Validity {
        /// The requested validity.
        validity: Duration,
    },
    /// The text is not a host.
    #[error("{host:?} is neither a DNS name nor an IP address; wildcards are not allowed")]
    Host {
        /// The invalid text.
        host: String,
    },
    /// The text is not a serial.
    #[error("{serial:?} is no serial: hexadecimal digits in pairs")]
    Serial {
        /// The invalid text.
        serial: String,
    },
    /// The former list of revocations cannot be read.
    #[error(transparent)]
    List(#[from] ListError),
    /// The text is not a certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The library for certificates failed.
    #[error("cannot make the certificate: {0}")]
    Make(#[from] rcgen::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Certificate;
    use crate::identity::Role;

    const DAY: Duration = Duration::from_secs(super::DAY);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    fn authority() -> Authority {
        Authority::create("im", 100 * DAY, now()).unwrap()
    }

    fn request(short: &str) -> Request {
        let identity = Identity::in_cluster("im", short).unwrap();
        Request { identity, hosts: vec!["s1.example.org".into(), "127.0.0.1".into(), "::1".into()], validity: 10 * DAY }
    }

    #[test]
    fn a_certificate_states_what_was_requested() {
        let issued = authority().issue(&request("store/im-a/s1"), now()).unwrap();
        let read = Certificate::from_pem(&issued.certificate).unwrap();
        assert_eq!(read.identity, Identity::of_node("im", Role::Store, "im-a", "s1").unwrap());
        assert_eq!(read.hosts, ["s1.example.org", "127.0.0.1", "::1"]);
        assert_eq!((read.not_before, read.not_after), (now() - BACKDATED, now() + 10 * DAY));
        assert_eq!((read.left(now()), read.left(now() + 11 * DAY)), (10 * DAY, Duration::ZERO));
        assert!(issued.key.contains("PRIVATE KEY"));
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let refused = |request: &Request| authority().issue(request, now()).map(drop).unwrap_err().to_string();
        let mut other = request("client/c");
        other.identity = "seqsvr://other/client/c".parse().unwrap();
        assert!(refused(&other).contains("not of cluster \"im\""));
        assert!(
            refused(&Request { validity: 101 * DAY, ..request("client/c") }).contains("rotate the authority first")
        );
        for host in ["*.example.org", "", "a b", "a/b"] {
            let request = Request { hosts: vec![host.into()], ..request("client/c") };
            assert!(refused(&request).contains("wildcards are not allowed"), "{host:?}");
        }
        assert!(matches!(Authority::create("im", Duration::ZERO, now()), Err(AuthorityError::Validity { .. })));
        assert!(matches!(Authority::create("im", DAY * 20_000, now()), Err(AuthorityError::Validity { .. })));
        for cluster in ["", "IM", "a b", "a/b"] {
            assert!(matches!(Authority::create(cluster, DAY, now()), Err(AuthorityError::Cluster(_))), "{cluster:?}");
        }
    }

    #[test]
    fn an_authority_is_read_back() {
        let made = authority();
        let read = Authority::from_pem(&made.to_pem()).unwrap();
        assert_eq!((read.cluster(), read.not_after(), read.bundle()), ("im", made.not_after(), made.bundle()));
        read.issue(&request("client/c"), now()).unwrap();
        let refused = |pem: &str| Authority::from_pem(pem).map(drop).unwrap_err();
        let key = authority().issuer.key().serialize_pem();
        assert_eq!(refused(&format!("{key}{}", made.bundle())), AuthorityError::OtherKey);
        assert_eq!(refused(made.bundle()), AuthorityError::NoKey);
        assert_eq!(refused(&key), AuthorityError::Certificate(CertificateError::NoPem));
        let issued = made.issue(&request("client/c"), now()).unwrap();
        assert_eq!(refused(&format!("{}{}", *issued.key, issued.certificate)), AuthorityError::NoAuthority);
    }

    #[test]
    fn a_successor_is_trusted_beside_those_before_it_that_are_valid() {
        let first = authority();
        let second = first.succeed(200 * DAY, now() + DAY).unwrap();
        assert_eq!(chain(second.bundle()).unwrap()[1..], chain(first.bundle()).unwrap());
        let third = second.succeed(200 * DAY, now() + 150 * DAY).unwrap();
        assert_eq!(chain(third.bundle()).unwrap()[1..], chain(second.bundle()).unwrap()[..1], "the first has expired");
        assert_eq!(Authority::from_pem(&third.to_pem()).unwrap().bundle(), third.bundle());
    }

    #[test]
    fn a_list_of_revocations_grows() {
        let authority = authority();
        let serial = |issued: &Issued| Certificate::from_pem(&issued.certificate).unwrap().serial;
        let serials: Vec<String> =
            ["client/a", "client/b"].map(|short| serial(&authority.issue(&request(short), now()).unwrap())).to_vec();
        let one = authority.revoke(None, &serials[..1], now()).unwrap();
        assert_eq!(revoked(&one).unwrap(), serials[..1]);
        let both = authority.revoke(Some(&one), &serials, now() + DAY).unwrap();
        let mut sorted = serials.clone();
        sorted.sort();
        assert_eq!(revoked(&both).unwrap(), sorted);
        assert_eq!(
            authority.revoke(None, &["xyz".into()], now()),
            Err(AuthorityError::Serial { serial: "xyz".into() })
        );
        assert_eq!(authority.revoke(Some("x"), &[], now()), Err(ListError::NoList.into()));
    }

    #[test]
    fn a_certificate_with_no_identity_or_two_is_not_read() {
        let authority = authority();
        let with = |uris: &[&str]| {
            let mut params = CertificateParams::default();
            let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
            params.subject_alt_names = uris.iter().map(uri).collect();
            let pem = params.signed_by(&KeyPair::generate().unwrap(), &authority.issuer).unwrap().pem();
            Certificate::from_pem(&pem).unwrap_err()
        };
        assert_eq!(with(&[]), CertificateError::NoIdentity);
        assert!(matches!(
            with(&["seqsvr://im/client/a", "seqsvr://im/client/b"]),
            CertificateError::TwoIdentities { .. }
        ));
        assert!(matches!(with(&["seqsvr://im/client/a", "https://x"]), CertificateError::TwoIdentities { .. }));
        assert!(matches!(with(&["seqsvr://im/client/*"]), CertificateError::Identity(_)));
    }
}
