//! Runs scenario files, which test state machines. A scenario file has blocks of commands for a machine, and after the
//! commands of each block the decisions of the machine.
//!
//! A block has one or more commands, each on a line of its own, then the line `----`, then the decisions of the
//! machine. It ends at an empty line. An indented line continues the command above it. A line that starts with `#` is a
//! comment. A command has a name, words, and `key=value` pairs. The comment of each machine's `carry_out` lists the
//! commands of that machine.
//!
//! **Invariant:** a run fails if the machine does not read every word of a command, so that a misspelt key is noticed.
//! With `UPDATE_EXPECT=1`, a run replaces the decisions in the files by its own.

extern crate std;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;
use std::path::Path;

use expect_test::expect_file;

use crate::id::{Epoch, HandoverId, Incarnation, NodeId, RouteVersion, SectionId, SetId};

/// Line between the commands and the decisions of a block.
const SEPARATOR: &str = "----";

/// Text for a command without a decision.
const NOTHING: &str = "nothing";

/// A machine, and the state that its shell keeps.
pub(crate) trait Machine {
    /// Carries a command out, and writes one line for each decision.
    fn carry_out(&mut self, command: &Command<'_>, out: &mut String);
}

/// Runs every scenario of `testdata/FOLDER`, each with a new machine.
pub(crate) fn run_all<M: Machine>(folder: &str, new: impl Fn() -> M) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no scenario", folder.display());
    for file in files {
        let name = file.display();
        assert!(file.extension().is_some_and(|end| end == "txt"), "{name}: a scenario's name ends in .txt");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let decided = run(&format!("{name}"), &text, &mut new());
        expect_file![&file].assert_eq(&decided);
    }
}

/// Returns the text of a scenario with the machine's decisions in this run.
fn run(file: &str, text: &str, machine: &mut impl Machine) -> String {
    let mut written = String::new();
    let mut lines = text.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            written += &format!("{line}\n");
            continue;
        }
        let mut commands: Vec<(String, usize)> = Vec::from([(line.to_owned(), number)]);
        written += &format!("{line}\n");
        while let Some((line, number)) = lines.next_if(|(line, _)| !line.is_empty() && *line != SEPARATOR) {
            written += &format!("{line}\n");
            match commands.last_mut().filter(|_| line.starts_with(' ')) {
                Some((command, _)) => *command += &format!(" {}", line.trim()),
                None => commands.push((line.to_owned(), number)),
            }
        }
        while lines.next_if(|(line, _)| !line.is_empty()).is_some() {}
        let mut decided = String::new();
        for (text, line) in &commands {
            let command = Command::new(file, *line, text);
            machine.carry_out(&command, &mut decided);
            command.assert_read();
        }
        if decided.is_empty() {
            decided = format!("{NOTHING}\n");
        }
        written += &format!("{SEPARATOR}\n{decided}");
    }
    written
}

/// A command of a scenario.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    file: &'a str,
    line: usize,
    text: &'a str,
    name: &'a str,
    words: Vec<Word<'a>>,
}

#[derive(Debug)]
struct Word<'a> {
    /// The key; empty for a word without a value.
    key: &'a str,
    value: &'a str,
    read: Cell<bool>,
}

impl<'a> Command<'a> {
    fn new(file: &'a str, line: usize, text: &'a str) -> Command<'a> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let word = |word: &'a str| {
            let (key, value) = word.split_once('=').unwrap_or(("", word));
            Word { key, value, read: Cell::new(false) }
        };
        Command { file, line, text, name, words: words.map(word).collect() }
    }

    /// Returns the name of the command.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Fails with the place of the command.
    pub(crate) fn fail(&self, what: &str) -> ! {
        panic!("{}:{}: `{}`: {what}", self.file, self.line, self.text)
    }

    /// Fails because the machine has no such command.
    pub(crate) fn unknown(&self) -> ! {
        self.fail("no such command")
    }

    /// Returns whether the command has this word.
    pub(crate) fn has(&self, word: &str) -> bool {
        let found = self.words.iter().find(|one| one.key.is_empty() && one.value == word);
        found.is_some_and(|one| !one.read.replace(true))
    }

    /// Returns the next word of the command that is no pair.
    pub(crate) fn word<T: Value>(&self) -> T {
        let found = self.words.iter().find(|one| one.key.is_empty() && !one.read.replace(true));
        found.map_or_else(|| self.fail(&format!("{} is missing", T::WHAT)), |word| self.parse(word.value))
    }

    /// Returns the value of a key, if the command has the key.
    pub(crate) fn find<T: Value>(&self, key: &str) -> Option<T> {
        self.text_of(key).map(|value| self.parse(value))
    }

    /// Returns the value of a key.
    pub(crate) fn get<T: Value>(&self, key: &str) -> T {
        self.find(key).unwrap_or_else(|| self.fail(&format!("{key}=, {}, is missing", T::WHAT)))
    }

    /// Returns the values of a key, which are separated by commas in the text; an empty list if the command has no such
    /// key.
    pub(crate) fn list<T: Value>(&self, key: &str) -> Vec<T> {
        self.text_of(key).map_or_else(Vec::new, |values| values.split(',').map(|value| self.parse(value)).collect())
    }

    fn text_of(&self, key: &str) -> Option<&'a str> {
        let found = self.words.iter().find(|word| word.key == key)?;
        found.read.set(true);
        Some(found.value)
    }

    fn parse<T: Value>(&self, value: &str) -> T {
        T::parse(value).unwrap_or_else(|| self.fail(&format!("`{value}` is not {}", T::WHAT)))
    }

    fn assert_read(&self) {
        if let Some(word) = self.words.iter().find(|word| !word.read.get()) {
            let what = if word.key.is_empty() { word.value } else { word.key };
            self.fail(&format!("`{what}` means nothing here"));
        }
    }
}

/// The type of a word in a command.
pub(crate) trait Value: Sized {
    /// Name of the type in messages.
    const WHAT: &str;

    fn parse(text: &str) -> Option<Self>;
}

impl Value for String {
    const WHAT: &str = "a word";

    fn parse(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl Value for $number {
            const WHAT: &str = "a number";

            fn parse(text: &str) -> Option<$number> {
                text.parse().ok()
            }
        }
    )*};
}

numbers! { u32 u64 }

macro_rules! ids {
    ($($id:ident: $what:literal,)*) => {$(
        impl Value for $id {
            const WHAT: &str = $what;

            fn parse(text: &str) -> Option<$id> {
                text.parse().ok().map($id)
            }
        }
    )*};
}

ids! {
    SectionId: "a section",
    Epoch: "an epoch",
    NodeId: "a node",
    Incarnation: "an incarnation",
    HandoverId: "a handover",
    RouteVersion: "a version of the routes",
    SetId: "a set",
}

/// Parses `2.5s` or `25ms`, with or without a plus sign in front.
impl Value for Duration {
    const WHAT: &str = "a duration, as 2.5s or 25ms";

    fn parse(text: &str) -> Option<Duration> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let (number, seconds) = match text.strip_suffix("ms") {
            Some(number) => (number, 0.001),
            None => (text.strip_suffix('s')?, 1.0),
        };
        Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
    }
}

/// An ownership, as `3@7`: section 3 under epoch 7.
impl Value for (SectionId, Epoch) {
    const WHAT: &str = "an ownership, as SECTION@EPOCH";

    fn parse(text: &str) -> Option<(SectionId, Epoch)> {
        let (section, epoch) = text.split_once('@')?;
        Some((SectionId::parse(section)?, Epoch::parse(epoch)?))
    }
}

mod tests {
    use super::*;

    /// Adds durations up.
    struct Clock(Duration);

    impl Machine for Clock {
        fn carry_out(&mut self, command: &Command<'_>, out: &mut String) {
            match command.name() {
                "clock" => self.0 += command.word::<Duration>(),
                "show" => *out += &format!("now {:?}\n", self.0),
                _ => command.unknown(),
            }
        }
    }

    fn decide(text: &str) -> String {
        run("story.txt", text, &mut Clock(Duration::ZERO))
    }

    #[test]
    fn what_is_decided_replaces_what_stands_in_the_file() {
        let text = "# A story.\n\nclock +2.5s\n----\nnothing\n\nclock\n  20ms\nshow\n----\nold\nlines\n";
        let decided = "# A story.\n\nclock +2.5s\n----\nnothing\n\nclock\n  20ms\nshow\n----\nnow 2.52s\n";
        assert_eq!(decide(text), decided);
        assert_eq!(decide(decided), decided);
        assert_eq!(decide("clock 1s\n\nshow"), "clock 1s\n----\nnothing\n\nshow\n----\nnow 1s\n");
    }

    #[test]
    #[should_panic(expected = "story.txt:4: `clock 5`: `5` is not a duration, as 2.5s or 25ms")]
    fn a_value_that_cannot_be_read_is_named_with_its_place() {
        decide("show\n----\n\nclock 5\n----\n");
    }

    #[test]
    #[should_panic(expected = "story.txt:1: `clock 5s lease=2s`: `lease` means nothing here")]
    fn a_word_that_no_command_reads_fails() {
        decide("clock 5s lease=2s\n----\n");
    }

    #[test]
    #[should_panic(expected = "story.txt:2: `clok 5s`: no such command")]
    fn an_unknown_command_fails() {
        decide("clock 5s\nclok 5s\n----\n");
    }
}
