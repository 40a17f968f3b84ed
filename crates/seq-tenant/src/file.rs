//! The tenants file: TOML that is parsed to a list of [`TenantSpec`]s, or to one error with its line.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

use seq_kit::config::{line_of, readable_reason};
use serde::Deserialize;
use toml::Spanned;

use crate::token::TokenHash;

/// Most tenants of a file, because each has counters and metrics on every node.
pub const MAX_TENANTS: usize = 1_000;

/// Highest rate of a quota, per second. The intervals between two units are whole nanoseconds; for higher rates,
/// rounding would change them by more than a tenth.
pub const MAX_RATE: u32 = 100_000_000;

/// Most tokens of a tenant, because each request with a token is compared with all of them.
const MAX_TOKENS: usize = 16;

/// Prefix of a proxy's name among the names of clients.
pub(crate) const PROXY: &str = "proxy/";

/// Longest name of a tenant, in bytes; the name is a label of metrics.
const MAX_NAME_BYTES: usize = 64;

/// A tenant: its callers, its uids and its quotas. Where it has no quota, the limits of the node apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSpec {
    /// Name of lower-case letters, digits and hyphens.
    pub name: String,
    /// Uids that it may use; an empty list stands for all uids.
    pub uids: Vec<Range<u64>>,
    /// Hashes of the tokens that identify it.
    pub tokens: Vec<TokenHash>,
    /// Names of the clients whose certificates identify it, and `proxy/NAME` for a proxy, whose requests count as the
    /// tenant's.
    pub certificates: Vec<String>,
    /// Requests per second; a batch, a message of a stream and a command count as one request each.
    pub calls_per_s: Option<NonZeroU32>,
    /// Allocated numbers per second; a second's worth may be allocated at once.
    pub numbers_per_s: Option<NonZeroU32>,
    /// Open connections.
    pub connections: Option<u32>,
    /// Numbers per item.
    pub max_count: Option<u32>,
    /// Largest distance above its last number to which a uid may be advanced; 0, the default, forbids advances.
    pub max_advance: u64,
}

/// Fault of a tenants file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1.
    pub line: usize,
    /// The key and the reason.
    pub what: String,
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    tenant: Vec<RawTenant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTenant {
    name: Spanned<String>,
    #[serde(default)]
    uids: Vec<Spanned<String>>,
    #[serde(default)]
    tokens: Vec<Spanned<String>>,
    #[serde(default)]
    certificates: Vec<Spanned<String>>,
    calls_per_s: Option<Spanned<u32>>,
    numbers_per_s: Option<Spanned<u32>>,
    connections: Option<Spanned<u32>>,
    max_count: Option<Spanned<u32>>,
    max_advance: Option<u64>,
}

/// Parses the text of a tenants file.
///
/// # Errors
/// The first [`FileError`].
pub fn parse(text: &str) -> Result<Vec<TenantSpec>, FileError> {
    let raw: Raw = toml::from_str(text).map_err(|error| FileError {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        what: readable_reason(error.message()),
    })?;
    let at = |span: Range<usize>, what: String| FileError { line: line_of(text, span.start), what };
    let mut tenants: Vec<TenantSpec> = Vec::new();
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    if let Some(beyond) = raw.tenant.get(MAX_TENANTS) {
        return Err(at(beyond.name.span(), format!("tenant: more than {MAX_TENANTS}")));
    }
    for tenant in raw.tenant {
        let (span, name) = (tenant.name.span(), tenant.name.get_ref().clone());
        if tenants.iter().any(|other| other.name == name) {
            return Err(at(span, format!("name: {name:?} is the name of another tenant")));
        }
        for certificate in &tenant.certificates {
            let name_of = certificate.get_ref().strip_prefix(PROXY).unwrap_or(certificate.get_ref());
            if name_of.is_empty() || name_of.contains('/') {
                let what =
                    format!("certificates: {:?} is neither NAME, of a client, nor proxy/NAME", certificate.get_ref());
                return Err(at(certificate.span(), what));
            }
            if let Some(other) = holders.insert(certificate.get_ref().clone(), name.clone()) {
                let what = format!("certificates: {:?} is of tenant {other:?} already", certificate.get_ref());
                return Err(at(certificate.span(), what));
            }
        }
        for token in &tenant.tokens {
            // Compared like hashes, which ignore the case of the digits.
            if let Some(other) = hashes.insert(token.get_ref().to_ascii_lowercase(), name.clone()) {
                let what = format!(
                    "tokens: this hash is of tenant {other:?} already: make each token with `seqsvr tenant token`"
                );
                return Err(at(token.span(), what));
            }
        }
        tenants.push(tenant.check().map_err(|(span, what)| at(span, what))?);
    }
    Ok(tenants)
}

/// Position and reason of a fault.
type Problem = (Range<usize>, String);

impl RawTenant {
    /// Checks each of its keys, and returns the tenant.
    fn check(self) -> Result<TenantSpec, Problem> {
        let (span, name) = (self.name.span(), self.name.into_inner());
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(letter) {
            let what = format!("name: {name:?} is not 1 to {MAX_NAME_BYTES} small letters, digits and hyphens");
            return Err((span, what));
        }
        if self.tokens.is_empty() && self.certificates.is_empty() {
            return Err((span, format!("tenant {name:?} has neither tokens nor certificates")));
        }
        if let Some(beyond) = self.tokens.get(MAX_TOKENS) {
            return Err((beyond.span(), format!("tokens: more than {MAX_TOKENS}")));
        }
        let hash = |text: &Spanned<String>| {
            let wrong = || (text.span(), "tokens: not sha256: and 64 hexadecimal digits".to_owned());
            TokenHash::parse(text.get_ref()).ok_or_else(wrong)
        };
        let range = |text: &Spanned<String>| {
            uids(text.get_ref()).ok_or_else(|| {
                (text.span(), format!("uids: {:?} is not FIRST..END, as in \"0..1_000_000\"", text.get_ref()))
            })
        };
        Ok(TenantSpec {
            uids: self.uids.iter().map(range).collect::<Result<_, _>>()?,
            tokens: self.tokens.iter().map(hash).collect::<Result<_, _>>()?,
            certificates: self.certificates.into_iter().map(Spanned::into_inner).collect(),
            calls_per_s: rate("calls_per_s", self.calls_per_s)?,
            numbers_per_s: rate("numbers_per_s", self.numbers_per_s)?,
            connections: positive("connections", self.connections)?,
            max_count: positive("max_count", self.max_count)?,
            max_advance: self.max_advance.unwrap_or(0),
            name,
        })
    }
}

fn positive(key: &str, value: Option<Spanned<u32>>) -> Result<Option<u32>, Problem> {
    match value {
        Some(value) if *value.get_ref() == 0 => {
            Err((value.span(), format!("{key}: 0 is none; leave it out for no quota")))
        }
        value => Ok(value.map(Spanned::into_inner)),
    }
}

fn rate(key: &str, value: Option<Spanned<u32>>) -> Result<Option<NonZeroU32>, Problem> {
    let Some(value) = value else { return Ok(None) };
    let wrong = || (value.span(), format!("{key}: {} is not in 1..={MAX_RATE}", value.get_ref()));
    NonZeroU32::new(*value.get_ref()).filter(|rate| rate.get() <= MAX_RATE).map(Some).ok_or_else(wrong)
}

/// Parses `FIRST..END`, the end exclusive, with `_` between digits.
fn uids(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    let number = |text: &str| {
        let digits = text.replace('_', "");
        digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let range = number(first)?..number(end)?;
    Some(range).filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn every_key_is_read() {
        let text = format!(
            "[[tenant]]\nname = \"im\"\nuids = [\"0..1_000\", \"5000..6000\"]\ntokens = [\"{HASH}\"]\n\
             certificates = [\"chat\", \"proxy/p1\"]\ncalls_per_s = 10\nnumbers_per_s = 1_000\nconnections = 3\nmax_count = 100\n\
             max_advance = 0\n[[tenant]]\nname = \"ops\"\ncertificates = [\"ops\"]\n"
        );
        let tenants = parse(&text).unwrap();
        let expected = TenantSpec {
            name: "im".into(),
            uids: vec![0..1_000, 5_000..6_000],
            tokens: vec![TokenHash::parse(HASH).unwrap()],
            certificates: vec!["chat".into(), "proxy/p1".into()],
            calls_per_s: NonZeroU32::new(10),
            numbers_per_s: NonZeroU32::new(1_000),
            connections: Some(3),
            max_count: Some(100),
            max_advance: 0,
        };
        assert_eq!(tenants[0], expected);
        assert_eq!((tenants[1].name.as_str(), tenants[1].numbers_per_s, tenants[1].uids.len()), ("ops", None, 0));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line_and_key() {
        let of = |lines: &str| parse(&format!("[[tenant]]\nname = \"im\"\n{lines}")).unwrap_err().to_string();
        let table = [
            ("", "2: tenant \"im\" has neither"),
            ("tokens = [\"secret\"]", "3: tokens: not sha256:"),
            ("certificates = [\"a\"]\nuids = [\"5..5\"]", "4: uids: \"5..5\" is not FIRST..END"),
            ("certificates = [\"a\"]\nuids = [\"-1..5\"]", "4: uids: \"-1..5\""),
            ("certificates = [\"a\"]\ncalls_per_s = 0", "4: calls_per_s: 0 is not in 1..=100000000"),
            ("certificates = [\"a\"]\nnumbers_per_s = 200_000_000", "4: numbers_per_s: 200000000 is not in"),
            ("certificates = [\"a\"]\nconnections = 0", "4: connections: 0 is none"),
            ("certificates = [\"a\"]\nmax_count = -1", "4: "),
            ("certificates = [\"alloc/im-a/a1\"]", "3: certificates: \"alloc/im-a/a1\" is neither NAME"),
            ("certificates = [\"client/a\"]", "3: certificates: \"client/a\" is neither NAME"),
            ("certificates = [\"proxy/\"]", "3: certificates: \"proxy/\" is neither NAME"),
            ("certificates = [\"a\"]\nmaxcount = 1", "4: maxcount: unknown key"),
            ("certificates = [\"a\"]\n[[tenant]]\nname = \"im\"", "5: name: \"im\" is the name of another"),
            (
                "certificates = [\"a\"]\n[[tenant]]\nname = \"b\"\ncertificates = [\"a\"]",
                "6: certificates: \"a\" is of tenant \"im\"",
            ),
            (
                &format!("tokens = [\"{HASH}\"]\n[[tenant]]\nname = \"b\"\ntokens = [\"{HASH}\"]"),
                "6: tokens: this hash is of tenant \"im\" already",
            ),
            (&format!("tokens = [\"{HASH}\", \"{HASH}\"]"), "3: tokens: this hash is of tenant \"im\" already"),
            (
                "certificates = [\"a\"]\n[[tenant]]\nname = \"Bad name\"\ncertificates = [\"b\"]",
                "5: name: \"Bad name\"",
            ),
        ];
        for (lines, expected) in table {
            let error = of(lines);
            assert!(error.starts_with(expected), "{lines:?}: {error}");
        }
    }
}
