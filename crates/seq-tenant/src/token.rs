//! Bearer tokens, by which callers without a certificate prove their tenant. A token has the form `TENANT.SECRET`, in
//! which the secret consists of 256 random bits in base64.
//!
//! The tenants file contains only the SHA-256 of a secret. A slow hash function would add no security. Its purpose is
//! to slow down guessing, and 256 random bits cannot be guessed anyway.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Prefix of a hash in a file.
const SCHEME: &str = "sha256:";

/// Maximum length of a token, in bytes. A longer token is rejected before it is hashed.
const MAX_BYTES: usize = 256;

/// A token as a caller sent it. There may be no tenant with this token.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    /// Name of a tenant, as sent.
    pub tenant: &'a str,
    secret: &'a str,
}

impl<'a> Token<'a> {
    /// Splits a token into the tenant's name and the secret. Returns `None` if the text has no `.` or is too long.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Token<'a>> {
        let (tenant, secret) = text.split_once('.').filter(|_| text.len() <= MAX_BYTES)?;
        Some(Token { tenant, secret })
    }

    /// Returns the token from the value of an `authorization` header, which must have the form `Bearer TOKEN`.
    #[must_use]
    pub fn bearer(header: &'a str) -> Option<Token<'a>> {
        let (scheme, token) = header.split_once(' ')?;
        Token::parse(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    }

    /// Returns the token that a user name and a password form. The user name is the name of the tenant. The password is
    /// either the whole token or only its secret.
    #[must_use]
    pub fn of_user(user: &'a str, password: &'a str) -> Option<Token<'a>> {
        let secret = password.strip_prefix(user).and_then(|rest| rest.strip_prefix('.')).unwrap_or(password);
        Some(Token { tenant: user, secret }).filter(|_| password.len() <= MAX_BYTES)
    }

    /// Returns the hash of the secret.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.secret.as_bytes()).into())
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// SHA-256 of a token's secret. In the tenants file it has the form `sha256:` followed by 64 hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Parses a hash; returns `None` for any other form.
    #[must_use]
    pub fn parse(text: &str) -> Option<TokenHash> {
        let digits = text.strip_prefix(SCHEME).filter(|digits| digits.len() == 64)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(TokenHash(hash))
    }
}

/// Compares in constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Generates a token of `tenant`, and returns it with the hash of its secret. The token is overwritten in memory when
/// it is dropped.
///
/// # Errors
/// The operating system returned no random bytes.
pub fn generate(tenant: &str) -> Result<(Zeroizing<String>, TokenHash), getrandom::Error> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    getrandom::fill(&mut *bytes)?;
    let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
    let hash = Token { tenant, secret: &secret }.hash();
    Ok((Zeroizing::new(format!("{tenant}.{}", &*secret)), hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_token_has_the_hash_that_a_file_keeps() {
        let (token, hash) = generate("im").unwrap();
        let parsed = Token::parse(&token).unwrap();
        assert_eq!((parsed.tenant, parsed.hash()), ("im", hash));
        assert_eq!(TokenHash::parse(&hash.to_string()), Some(hash));
        assert_ne!(generate("im").unwrap().1, hash, "each token has a secret of its own");
        assert_eq!(format!("{parsed:?}"), "Token { tenant: \"im\", .. }", "no secret in a log");
    }

    #[test]
    fn a_token_is_sent_as_a_bearer_or_as_a_password() {
        let (token, hash) = generate("im").unwrap();
        let (bearer, lower) = (format!("Bearer {}", &*token), format!("bearer  {}", &*token));
        let secret = token.strip_prefix("im.").unwrap();
        let forms =
            [Token::bearer(&bearer), Token::bearer(&lower), Token::of_user("im", &token), Token::of_user("im", secret)];
        for form in forms {
            assert_eq!(form.map(|token| (token.tenant, token.hash())), Some(("im", hash)));
        }
        for wrong in ["", "Bearer", "Bearer im", "Basic im.x", "Bearerim.x", &format!("Bearer im.{}", "x".repeat(300))]
        {
            assert!(Token::bearer(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn other_forms_of_a_hash_are_refused() {
        let digits = "0".repeat(64);
        assert!(TokenHash::parse(&format!("sha256:{digits}")).is_some());
        for wrong in [
            &*digits,
            "sha256:",
            &format!("sha256:{digits}0"),
            &format!("sha512:{digits}"),
            &format!("sha256:+{}", &digits[1..]),
        ] {
            assert!(TokenHash::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
