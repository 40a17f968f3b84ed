//! Bytes of a Redis client to commands: arrays of bulk strings, or lines as somebody types them.
//!
//! A pure function of the bytes, without an allocation: arguments are slices of the input. What was found whole of a command
//! is not looked at again when more of it arrives, so a sender of single bytes makes nobody count to ten thousand each time.

use seq_core::limits;

/// Longest argument, in bytes: no key, name or password that means something here is longer.
pub const MAX_BULK_BYTES: usize = 1_024;

/// Most arguments of a command, its name included: as many keys as a gRPC batch may have items.
pub const MAX_ARGS: usize = limits::MAX_ITEMS + 1;

/// Longest command that is typed as a line, in bytes: a person's, or a script's without a client library.
pub const MAX_INLINE_BYTES: usize = 1_024;

/// Largest command, in bytes: [`MAX_ARGS`] keys with the longest prefix a port may have. Arrays do not nest.
pub const MAX_COMMAND_BYTES: usize = limits::MAX_REQUEST_BYTES;

/// Digits of a length, with its sign: more than any limit here has.
const MAX_LENGTH_DIGITS: usize = 10;

/// Input that is no command. The connection cannot go on: where the next command begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A length is no number, or has no end.
    #[error("a length is not a number that ends in CR LF")]
    Length,
    /// An array of too many arguments.
    #[error("{args} arguments are more than the {MAX_ARGS} a command may have")]
    TooManyArgs {
        /// As many as were announced.
        args: i64,
    },
    /// An argument that is too long, or has a negative length.
    #[error("a bulk string of {bytes} bytes is not in 0..={MAX_BULK_BYTES}")]
    BulkLength {
        /// As many as were announced.
        bytes: i64,
    },
    /// Something else where a bulk string belongs, an array within the array for one.
    #[error("expected '$', got '{}'", .got.escape_ascii())]
    NoBulk {
        /// The byte in its place.
        got: u8,
    },
    /// An argument is not followed by CR LF.
    #[error("a bulk string does not end in CR LF")]
    BulkEnd,
    /// A word of a line begins with a quote that does not end it, or has a backslash in it.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// A line without an end.
    #[error("a line is longer than {MAX_INLINE_BYTES} bytes")]
    InlineTooLong,
    /// Arguments that are too long together.
    #[error("a command is longer than {MAX_COMMAND_BYTES} bytes")]
    CommandTooLong,
}

/// A whole command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Its name and arguments; there are none where somebody only pressed Enter.
    pub args: Args<'a>,
    /// How many bytes of the input it is, 1 or more.
    pub bytes: usize,
}

/// What a parser knows of the command at the start of the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// Bytes that were found whole: the head of the array and the first arguments. 0: nothing yet.
    whole: usize,
    /// Of the array.
    args: usize,
    /// Arguments behind `whole`.
    missing: usize,
}

impl Parser {
    /// The command at the start of `input`; `None` when it goes on behind the input's end. Then the next call gets the same
    /// bytes and more.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<Command<'a>>, Malformed> {
        if self.whole == 0 {
            match input.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return inline(input),
            }
            let Some((args, whole)) = length(input)? else { return Ok(None) };
            if args <= 0 {
                // What Redis ignores is ignored.
                return Ok(Some(Command { args: Args(Form::Line(&[])), bytes: whole }));
            }
            let count = usize::try_from(args).ok().filter(|count| *count <= MAX_ARGS);
            let count = count.ok_or(Malformed::TooManyArgs { args })?;
            *self = Parser { whole, args: count, missing: count };
        }
        while self.missing > 0 {
            let Some((_, bytes)) = bulk(input.get(self.whole..).unwrap_or_default())? else {
                return if input.len() > MAX_COMMAND_BYTES { Err(Malformed::CommandTooLong) } else { Ok(None) };
            };
            self.whole += bytes;
            self.missing -= 1;
        }
        let Parser { whole, args, .. } = std::mem::take(self);
        Ok(Some(Command { args: Args(Form::Bulks { bytes: &input[..whole], count: args }), bytes: whole }))
    }
}

/// Name and arguments of a command, in order.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    /// An array, whole.
    Bulks { bytes: &'a [u8], count: usize },
    /// Words between blanks, and what stands between quotes. Checked when it was made.
    Line(&'a [u8]),
}

impl<'a> Args<'a> {
    /// The arguments, the name first.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (mut bulks, words) = match self.0 {
            Form::Bulks { bytes, .. } => {
                (length(bytes).ok().flatten().map_or(bytes, |(_, head)| &bytes[head..]), &[][..])
            }
            Form::Line(line) => (&[][..], line),
        };
        let bulks = std::iter::from_fn(move || {
            let (argument, bytes) = bulk(bulks).ok()??;
            bulks = &bulks[bytes..];
            Some(argument)
        });
        bulks.chain(Words(words).map_while(Result::ok))
    }

    /// How many there are, with the name.
    #[must_use]
    pub fn count(&self) -> usize {
        match self.0 {
            Form::Bulks { count, .. } => count,
            Form::Line(_) => self.iter().count(),
        }
    }
}

/// The words of a line. One that begins with a quote goes to the next quote of its kind; there are no escapes.
#[derive(Clone)]
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.0.trim_ascii_start();
        let quote = *line.first()?;
        if quote != b'"' && quote != b'\'' {
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            let (word, rest) = line.split_at(end);
            self.0 = rest;
            return Some(Ok(word));
        }
        let word = memchr::memchr(quote, &line[1..]).map(|end| (&line[1..=end], &line[end + 2..]));
        let sound =
            |(word, rest): &(&[u8], &[u8])| !word.contains(&b'\\') && rest.first().is_none_or(u8::is_ascii_whitespace);
        let Some((word, rest)) = word.filter(sound) else {
            self.0 = &[];
            return Some(Err(Malformed::Quotes));
        };
        self.0 = rest;
        Some(Ok(word))
    }
}

/// A line that is a command.
fn inline(input: &[u8]) -> Result<Option<Command<'_>>, Malformed> {
    let window = &input[..input.len().min(MAX_INLINE_BYTES)];
    match memchr::memchr(b'\n', window) {
        Some(end) => {
            let line = &input[..end];
            Words(line).try_for_each(|word| word.map(|_| ()))?;
            Ok(Some(Command { args: Args(Form::Line(line)), bytes: end + 1 }))
        }
        None if input.len() >= MAX_INLINE_BYTES => Err(Malformed::InlineTooLong),
        None => Ok(None),
    }
}

/// The number behind the first byte, up to CR LF, with the bytes of all of it; `None` when the input ends before.
#[inline]
fn length(input: &[u8]) -> Result<Option<(i64, usize)>, Malformed> {
    let negative = input.get(1) == Some(&b'-');
    let first = 1 + usize::from(negative);
    let mut value = 0;
    for at in first..=first + MAX_LENGTH_DIGITS {
        match input.get(at) {
            Some(digit @ b'0'..=b'9') => value = value * 10 + i64::from(digit - b'0'),
            Some(b'\r') if at > first => {
                return match input.get(at + 1) {
                    Some(b'\n') => Ok(Some((if negative { -value } else { value }, at + 2))),
                    Some(_) => Err(Malformed::Length),
                    None => Ok(None),
                };
            }
            Some(_) => return Err(Malformed::Length),
            None => return Ok(None),
        }
    }
    Err(Malformed::Length)
}

/// The bulk string at the start of the input, with the bytes of all of it; `None` when the input ends before.
#[inline]
fn bulk(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match input.first() {
        None => return Ok(None),
        Some(b'$') => {}
        Some(got) => return Err(Malformed::NoBulk { got: *got }),
    }
    let Some((bytes, head)) = length(input)? else { return Ok(None) };
    let size = usize::try_from(bytes).ok().filter(|size| *size <= MAX_BULK_BYTES);
    let end = head + size.ok_or(Malformed::BulkLength { bytes })?;
    match input.get(end..end + 2) {
        Some(b"\r\n") => Ok(Some((&input[head..end], end + 2))),
        Some(_) => Err(Malformed::BulkEnd),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
