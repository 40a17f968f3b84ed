//! Client that speaks the Redis protocol. It sends the `INCR` commands of a worker's round in a single write, and then
//! reads all replies.

use std::io;
use std::time::Duration;

use seq_channel::{Access, Socket};
use seq_core::Seq;
use seq_proto::reason::ClientReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{EndpointOptions, failure};
use crate::reply::Reply;

/// Free space of the input buffer before each read, in bytes. It is enough for the replies to many pipelined commands.
const READ: usize = 64 * 1024;

/// Largest length of a reply in bytes. Replies with numbers and with errors are far shorter.
const MAX_LINE: usize = 4 * 1024;

pub(crate) struct Transport {
    addr: String,
    access: Access,
    prefix: String,
    deadline: Duration,
    stream: Option<Socket>,
    /// Buffers for the commands of a round and for received bytes that are not parsed yet. They are kept between rounds
    /// so that their memory is reused.
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Transport {
    pub(crate) async fn connect(options: &EndpointOptions) -> io::Result<Transport> {
        let mut transport = Transport {
            addr: options.redis.clone(),
            access: options.access.clone(),
            prefix: options.prefix.clone(),
            deadline: options.deadline,
            stream: None,
            out: Vec::new(),
            input: Vec::new(),
        };
        transport.dial().await?;
        Ok(transport)
    }

    async fn dial(&mut self) -> io::Result<()> {
        let mut stream = self.access.connect(&self.addr, None).await?;
        self.input.clear();
        if let Some(bearer) = &self.access.bearer {
            let token = bearer.token();
            stream.write_all(format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{token}\r\n", token.len()).as_bytes()).await?;
            stream.flush().await?;
            while !self.input.ends_with(b"\r\n") {
                if self.input.len() > MAX_LINE || stream.read_buf(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if !self.input.starts_with(b"+") {
                let reply = String::from_utf8_lossy(&self.input).trim_end().to_owned();
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reply));
            }
            self.input.clear();
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Sends the commands of a round and adds their replies to `replies`. If it fails, `replies` contains only the
    /// replies that had been received before the failure.
    async fn exchange(&mut self, uids: &[u64], replies: &mut Vec<Reply>) -> io::Result<()> {
        if self.stream.is_none() {
            self.dial().await?;
        }
        let stream = self.stream.as_mut().expect("it was dialled");
        self.out.clear();
        for uid in uids {
            let key = self.prefix.len() + uid.checked_ilog10().unwrap_or(0) as usize + 1;
            io::Write::write_fmt(
                &mut self.out,
                format_args!("*2\r\n$4\r\nINCR\r\n${key}\r\n{}{uid}\r\n", self.prefix),
            )?;
        }
        stream.write_all(&self.out).await?;
        stream.flush().await?;
        let mut left = uids.len();
        let mut read = 0;
        loop {
            while let Some(end) = line_end(&self.input[read..]) {
                replies.push(reply(&self.input[read..read + end])?);
                read += end + 2;
                left -= 1;
                if left == 0 {
                    self.input.drain(..read);
                    return Ok(());
                }
            }
            if self.input.len() - read > MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply without an end"));
            }
            self.input.drain(..read);
            read = 0;
            self.input.reserve(READ);
            if stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        let all = replies.len() + uids.len();
        let ended = tokio::time::timeout(self.deadline, self.exchange(uids, replies)).await;
        let error = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => failure(ClientReason::ConnectionLost.name(), &error.to_string(), true),
            Err(_) => failure(ClientReason::DeadlineExceeded.name(), "no reply in time", true),
        };
        // On the same connection, late replies to this round would be taken for replies to the next round, so the next
        // round opens a new connection.
        self.stream = None;
        replies.resize(all, error);
    }
}

/// Returns the length of the first line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// Decodes a reply, given without its line end.
fn reply(line: &[u8]) -> io::Result<Reply> {
    let text = || String::from_utf8_lossy(line).into_owned();
    match line.split_first() {
        Some((b':', digits)) => {
            let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            // The reply of `INCR` has no previous number.
            let given = value.map(|value| Reply::Given { value: Seq(value), prev: Seq(0), lost: 0 });
            given.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text()))
        }
        Some((b'-', message)) => {
            let message = String::from_utf8_lossy(message);
            let reason = message.split(' ').next().unwrap_or_default();
            Ok(failure(reason, &message, false))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_numbers_or_errors() {
        assert!(matches!(reply(b":42").unwrap(), Reply::Given { value: Seq(42), .. }));
        let Reply::Failed(failure) = reply(b"-TRYAGAIN later").unwrap() else { panic!("no failure") };
        assert_eq!((&*failure.reason, failure.lost), ("TRYAGAIN", 0));
        for bad in [&b":x"[..], b"", b"+OK"] {
            assert!(reply(bad).is_err(), "{bad:?}");
        }
    }
}
