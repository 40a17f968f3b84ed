//! Connection of one client. It reads the available bytes, executes all complete commands in them, and sends all
//! replies at once.
//!
//! The buffers for a batch of commands belong to the thread. A connection uses them only from the arrival of bytes
//! until the replies are sent, so an idle connection holds at most the start of an incomplete command. Replies are sent
//! in the order of the commands, even if some commands have to wait.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::Poll;
use std::time::Duration;

use seq_api::keys::KeyedItem;
use seq_api::service::{Allocation, DecodedItem, ItemReply, Redirects, SequenceService};
use seq_core::{Refusal, limits};
use seq_kit::connection::Connection;
use seq_kit::memory::{Charge, OutOfMemory};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::resp::Endpoint;
use crate::resp::allocate::{Sender, allocate};
use crate::resp::commands::{self, Session};
use crate::resp::encode::Replies;
use crate::resp::incr_batch::{self, BatchEnd, Items};
use crate::resp::parse::Parser;
use crate::resp::transaction::Transaction;

/// Number of bytes that are read at once. They have room for several hundred commands, which stay in the L1 cache until
/// their replies have been written.
const READ_BYTES: usize = 16 * 1024;

/// Longest start of an incomplete command that is copied in front of the bytes of the next read. If a command is split
/// between two reads, its start is usually not longer.
const SHORT_BYTES: usize = 1_024;

/// Number of bytes of buffered replies at which the replies are sent even if more commands follow. Only the replies to
/// the largest batches have more bytes.
const SEND_BYTES: usize = 64 * 1024;

/// Bytes of each buffer, for replies and for items, that a thread keeps between batches. They are enough for a usual
/// batch of INCR, but not for the largest batch.
const KEPT_BYTES: usize = SEND_BYTES;

/// Limit on the number of batch buffers that a thread keeps. Under usual load, fewer connections than this wait for
/// other nodes at the same time, and each of them uses one batch buffer. All kept buffers together take 12 MiB if each
/// of them has [`KEPT_BYTES`], and 1 MiB after small batches.
const MAX_SPARE: usize = 64;

/// Limit on the INCR commands in one batch. It is larger than the number of commands that arrive in one read, and
/// equals the number of items that a forwarded request may have.
const MAX_TAKES: usize = limits::MAX_ITEMS;

/// Timeout for receiving a command, counted from its first byte. It is long enough for the largest command over a slow
/// network, and prevents a client that sends single bytes from keeping a connection occupied forever.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// Timeout for sending replies to a client that does not read them. After this time the client is disconnected. Until
/// then no further bytes are read from the client.
const UNREAD_TIME: Duration = Duration::from_secs(30);

/// Time that the client has to read the last reply before the socket is closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// One client's connection.
pub(super) struct Client<F> {
    endpoint: Arc<Endpoint<F>>,
    stream: Connection,
    parser: Parser,
    /// The start of an incomplete command.
    partial: Vec<u8>,
    /// Time at which the first bytes of the incomplete command arrived.
    since: Option<Instant>,
    session: Session,
    /// Counted memory that the connection holds in addition to [`SHORT_BYTES`] and the buffers of the thread.
    memory: Charge,
}

/// Buffers of one batch.
struct Batch {
    /// [`SHORT_BYTES`] of space, followed by the bytes of the read.
    input: Box<[u8]>,
    items: Items,
    results: Vec<ItemReply<Allocation>>,
    replies: Replies,
}

/// Reason why a connection ends.
enum End {
    /// The client disconnected, or does not read its replies.
    Gone,
    /// The endpoint closes the connection, after the replies so far have been sent.
    Close,
}

impl<F: SequenceService> Client<F> {
    pub(super) fn new(endpoint: Arc<Endpoint<F>>, stream: Connection) -> Client<F> {
        let id = endpoint.node.last_id.fetch_add(1, Relaxed) + 1;
        let session = Session::new(id, &endpoint.node, stream.peer().clone());
        let memory = stream.peer().account(&endpoint.node.memory).charge_present(0);
        Client { endpoint, stream, parser: Parser::default(), partial: Vec::new(), since: None, session, memory }
    }

    /// Serves the client until the client disconnects or violates the protocol, or until the endpoint shuts down.
    pub(super) async fn run(mut self) {
        let endpoint = self.endpoint.clone();
        // The task is registered for the shutdown of the endpoint only once. The shutdown then wakes the task from any
        // wait, and the registration has no cost until then.
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
                // More input is available, so other tasks of this core are allowed to run first.
                tokio::task::yield_now().await;
            }
        };
        if matches!(end, End::Close) {
            self.close().await;
        }
    }

    /// Waits for bytes and reads them into the input of a batch, behind the space for the start of an incomplete
    /// command. Returns the batch and the number of bytes.
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

    /// Returns the sender of a batch of this connection.
    fn sender(&self, redirects: Redirects) -> Sender<'_> {
        Sender { caller: self.session.sender.caller(), account: self.memory.account(), redirects }
    }

    /// Returns whether the connection ends after the replies to the commands so far. This is so while the node leaves.
    /// If the connection were closed at another time, a command on it could be lost.
    fn leaves(&self) -> bool {
        self.endpoint.node.departure.ends_connections() && !self.session.is_in_transaction()
    }

    /// If the connection ends after the replies that are about to be sent, makes the system send the end of the
    /// connection together with them. Otherwise a command that the client sends after it received the replies could be
    /// lost.
    fn before_last_send(&self, all_executed: bool) {
        if all_executed && self.leaves() {
            self.stream.join_end_to_last_write();
        }
    }

    /// Executes the commands in the bytes that were read.
    async fn serve(&mut self, batch: &mut Batch, bytes: usize) -> Result<(), End> {
        let Batch { input, items, results, replies } = batch;
        // In the common case the start of the incomplete command is short, and is copied in front of the bytes that
        // were read. If it is long, these bytes are appended to it.
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
        // A command on a key of an unknown keyspace is no part of a batch, and is refused when it is executed.
        let keyspace = endpoint.keyspace().ok().flatten();
        let keys = commands::keys(&endpoint.node, keyspace.as_deref());
        let redirects = endpoint.redirects();
        let mut at = 0;
        let outcome = loop {
            // Before authentication and within a transaction, commands are parsed and executed one by one.
            let (bytes, end) = if self.session.allows_incr_batches() {
                incr_batch::parse_batch(&mut self.parser, &input[at..], keys, MAX_TAKES, items)
            } else {
                incr_batch::parse_one(&mut self.parser, &input[at..])
            };
            let batch = &input[at..at + bytes];
            at += bytes;
            if !items.is_empty() {
                let sender = self.sender(redirects);
                allocate(&endpoint, sender, (batch, keys), items, results, replies).await;
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

    /// Counts the memory of an incomplete command and of a transaction. If they do not fit into the memory that is
    /// left, closes the connection, because the rest of the command would not fit either.
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

    /// Executes the commands of a transaction. The replies to them are the items of one array. None of them redirects a
    /// client of Redis Cluster, because the client would repeat the whole transaction, of which the commands before
    /// have already allocated numbers.
    async fn execute(
        &mut self,
        transaction: Transaction,
        items: &mut Items,
        results: &mut Vec<ItemReply<Allocation>>,
        replies: &mut Replies,
    ) -> Result<(), End> {
        let Some((input, commands)) = transaction.into_commands() else {
            replies.error("EXECABORT", format_args!("Transaction discarded because of previous errors."));
            return Ok(());
        };
        replies.array(commands);
        self.session.executing = true;
        let (endpoint, mut parser, mut at) = (self.endpoint.clone(), Parser::default(), 0);
        let keyspace = endpoint.keyspace().ok().flatten();
        let keys = commands::keys(&endpoint.node, keyspace.as_deref());
        while at < input.len() {
            let (bytes, end) = incr_batch::parse_batch(&mut parser, &input[at..], keys, MAX_TAKES, items);
            let batch = &input[at..at + bytes];
            at += bytes;
            if !items.is_empty() {
                let sender = self.sender(Redirects::Forward);
                allocate(&endpoint, sender, (batch, keys), items, results, replies).await;
            }
            match end {
                BatchEnd::Other(command) => {
                    at += commands::execute(&endpoint, &mut self.session, &command, &input[at..], replies).await;
                }
                BatchEnd::Full => {}
                // This case does not occur, because the commands were complete when they were queued.
                BatchEnd::Input | BatchEnd::Malformed(_) => break,
            }
            if replies.bytes().len() >= SEND_BYTES {
                self.send(replies).await?;
            }
        }
        self.session.executing = false;
        Ok(())
    }

    /// Sends the replies.
    async fn send(&mut self, replies: &mut Replies) -> Result<(), End> {
        if replies.bytes().is_empty() {
            return Ok(());
        }
        let sent = {
            let mut sending = pin!(self.stream.write_all(replies.bytes()));
            // In the common case the write completes immediately and needs no timer.
            match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
                Poll::Ready(sent) => sent.is_ok(),
                // The memory of replies that the client does not read is counted. If they do not fit into the memory
                // that is left, the connection does not wait for the client.
                Poll::Pending => match self.memory.account().charge(replies.bytes().len()) {
                    Ok(_unread) => matches!(timeout(UNREAD_TIME, sending).await, Ok(Ok(()))),
                    Err(OutOfMemory) => false,
                },
            }
        };
        replies.clear(KEPT_BYTES);
        if sent { Ok(()) } else { Err(End::Gone) }
    }

    /// Closes the connection in such a way that the client gets the last reply. If the socket were closed while it has
    /// unread bytes, data in transit to the client would be discarded.
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

thread_local! {
    /// The batch buffers that no connection of this thread uses. There are at most [`MAX_SPARE`] of them. The last
    /// element was used most recently.
    static SPARE: RefCell<Vec<Batch>> = const { RefCell::new(Vec::new()) };
}

impl Batch {
    /// Takes spare buffers of this thread, or creates new buffers if connections use all of them.
    fn of_thread() -> Batch {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            let input = vec![0; SHORT_BYTES + READ_BYTES].into();
            Batch { input, items: Items::default(), results: Vec::new(), replies: Replies::default() }
        })
    }

    fn put_back(mut self) {
        self.items.uids.clear();
        self.items.keys.clear();
        self.results.clear();
        self.items.uids.shrink_to(KEPT_BYTES / size_of::<DecodedItem>());
        self.items.keys.shrink_to(KEPT_BYTES / size_of::<KeyedItem>());
        self.results.shrink_to(KEPT_BYTES / size_of::<ItemReply<Allocation>>());
        self.replies.clear(KEPT_BYTES);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(self);
            }
        });
    }
}
