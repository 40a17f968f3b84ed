//! The directory with the files of a certificate authority.
//!
//! The file `ca.key` contains the authority's private key and the bundle, so that both are always replaced together.
//! `ca.crt` is a copy of the bundle for processes that must not read the private key. Commands write `ca.crt` after
//! `ca.key`. If a crash occurs between the two, the next command writes `ca.crt`.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use seq_auth::Identity;
use seq_auth::authority::{Authority, Request, not_after};
use seq_auth::certificate::Certificate;
use seq_auth::file::{MAX_BYTES, read_text};
use seq_auth::revoked;
use seq_command::exit::{Exit, Failure};
use seq_command::{utc, whole_file};
use zeroize::Zeroizing;

/// File with the certificates to trust.
const BUNDLE: &str = "ca.crt";

/// File with the key of the authority, and the bundle.
const KEY: &str = "ca.key";

/// File with the list of revocations.
pub(super) const REVOCATIONS: &str = "crl.pem";

/// A directory with an authority.
pub(super) struct CertDir(PathBuf);

impl CertDir {
    /// Makes an authority and writes its files to the directory `path`, which is created if it does not exist.
    pub(super) fn create(path: &Path, cluster: &str, validity: Duration) -> anyhow::Result<CertDir> {
        let dir = CertDir(path.to_owned());
        let authority = Authority::create(cluster, validity, utc::now()).map_err(usage)?;
        std::fs::create_dir_all(path).map_err(|error| unwritable(path, &error))?;
        let key = path.join(KEY);
        whole_file::create(&key, authority.to_pem().as_bytes()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::new(Exit::Usage, format!("{} exists: the directory has an authority", key.display()))
                    .hint("`seqsvr cert rotate --ca` renews it")
            }
            _ => unwritable(&key, &error),
        })?;
        dir.publish(&authority)?;
        Ok(dir)
    }

    /// Opens a directory that contains an authority.
    pub(super) fn open(path: &Path) -> anyhow::Result<CertDir> {
        if !CertDir::is_one(path) {
            let what = format!("{} has no certificate authority", path.display());
            let hint = "`seqsvr cert ca --cluster NAME` makes one; --certs names another directory";
            return Err(Failure::new(Exit::Usage, what).hint(hint).into());
        }
        Ok(CertDir(path.to_owned()))
    }

    /// Returns whether a directory contains an authority.
    pub(super) fn is_one(path: &Path) -> bool {
        path.join(KEY).exists()
    }

    pub(super) fn bundle_path(&self) -> PathBuf {
        self.0.join(BUNDLE)
    }

    /// Reads the authority with its key.
    pub(super) fn authority(&self) -> anyhow::Result<Authority> {
        let key = self.0.join(KEY);
        let authority = Authority::from_pem(&Zeroizing::new(read(&key)?));
        let authority = authority.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", key.display())))?;
        self.publish(&authority)?;
        Ok(authority)
    }

    /// Makes the successor of this authority and writes its files. In the new bundle, the certificate of the present
    /// authority follows the certificate of the successor.
    pub(super) fn succeed(&self, validity: Duration) -> anyhow::Result<Authority> {
        let next = self.authority()?.succeed(validity, utc::now()).map_err(usage)?;
        let key = self.0.join(KEY);
        whole_file::replace(&key, next.to_pem().as_bytes()).map_err(|error| unwritable(&key, &error))?;
        self.publish(&next)?;
        Ok(next)
    }

    /// Writes the bundle of `authority` to `ca.crt`, unless the file already contains it. Every user of this machine
    /// may read the file.
    fn publish(&self, authority: &Authority) -> anyhow::Result<()> {
        let path = self.bundle_path();
        if std::fs::read_to_string(&path).is_ok_and(|present| present == authority.bundle()) {
            return Ok(());
        }
        let written = whole_file::replace(&path, authority.bundle().as_bytes());
        let written = written.and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o644)));
        Ok(written.map_err(|error| unwritable(&path, &error))?)
    }

    /// Returns the path of a holder's certificate.
    pub(super) fn path_of(&self, identity: &Identity) -> PathBuf {
        // Names of sets and nodes contain no dots, so no two holders have the same file.
        self.0.join(format!("{}.pem", identity.short().replace('/', ".")))
    }

    /// Makes a private key and a certificate for it, and writes both to the file `path`, which may exist. Returns the
    /// time when the certificate expires.
    pub(super) fn issue(&self, authority: &Authority, request: &Request, path: &Path) -> anyhow::Result<SystemTime> {
        let now = utc::now();
        let issued = authority.issue(request, now).map_err(usage)?;
        let both = Zeroizing::new(format!("{}{}", *issued.key, issued.certificate));
        whole_file::replace(path, both.as_bytes()).map_err(|error| unwritable(path, &error))?;
        Ok(now + request.validity)
    }

    /// Reads all holders' certificates in the directory, in alphabetical order of the file names.
    pub(super) fn certificates(&self) -> anyhow::Result<Vec<(PathBuf, Certificate)>> {
        let mut files = pem_files(&self.0)?;
        files.retain(|file| file.file_name().is_none_or(|name| name != REVOCATIONS));
        files.into_iter().map(|file| certificate(&file).map(|certificate| (file, certificate))).collect()
    }

    /// Adds the serials of certificates to the list of revocations, and returns the path of the list's file.
    pub(super) fn revoke(&self, serials: &[String]) -> anyhow::Result<PathBuf> {
        let path = self.0.join(REVOCATIONS);
        let former = path.exists().then(|| read(&path)).transpose()?;
        let list = self.authority()?.revoke(former.as_deref(), serials, utc::now()).map_err(usage)?;
        whole_file::replace(&path, list.as_bytes()).map_err(|error| unwritable(&path, &error))?;
        Ok(path)
    }
}

/// Returns the paths of the files in a directory whose names end in `.pem`, in alphabetical order.
pub(super) fn pem_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable =
        |error: &io::Error| Failure::new(Exit::Usage, format!("{}: cannot be read: {error}", dir.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| unreadable(&error))? {
        files.push(entry.map_err(|error| unreadable(&error))?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pem"));
    files.sort();
    Ok(files)
}

/// Reads the certificate of a file.
pub(super) fn certificate(file: &Path) -> anyhow::Result<Certificate> {
    let read = Certificate::from_pem(&Zeroizing::new(read(file)?));
    Ok(read.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", file.display())))?)
}

/// Returns the time when the newest authority in a directory expires. Returns `None` if the directory contains no
/// bundle.
pub(super) fn authority_not_after(dir: &Path) -> anyhow::Result<Option<SystemTime>> {
    let path = dir.join(BUNDLE);
    if !path.exists() {
        return Ok(None);
    }
    let at = not_after(&read(&path)?);
    Ok(at.map(Some).map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?)
}

/// Returns the serials in the list of revocations of a directory. Returns none if the directory contains no such list.
pub(super) fn revocations(dir: &Path) -> anyhow::Result<Vec<String>> {
    let path = dir.join(REVOCATIONS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let serials = revoked(&read(&path)?);
    Ok(serials.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path, MAX_BYTES);
    Ok(text.map_err(|error| Failure::new(Exit::Usage, format!("{}: cannot be read: {error}", path.display())))?)
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
}
