//! The source of an import, and checks that it was read completely.
//!
//! **Invariant:** the contents of a source are returned only if it is certain that no record is missing. Every master
//! of a Redis Cluster was read, no replica was read instead of its master, a file was read to the end that its writer
//! intended, and there is at least one record. If records were missing and the import reported success, users would
//! later get numbers that the former system has used already.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};

use super::ImportArgs;
use super::contents::{Contents, Facts, Kind};
use super::file::{self, Format};
use super::key_file;
use super::records::{Draft, Records};
use super::redis::{self, RedisSource};

/// The source of the records.
#[derive(Debug)]
pub(super) enum Source {
    Redis(Box<RedisSource>),
    File {
        path: PathBuf,
        format: Format,
        /// Series to which all ids in the file belong. It is `None` if each record names its own user or series.
        series: Option<String>,
        /// Whether the file has keys and their values.
        has_keys: bool,
    },
}

impl Source {
    /// Creates the source that the arguments name. Does not read it yet.
    ///
    /// # Errors
    /// The URL is invalid, a certificate cannot be read, or the format of a file follows neither from its name nor from
    /// a flag.
    pub(super) fn new(args: &ImportArgs) -> Result<Source, Failure> {
        if let Some((scheme @ ("redis" | "rediss"), _)) = args.from.split_once("://") {
            if args.series.is_some() {
                return Err(Failure::new(
                    Exit::Usage,
                    "--series takes a file with the ids of one series, and no server",
                ));
            }
            let (prefix, has_whole_keys) = match (&args.prefix, &args.keyspace) {
                (Some(prefix), keyspace) => (prefix.as_str(), keyspace.is_some()),
                (None, None) => ("seq:", false),
                (None, Some(name)) => {
                    let what = format!("--keyspace {name} does not state which keys of the Redis server to import");
                    return Err(
                        Failure::new(Exit::Usage, what).hint("add --match 'conv:*', or --match '*' for all keys")
                    );
                }
            };
            return RedisSource::new(&args.from, scheme == "rediss", prefix, has_whole_keys, &args.tls, args.timeout)
                .map(|source| Source::Redis(Box::new(source)));
        }
        if let Some((scheme, _)) = args.from.split_once("://") {
            let what = format!("{}: a source cannot have the scheme {scheme}://", redis::shown(&args.from));
            return Err(
                Failure::new(Exit::Usage, what).hint("redis://host:port, rediss://host:port with TLS, or a file")
            );
        }
        let path = Path::new(&args.from);
        // With `--series`, CSV is assumed if neither the flag nor the name of the file states a format.
        let series = args.series.clone();
        let format = args.format.or_else(|| Format::of(path)).or(series.as_ref().map(|_| Format::Csv));
        let format = format.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("the name {:?} does not show the format of the file", args.from))
                .hint("pass --format csv or --format jsonl")
        })?;
        if series.is_some() && format == Format::Jsonl {
            let what = "--series takes a file with an id on each line; lines of JSON name their series";
            return Err(Failure::new(Exit::Usage, what));
        }
        Ok(Source::File { path: path.to_owned(), format, series, has_keys: args.keyspace.is_some() })
    }

    /// Returns the name of the source in progress files, without a password. A repeated import recognises its source by
    /// this name.
    pub(super) fn identity(&self) -> String {
        match self {
            Source::Redis(source) => source.identity(),
            Source::File { path, .. } if path == Path::new("-") => "standard input".to_owned(),
            Source::File { path, .. } => {
                format!("file {}", std::path::absolute(path).as_deref().unwrap_or(path).display())
            }
        }
    }

    /// Reads and checks all records of the source.
    ///
    /// # Errors
    /// The source cannot be read, is not complete or has no valid record, or it has invalid records and `skip_invalid`
    /// is false.
    pub(super) async fn read(&self, skip_invalid: bool, bar: &ProgressBar) -> Result<Contents, Failure> {
        let draft = Draft::new(skip_invalid);
        let contents = match self {
            Source::Redis(source) => source.read(draft, bar).await?,
            Source::File { path, format, series, has_keys } => {
                let records = match has_keys {
                    true => key_file::read(path, *format, draft)?,
                    false => file::read(path, *format, series.as_deref(), draft)?,
                };
                let skipped = records.skipped();
                let found = records.list().len() as u64 + skipped;
                let servers = vec![path.display().to_string()];
                Contents { records, facts: Facts { kind: Kind::File, servers, found, gone: 0, skipped } }
            }
        };
        self.check_rest(&contents.records)?;
        Ok(contents)
    }

    /// Checks that at least one record is left to import.
    ///
    /// # Errors
    /// The source had no record, or all of its records were left out.
    pub(super) fn check_rest(&self, records: &Records) -> Result<(), Failure> {
        if records.list().is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{}: no record is left to import", self.identity())));
        }
        Ok(())
    }

    /// Returns the place of a record, for messages.
    pub(super) fn at(&self, place: u64) -> String {
        match self {
            Source::Redis(_) => format!("key {place}"),
            Source::File { path, .. } => format!("{}:{place}", path.display()),
        }
    }
}
