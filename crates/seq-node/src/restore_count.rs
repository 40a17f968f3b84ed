//! Decides the count of a restore, and checks that no earlier restore in the cluster had this count.
//!
//! The count of a restore must be above the counts of all earlier restores of any set in the cluster. The restored
//! ceilings and epochs depend on the count, so a restore under a count that was used before would repeat numbers. Only
//! an operator knows every restore. The stores of other sets, allocators, the backup, and a file next to the backup,
//! the *notes*, each know some of the counts. A new count must be above all counts that they know. But only a store of
//! another set that is not in quarantine makes certain that the next count is new, because after a restore no set
//! serves until all other sets know the restore's count.

use std::io;
use std::path::{Path, PathBuf};

use futures::future::join_all;
use seq_command::exit::{Exit, Failure};
use seq_command::set_file::SetFile;
use seq_command::{security, survey, whole_file};
use seq_core::state::State;
use seq_core::{Epoch, Lineage};
use seq_proto::v1::StatusRequest;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use serde::{Deserialize, Serialize};

/// The first line of the notes.
const HEAD: &str = "# Restores of the sets of this cluster. Keep this file next to the backups, on every host that has some: a \
                    count in it is never used again.\n";

/// A line of the notes, which records the restore of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) count: u32,
    pub(crate) set: String,
    /// Id of the store.
    pub(crate) store: u64,
    /// SHA-256 of the backup.
    pub(crate) backup: String,
    /// Lineage of the backup.
    pub(crate) lineage: u64,
    /// Number of commands that had been applied to the state in the backup.
    pub(crate) revision: u64,
    /// Time of the restore, by the clock of the host.
    pub(crate) at: String,
}

/// The notes: a file next to the backups of a cluster, in which restores are recorded.
pub(crate) struct Notes {
    pub(crate) path: PathBuf,
    text: String,
    notes: Vec<Note>,
}

impl Notes {
    /// Reads the notes next to a backup. If there is no such file, the notes are empty.
    ///
    /// # Errors
    /// The file cannot be read, or one of its lines is not a note. The error names the line.
    pub(crate) fn beside(backup: &Path, cluster: &str) -> Result<Notes, Failure> {
        let path = backup.with_file_name(format!("{cluster}.restores"));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => HEAD.to_owned(),
            Err(error) => {
                return Err(Failure::new(Exit::Usage, format!("{}: cannot be read: {error}", path.display())));
            }
        };
        let is_note = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
        let mut notes = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_note(line)) {
            let note = serde_json::from_str(line).map_err(|error| {
                let message = format!("{}:{}: not the note of a restore: {error}", path.display(), number + 1);
                Failure::new(Exit::Usage, message).hint("correct the line, or begin it with # if it is a comment")
            })?;
            notes.push(note);
        }
        Ok(Notes { path, text, notes })
    }

    /// Returns the highest count in the notes; 0 if there are none.
    fn highest(&self) -> u32 {
        self.notes.iter().map(|note| note.count).max().unwrap_or_default()
    }

    /// Refuses a backup of a history that was abandoned because the set was later restored from an older backup. With
    /// such a backup, the set would not have the changes that other sets made after that restore, and neither those
    /// sets nor this set could detect this.
    fn refuse_abandoned(&self, set: &str, (lineage, revision): (Lineage, u64)) -> Result<(), Failure> {
        let of_set = self.notes.iter().filter(|note| note.set == set);
        let gave_up = |note: &&Note| lineage.restores() < note.count && revision > note.revision;
        let Some(note) = of_set.max_by_key(|note| note.count).filter(gave_up) else { return Ok(()) };
        let message = format!(
            "the backup is of a history that was given up: set {set} was restored from an older backup under the count {}, as {} \
             has it",
            note.count,
            self.path.display()
        );
        let hint = format!(
            "nothing was changed: restore from the backup with SHA-256 {}, or from one that was made after that restore",
            note.backup
        );
        Err(Failure::new(Exit::Failed, message).hint(hint))
    }

    /// Returns the count of the last recorded restore if it restored other stores of this set from this backup, but not
    /// yet this store, so that the restore can be continued; otherwise `None`.
    fn continued(&self, set: &str, store: u64, backup: &str) -> Option<u32> {
        let count = self.notes.last().filter(|note| (note.set.as_str(), note.backup.as_str()) == (set, backup))?.count;
        let is_done = self.notes.iter().any(|note| note.count == count && note.store == store);
        (!is_done && count == self.highest()).then_some(count)
    }

    /// Adds a note to the file. When this function returns, the note is on the disk.
    ///
    /// # Errors
    /// The file cannot be written. In that case the caller must not restore.
    pub(crate) fn add(&self, note: &Note) -> Result<(), Failure> {
        let mut text = self.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&serde_json::to_string(note).expect("a note has a form"));
        text.push('\n');
        self.write(&text)
    }

    /// Removes the note that was added last, because no data were written under the count in the note.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn take_back(&self) -> Result<(), Failure> {
        self.write(&self.text)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        whole_file::replace(&self.path, text.as_bytes()).map_err(|error| {
            let message = format!("{}: the count cannot be noted: {error}", self.path.display());
            Failure::new(Exit::Failed, message).hint(
                "nothing was restored: copy the backup to a directory that can be written, and restore from there",
            )
        })
    }
}

/// A node that knows of restores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Witness {
    /// Name of the node, as operators use it.
    pub(crate) name: String,
    /// The highest count that the node knows.
    pub(crate) count: u32,
    /// Whether the node knows the count of every restore after which the restored set has served. Only a store of
    /// another set that is not in quarantine knows this.
    pub(crate) knows_all: bool,
}

/// The restore for which [`decide`] chooses a count.
pub(crate) struct Asked<'a> {
    pub(crate) set: &'a str,
    pub(crate) store: u64,
    /// SHA-256 of the backup.
    pub(crate) backup: &'a str,
    /// The lowest count that the backup allows.
    pub(crate) least: u32,
    /// Lineage of the backup, and the number of commands that had been applied to its state.
    pub(crate) position: (Lineage, u64),
}

/// Decides the count of a restore. It is `given`, if this count may be new. If no count is given, it is the count of
/// the restore that is continued, or the next count if that is certain to be new.
///
/// # Errors
/// The given count was used before; or no count is given, and no node knows all restores; or the backup belongs to a
/// history that was abandoned.
pub(crate) fn decide(
    given: Option<u32>,
    asked: &Asked<'_>,
    notes: &Notes,
    witnesses: &[Witness],
) -> Result<u32, Failure> {
    let Asked { set, store, backup, least, position } = *asked;
    notes.refuse_abandoned(set, position)?;
    let continued = notes.continued(set, store, backup);
    let of_witness = witnesses.iter().max_by_key(|witness| witness.count);
    let witnessed = of_witness.map_or(0, |witness| witness.count);
    let next = least.max(witnessed.saturating_add(1)).max(notes.highest().saturating_add(1));
    let count = match (given, continued) {
        (Some(given), _) => given,
        (None, Some(count)) => count,
        (None, None) if witnesses.iter().any(|witness| witness.knows_all) => next,
        (None, None) => {
            let notes = notes.path.display();
            let message = format!(
                "no store of another set responds, so the number of restores is unknown: pass --count {next}, or more if \
                 a restore of any set of the cluster counted {next} or more"
            );
            let hint = format!(
                "nothing was changed. The backup and {notes} allow {next}; look into the notes on other hosts, and into \
                 `seqsvr status` of the other sets. A count that was used before allocates numbers twice; a larger count \
                 skips 2^40 numbers for each count"
            );
            return Err(Failure::new(Exit::Usage, message).hint(hint));
        }
    };
    let used = |by: &str| {
        let message = format!("the count {count} was used before: {by} knows of {witnessed} or of the restore itself");
        Failure::new(Exit::Failed, message).hint(format!("nothing was changed: pass --count {next}"))
    };
    if count <= witnessed {
        return Err(used(of_witness.map_or("a node", |witness| &witness.name)));
    }
    if count <= notes.highest() && continued != Some(count) {
        let message = format!("the count {count} was used before, as {} has it", notes.path.display());
        return Err(Failure::new(Exit::Failed, message).hint(format!("nothing was changed: pass --count {next}")));
    }
    Ok(count)
}

/// Requests ceilings and counts of restores from the allocators of the set, and counts of restores from the stores of
/// the other sets that `state` knows. Returns the ceilings of the allocators, and the nodes that know of restores.
pub(crate) async fn ask(set: &SetFile, state: &State) -> (Vec<survey::Ceilings>, Vec<Witness>) {
    let (ceilings, mut witnesses) = tokio::join!(survey::ceilings(set), other_sets(state));
    witnesses.extend(ceilings.iter().filter_map(allocator));
    (ceilings, witnesses)
}

fn allocator(ceilings: &survey::Ceilings) -> Option<Witness> {
    let known = ceilings.outcome.as_ref().ok()?;
    let count = known.iter().map(|known| Epoch(known.epoch).restores()).max()?;
    Some(Witness { name: ceilings.name.clone(), count, knows_all: false })
}

async fn other_sets(state: &State) -> Vec<Witness> {
    let pool = security::pool();
    let ask = async |name: String, addr: &str| {
        let mut node = StatusServiceClient::new(pool.get(addr).ok()?);
        let asked = tokio::time::timeout(survey::TIMEOUT, node.status(StatusRequest {})).await;
        let response = asked.ok()?.ok()?.into_inner();
        let Some(Role::Store(store)) = response.role.filter(|_| response.set == name) else { return None };
        let knows_all = store.quorum && store.quarantine.is_empty() && store.counts_restores;
        let name = format!("store {} of set {name}", response.node);
        Some(Witness { name, count: store.restores.max(Lineage(store.lineage).restores()), knows_all })
    };
    let stores = state
        .sets
        .values()
        .filter_map(|peer| peer.facts.as_ref())
        .flat_map(|facts| facts.stores.iter().map(|addr| (facts.name.clone(), addr.as_str())));
    join_all(stores.map(|(name, addr)| ask(name, addr))).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked { set: "im-a", store: 1, backup: "abc", least: 2, position: (Lineage(0), 70) };

    fn note(count: u32, store: u64) -> Note {
        Note { count, set: "im-a".into(), store, backup: "abc".into(), lineage: 0, revision: 70, at: String::new() }
    }

    fn notes(dir: &Path, notes: &[Note]) -> Notes {
        let backup = dir.join("im-a.backup");
        for note in notes {
            Notes::beside(&backup, "im").unwrap().add(note).unwrap();
        }
        Notes::beside(&backup, "im").unwrap()
    }

    fn witness(count: u32, knows_all: bool) -> Witness {
        Witness { name: "store s1 of set im-b".into(), count, knows_all }
    }

    #[test]
    fn a_count_is_chosen_only_where_another_set_knows_all_restores() {
        let dir = tempfile::tempdir().unwrap();
        let none = notes(dir.path(), &[]);
        let refused = decide(None, &ASKED, &none, &[witness(7, false)]).unwrap_err();
        assert!(refused.to_string().contains("pass --count 8"), "{refused}");
        assert_eq!(decide(None, &ASKED, &none, &[witness(7, false), witness(5, true)]).unwrap(), 8);
        assert_eq!(decide(Some(2), &ASKED, &none, &[]).unwrap(), 2, "a person knows");
        assert!(decide(Some(7), &ASKED, &none, &[witness(7, false)]).unwrap_err().to_string().contains("was used"));
    }

    #[test]
    fn the_notes_continue_a_restore_on_one_host_and_refuse_its_count_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let one = notes(dir.path(), &[note(4, 2)]);
        assert_eq!(decide(None, &ASKED, &one, &[]).unwrap(), 4, "the second store of the same restore");
        assert_eq!(decide(Some(4), &ASKED, &one, &[]).unwrap(), 4);
        let other = Asked { backup: "def", ..ASKED };
        assert!(decide(Some(4), &other, &one, &[]).is_err(), "another backup");
        assert!(decide(None, &other, &one, &[]).unwrap_err().to_string().contains("pass --count 5"));
        let both = notes(dir.path(), &[note(4, 1)]);
        assert!(decide(Some(4), &ASKED, &both, &[]).is_err(), "that store again");
        // C1: the set began a newer lineage by itself, and another lineage was restored in between.
        assert!(decide(Some(4), &Asked { store: 3, ..ASKED }, &both, &[witness(5, true)]).is_err());
    }

    #[test]
    fn a_backup_that_is_newer_than_a_restored_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let one = notes(dir.path(), &[note(4, 2)]);
        let of = |lineage, revision| {
            let asked = Asked { backup: "def", least: 5, position: (Lineage(lineage), revision), ..ASKED };
            decide(Some(5), &asked, &one, &[])
        };
        assert_eq!(of(0, 60).unwrap(), 5, "an older one");
        assert!(of(0, 71).unwrap_err().to_string().contains("of a history that was given up"));
        assert!(of(3 << 32, 71 + (3 << 32)).is_err(), "of another restore before");
        assert_eq!(of(4 << 32, 71 + (4 << 32)).unwrap(), 5, "one that was made after the restore");
    }

    #[test]
    fn a_line_that_is_no_note_is_named() {
        let dir = tempfile::tempdir().unwrap();
        drop(notes(dir.path(), &[note(4, 2)]));
        let path = dir.path().join("im.restores");
        let text = std::fs::read_to_string(&path).unwrap() + "count five\n";
        std::fs::write(&path, text).unwrap();
        let refused = Notes::beside(&dir.path().join("im-a.backup"), "im").err().unwrap();
        assert!(refused.to_string().contains("im.restores:3: not the note of a restore"), "{refused}");
    }
}
