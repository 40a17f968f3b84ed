//! The source of an import, and the proof that it was read completely.
//!
//! **Invariant:** contents are returned only with the proof that nothing of the source is missing: every master of a
//! cluster was read, no replica was read instead of its master, a file ended where its writer ended it, and there is at
//! least one record. Otherwise an incomplete import would report success, and numbers would begin below the numbers of
//! the former system.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};

use super::contents::{Contents, Facts, Kind};
use super::file::{self, Format};
use super::redis::{self, RedisSource};
use super::{ImportArgs, records::Draft};

/// The source of the records.
#[derive(Debug)]
pub(super) enum Source {
    Redis(Box<RedisSource>),
    File { path: PathBuf, format: Format },
}

impl Source {
    /// Returns the source that the arguments name.
    ///
    /// # Errors
    /// The URL or the certificates are wrong, or the format of a file is not clear from its name.
    pub(super) fn new(args: &ImportArgs) -> Result<Source, Failure> {
        if let Some((scheme @ ("redis" | "rediss"), _)) = args.from.split_once("://") {
            let timeout = args.timeout;
            return RedisSource::new(&args.from, scheme == "rediss", &args.prefix, &args.tls, timeout)
                .map(|source| Source::Redis(Box::new(source)));
        }
        if let Some((scheme, _)) = args.from.split_once("://") {
            let what = format!("{}: a source cannot have the scheme {scheme}://", redis::shown(&args.from));
            return Err(
                Failure::new(Exit::Usage, what).hint("redis://host:port, rediss://host:port with TLS, or a file")
            );
        }
        let path = Path::new(&args.from);
        let format = args.format.or_else(|| Format::of(path)).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("the name {:?} does not show the format of the file", args.from))
                .hint("pass --format csv or --format jsonl")
        })?;
        Ok(Source::File { path: path.to_owned(), format })
    }

    /// Returns the name of the source without its password. It is the same for each import from the source.
    pub(super) fn identity(&self) -> String {
        match self {
            Source::Redis(source) => source.identity(),
            Source::File { path, .. } if path == Path::new("-") => "standard input".to_owned(),
            Source::File { path, .. } => {
                format!("file {}", std::path::absolute(path).as_deref().unwrap_or(path).display())
            }
        }
    }

    /// Reads the whole source.
    ///
    /// # Errors
    /// The source cannot be read, is not complete, has no record, or has flawed records.
    pub(super) async fn read(&self, skip_invalid: bool, bar: &ProgressBar) -> Result<Contents, Failure> {
        let draft = Draft::new(skip_invalid);
        let contents = match self {
            Source::Redis(source) => source.read(draft, bar).await?,
            Source::File { path, format } => {
                let records = file::read(path, *format, draft)?;
                let skipped = records.skipped();
                let found = records.list().len() as u64 + skipped;
                let servers = vec![path.display().to_string()];
                Contents { records, facts: Facts { kind: Kind::File, servers, found, gone: 0, skipped } }
            }
        };
        if contents.records.list().is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{}: no record is left to import", self.identity())));
        }
        Ok(contents)
    }
}
