//! Records of a Redis server: the counters under keys of a prefix and a uid.

use indicatif::ProgressBar;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, Value, cmd};

use super::records::{Draft, MAX_RECORDS, Records};
use crate::exit::{Exit, Failure};

/// Keys that one SCAN looks at, and one MGET reads: short enough not to hold other callers of the server up.
const KEYS_AT_ONCE: usize = 1_000;

/// The part of a pattern that all keys begin with.
///
/// # Errors
/// The pattern is not a prefix and `*`.
pub(super) fn prefix(pattern: &str) -> Result<String, String> {
    let prefix = pattern.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?', '[', ']', '\\']));
    prefix.map(str::to_owned).ok_or_else(|| "it must be a prefix and `*`, as seq:*".to_owned())
}

/// A source without the user and the password of its URL, for messages.
pub(super) fn shown(source: &str) -> String {
    let hidden = source.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)));
    hidden.map_or_else(|| source.to_owned(), |(scheme, host)| format!("{scheme}://{host}"))
}

/// Reads all counters whose keys begin with a prefix. A counter that changes meanwhile is read at some moment.
///
/// # Errors
/// The server does not respond or refuses, or a key of the prefix is not a uid or not a number.
pub(super) async fn read(url: &str, prefix: &str, bar: &ProgressBar) -> Result<Records, Failure> {
    let shown = shown(url);
    let unusable = |error: RedisError| Failure::new(Exit::Usage, format!("{shown}: {error}"));
    let failed = |error: RedisError| Failure::new(Exit::CannotConnect, format!("{shown}: {error}"));
    let client = Client::open(url).map_err(unusable)?;
    let mut connection = client.get_multiplexed_async_connection().await.map_err(failed)?;
    let (mut draft, mut cursor, mut place) = (Draft::default(), "0".to_owned(), 0);
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(KEYS_AT_ONCE);
        let (next, keys): (String, Vec<String>) = scan.query_async(&mut connection).await.map_err(failed)?;
        for keys in keys.chunks(KEYS_AT_ONCE) {
            place = add(&mut draft, place, prefix, keys, &values(&mut connection, keys).await.map_err(failed)?);
        }
        bar.set_position(place);
        if draft.is_full() {
            return Err(Failure::new(Exit::Usage, format!("{shown}: an import has {MAX_RECORDS} users at most")));
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    // SCAN may return a key more than once.
    draft.keep_last();
    draft.finish(|place| format!("key {place}"))
}

async fn values(connection: &mut MultiplexedConnection, keys: &[String]) -> Result<Vec<Value>, RedisError> {
    cmd("MGET").arg(keys).query_async(connection).await
}

/// Adds the values of some keys; returns the place of the last one.
fn add(draft: &mut Draft, mut place: u64, prefix: &str, keys: &[String], values: &[Value]) -> u64 {
    for (key, value) in keys.iter().zip(values) {
        place += 1;
        let at = format_args!("{key}");
        let uid = key.strip_prefix(prefix).unwrap_or_default();
        match value {
            // "07" is another key than "7", and the same uid.
            _ if uid.len() > 1 && uid.starts_with('0') => draft.refuse(at, "the uid has a leading zero"),
            Value::BulkString(value) => draft.add(place, at, uid, &String::from_utf8_lossy(value)),
            // It was deleted meanwhile, or is not a string.
            Value::Nil => draft.refuse(at, "there is no counter under the key"),
            other => draft.refuse(at, format_args!("{other:?} is not a counter")),
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_prefix() {
        assert_eq!(prefix("seq:*"), Ok("seq:".to_owned()));
        assert_eq!(prefix("*"), Ok(String::new()));
        for wrong in ["seq:", "s*q:*", "seq:[0-9]*", "seq:?*"] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_message_has_a_password() {
        let sources = ["redis://me:p@ss@h:1/2", "redis://h:1", "counters@home.csv"].map(shown);
        assert_eq!(sources, ["redis://h:1/2", "redis://h:1", "counters@home.csv"]);
    }

    #[test]
    fn keys_that_are_no_counters_are_named() {
        let keys = ["seq:1", "seq:x", "seq:07", "seq:8", "seq:9"].map(str::to_owned);
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut draft = Draft::default();
        let values = [text("5"), text("1"), text("1"), text("-1"), Value::Nil];
        assert_eq!(add(&mut draft, 10, "seq:", &keys, &values), 15);
        assert_eq!(
            draft.finish(|place| format!("key {place}")).unwrap_err().to_string(),
            "seq:x: uid \"x\" is not a number\nseq:07: the uid has a leading zero\nseq:8: value -1 is negative\n\
             seq:9: there is no counter under the key"
        );
    }
}
