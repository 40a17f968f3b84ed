//! The port of an AllocSvr for clients of Redis: a sequence is a key, and INCR takes its next number.
//!
//! One door runs on one core's runtime with a listener of its own, as the gRPC door does. What a connection may hold is bounded:
//! [`MAX_CONNECTION_BYTES`] of memory, and its time wherever it makes the door wait. Numbers only grow: whatever would lower or
//! remove one is refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Release};
use std::time::Duration;

use seq_core::RouteVersion;
use seq_kit::admission::Admission;
use seq_kit::connection::{Connection, Listener, paced};
use seq_kit::frontend::Frontend;
use seq_kit::tasks::{Kind, TaskGroup};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::latency::Latency;

mod auth;
mod commands;
mod connection;
mod encode;
mod gather;
pub mod parse;
mod tables;
mod transaction;

/// Longest prefix of keys, in bytes: ten thousand of the longest keys fit into [`parse::MAX_COMMAND_BYTES`].
pub const MAX_PREFIX_BYTES: usize = 24;

/// Longest password, in bytes; it comes as one argument.
pub const MAX_PASSWORD_BYTES: usize = parse::MAX_BULK_BYTES;

/// What a connection takes of this process' memory at worst: a command of the largest size that has not come to its end, and
/// the commands of a transaction, and the replies to the largest batch while the client does not read them. A quiet one takes
/// less than 1 KiB. What the kernel keeps of both directions comes on top.
pub const MAX_CONNECTION_BYTES: usize = 3 << 20;

/// How long a peer that says nothing goes unasked whether it lives, how often it is asked then, and how many times: a
/// half-open connection ends within a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// What a port for clients of Redis is told.
#[derive(Clone)]
pub struct RespConfig {
    /// What stands before the uid in a key.
    pub prefix: String,
    /// What clients must say first; `None`: nothing.
    pub password: Option<String>,
    /// After how long without a command a connection is closed; `None`: never.
    pub idle: Option<Duration>,
}

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespConfigError {
    /// The prefix is too long.
    #[error("a prefix of {bytes} bytes is longer than {MAX_PREFIX_BYTES}")]
    PrefixTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A prefix with blanks or digits at its end: a key could not be read in one way only.
    #[error("a prefix has no blanks, no control characters, and no digit at its end")]
    Prefix,
    /// The password is too long, or has bytes that not every client can send.
    #[error("a password is up to {MAX_PASSWORD_BYTES} bytes without blanks and control characters")]
    Password,
}

impl RespConfig {
    /// What a port is told unless somebody says otherwise.
    #[must_use]
    pub fn defaults() -> RespConfig {
        RespConfig { prefix: "seq:".to_owned(), password: None, idle: None }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`RespConfigError`].
    pub fn validate(&self) -> Result<(), RespConfigError> {
        let blank = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        let bytes = self.prefix.len();
        if bytes > MAX_PREFIX_BYTES {
            return Err(RespConfigError::PrefixTooLong { bytes });
        }
        if self.prefix.bytes().any(blank) || self.prefix.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(RespConfigError::Prefix);
        }
        let bad = |password: &String| password.len() > MAX_PASSWORD_BYTES || password.bytes().any(blank);
        if self.password.as_ref().is_some_and(bad) { Err(RespConfigError::Password) } else { Ok(()) }
    }
}

/// What the doors of one node share. Clones are handles on it.
#[derive(Clone)]
pub struct RespNode(Arc<Node>);

struct Node {
    config: RespConfig,
    /// Who may connect.
    admission: Admission,
    guesses: auth::Guesses,
    /// Of the newest connection.
    last_id: AtomicU64,
    started: Instant,
}

impl RespNode {
    /// A node whose connections of all ports are counted by `admission`.
    #[must_use]
    pub fn new(config: RespConfig, admission: Admission) -> RespNode {
        let guesses = auth::Guesses::new(admission.node());
        RespNode(Arc::new(Node { config, admission, guesses, last_id: AtomicU64::new(0), started: Instant::now() }))
    }
}

/// What the connections of one door share.
struct Door<F> {
    frontend: F,
    latency: Latency,
    node: Arc<Node>,
    /// Set when connections shall end, before `stop` wakes those that wait.
    stopping: AtomicBool,
    stop: CancellationToken,
}

impl<F: Frontend> Door<F> {
    /// Whether the node has no routes yet: nobody is known to ask, and it serves nothing itself.
    fn knows_nobody(&self) -> bool {
        self.frontend.route_version() == RouteVersion(0)
    }
}

/// Opens the door: serves on `listener`, in `group`, on the current runtime, until the group shuts down.
///
/// # Errors
/// When the runtime cannot take the listener over.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: Frontend>(
    frontend: F,
    node: &RespNode,
    set: &str,
    listener: impl Into<Listener>,
    group: &TaskGroup,
) -> io::Result<()> {
    let mut incoming = Box::pin(listener.into().incoming()?.then(paced));
    let shutdown = group.token();
    let (latency, node) = (Latency::new(set), node.0.clone());
    let (stopping, stop) = (AtomicBool::new(false), CancellationToken::new());
    let door = Arc::new(Door { frontend, latency, node, stopping, stop });
    let tasks = group.clone();
    group.spawn("redis door", Kind::Critical, async move {
        loop {
            let accepted = tokio::select! {
                accepted = incoming.next() => accepted,
                () = shutdown.cancelled() => break,
            };
            let Some(accepted) = accepted else { break };
            let Ok(connection) = accepted else { continue };
            tasks.spawn("redis connection", Kind::Disposable, serve_one(door.clone(), connection));
        }
        door.stopping.store(true, Release);
        door.stop.cancel();
    });
    Ok(())
}

async fn serve_one<F: Frontend>(door: Arc<Door<F>>, mut stream: Connection) {
    let Some(_place) = door.node.admission.admit(stream.peer()) else {
        // A fresh socket takes so little at once, or it is not worth waiting for.
        let refused = stream.write_all(b"-ERR max number of clients reached\r\n");
        let _ = tokio::time::timeout(connection::LINGER, refused).await;
        return;
    };
    let (idle, every, tries) = KEEPALIVE;
    if let Err(error) = stream.keep_alive(idle, every, tries) {
        tracing::debug!(%error, "a connection cannot be kept alive");
    }
    connection::Client::new(door, stream).run().await;
}
