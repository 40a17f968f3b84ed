//! Choice of the cipher suites for TLS.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// Returns the cryptography provider of all TLS connections. Its cipher suites are ordered by cost, the cheapest first.
/// AES-128 precedes AES-256 because it needs 10 rounds instead of 14, and no practical attack on either is known.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

/// A configuration refused by the TLS library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}
