//! The tenants file, which is written in TOML. The module parses its text to a list of [`TenantSpec`]s, or to a list of
//! all its flaws with the line of each flaw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

use seq_core::limits::MAX_KEY_BYTES;
use seq_core::state::CreateSeries;
use seq_kit::config::fields::{Fields, Flaw, Reader};

use crate::token::TokenHash;

/// Maximum number of tenants in a file. It is limited because each tenant has counters and metrics on every node.
pub const MAX_TENANTS: usize = 1_000;

/// Highest rate that a quota may state, in units per second. The limiter rounds the interval between two units to whole
/// nanoseconds. At a higher rate, the rounding would change the interval by more than a tenth.
pub const MAX_RATE: u32 = 100_000_000;

/// Maximum number of tokens of one tenant. It is limited because the token of a request is compared with every token of
/// its tenant.
const MAX_TOKENS: usize = 16;

/// Maximum number of prefixes of keys of one tenant. It is limited because a key is compared with each of them.
const MAX_KEY_PREFIXES: usize = 64;

/// Prefix of a proxy's name in [`TenantSpec::certificates`]. It distinguishes proxies from clients, whose names have no
/// prefix.
pub(crate) const PROXY: &str = "proxy/";

/// Maximum length of a tenant's name, in bytes. It is limited because the name is a label of metrics.
const MAX_NAME_BYTES: usize = 64;

/// Definition of a tenant, as read from the tenants file. It consists of the proofs that identify the tenant's callers,
/// the uids, series and keys that they may use, and quotas. If a quota is `None`, only the limits of the node apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSpec {
    /// Name of lower-case letters, digits and hyphens.
    pub name: String,
    /// Ranges of the uids that the tenant may use. An empty list allows all uids.
    pub uids: Vec<Range<u64>>,
    /// Names of the series that the tenant may use. `None` allows all series if `uids` is empty, and otherwise none.
    pub series: Option<BTreeSet<String>>,
    /// Keys that the tenant may use. `None` allows all keys if `uids` is empty, and otherwise none.
    pub keys: Option<Vec<KeyPrefix>>,
    /// Hashes of the tokens that identify the tenant.
    pub tokens: Vec<TokenHash>,
    /// Names of the clients whose certificates identify the tenant. `proxy/NAME` stands for the proxy NAME, whose
    /// requests are all counted for the tenant.
    pub certificates: Vec<String>,
    /// Maximum number of requests per second. A batch, a message of a stream and a Redis command count as one request
    /// each.
    pub calls_per_s: Option<NonZeroU32>,
    /// Maximum number of seqs and ids allocated per second. After a second without requests, as many can be allocated
    /// at once.
    pub numbers_per_s: Option<NonZeroU32>,
    /// Maximum number of open connections to a node.
    pub connections: Option<u32>,
    /// Maximum count of seqs of one item, and maximum count of ids of one request.
    pub max_count: Option<u32>,
    /// Maximum count of numbers that a single request may skip. A request skips numbers if it advances a uid or the
    /// counter of a series, or if it requests ids above a given id. The default is 0 and forbids advances. In a series
    /// whose ids follow the clock, the count is relative to the number for the present time instead of the last number,
    /// and a request for ids that are further ahead waits until the clock is near enough.
    pub max_advance: u64,
}

/// Keys of one keyspace that begin with a prefix, in the form `KEYSPACE/PREFIX*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix {
    /// Name of the keyspace.
    pub keyspace: String,
    /// First bytes of the keys. An empty prefix stands for all keys of the keyspace.
    pub prefix: String,
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}*", self.keyspace, self.prefix)
    }
}

impl TenantSpec {
    /// Returns whether the tenant may use any key of a keyspace.
    #[must_use]
    pub fn has_keyspace(&self, keyspace: &str) -> bool {
        self.keys.as_ref().map_or(self.uids.is_empty(), |keys| keys.iter().any(|own| own.keyspace == keyspace))
    }

    /// Returns whether the tenant may use a key. `key` is the key as the caller sends it, before it is hashed.
    #[must_use]
    pub fn has_key(&self, keyspace: &str, key: &[u8]) -> bool {
        let has = |own: &KeyPrefix| own.keyspace == keyspace && key.starts_with(own.prefix.as_bytes());
        self.keys.as_ref().map_or(self.uids.is_empty(), |keys| keys.iter().any(has))
    }

    /// Returns whether the tenant may use a series.
    #[must_use]
    pub fn has_series(&self, name: &str) -> bool {
        self.series.as_ref().map_or(self.uids.is_empty(), |series| series.contains(name))
    }
}

/// Parses the text of a tenants file.
///
/// # Errors
/// Every [`Flaw`] of the text.
pub fn parse(text: &str) -> Result<Vec<TenantSpec>, Vec<Flaw>> {
    let (mut reader, mut fields) = Reader::parse(text);
    let tables = fields.tables("tenant", &mut reader);
    fields.end(&mut reader);
    if tables.len() > MAX_TENANTS {
        reader.add("tenant", &format!("{} are more than {MAX_TENANTS}", tables.len()));
        return Err(reader.into_flaws());
    }
    let mut taken = Taken::default();
    let tenants: Vec<_> = tables.into_iter().map(|table| tenant(table, &mut taken, &mut reader)).collect();
    let flaws = reader.into_flaws();
    if flaws.is_empty() { Ok(tenants) } else { Err(flaws) }
}

/// Names, certificates and token hashes of the tenants that were read before. Another tenant may have none of them. The
/// values of the two maps are the names of the tenants.
#[derive(Default)]
struct Taken {
    names: BTreeSet<String>,
    certificates: BTreeMap<String, String>,
    hashes: BTreeMap<String, String>,
}

/// Reads one tenant, and adds the flaws of its definition to `reader`.
fn tenant(mut fields: Fields<'_>, taken: &mut Taken, reader: &mut Reader) -> TenantSpec {
    let name: String = fields.required("name", reader).unwrap_or_default();
    let uids: Vec<String> = fields.optional("uids", reader).unwrap_or_default();
    let series = series(&mut fields, reader);
    let keys = keys(&mut fields, reader);
    let tokens: Vec<String> = fields.optional("tokens", reader).unwrap_or_default();
    let certificates: Vec<String> = fields.optional("certificates", reader).unwrap_or_default();
    let calls_per_s = rate("calls_per_s", &mut fields, reader);
    let numbers_per_s = rate("numbers_per_s", &mut fields, reader);
    let connections = positive("connections", &mut fields, reader);
    let max_count = positive("max_count", &mut fields, reader);
    let max_advance = fields.optional("max_advance", reader).unwrap_or(0);
    let key = |name: &str| fields.key(name);

    if !reader.has_failed(&key("name")) {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(letter) {
            let what = format!("{name:?} is not 1 to {MAX_NAME_BYTES} small letters, digits and hyphens");
            reader.add(&key("name"), &what);
        } else if !taken.names.insert(name.clone()) {
            reader.add(&key("name"), &format!("{name:?} is the name of another tenant"));
        }
    }
    let has_proof = !tokens.is_empty() || !certificates.is_empty();
    if !has_proof && !reader.has_failed(&key("tokens")) && !reader.has_failed(&key("certificates")) {
        reader.add(&key("name"), &format!("tenant {name:?} has neither tokens nor certificates"));
    }
    if tokens.len() > MAX_TOKENS {
        reader.add(&key("tokens"), &format!("more than {MAX_TOKENS}"));
    }
    let mut hashes = Vec::new();
    for text in tokens.iter().take(MAX_TOKENS) {
        match TokenHash::parse(text) {
            Some(hash) => hashes.push(hash),
            None => reader.add(&key("tokens"), "not sha256: and 64 hexadecimal digits"),
        }
        // Two hashes are equal even if their digits differ in case.
        if let Some(other) = taken.hashes.insert(text.to_ascii_lowercase(), name.clone()) {
            let what = format!("this hash is of tenant {other:?} already: make each token with `seqsvr tenant token`");
            reader.add(&key("tokens"), &what);
        }
    }
    for certificate in &certificates {
        let holder = certificate.strip_prefix(PROXY).unwrap_or(certificate);
        if holder.is_empty() || holder.contains('/') {
            let what = format!("{certificate:?} is neither NAME, of a client, nor proxy/NAME");
            reader.add(&key("certificates"), &what);
        }
        if let Some(other) = taken.certificates.insert(certificate.clone(), name.clone()) {
            reader.add(&key("certificates"), &format!("{certificate:?} is of tenant {other:?} already"));
        }
    }
    let mut ranges = Vec::new();
    for text in &uids {
        match range(text) {
            Some(range) => ranges.push(range),
            None => reader.add(&key("uids"), &format!("{text:?} is not FIRST..END, as in \"0..1_000_000\"")),
        }
    }
    fields.end(reader);
    TenantSpec {
        name,
        uids: ranges,
        series,
        keys,
        tokens: hashes,
        certificates,
        calls_per_s,
        numbers_per_s,
        connections,
        max_count,
        max_advance,
    }
}

fn series(fields: &mut Fields<'_>, reader: &mut Reader) -> Option<BTreeSet<String>> {
    let names: BTreeSet<String> = fields.optional("series", reader)?;
    for name in &names {
        if let Err(refusal) = CreateSeries::check_name(name) {
            reader.add(&fields.key("series"), &refusal.to_string());
        }
    }
    Some(names)
}

fn keys(fields: &mut Fields<'_>, reader: &mut Reader) -> Option<Vec<KeyPrefix>> {
    let texts: Vec<String> = fields.optional("keys", reader)?;
    if texts.len() > MAX_KEY_PREFIXES {
        reader.add(&fields.key("keys"), &format!("{} are more than {MAX_KEY_PREFIXES}", texts.len()));
    }
    let mut keys = Vec::new();
    for text in texts.iter().take(MAX_KEY_PREFIXES) {
        match key_prefix(text) {
            Some(key) => keys.push(key),
            None => {
                let what = format!("{text:?} is not KEYSPACE/PREFIX*, as in \"main/conv:*\" or \"main/*\"");
                reader.add(&fields.key("keys"), &what);
            }
        }
    }
    Some(keys)
}

/// Parses a prefix of keys in the form `KEYSPACE/PREFIX*`. A `*` within the prefix would look like a pattern, which is
/// not supported.
fn key_prefix(text: &str) -> Option<KeyPrefix> {
    let (keyspace, prefix) = text.split_once('/')?;
    let prefix = prefix.strip_suffix('*').filter(|prefix| !prefix.contains('*') && prefix.len() <= MAX_KEY_BYTES)?;
    CreateSeries::check_name(keyspace).ok()?;
    Some(KeyPrefix { keyspace: keyspace.to_owned(), prefix: prefix.to_owned() })
}

fn positive(key: &'static str, fields: &mut Fields<'_>, reader: &mut Reader) -> Option<u32> {
    let value: Option<u32> = fields.optional(key, reader);
    if value == Some(0) {
        reader.add(&fields.key(key), "0 is none; leave it out for no quota");
    }
    value
}

fn rate(key: &'static str, fields: &mut Fields<'_>, reader: &mut Reader) -> Option<NonZeroU32> {
    let value: u32 = fields.optional(key, reader)?;
    let rate = NonZeroU32::new(value).filter(|rate| rate.get() <= MAX_RATE);
    if rate.is_none() {
        reader.add(&fields.key(key), &format!("{value} is not in 1..={MAX_RATE}"));
    }
    rate
}

/// Parses a range of uids in the form `FIRST..END`, in which END is exclusive and digits may be separated by `_`.
fn range(text: &str) -> Option<Range<u64>> {
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
            "[[tenant]]\nname = \"im\"\nuids = [\"0..1_000\", \"5000..6000\"]\nseries = [\"tweets\"]\ntokens = [\"{HASH}\"]\n\
             keys = [\"main/conv:*\"]\ncertificates = [\"chat\", \"proxy/p1\"]\ncalls_per_s = 10\nnumbers_per_s = 1_000\nconnections = 3\nmax_count = 100\n\
             max_advance = 0\n[[tenant]]\nname = \"ops\"\ncertificates = [\"ops\"]\n"
        );
        let tenants = parse(&text).unwrap();
        let expected = TenantSpec {
            name: "im".into(),
            uids: vec![0..1_000, 5_000..6_000],
            series: Some(BTreeSet::from(["tweets".into()])),
            keys: Some(vec![KeyPrefix { keyspace: "main".into(), prefix: "conv:".into() }]),
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
    fn a_tenant_of_some_uids_has_only_the_series_that_it_names() {
        for (lines, tweets, orders) in [
            ("", true, true),
            ("series = [\"tweets\"]", true, false),
            ("series = []", false, false),
            ("uids = [\"0..9\"]", false, false),
            ("uids = [\"0..9\"]\nseries = [\"orders\"]", false, true),
        ] {
            let text = format!("[[tenant]]\nname = \"im\"\ncertificates = [\"a\"]\n{lines}");
            let tenant = parse(&text).unwrap().remove(0);
            assert_eq!((tenant.has_series("tweets"), tenant.has_series("orders")), (tweets, orders), "{lines}");
        }
    }

    #[test]
    fn a_tenant_of_some_uids_has_only_the_keys_that_it_names() {
        for (lines, conversation, user, other) in [
            ("", true, true, true),
            ("keys = [\"main/conv:*\"]", true, false, false),
            ("keys = []", false, false, false),
            ("uids = [\"0..9\"]", false, false, false),
            ("uids = [\"0..9\"]\nkeys = [\"main/*\"]", true, true, false),
            ("keys = [\"other/*\", \"main/user:1*\"]", false, true, true),
        ] {
            let text = format!("[[tenant]]\nname = \"im\"\ncertificates = [\"a\"]\n{lines}");
            let tenant = parse(&text).unwrap().remove(0);
            let has = [("main", &b"conv:\xff"[..]), ("main", b"user:12"), ("other", b"conv:1")]
                .map(|(keyspace, key)| tenant.has_key(keyspace, key));
            assert_eq!(has, [conversation, user, other], "{lines}");
            let has = ["main", "other"].map(|keyspace| tenant.has_keyspace(keyspace));
            assert_eq!(has, [conversation || user, other], "{lines}");
        }
        let text = "[[tenant]]\nname = \"im\"\ncertificates = [\"a\"]\nkeys = [\"main/conv:*\"]";
        let tenant = parse(text).unwrap().remove(0);
        for outside in [&b"conv"[..], b"", b"Conv:1", b" conv:1"] {
            assert!(!tenant.has_key("main", outside), "{outside:?}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line_and_key() {
        let of = |lines: &str| {
            let flaws = parse(&format!("[[tenant]]\nname = \"im\"\n{lines}")).unwrap_err();
            flaws.iter().map(|flaw| format!("{}: {}\n", flaw.line, flaw.what)).collect::<String>()
        };
        let table = [
            ("", "2: tenant[0].name: tenant \"im\" has neither"),
            ("tokens = [\"secret\"]", "3: tenant[0].tokens: not sha256:"),
            ("certificates = [\"a\"]\nuids = [\"5..5\"]", "4: tenant[0].uids: \"5..5\" is not FIRST..END"),
            ("certificates = [\"a\"]\nuids = [\"-1..5\"]", "4: tenant[0].uids: \"-1..5\""),
            (
                "certificates = [\"a\"]\nseries = [\"a b\"]",
                "4: tenant[0].series: the name \"a b\" of a series is not 1",
            ),
            ("certificates = [\"a\"]\nkeys = [\"conv:*\"]", "4: tenant[0].keys: \"conv:*\" is not KEYSPACE/PREFIX*"),
            ("certificates = [\"a\"]\nkeys = [\"main/conv:\"]", "4: tenant[0].keys: \"main/conv:\" is not KEYSPACE"),
            ("certificates = [\"a\"]\nkeys = [\"main/a*b*\"]", "4: tenant[0].keys: \"main/a*b*\" is not KEYSPACE"),
            ("certificates = [\"a\"]\nkeys = [\"a b/*\"]", "4: tenant[0].keys: \"a b/*\" is not KEYSPACE"),
            ("certificates = [\"a\"]\ncalls_per_s = 0", "4: tenant[0].calls_per_s: 0 is not in 1..=100000000"),
            ("certificates = [\"a\"]\nnumbers_per_s = 200_000_000", "4: tenant[0].numbers_per_s: 200000000 is not in"),
            ("certificates = [\"a\"]\nconnections = 0", "4: tenant[0].connections: 0 is none"),
            ("certificates = [\"a\"]\nmax_count = -1", "4: "),
            ("certificates = [\"alloc/im-a/a1\"]", "3: tenant[0].certificates: \"alloc/im-a/a1\" is neither NAME"),
            ("certificates = [\"client/a\"]", "3: tenant[0].certificates: \"client/a\" is neither NAME"),
            ("certificates = [\"proxy/\"]", "3: tenant[0].certificates: \"proxy/\" is neither NAME"),
            ("certificates = [\"a\"]\nmaxcount = 1", "4: maxcount: unknown key"),
            ("certificates = [\"a\"]\n[[tenant]]\nname = \"im\"", "5: tenant[1].name: \"im\" is the name of another"),
            (
                "certificates = [\"a\"]\n[[tenant]]\nname = \"b\"\ncertificates = [\"a\"]",
                "6: tenant[1].certificates: \"a\" is of tenant \"im\"",
            ),
            (
                &format!("tokens = [\"{HASH}\"]\n[[tenant]]\nname = \"b\"\ntokens = [\"{HASH}\"]"),
                "6: tenant[1].tokens: this hash is of tenant \"im\" already",
            ),
            (
                &format!("tokens = [\"{HASH}\", \"{HASH}\"]"),
                "3: tenant[0].tokens: this hash is of tenant \"im\" already",
            ),
            (
                "certificates = [\"a\"]\n[[tenant]]\nname = \"Bad name\"\ncertificates = [\"b\"]",
                "5: tenant[1].name: \"Bad name\"",
            ),
        ];
        for (lines, expected) in table {
            let error = of(lines);
            assert!(error.starts_with(expected), "{lines:?}: {error}");
        }
    }
}
