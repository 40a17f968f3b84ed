//! Lists of revoked certificates (CRL).

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::certificate::{hexadecimal, parse};

/// Reason why a list of revocations cannot be read or is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The text is not a list of revocations.
    #[error("no list of revocations in PEM")]
    NoList,
    /// The list of revocations is signed by another authority.
    #[error("the list of revocations is of another authority")]
    OtherList,
}

/// Returns the serials of the certificates that a list of revocations revokes, in hexadecimal. Does not check the
/// signature of the list.
///
/// # Errors
/// `pem` is not a list of revocations in PEM.
pub fn revoked(pem: &str) -> Result<Vec<String>, ListError> {
    read(pem, |_| true)
}

/// Checks that one of `authorities` signed the list of revocations `pem`, and returns its serials as [`revoked`] does.
pub(crate) fn revoked_by(pem: &str, authorities: &[CertificateDer<'_>]) -> Result<Vec<String>, ListError> {
    read(pem, |list| {
        let signed = |authority: &CertificateDer<'_>| {
            parse(authority).is_ok_and(|authority| list.verify_signature(authority.public_key()).is_ok())
        };
        authorities.iter().any(signed)
    })
}

/// Returns the serials of a list that is accepted.
fn read(pem: &str, accepts: impl FnOnce(&CertificateRevocationList<'_>) -> bool) -> Result<Vec<String>, ListError> {
    let der = CertificateRevocationListDer::from_pem_slice(pem.as_bytes()).map_err(|_| ListError::NoList)?;
    let (_, list) = CertificateRevocationList::from_der(&der).map_err(|_| ListError::NoList)?;
    if !accepts(&list) {
        return Err(ListError::OtherList);
    }
    Ok(list.iter_revoked_certificates().map(|revoked| hexadecimal(revoked.raw_serial())).collect())
}
