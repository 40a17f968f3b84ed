//! One client connection: reads the available bytes, executes all complete commands, and writes the replies once.
//!
//! The buffers of a batch belong to the thread: a connection holds them from the arrival of bytes until its replies are
//! sent, so an idle connection holds only the start of an incomplete command. Replies are in the order of the commands,
//! even if some of them wait.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::Poll;
use std::time::Duration;

use seq_api::service::{Allocation, DecodedItem, ItemReply, SequenceService, Via};
use seq_core::{Refusal, limits};
use seq_kit::connection::Connection;
use seq_kit::memory::{Account, Charge, OutOfMemory};
use seq_tenant::Caller;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::memory::ITEM_BYTES;
use crate::resp::Endpoint;
use crate::resp::commands::{self, Session, call};
use crate::resp::encode::Replies;
use crate::resp::incr_batch::{self, BatchEnd};
use crate::resp::parse::Parser;
use crate::resp::transaction::Transaction;

/// Size of a read: some hundred commands, which stay in the L1 cache until their replies are written.
const READ_BYTES: usize = 16 * 1024;

/// Longest start of an incomplete command that is copied in front of the next read. A command that is split by a read
/// usually fits.
const SHORT_BYTES: usize = 1_024;

/// Size of the buffered replies at which they are sent, even if more commands follow. Only the largest batches have
/// more.
const SEND_BYTES: usize = 64 * 1024;

/// Memory for replies and items that a thread keeps between batches: enough for a batch of INCR, but not for the
/// largest batch.
const KEPT_BYTES: usize = SEND_BYTES;

/// Most batch buffers that a thread keeps: one for each connection that waits for other nodes under a usual load. With
/// [`KEPT_BYTES`] for each of their parts they take 12 MiB; the buffers of small batches take 1 MiB.
const MAX_SPARE: usize = 64;

/// Most INCRs of one batch: more than one read holds, and as many as a forwarded request may carry.
const MAX_TAKES: usize = limits::MAX_ITEMS;

/// Timeout of a command, from its first byte. It is enough for the largest command over a slow network, and a client
/// that sends single bytes cannot occupy a connection forever.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// Timeout of writing replies to a client that does not read them, after which it is disconnected. Until then no
/// further bytes are read from it.
const UNREAD_TIME: Duration = Duration::from_secs(30);

/// Timeout for the client to read the last reply before the socket is closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// One client's connection.
pub(super) struct Client<F> {
    endpoint: Arc<Endpoint<F>>,
    stream: Connection,
    parser: Parser,
    /// The start of an incomplete command.
    partial: Vec<u8>,
    /// Arrival of the first bytes of the incomplete command.
    since: Option<Instant>,
    session: Session,
    /// Memory that the connection holds beyond [`SHORT_BYTES`] and the buffers of the thread.
    memory: Charge,
}

/// Buffers of one batch.
struct Batch {
    /// [`SHORT_BYTES`] of space, then the bytes of the read.
    input: Box<[u8]>,
    items: Vec<DecodedItem>,
    results: Vec<ItemReply<Allocation>>,
    replies: Replies,
}

/// Reason why a connection ends.
enum End {
    /// The client disconnected, or does not read.
    Gone,
    /// The endpoint closes the connection, after the replies that are written.
    Close,
}

impl<F: SequenceService> Client<F> {
    pub(super) fn new(endpoint: Arc<Endpoint<F>>, stream: Connection) -> Client<F> {
        let id = endpoint.node.last_id.fetch_add(1, Relaxed) + 1;
        let session = Session::new(id, &endpoint.node, stream.peer().clone());
        let memory = stream.peer().account(&endpoint.node.memory).charge_present(0);
        Client { endpoint, stream, parser: Parser::default(), partial: Vec::new(), since: None, session, memory }
    }

    /// Serves the client until it disconnects, violates the protocol, or the endpoint shuts down.
    pub(super) async fn run(mut self) {
        let endpoint = self.endpoint.clone();
        // Registered once: the shutdown of the endpoint wakes this task from any wait, at no cost until then.
        let mut stopped = pin!(endpoint.stop.cancelled());
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
            let served = match self.session.sender.refresh() {
                Ok(()) => self.serve(&mut batch, bytes).await,
                Err(status) => {
                    batch.replies.error("NOAUTH", format_args!("{}", status.message()));
                    self.send(&mut batch.replies).await.and(Err(End::Close))
                }
            };
            batch.put_back();
            if let Err(end) = served {
                break end;
            }
            if self.leaves() && self.partial.is_empty() {
                break End::Close;
            }
            if bytes == READ_BYTES {
                // More input is available; other tasks of this core run first.
                tokio::task::yield_now().await;
            }
        };
        if matches!(end, End::Close) {
            self.close().await;
        }
    }

    /// Waits for bytes, which are read into the batch's input, behind the space for the start of a command.
    async fn read(&mut self) -> Result<(Batch, usize), End> {
        let (endpoint, stream) = (&*self.endpoint, &mut self.stream);
        let reading = poll_fn(|context| {
            if endpoint.stopping.load(Acquire) {
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
            let Some(idle) = endpoint.node.config.idle_timeout else { return reading.await };
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

    /// Returns whether the connection ends with the replies to the commands so far. This is so while the node leaves: a
    /// command on a connection that closes at another time is lost.
    fn leaves(&self) -> bool {
        self.endpoint.node.departure.ends_connections() && !self.session.is_in_transaction()
    }

    /// Sends the end of the connection together with the replies, if it ends after them: commands that the client would
    /// send in between would be lost.
    fn before_last_send(&self, all_executed: bool) {
        if all_executed && self.leaves() {
            self.stream.join_end_to_last_write();
        }
    }

    /// Executes the commands of a read.
    async fn serve(&mut self, batch: &mut Batch, bytes: usize) -> Result<(), End> {
        let Batch { input, items, results, replies } = batch;
        // The usual short start of a command is copied in front of the read; to a long start, the read is appended.
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
        let endpoint = self.endpoint.clone();
        let keys = commands::keys(&endpoint.node);
        let mut at = 0;
        let outcome = loop {
            // Before authentication and within a transaction, commands are parsed one by one.
            let (bytes, end) = if self.session.allows_incr_batches() {
                incr_batch::parse_batch(&mut self.parser, &input[at..], keys, MAX_TAKES, items)
            } else {
                incr_batch::parse_one(&mut self.parser, &input[at..])
            };
            at += bytes;
            if !items.is_empty() {
                allocate(&endpoint, (self.session.sender.caller(), self.memory.account()), items, results, replies)
                    .await;
            }
            match end {
                BatchEnd::Input => break Ok(()),
                BatchEnd::Full => {}
                BatchEnd::Other(command) => {
                    at += commands::execute(&endpoint, &mut self.session, &command, &input[at..], replies).await;
                    if self.session.closing {
                        break Err(End::Close);
                    }
                    if let Some(transaction) = self.session.exec.take() {
                        self.execute(transaction, items, results, replies).await?;
                    }
                }
                BatchEnd::Malformed(malformed) => {
                    replies.error("ERR", format_args!("Protocol error: {malformed}"));
                    break Err(End::Close);
                }
            }
            if replies.bytes().len() >= SEND_BYTES {
                self.send(replies).await?;
            }
        };
        self.before_last_send(at == input.len());
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
        self.hold(replies).await
    }

    /// Counts the rest of an incomplete command, and of a transaction. If it does not fit, the connection is closed,
    /// because there is no room for the rest of the command either.
    async fn hold(&mut self, replies: &mut Replies) -> Result<(), End> {
        let long = self.partial.len().saturating_sub(SHORT_BYTES);
        let held = long + self.session.queued_bytes();
        self.memory.set(0);
        if held == 0 || self.memory.grow(held).is_ok() {
            return Ok(());
        }
        commands::refuse(replies, &Refusal::OutOfMemory);
        self.send(replies).await?;
        Err(End::Close)
    }

    /// Executes the commands of a transaction; their replies are one array.
    async fn execute(
        &mut self,
        transaction: Transaction,
        items: &mut Vec<DecodedItem>,
        results: &mut Vec<ItemReply<Allocation>>,
        replies: &mut Replies,
    ) -> Result<(), End> {
        let Some((input, commands)) = transaction.into_commands() else {
            replies.error("EXECABORT", format_args!("Transaction discarded because of previous errors."));
            return Ok(());
        };
        replies.array(commands);
        let (endpoint, mut parser, mut at) = (self.endpoint.clone(), Parser::default(), 0);
        let keys = commands::keys(&endpoint.node);
        while at < input.len() {
            let (bytes, end) = incr_batch::parse_batch(&mut parser, &input[at..], keys, MAX_TAKES, items);
            at += bytes;
            if !items.is_empty() {
                allocate(&endpoint, (self.session.sender.caller(), self.memory.account()), items, results, replies)
                    .await;
            }
            match end {
                BatchEnd::Other(command) => {
                    at += commands::execute(&endpoint, &mut self.session, &command, &input[at..], replies).await;
                }
                BatchEnd::Full => {}
                // Not reached, because the commands were complete when they were queued.
                BatchEnd::Input | BatchEnd::Malformed(_) => break,
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
            // The usual write completes immediately and needs no timer.
            match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
                Poll::Ready(sent) => sent.is_ok(),
                // Replies that the client does not read are counted; if they do not fit, the connection is not worth
                // waiting for.
                Poll::Pending => match self.memory.account().charge(replies.bytes().len()) {
                    Ok(_unread) => matches!(timeout(UNREAD_TIME, sending).await, Ok(Ok(()))),
                    Err(OutOfMemory) => false,
                },
            }
        };
        replies.clear(KEPT_BYTES);
        if sent { Ok(()) } else { Err(End::Gone) }
    }

    /// Closes the connection so that the client gets the last reply. Closing a socket with unread bytes would discard
    /// data that is still in transit.
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

/// Allocates the numbers of a batch and writes the replies.
async fn allocate<F: SequenceService>(
    endpoint: &Endpoint<F>,
    (caller, account): (&Caller, &Account),
    items: &mut Vec<DecodedItem>,
    results: &mut Vec<ItemReply<Allocation>>,
    replies: &mut Replies,
) {
    let service = &endpoint.service;
    let _sample = endpoint.latency.sample(Via::Resp);
    caller.admit_commands(items);
    service.try_next_batch(Via::Resp, items, results);
    // Without routes no owner is known; the client gets the error immediately, and retries.
    if results.iter().any(Option::is_none) && !endpoint.has_no_routes() {
        match account.charge(items.len() * ITEM_BYTES) {
            Ok(_pending) => service.complete_batch(call(), items, results).await,
            Err(OutOfMemory) => results.iter_mut().for_each(|result| {
                result.get_or_insert(Err(Refusal::OutOfMemory));
            }),
        }
    }
    for result in results.drain(..) {
        match result {
            Some(Ok(allocation)) => replies.integer(allocation.value.0),
            Some(Err(refusal)) => commands::refuse(replies, &refusal),
            None => commands::loading(replies),
        }
    }
    items.clear();
}

thread_local! {
    /// The batch buffers that no connection of the thread uses, up to [`MAX_SPARE`] of them; the last element was used
    /// last.
    static SPARE: RefCell<Vec<Batch>> = const { RefCell::new(Vec::new()) };
}

impl Batch {
    /// Takes spare buffers, or creates new buffers if waiting connections hold all others.
    fn of_thread() -> Batch {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            let input = vec![0; SHORT_BYTES + READ_BYTES].into();
            Batch { input, items: Vec::new(), results: Vec::new(), replies: Replies::default() }
        })
    }

    fn put_back(mut self) {
        self.items.clear();
        self.results.clear();
        self.items.shrink_to(KEPT_BYTES / size_of::<DecodedItem>());
        self.results.shrink_to(KEPT_BYTES / size_of::<ItemReply<Allocation>>());
        self.replies.clear(KEPT_BYTES);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(self);
            }
        });
    }
}
