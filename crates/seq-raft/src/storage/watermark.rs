//! The watermark, a small file next to the log that states how far the member has acknowledged its data: the last vote,
//! the last log entry, the last purge and the last snapshot. It is written after each sync of the log.
//!
//! If sled finds a damaged byte in its own log, it silently drops everything after that byte. It then opens with a
//! consistent but *earlier* state, and no check of its records can detect the loss. The watermark detects it. If the
//! log has less data than the watermark states, the member must not start, because other members rely on its
//! acknowledgements.
//!
//! The file has a fixed length and two slots, which are written alternately and without a sync. After a crash of the
//! process, the newest slot is exact. After a power cut, the newest slot may be an old one, and the watermark may then
//! state less than was acknowledged. If a write leaves one slot partly written, the other slot is intact. Only a
//! truncation of the log lowers the watermark, and in this case the file is synced before the log is truncated.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::error::LoadError;
use super::files::Files;
use super::loaded::Loaded;
use super::memory::MemoryDisk;
use crate::encoding::envelope;
use crate::encoding::{self, Watermark};
use crate::types::LogId;

/// Name of the file in the data directory.
pub(crate) const FILE: &str = "acknowledged";
/// Length of a slot in bytes. Each slot is one page of the file system, so that an interrupted write to one slot cannot
/// damage the other.
const SLOT_BYTES: usize = 4096;
/// Number of slots. Two slots suffice, because while one slot is written, the other stays intact.
const SLOTS: u64 = 2;

/// Creates the file durably, with the watermark of an empty log.
pub(crate) fn create(files: &Files) -> io::Result<()> {
    let mut bytes = vec![0; SLOT_BYTES * SLOTS as usize];
    let record = encoding::write_watermark(&Watermark::default());
    bytes[..record.len()].copy_from_slice(&record);
    files.write(FILE, &bytes)
}

/// The open watermark file, with its current value.
pub(crate) struct WatermarkFile {
    slots: Slots,
    current: Watermark,
}

enum Slots {
    File(File),
    Memory(Arc<MemoryDisk>),
}

impl WatermarkFile {
    /// Opens the file and reads the newest intact slot.
    pub(crate) fn open(files: &Files) -> Result<WatermarkFile, LoadError> {
        let place = files.place(FILE);
        let Some(bytes) = files.read(FILE)? else {
            return Err(LoadError::Lost { what: format!("the record of the acknowledged data, {place}") });
        };
        if bytes.len() != SLOT_BYTES * SLOTS as usize {
            let what = format!("{} bytes instead of {}", bytes.len(), SLOT_BYTES * SLOTS as usize);
            return Err(LoadError::Misplaced { place, what });
        }
        let slots = match files {
            Files::Dir(dir) => {
                let file = OpenOptions::new().write(true).open(dir.join(FILE));
                Slots::File(file.map_err(|source| LoadError::Io { place: place.clone(), source })?)
            }
            Files::Memory(disk) => Slots::Memory(disk.clone()),
        };
        let mut newest: Option<Watermark> = None;
        let mut damage = None;
        for (number, slot) in bytes.chunks(SLOT_BYTES).enumerate() {
            if number > 0 && slot.iter().all(|byte| *byte == 0) {
                continue; // Never written.
            }
            let record = envelope::record_len(slot).and_then(|len| slot.get(..len)).unwrap_or(slot);
            match encoding::read_watermark(record) {
                Ok(mark) => newest = newest.into_iter().chain([mark]).max_by_key(|mark| mark.generation),
                Err(source) => damage = Some(LoadError::Record { place: format!("slot {number} of {place}"), source }),
            }
        }
        match (newest, damage) {
            (Some(current), damage) => {
                if let Some(damage) = damage {
                    tracing::warn!(%damage, "a slot of the watermark is torn; the other slot is used");
                }
                Ok(WatermarkFile { slots, current })
            }
            (None, Some(damage)) => Err(damage),
            (None, None) => unreachable!("the first slot is read or damaged"),
        }
    }

    /// Returns the watermark that was last written.
    pub(crate) fn current(&self) -> &Watermark {
        &self.current
    }

    /// Writes the watermark `mark`, which must describe durable data. The file is not synced.
    pub(crate) fn write(&mut self, mark: Watermark) -> io::Result<()> {
        let mark = Watermark { generation: self.current.generation + 1, ..mark };
        let record = encoding::write_watermark(&mark);
        assert!(record.len() <= SLOT_BYTES, "a watermark fits its slot");
        let offset = (mark.generation % SLOTS) * SLOT_BYTES as u64;
        match &self.slots {
            Slots::File(file) => file.write_all_at(&record, offset)?,
            Slots::Memory(disk) => disk.patch_file(FILE, offset as usize, &record),
        }
        self.current = mark;
        Ok(())
    }

    /// Writes the watermark `mark` and syncs the file. Called before the log is truncated to less than the previous
    /// watermark states.
    pub(crate) fn write_durably(&mut self, mark: Watermark) -> io::Result<()> {
        self.write(mark)?;
        match &self.slots {
            Slots::File(file) => file.sync_data(),
            Slots::Memory(_) => Ok(()),
        }
    }
}

/// Checks that the loaded data includes all data that the watermark states as acknowledged.
pub(crate) fn check(mark: &Watermark, loaded: &Loaded) -> Result<(), LoadError> {
    let lost = |what: String| Err(LoadError::Lost { what });
    let acknowledged = |id: Option<encoding::newest::LogId>| id.map(encoding::newest::LogId::into_library);
    if let Some(vote) = mark.vote.map(encoding::newest::Vote::into_library)
        && loaded.vote.is_none_or(|found| found < vote)
    {
        let found = loaded.vote.map_or_else(|| "none".to_owned(), |vote| vote.to_string());
        return lost(format!("vote {vote}, and {found} was found"));
    }
    let (snapshot, purged) = (acknowledged(mark.snapshot), acknowledged(mark.purged));
    if loaded.snapshot_end() < snapshot {
        return lost(format!("the snapshot up to {}, and {} was found", show(snapshot), show(loaded.snapshot_end())));
    }
    if loaded.purged < purged {
        return lost(format!("the purge up to {}, and {} was found", show(purged), show(loaded.purged)));
    }
    if let Some(last) = acknowledged(mark.last) {
        let found = loaded.last();
        if found.is_none_or(|found| found.index < last.index) {
            return lost(format!("log entries up to {last}, and the log ends with {}", show(found)));
        }
        if let Some(entry) = loaded.entry(last.index)
            && entry.log_id != last
        {
            return lost(format!("log entry {last}, and {} was found in its place", entry.log_id));
        }
    }
    Ok(())
}

fn show(id: Option<LogId>) -> String {
    id.map_or_else(|| "none".to_owned(), |id| id.to_string())
}
