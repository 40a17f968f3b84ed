//! Directories of backups. The module names the files, lists them with their ages, and removes old backups.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, grouped};
use seq_command::utc;
use seq_store::backup::Backup;
use serde::Serialize;

/// The suffix of the file name of each backup.
const SUFFIX: &str = ".backup";

/// A backup file in a directory, with the decoded backup or the reason for which it cannot be read.
struct Found {
    path: PathBuf,
    backup: Result<Backup, String>,
}

#[derive(Serialize)]
struct Item {
    file: String,
    /// Name of the cluster. It is `null` if the backup is damaged, as are all following fields except `damage`.
    cluster: Option<String>,
    set: Option<String>,
    created: Option<String>,
    age_s: Option<u64>,
    sections: Option<u32>,
    lineage: Option<String>,
    /// Reason why the backup cannot be restored; `null` if every byte is intact.
    damage: Option<String>,
}

/// Returns the file name for a backup of the set `set` that was made at `created_ms`, in milliseconds since 1970. The
/// names of the backups of one set sort by time.
pub(super) fn name(set: &str, created_ms: u64) -> String {
    let time = utc::text_of_ms(created_ms).replace(['-', ':', 'Z'], "");
    format!("{set}-{time}.{:03}Z{SUFFIX}", created_ms % 1_000)
}

/// Reads all backups in a directory. In the result the newest backup comes first, and damaged backups come last.
fn read(dir: &Path) -> Result<Vec<Found>, Failure> {
    let cannot = |error| Failure::new(Exit::Usage, format!("{}: cannot be read: {error}", dir.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX)) {
            continue;
        }
        let file = std::fs::read(&path).map_err(|error| format!("cannot be read: {error}"));
        let backup = file.and_then(|file| Backup::decode(&file).map_err(|error| error.to_string()));
        found.push(Found { path, backup });
    }
    let created = |found: &Found| found.backup.as_ref().map_or(0, |backup| backup.header.created_unix_ms);
    found.sort_by(|one, other| created(other).cmp(&created(one)).then_with(|| one.path.cmp(&other.path)));
    Ok(found)
}

/// Removes the oldest intact backups of the set to which `newest` belongs, until `keep` backups are left. Returns the
/// removed files. Damaged backups are not removed, because their set is unknown.
pub(super) fn prune(dir: &Path, newest: &Backup, keep: usize) -> Result<Vec<PathBuf>, Failure> {
    let of_set = |found: &Found| {
        let header = found.backup.as_ref().ok().map(|backup| &backup.header);
        header.is_some_and(|header| (&header.cluster, header.set_id) == (&newest.header.cluster, newest.header.set_id))
    };
    let old = read(dir)?.into_iter().filter(of_set).skip(keep).map(|found| found.path);
    let remove = |path: PathBuf| match std::fs::remove_file(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(Failure::new(Exit::Failed, format!("{}: cannot be removed: {error}", path.display()))),
    };
    old.map(remove).collect()
}

/// Prints the backups in a directory. The exit code states whether any of them is damaged.
pub(super) fn list(dir: &Path, output: &Output) -> anyhow::Result<Exit> {
    let (found, now) = (read(dir)?, utc::now());
    let is_damaged = found.iter().any(|found| found.backup.is_err());
    let items: Vec<Item> = found.into_iter().map(|found| item(found, now)).collect();
    let exit = if is_damaged { Exit::Failed } else { Exit::Ok };
    if output.is_json() {
        output.json_items(&items)?;
        return Ok(exit);
    }
    let mut table = Table::new(&["file", "set", "created", "age", "sections", "lineage", "state"]).right(&[4]);
    for item in items {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            item.file,
            or_dash(item.set),
            or_dash(item.created),
            or_dash(item.age_s.map(utc::age)),
            or_dash(item.sections.map(|sections| grouped(sections.into()))),
            or_dash(item.lineage),
            item.damage.unwrap_or_else(|| "intact".to_owned()),
        ]);
    }
    output.table(&table)?;
    Ok(exit)
}

fn item(Found { path, backup }: Found, now: SystemTime) -> Item {
    let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (backup, damage) = match backup {
        Ok(backup) => (Some(backup), None),
        Err(damage) => (None, Some(damage)),
    };
    let header = backup.as_ref().map(|backup| &backup.header);
    let created = header.map(|header| header.created_unix_ms);
    let at = created.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
    Item {
        file,
        cluster: header.map(|header| header.cluster.clone()),
        set: header.map(|header| header.set.clone()),
        created: created.map(utc::text_of_ms),
        // If the clock of the host that made the backup is ahead, the age is 0.
        age_s: at.map(|at| now.duration_since(at).unwrap_or_default().as_secs()),
        sections: header.map(|header| header.resident),
        lineage: header.map(|header| header.lineage.to_string()),
        damage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_set_sort_by_their_time() {
        assert_eq!(name("im-a", 951_782_400_012), "im-a-20000229T000000.012Z.backup");
        assert!(name("im-a", 951_782_399_999) < name("im-a", 951_782_400_000));
    }
}
