//! Incremental parser of Redis commands. A command is an array of bulk strings, or an inline command, which is a line
//! that a person typed.
//!
//! Parsing allocates no memory, because arguments are slices of the input. When more bytes of an incomplete command
//! arrive, its complete arguments are not parsed again. So a sender of single bytes does not cause a quadratic amount
//! of work.

use seq_core::limits;

/// Limit on the bytes of an argument. No valid key, name or password is longer.
pub const MAX_BULK_BYTES: usize = 1_024;

/// Limit on the arguments of a command, including its name. A command may have as many keys as a gRPC batch may have
/// items.
pub const MAX_ARGS: usize = limits::MAX_ITEMS + 1;

/// Limit on the bytes of an inline command. Such commands are typed by a person, or sent by a script without a client
/// library.
pub const MAX_INLINE_BYTES: usize = 1_024;

/// Limit on the bytes of a command. [`MAX_ARGS`] keys with the longest prefix fit into it, because arrays do not nest.
pub const MAX_COMMAND_BYTES: usize = limits::MAX_REQUEST_BYTES;

/// Limit on the digits of a length. It is larger than the number of digits of any limit here.
const MAX_LENGTH_DIGITS: usize = 10;

/// Error of input that is not a command. The connection must then be closed, because the start of the next command in
/// the input is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A length is not a number, or is not terminated.
    #[error("a length is not a number that ends in CR LF")]
    Length,
    /// An array of too many arguments.
    #[error("{args} arguments are more than the {MAX_ARGS} a command may have")]
    TooManyArgs {
        /// The announced number.
        args: i64,
    },
    /// An argument that is too long, or whose length is negative.
    #[error("a bulk string of {bytes} bytes is not in 0..={MAX_BULK_BYTES}")]
    BulkLength {
        /// The announced length.
        bytes: i64,
    },
    /// An argument of another type than a bulk string, for example a nested array.
    #[error("expected '$', got '{}'", .got.escape_ascii())]
    NoBulk {
        /// Its first byte.
        got: u8,
    },
    /// An argument is not followed by CR LF.
    #[error("a bulk string does not end in CR LF")]
    BulkEnd,
    /// A quoted word of a line has no closing quote, or contains a backslash.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// A line without an end.
    #[error("a line is longer than {MAX_INLINE_BYTES} bytes")]
    InlineTooLong,
    /// The arguments together are too long.
    #[error("a command is longer than {MAX_COMMAND_BYTES} bytes")]
    CommandTooLong,
}

/// A complete command.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Name and arguments; empty for an empty line.
    pub args: Args<'a>,
    /// Its length in the input in bytes, 1 or more.
    pub bytes: usize,
}

/// Parser of commands. It keeps its progress within the command at the start of the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// Number of bytes that need not be parsed again: the head of the array and its complete arguments. 0 if there are
    /// none.
    whole: usize,
    /// Number of arguments of the array.
    args: usize,
    /// Number of arguments of the array that follow after the first `whole` bytes.
    missing: usize,
}

impl Parser {
    /// Returns the command at the start of `input`; `None` if it is incomplete. After `None`, the input of the next
    /// call must begin with the same bytes, followed by more bytes.
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
                // An empty line is ignored, as in Redis.
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
    /// A complete array.
    Bulks { bytes: &'a [u8], count: usize },
    /// An inline command, which consists of words between blanks or in quotes. It was validated when the value was
    /// created.
    Line(&'a [u8]),
}

impl<'a> Args<'a> {
    /// Returns the arguments, starting with the name.
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

    /// Returns the number of arguments, including the name.
    #[must_use]
    pub fn count(&self) -> usize {
        match self.0 {
            Form::Bulks { count, .. } => count,
            Form::Line(_) => self.iter().count(),
        }
    }
}

/// The words of a line. A word in quotes ends at the next quote of the same kind. There are no escape characters.
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

/// Parses an inline command.
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

/// Parses the number after the first byte of the input, up to CR LF. Also returns the position after CR LF. Returns
/// `None` if the input ends before CR LF.
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

/// Parses the bulk string at the start of the input. Also returns the position after the string. Returns `None` if the
/// input ends before the end of the string.
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
