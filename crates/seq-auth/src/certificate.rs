//! Reads certificates: identity, validity and hosts.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

use crate::identity::{Identity, IdentityError};

/// Contents of a certificate, read without a check of the authority's signature. The TLS handshake of a connection
/// checks the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Identity of the holder.
    pub identity: Identity,
    /// DNS names and IP addresses at which clients connect to the holder, as written in the certificate.
    pub hosts: Vec<String>,
    /// Number of the certificate within its authority, in hexadecimal.
    pub serial: String,
    /// Start of the validity.
    pub not_before: SystemTime,
    /// End of the validity.
    pub not_after: SystemTime,
    /// SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// `der` is not a certificate, or the certificate does not have exactly one identity.
    pub fn read(der: &CertificateDer<'_>) -> Result<Certificate, CertificateError> {
        let parsed = parse(der)?;
        let names = names(&parsed)?;
        let mut uris = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let identity = match (uris.next(), uris.next()) {
            (Some(uri), None) => uri.parse()?,
            (None, _) => return Err(CertificateError::NoIdentity),
            (Some(one), Some(other)) => {
                return Err(CertificateError::TwoIdentities { one: one.to_owned(), other: other.to_owned() });
            }
        };
        let validity = parsed.validity();
        Ok(Certificate {
            identity,
            hosts: names.iter().filter_map(host).collect(),
            serial: hexadecimal(parsed.raw_serial()),
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
            sha256: hexadecimal(&Sha256::digest(der)),
        })
    }

    /// Reads the first certificate of a PEM text. In the file of a holder this is the holder's own certificate.
    ///
    /// # Errors
    /// The errors of [`Certificate::read`], or `pem` has no certificate.
    pub fn from_pem(pem: &str) -> Result<Certificate, CertificateError> {
        Certificate::read(&chain(pem)?[0])
    }

    /// Returns the time from `now` until the certificate expires, or zero if it has expired.
    #[must_use]
    pub fn left(&self, now: SystemTime) -> Duration {
        self.not_after.duration_since(now).unwrap_or_default()
    }
}

/// Returns the certificates of a PEM text, in their order. There is at least one.
///
/// # Errors
/// `pem` has no certificate, or a section of it is damaged.
pub fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(CertificateError::NoPem),
    }
}

/// Parses a certificate without trailing bytes.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertificateError> {
    let parsed = x509_parser::parse_x509_certificate(der);
    parsed.ok().filter(|(rest, _)| rest.is_empty()).map(|(_, parsed)| parsed).ok_or(CertificateError::NoCertificate)
}

fn names<'a>(parsed: &'a X509Certificate<'a>) -> Result<&'a [GeneralName<'a>], CertificateError> {
    let names = parsed.subject_alternative_name().map_err(|_| CertificateError::NoCertificate)?;
    Ok(names.map_or(&[], |names| &names.value.general_names))
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => {
            let address = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            address.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from)).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Converts a time that a certificate states. A time before 1970 becomes the start of 1970.
pub(crate) fn time(time: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reason for not using a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The text has no undamaged PEM section with a certificate.
    #[error("no certificate in PEM: a section -----BEGIN CERTIFICATE----- is missing or damaged")]
    NoPem,
    /// The bytes are not a certificate.
    #[error("no certificate: its bytes are damaged")]
    NoCertificate,
    /// The certificate has no identity.
    #[error("the certificate has no identity: a URI seqsvr://CLUSTER/ROLE/NAME among its subject alternative names")]
    NoIdentity,
    /// The certificate has more than one identity.
    #[error("the certificate has two identities, {one:?} and {other:?}: it must have one")]
    TwoIdentities {
        /// The first URI.
        one: String,
        /// The second URI.
        other: String,
    },
    /// The URI of the certificate is not an identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}
