//! One client: reads what its socket has, answers all whole commands of it, writes once.
//!
//! The memory for a batch belongs to the thread: a client has it from when bytes have come until its replies are gone, so
//! quiet ones hold nothing but the start of a command. Replies are in the order of the commands, whatever waits.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::Poll;
use std::time::Duration;

use seq_core::limits;
use seq_kit::connection::Connection;
use seq_kit::frontend::{Allocation, Answered, Asked, Call, Frontend, Via};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::server::Connected;

use crate::resp::Door;
use crate::resp::commands::{self, Session};
use crate::resp::encode::Replies;
use crate::resp::gather::{self, Halt};
use crate::resp::parse::Parser;
use crate::resp::transaction::Transaction;
use crate::timeout::{self, DEFAULT_TIMEOUT};

/// Bytes read at a time: some hundred commands, which stay in the nearest cache until they are answered.
const READ_BYTES: usize = 16 * 1024;

/// The start of a command that fits in front of what is read next; one that is cut by the end of a read usually does.
const SHORT_BYTES: usize = 1_024;

/// Replies are sent once there are so many bytes of them, however many commands wait behind. Only the largest batches have
/// more.
const SEND_BYTES: usize = 64 * 1024;

/// Memory for replies and asks that a thread keeps between batches: what a batch of single takes needs, and not what the
/// largest one did.
const KEPT_BYTES: usize = SEND_BYTES;

/// Most takes of one batch: more than one read brings, and as many as a call to another node may carry.
const MAX_TAKES: usize = limits::MAX_ITEMS;

/// How long a command may take to arrive after its first byte: a slow line brings the largest one in the time, and whoever
/// sends a byte now and then does not hold a connection for ever.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// How long a client may leave replies unread before it is cut. Until then nothing more is read from it.
const UNREAD_TIME: Duration = Duration::from_secs(30);

/// How long the last reply of a connection may take to be read before the socket is closed over it.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// One client's connection.
pub(super) struct Client<F> {
    door: Arc<Door<F>>,
    stream: Connection,
    parser: Parser,
    /// The start of a command whose end has not come.
    partial: Vec<u8>,
    /// When its first bytes came.
    since: Option<Instant>,
    session: Session,
}

/// Memory for one batch.
struct Batch {
    /// [`SHORT_BYTES`] of room, then what was read.
    input: Box<[u8]>,
    asks: Vec<Asked>,
    answers: Vec<Answered<Allocation>>,
    replies: Replies,
}

/// Why a connection ends.
enum End {
    /// The client left, or takes nothing more.
    Gone,
    /// The door closes, after the replies that are written.
    Close,
}

impl<F: Frontend> Client<F> {
    pub(super) fn new(door: Arc<Door<F>>, stream: Connection) -> Client<F> {
        let id = door.node.last_id.fetch_add(1, Relaxed) + 1;
        let peer = stream.connect_info().remote_addr();
        let session = Session::new(id, door.node.config.password.is_none(), peer);
        Client { door, stream, parser: Parser::default(), partial: Vec::new(), since: None, session }
    }

    /// Serves the client until it leaves, breaks a rule or the door closes.
    pub(super) async fn run(mut self) {
        let door = self.door.clone();
        // Registered once: the door's end wakes this task whatever it waits for, and costs nothing until then.
        let mut stopped = pin!(door.stop.cancelled());
        poll_fn(|context| {
            let _ = stopped.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        let end = loop {
            let (mut batch, bytes) = match self.read().await {
                Ok(read) => read,
                Err(end) => break end,
            };
            let served = self.serve(&mut batch, bytes).await;
            batch.put_back();
            if let Err(end) = served {
                break end;
            }
            if bytes == READ_BYTES {
                // There is more where that came from; the others of this core come first.
                tokio::task::yield_now().await;
            }
        };
        if matches!(end, End::Close) {
            self.close().await;
        }
    }

    /// Waits for bytes; they are in a batch's input, behind the room for the start of a command.
    async fn read(&mut self) -> Result<(Box<Batch>, usize), End> {
        let (door, stream) = (&*self.door, &mut self.stream);
        let reading = poll_fn(|context| {
            if door.stopping.load(Acquire) {
                return Poll::Ready(Err(End::Close));
            }
            let mut batch = Batch::of_thread();
            let mut buffer = ReadBuf::new(&mut batch.input[SHORT_BYTES..]);
            let read = Pin::new(&mut *stream).poll_read(context, &mut buffer);
            let bytes = buffer.filled().len();
            match read {
                Poll::Ready(Ok(())) if bytes > 0 => Poll::Ready(Ok((batch, bytes))),
                read => {
                    batch.put_back();
                    read.map(|_| Err(End::Gone))
                }
            }
        });
        let Some(since) = self.since else {
            let Some(idle) = door.node.config.idle else { return reading.await };
            return timeout(idle, reading).await.unwrap_or(Err(End::Close));
        };
        match timeout_at(since + COMMAND_TIME, reading).await {
            Ok(read) => read,
            Err(_) => {
                let mut replies = Replies::default();
                replies.error(
                    "ERR",
                    format_args!("Protocol error: a command took longer than {COMMAND_TIME:?} to arrive"),
                );
                self.send(&mut replies).await?;
                Err(End::Close)
            }
        }
    }

    /// Answers what came.
    async fn serve(&mut self, batch: &mut Batch, bytes: usize) -> Result<(), End> {
        let Batch { input, asks, answers, replies } = batch;
        // The usual start of a command goes in front of what was read; what is read goes behind a long one.
        let short = self.partial.len() <= SHORT_BYTES;
        let mut partial = if short { Vec::new() } else { std::mem::take(&mut self.partial) };
        let input = if short {
            let begin = SHORT_BYTES - self.partial.len();
            input[begin..SHORT_BYTES].copy_from_slice(&self.partial);
            &input[begin..SHORT_BYTES + bytes]
        } else {
            partial.extend_from_slice(&input[SHORT_BYTES..SHORT_BYTES + bytes]);
            &partial[..]
        };
        replies.resp3 = self.session.resp3;
        let door = self.door.clone();
        let keys = commands::keys(&door.node);
        let mut at = 0;
        let outcome = loop {
            // Before authentication and within a transaction every command is parsed one by one.
            let (bytes, halt) = if self.session.takes_at_once() {
                gather::takes(&mut self.parser, &input[at..], keys, MAX_TAKES, asks)
            } else {
                gather::other(&mut self.parser, &input[at..])
            };
            at += bytes;
            if !asks.is_empty() {
                take(&door, asks, answers, replies).await;
            }
            match halt {
                Halt::Input => break Ok(()),
                Halt::Full => {}
                Halt::Other(command) => {
                    let bytes = &input[at..at + command.bytes];
                    at += command.bytes;
                    commands::execute(&door, &mut self.session, &command.args, bytes, replies).await;
                    if self.session.leaves {
                        break Err(End::Close);
                    }
                    if let Some(transaction) = self.session.executes.take() {
                        self.execute(transaction, asks, answers, replies).await?;
                    }
                }
                Halt::Malformed(malformed) => {
                    replies.error("ERR", format_args!("Protocol error: {malformed}"));
                    break Err(End::Close);
                }
            }
            if replies.bytes().len() >= SEND_BYTES {
                self.send(replies).await?;
            }
        };
        self.send(replies).await?;
        outcome?;
        if at == input.len() {
            self.since = None;
        } else if at > 0 || self.since.is_none() {
            self.since = Some(Instant::now());
        }
        if short {
            let rest = &input[at..];
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        } else {
            partial.drain(..at);
            partial.shrink_to(SHORT_BYTES);
            self.partial = partial;
        }
        Ok(())
    }

    /// Answers the commands of a transaction, as one array.
    async fn execute(
        &mut self,
        transaction: Transaction,
        asks: &mut Vec<Asked>,
        answers: &mut Vec<Answered<Allocation>>,
        replies: &mut Replies,
    ) -> Result<(), End> {
        let Some((input, commands)) = transaction.into_commands() else {
            replies.error("EXECABORT", format_args!("Transaction discarded because of previous errors."));
            return Ok(());
        };
        replies.array(commands);
        let (door, mut parser, mut at) = (self.door.clone(), Parser::default(), 0);
        let keys = commands::keys(&door.node);
        while at < input.len() {
            let (bytes, halt) = gather::takes(&mut parser, &input[at..], keys, MAX_TAKES, asks);
            at += bytes;
            if !asks.is_empty() {
                take(&door, asks, answers, replies).await;
            }
            match halt {
                Halt::Other(command) => {
                    let bytes = &input[at..at + command.bytes];
                    at += command.bytes;
                    commands::execute(&door, &mut self.session, &command.args, bytes, replies).await;
                }
                Halt::Full => {}
                // They were whole when they were queued.
                Halt::Input | Halt::Malformed(_) => break,
            }
            if replies.bytes().len() >= SEND_BYTES {
                self.send(replies).await?;
            }
        }
        Ok(())
    }

    /// Sends the replies.
    async fn send(&mut self, replies: &mut Replies) -> Result<(), End> {
        if replies.bytes().is_empty() {
            return Ok(());
        }
        let sent = {
            let mut sending = pin!(self.stream.write_all(replies.bytes()));
            // A client that reads makes nobody wait, and needs no timer.
            match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
                Poll::Ready(sent) => sent.is_ok(),
                Poll::Pending => matches!(timeout(UNREAD_TIME, sending).await, Ok(Ok(()))),
            }
        };
        replies.clear(KEPT_BYTES);
        if sent { Ok(()) } else { Err(End::Gone) }
    }

    /// Ends the connection so that the client gets the last reply: a socket that is closed over unread bytes takes back what
    /// is on its way.
    async fn close(&mut self) {
        let stream = &mut self.stream;
        let closing = async {
            stream.shutdown().await?;
            let mut unread = [0; 512];
            while tokio::io::AsyncReadExt::read(stream, &mut unread).await? > 0 {}
            std::io::Result::Ok(())
        };
        let _ = timeout(LINGER, closing).await;
    }
}

/// Takes the numbers of a run and tells them.
async fn take<F: Frontend>(
    door: &Door<F>,
    asks: &mut Vec<Asked>,
    answers: &mut Vec<Answered<Allocation>>,
    replies: &mut Replies,
) {
    let frontend = &door.frontend;
    let _sample = door.latency.sample(Via::Resp);
    frontend.take_now(Via::Resp, asks, answers);
    // Before the first routes nobody is known to ask; a client is told so at once, and comes back.
    if answers.iter().any(Option::is_none) && !door.knows_nobody() {
        frontend.take_rest(call(), asks, answers).await;
    }
    for answer in answers.drain(..) {
        match answer {
            Some(Ok(given)) => replies.integer(given.value.0),
            Some(Err(refusal)) => commands::refuse(replies, &refusal),
            None => commands::loading(replies),
        }
    }
    asks.clear();
}

/// A call of a client, which says nothing of how long it waits.
pub(super) fn call() -> Call {
    Call { deadline: timeout::after(DEFAULT_TIMEOUT), hops: 0, via: Via::Resp }
}

thread_local! {
    /// The memory that no client of the thread holds.
    static SPARE: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

impl Batch {
    /// The thread's, or a new one while a client that waits holds it.
    fn of_thread() -> Box<Batch> {
        SPARE.take().unwrap_or_else(|| {
            let input = vec![0; SHORT_BYTES + READ_BYTES].into();
            Box::new(Batch { input, asks: Vec::new(), answers: Vec::new(), replies: Replies::default() })
        })
    }

    fn put_back(mut self: Box<Batch>) {
        self.asks.clear();
        self.answers.clear();
        self.asks.shrink_to(KEPT_BYTES / size_of::<Asked>());
        self.answers.shrink_to(KEPT_BYTES / size_of::<Answered<Allocation>>());
        self.replies.clear(KEPT_BYTES);
        SPARE.set(Some(self));
    }
}
