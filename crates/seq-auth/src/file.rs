//! Reads a whole file that an operator wrote, if it does not exceed a maximum length.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum length, in bytes, of a file with keys, certificates, settings or addresses of nodes. Valid files of these
/// kinds are far shorter.
pub const MAX_BYTES: u64 = 1 << 20;

/// Reads the text of a file of at most `most` bytes. `/dev/null` counts as an empty file.
///
/// # Errors
/// The file cannot be read, is longer than `most` bytes, or is not text in UTF-8. Or `path` is not a regular file but,
/// for example, a pipe or a device, whose contents may never end.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    if path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    // The check precedes the opening, which would block on a pipe that no process writes to.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {most} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_bound_and_a_device_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "1234");
        assert_eq!(read_text(&path, 3).unwrap_err().to_string(), "it is longer than 3 bytes");
        for path in [Path::new("/dev/zero"), dir.path()] {
            assert_eq!(read_text(path, 4).unwrap_err().to_string(), "it is no regular file");
        }
        assert_eq!(read_text(Path::new("/dev/null"), 4).unwrap(), "");
        assert_eq!(read_text(&dir.path().join("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
