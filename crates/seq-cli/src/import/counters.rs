//! The counters that an import raises. They are users, keys of a keyspace, or counter series of the cluster.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use seq_client::{CallError, Client, Current, Keyspace, Series};
use seq_command::exit::Failure;
use seq_ids::Id;

use super::keys;
use super::records::{Flaws, Record, Records};
use super::source::Source;
use crate::counter_series;
use crate::item_report::call_failure;

/// The counters that the records of an import belong to.
#[derive(Debug)]
pub(super) enum Counters {
    Users,
    /// The series, by the keys of their records.
    Series(BTreeMap<u64, Series>),
    Keys(Keyspace),
}

impl Counters {
    /// Finds the counters that the records raise. A record is invalid if its series is not a counter series, or if the
    /// series cannot have the record's id. If `skips_invalid` is true, the function removes invalid records from
    /// `records`. `keyspace` is the keyspace of records of keys.
    ///
    /// # Errors
    /// The keyspace does not exist. A record is invalid and `skips_invalid` is false, or no valid record remains. The
    /// error lists the first invalid records with their places in the source.
    pub(super) async fn of(
        records: &mut Records,
        source: &Source,
        client: &Client,
        keyspace: Option<&str>,
        skips_invalid: bool,
    ) -> Result<Counters, Failure> {
        if let Some(name) = keyspace {
            let keyspace = client.keyspace(name).await.map_err(|error| call_failure(&error, client))?;
            return Ok(Counters::Keys(keyspace));
        }
        if !records.is_of_series() {
            return Ok(Counters::Users);
        }
        let (mut found, mut flaws) = (BTreeMap::new(), Flaws::default());
        for record in records.list() {
            let name = records.series_of(record).unwrap_or_default();
            match series_of(client, name, record.value).await {
                Ok(series) => _ = found.insert(record.key, series),
                Err(flaw) => flaws.add(source.at(record.place), flaw),
            }
        }
        let skipped = if skips_invalid { flaws.skip() } else { 0 };
        flaws.check()?;
        records.retain(|key| found.contains_key(&key), skipped);
        source.check_rest(records)?;
        Ok(Counters::Series(found))
    }

    /// Returns the noun for the counters in messages.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Counters::Users => "users",
            Counters::Series(_) => "series",
            Counters::Keys(_) => "keys",
        }
    }

    /// Requests the present numbers of the users or keys of `part`, or the last ids of their series. Returns them in
    /// the order of the records. `part` are some of the records `all`.
    pub(super) async fn current(
        &self,
        client: &Client,
        all: &Records,
        part: &[Record],
        concurrency: usize,
    ) -> Result<Vec<Result<u64, CallError>>, CallError> {
        let value = |result: Result<Current, CallError>| result.map(|current| current.value);
        match self {
            Counters::Users => {
                let uids: Vec<u64> = part.iter().map(|record| record.key).collect();
                Ok(client.current_many(&uids).await?.into_iter().map(value).collect())
            }
            Counters::Keys(keyspace) => {
                let keys: Vec<&[u8]> = part.iter().filter_map(|record| all.key_of(record)).collect();
                let mut results = Vec::with_capacity(keys.len());
                for batch in keys::batches(&keys) {
                    results.extend(keyspace.current_many(batch).await?.into_iter().map(value));
                }
                Ok(results)
            }
            Counters::Series(series) => {
                let current = |record: &Record| {
                    let series = &series[&record.key];
                    async move { series.current().await.map(|current| current.id.map_or(0, Id::get)) }
                };
                Ok(stream::iter(part).map(current).buffered(concurrency).collect().await)
            }
        }
    }

    /// Returns the count of numbers by which a record exceeds `current`, which is the present number of its user or
    /// key, or the last id of its series.
    pub(super) fn distance(&self, record: &Record, current: u64) -> u64 {
        match self {
            Counters::Users | Counters::Keys(_) => record.value - current,
            Counters::Series(series) => {
                let number = |id| counter_series::number(&series[&record.key], id);
                number(record.value) - number(current)
            }
        }
    }

    /// Raises the counter of a record, which is one of the records `all`.
    pub(super) async fn advance(&self, client: &Client, all: &Records, record: &Record) -> Result<(), CallError> {
        match self {
            Counters::Users => client.advance(record.key, record.value).await.map(drop),
            Counters::Series(series) => {
                let id = Id::new(record.value).expect("a record of a series has an id");
                series[&record.key].advance(id).await.map(drop)
            }
            Counters::Keys(keyspace) => {
                let key = all.key_of(record).expect("the records are about keys");
                keyspace.advance(key, record.value).await.map(drop)
            }
        }
    }
}

/// Returns the series `name`, after checking that the series can be raised to `id`.
///
/// # Errors
/// A text that describes the flaw of the record with this series and this id.
async fn series_of(client: &Client, name: &str, id: u64) -> Result<Series, String> {
    let series = counter_series::find(client, name).await?;
    if series.record().retired {
        return Err(format!("series {name:?} is retired"));
    }
    if counter_series::number(&series, id) == 0 {
        return Err(format!("{id} is no id of series {name:?}, whose ids are {}", series.shape()));
    }
    Ok(series)
}
