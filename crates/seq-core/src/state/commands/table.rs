//! The macro of a table of commands.

/// Defines the following from a table of commands: the enum of all commands, the enum of their outputs, the function
/// that applies a command by its rule, and the name, the format and the encoding of each command.
///
/// The documentation of a command is above its row, and the documentation of its output is above the output:
///
/// ```text
/// FORMAT RULE: NAME(TYPE) => OUTPUT(TYPE);
/// FORMAT RULE: NAME(TYPE) as NUMBER { FIELDS } => OUTPUT(TYPE);
/// ```
///
/// * FORMAT is the first format of the log that can contain the command. While the store has an earlier format, the
///   command is never proposed.
/// * RULE is the method that applies the command: `fn rule(&mut self, command: &TYPE) -> TYPE OF THE OUTPUT`.
/// * NUMBER is the number of the command in its encoding, and FIELDS are its fields in the order of the encoding. Once
///   released, the number and the order never change. Each field is a [`Fields`](super::Fields). Commands of formats up
///   to 10 have no NUMBER and no FIELDS. The store has other code that encodes these commands, so that their bytes do
///   not change.
///
/// The tests of this module have an example of a table.
macro_rules! commands {
    (
        $state:ident: $command:ident => $answer:ident, $replicated:ident;
        $(
            $(#[$doc:meta])*
            $format:literal $rule:ident: $name:ident($payload:ty) $(as $number:literal { $($field:ident),* })? =>
                $(#[$output_doc:meta])*
                $output:ident($result:ty);
        )*
    ) => {
        /// An entry of the store's log.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $command {
            $($(#[$doc])* $name($payload),)*
        }

        /// Result of applying a command.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $answer {
            $(
                #[doc = concat!("Of [`", stringify!($command), "::", stringify!($name), "`].")]
                ///
                $(#[$output_doc])*
                $output($result),
            )*
        }

        /// A command whose output has one type.
        pub trait $replicated: Into<$command> {
            /// The first format that has the command.
            const SINCE: u16;

            /// Output of the command.
            type Output;

            /// Returns the output that `answer`, the answer to this command, contains.
            ///
            /// # Panics
            /// When `answer` is the answer to another command. The rules of the table never return such an answer.
            fn output(answer: $answer) -> Self::Output;
        }

        $(
            impl From<$payload> for $command {
                fn from(command: $payload) -> $command {
                    $command::$name(command)
                }
            }

            impl $replicated for $payload {
                const SINCE: u16 = $format;

                type Output = $result;

                fn output(answer: $answer) -> $result {
                    match answer {
                        $answer::$output(output) => output,
                        other => unreachable!("{} got the answer {other:?}", stringify!($name)),
                    }
                }
            }
        )*

        impl $command {
            /// The name of each command.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The newest format that a command needs.
            pub const NEWEST_FORMAT: u16 = {
                let mut newest = 0;
                $(newest = if $format > newest { $format } else { newest };)*
                newest
            };

            /// Returns the command's name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $($command::$name(_) => stringify!($name),)*
                }
            }

            /// Returns the first format that has the command.
            #[must_use]
            pub const fn since(&self) -> u16 {
                match self {
                    $($command::$name(_) => $format,)*
                }
            }

            /// Returns the encoding of the command by its fields; `None` if its row has no fields, because the store
            /// then encodes the command by other code.
            #[must_use]
            pub fn encode_fields(&self) -> Option<Vec<u8>> {
                match self {
                    $($($command::$name(command) => {
                        type Payload = $payload;
                        let Payload { $($field),* } = command;
                        let mut body = Vec::new();
                        u16::put(&$number, &mut body);
                        $($field.put(&mut body);)*
                        Some(body)
                    })?)*
                    _ => None,
                }
            }

            /// Decodes a command that [`Self::encode_fields`] encoded; `None` if the bytes encode no such command.
            #[must_use]
            pub fn decode_fields(mut body: &[u8]) -> Option<$command> {
                let decoded = match u16::take(&mut body)? {
                    $($($number => {
                        type Payload = $payload;
                        $(let $field = Fields::take(&mut body)?;)*
                        Some($command::$name(Payload { $($field),* }))
                    })?)*
                    _ => None,
                };
                decoded.filter(|_| body.is_empty())
            }
        }

        impl $state {
            /// Applies a command by its rule in the table.
            fn apply_by_rule(&mut self, command: &$command) -> $answer {
                match command {
                    $($command::$name(command) => $answer::$output(self.$rule(command)),)*
                }
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the items of a table are public")]
mod tests {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::Fields;
    use crate::id::NodeId;

    /// A state with two commands. The first has no NUMBER, like a command that a store encodes by other code.
    #[derive(Default)]
    struct Notes(Vec<(String, Option<NodeId>)>);

    /// Removes all notes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Clear;

    /// Adds a note.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Note {
        /// Author of the note.
        pub author: Option<NodeId>,
        /// Text of the note.
        pub text: String,
    }

    commands! {
        Notes: Entry => Outcome, Proposed;

        /// Removes all notes.
        5 clear: Clear(Clear) => Cleared(());

        /// Adds a note.
        11 note: Note(Note) as 7 { text, author } =>
            /// Number of notes.
            Noted(usize);
    }

    impl Notes {
        fn clear(&mut self, _: &Clear) {
            self.0.clear();
        }

        fn note(&mut self, note: &Note) -> usize {
            self.0.push((note.text.clone(), note.author));
            self.0.len()
        }
    }

    fn note() -> Note {
        Note { author: Some(NodeId(3)), text: "hi".into() }
    }

    #[test]
    fn a_row_gives_a_command_its_name_format_rule_and_output() {
        let mut notes = Notes::default();
        assert_eq!(Note::output(notes.apply_by_rule(&note().into())), 1);
        assert_eq!(notes.0, [("hi".into(), Some(NodeId(3)))]);
        Clear::output(notes.apply_by_rule(&Clear.into()));
        assert!(notes.0.is_empty());
        assert_eq!(Entry::NAMES, ["Clear", "Note"]);
        assert_eq!([Entry::from(Clear).name(), Entry::from(note()).name()], ["Clear", "Note"]);
        assert_eq!([Entry::from(Clear).since(), Entry::from(note()).since()], [5, 11]);
        assert_eq!([Clear::SINCE, Note::SINCE, Entry::NEWEST_FORMAT], [5, 11, 11]);
    }

    #[test]
    fn a_row_with_a_number_gives_a_command_its_bytes() {
        assert_eq!(Entry::from(Clear).encode_fields(), None);
        let entry = Entry::from(note());
        let body = entry.encode_fields().unwrap();
        // The number, the text with its length, and the author behind a 1: in the order of the row.
        assert_eq!(body, [7, 0, 2, 0, 0, 0, b'h', b'i', 1, 3, 0, 0, 0]);
        assert_eq!(Entry::decode_fields(&body), Some(entry));
        for end in 0..body.len() {
            assert_eq!(Entry::decode_fields(&body[..end]), None, "of {end} bytes");
        }
        assert_eq!(Entry::decode_fields(&[body.clone(), vec![0]].concat()), None, "a byte is left");
        assert_eq!(Entry::decode_fields(&[&[8], &body[1..]].concat()), None, "no command has that number");
    }
}
