//! The bytes of commands that are encoded by the fields in their rows of the table. A released row never changes them.

use super::*;

/// Every file with the bytes of commands.
const PINNED: [&str; 5] = [
    include_str!("../tests.rs"),
    include_str!("audit.rs"),
    include_str!("balancing.rs"),
    include_str!("by_fields.rs"),
    include_str!("neighbours.rs"),
];

#[test]
fn the_bytes_of_every_command_are_pinned() {
    let is_pinned = |name: &&str| PINNED.iter().any(|file| file.contains(&format!("Command::{name}(")));
    let unpinned: Vec<&str> = Command::NAMES.iter().copied().filter(|name| !is_pinned(name)).collect();
    assert!(unpinned.is_empty(), "pin the bytes of {unpinned:?} in encoding/tests/by_fields.rs");
}

#[test]
fn fields_of_no_command_are_refused() {
    let body = [0xff, 0xff, BY_FIELDS];
    let refused = |format| decode_command(format, &body).unwrap_err().to_string();
    assert_eq!(refused(BALANCING), "a command of kind 5", "no format up to 10 ends so");
    assert_eq!(refused(BALANCING + 1), "no command of format 11 has these fields");
}

#[test]
#[should_panic(expected = "MoveSections is of format 10, and the group's is 9")]
fn a_command_is_not_written_in_a_format_before_its_own() {
    let sections = vec![SectionId(3)];
    let _ = encode_command(COPIES, &Command::MoveSections(state::MoveSections { sections, to: None }));
}
