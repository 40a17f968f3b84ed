//! Commands on a terminal: confirmations, and a progress bar of the terminal's width.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use seq_proto::v1::{MigrationPhase, MigrationStatus};

use crate::fake::{Cluster, migration};

/// Runs a command on a terminal with this number of columns, where a user types `input`; returns the output on the
/// terminal and the exit code.
fn run(cluster: &Cluster, args: &[&str], columns: u16, input: &str) -> (String, i32) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
    tcsetwinsize(&side, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let addr = format!("http://{}", cluster.addrs[1]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.args(args).args(["--addr", &addr]).env_clear().env("TERM", "xterm").env("NO_COLOR", "1");
    command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
    let mut child = command.spawn().unwrap();
    // The command's copies of the terminal are closed, so that reading ends with the child.
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(input.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // Linux reports the closed other side as an error.
    let _ = terminal.read_to_end(&mut bytes);
    let code = child.wait().unwrap().code().unwrap();
    (without_escapes(&String::from_utf8(bytes).unwrap()), code)
}

/// Returns the text without the sequences that move the cursor and clear lines.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        plain.push('\r');
        plain.push_str(&part[end..]);
    }
    plain
}

#[test]
fn a_migration_starts_once_it_is_confirmed() {
    let cluster = Cluster::start();
    let split = ["set", "split", "im-a", "--at", "6_000_000", "--into", "im-b"];
    let (text, code) = run(&cluster, &split, 100, "n\n");
    assert!(text.contains("migrate 40 sections from set im-a to set im-b? [y/N] "), "{text}");
    assert_eq!((code, &*cluster.a.lock().changes), (6, &[][..]));
    let (text, code) = run(&cluster, &split, 100, "y\n");
    assert!(text.contains("migration 12345 has started"), "{text}");
    assert_eq!((code, &*cluster.a.lock().changes), (0, &["start 12345 at 0/s".to_owned()][..]));
}

#[test]
fn a_bar_fits_the_terminal() {
    let stuck = MigrationStatus {
        stuck: "set im-b has no majority: restart its stores, `seqsvr status` lists those that do not respond"
            .to_owned(),
        ..migration(MigrationPhase::Open, 24, 20)
    };
    for columns in [50, 80, 160] {
        let cluster = Cluster::start();
        {
            let mut a = cluster.a.lock();
            a.migrations = vec![migration(MigrationPhase::Open, 0, 0)];
            let arrived = migration(MigrationPhase::Arrived, 40, 40);
            a.steps = [migration(MigrationPhase::Open, 14, 10), stuck.clone(), arrived].map(Some).into();
        }
        let (text, code) = run(&cluster, &["migration", "watch"], columns, "");
        let drawn = text.split("migration 12345 has arrived").next().unwrap();
        for line in drawn.split(['\r', '\n']) {
            // The library may fill the rest of a line with spaces instead of ending it; the next line then begins in a
            // new row.
            let chars: Vec<char> = line.chars().collect();
            for row in chars.chunks(usize::from(columns)).skip(1) {
                let row: String = row.iter().collect();
                assert!(row.trim().is_empty() || row.starts_with("(Ctrl-C"), "{columns}: {line:?}");
            }
        }
        assert!(drawn.contains("10/40  10.0/s  ETA 3 s") && drawn.contains("[###"), "{drawn:?}");
        assert!(drawn.contains("(Ctrl-C detaches)  pause p50 4.1 ms"), "{drawn:?}");
        assert!(text.contains("migration 12345 has arrived: 40 sections in set im-b") && code == 0, "{text:?}");
    }
}
