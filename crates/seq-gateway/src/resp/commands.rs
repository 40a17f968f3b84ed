//! Commands other than batches of INCR: commands that read (`reads.rs`), commands that raise a counter (`sets.rs`),
//! commands that Redis does not have (`exact.rs`), commands on series (`ids.rs`), and the commands that clients send
//! when they connect. `counters.rs` finds the counter that a key names.
//!
//! A command that is refused has changed nothing. A refusal after which a retry can succeed is encoded as `-TRYAGAIN`,
//! or as `-LOADING` while the node has no routes, because Redis clients retry after both.

use seq_api::keys::Keyspace;
use seq_api::service::{Call, Redirects, SequenceService, Via};
use seq_core::{Count, Refusal, limits};
use seq_kit::connection::Peer;
use seq_proto::Reason;
use seq_tenant::{Caller, Session as Sender};
use tonic::Status;

use crate::keys::KeyRefusal;
use crate::resp::auth::{self, AuthOutcome};
use crate::resp::encode::{Excerpt, Replies};
use crate::resp::incr_batch::{Keys, integer};
use crate::resp::parse::{Args, Command};
use crate::resp::tables::{self, OF_CLUSTER, REDIS_VERSION, SERVED, Served, Unserved};
use crate::resp::transaction::{MAX_QUEUED, MAX_QUEUED_BYTES, Transaction};
use crate::resp::{self, Endpoint, Node};
use crate::timeout::{self, DEFAULT_TIMEOUT};

mod cluster;
mod counters;
mod exact;
mod ids;
mod reads;
mod sets;

/// Limit on the bytes of a command's name. A command with a longer name is unknown.
const MAX_NAME_BYTES: usize = 24;

/// State of a connection.
pub(super) struct Session {
    id: u64,
    /// Whether the client may send all commands, either because no password or token is needed, or because it has sent
    /// the right one.
    pub(super) admitted: bool,
    /// The sender of the commands. It is known once the session is admitted.
    pub(super) sender: Sender,
    pub(super) resp3: bool,
    /// Whether the connection is closed after the replies so far have been sent.
    pub(super) closing: bool,
    /// Set by CLIENT SETNAME or HELLO.
    name: Vec<u8>,
    peer: Peer,
    /// Refusal of this connection, if the tenant of its certificate already has the allowed number of connections.
    above_quota: Option<Status>,
    wrong_passwords: u32,
    /// The commands queued since MULTI.
    transaction: Option<Transaction>,
    /// The transaction that an EXEC has completed, and that has to be executed next.
    pub(super) exec: Option<Transaction>,
    /// Whether the commands of a transaction are being executed.
    pub(super) executing: bool,
}

impl Session {
    /// Creates the session of a new connection. The session is admitted at once if the node needs no password, or if
    /// the connection's certificate belongs to a tenant.
    pub(super) fn new(id: u64, node: &Node, peer: Peer) -> Session {
        let mut above_quota = None;
        let (admitted, sender) = match &node.tenants {
            None => (node.config.password.is_none(), Sender::unlimited()),
            Some(tenants) => match tenants.session(Some(&peer), None) {
                Ok(sender) => (true, sender),
                Err(status) => {
                    above_quota = Some(status).filter(is_above_quota);
                    (false, Sender::unlimited())
                }
            },
        };
        if admitted {
            peer.proved();
        }
        Session {
            id,
            admitted,
            above_quota,
            sender,
            resp3: false,
            closing: false,
            name: Vec::new(),
            peer,
            wrong_passwords: 0,
            transaction: None,
            exec: None,
            executing: false,
        }
    }

    /// Returns whether a transaction is open.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Returns the bytes of the commands that a transaction has queued.
    pub(super) fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::bytes)
    }

    /// Returns whether INCR commands may be executed in batches, without a check of the session for each of them.
    pub(super) fn allows_incr_batches(&self) -> bool {
        self.admitted && self.transaction.is_none()
    }
}

/// Returns the node's mapping from keys to counters. `keyspace` is the keyspace in the node's settings.
pub(super) fn keys<'a>(node: &'a Node, keyspace: Option<&'a Keyspace>) -> Keys<'a> {
    let prefix = node.cluster.is_none().then_some(node.config.prefix.as_bytes());
    Keys { prefix, id_prefix: node.config.id_prefix.as_bytes(), keyspace }
}

/// Encodes a refusal.
pub(super) fn refuse(replies: &mut Replies, refusal: &Refusal) {
    let kind = if Reason::of(refusal).retry().after().is_some() { "TRYAGAIN" } else { "ERR" };
    replies.error(kind, format_args!("{refusal}"));
}

/// Encodes a refusal of a command on a key of a keyspace, with its reason, and with the kind of error by which clients
/// decide whether to retry.
pub(super) fn refuse_key<F: SequenceService>(endpoint: &Endpoint<F>, replies: &mut Replies, refusal: &KeyRefusal) {
    let reason = refusal.reason();
    let retried = reason.retry().after().is_some();
    if retried && endpoint.has_no_routes() {
        return loading(replies);
    }
    if resp::cluster::refuse(endpoint, replies, refusal) {
        return;
    }
    replies.error(if retried { "TRYAGAIN" } else { "ERR" }, format_args!("{reason} {refusal}"));
}

/// Returns whether a valid credential was refused because its tenant already has the allowed number of connections.
fn is_above_quota(status: &Status) -> bool {
    seq_proto::status::reason(status).as_deref() == Some(Reason::TooManyConnections.name())
}

/// Encodes the refusal of a connection that exceeds its tenant's limit on connections.
fn above_quota(replies: &mut Replies, status: &Status) {
    replies.error("TRYAGAIN", format_args!("TOO_MANY_CONNECTIONS {}", status.message()));
}

/// Encodes the error of a node without routes.
pub(super) fn loading(replies: &mut Replies) {
    replies.error("LOADING", format_args!("the node has no routes yet"));
}

/// A command with its arguments, and its name in capitals.
struct Invocation<'a, 'b> {
    name: &'b [u8],
    args: Args<'a>,
    /// Number of times that the command is executed, each time with its own reply. It is above 1 only for an INCR of a
    /// series.
    times: u32,
    /// Treatment of the command if another node of its set owns the slot of its keys.
    redirects: Redirects,
}

impl<'a> Invocation<'a, '_> {
    /// Returns the arguments after the name.
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.args.iter().skip(1)
    }

    /// Returns the context with which the service processes a request for the command.
    fn call(&self) -> Call {
        call(self.redirects)
    }

    /// Returns argument `index`, counted from 1 after the name; empty if there is none.
    fn get(&self, index: usize) -> &'a [u8] {
        self.args.iter().nth(index).unwrap_or_default()
    }

    /// Returns argument `index`, in lower case.
    fn word(&self, index: usize) -> String {
        String::from_utf8_lossy(self.get(index)).to_ascii_lowercase()
    }

    /// Returns the name in lower case.
    fn lower(&self) -> String {
        String::from_utf8_lossy(self.name).to_ascii_lowercase()
    }
}

/// Executes the command at the start of `input`. Within a transaction, queues the command instead. If the command takes
/// ids of a series, also executes the equal commands that directly follow it. Returns the length in bytes of all
/// commands that were executed or queued.
pub(super) async fn execute<F: SequenceService>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    command: &Command<'_>,
    input: &[u8],
    replies: &mut Replies,
) -> usize {
    let times = if session.allows_incr_batches() { ids::times(&endpoint.node, command, input) } else { 1 };
    execute_times(endpoint, session, (&command.args, times), &input[..command.bytes], replies).await;
    command.bytes * times as usize
}

/// Executes the command with the arguments `args` as many times as `times` states. `bytes` is the encoded form of the
/// command.
async fn execute_times<F: SequenceService>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    (args, times): (&Args<'_>, u32),
    bytes: &[u8],
    replies: &mut Replies,
) {
    let Some(called) = args.iter().next() else { return };
    let mut capitals = [0; MAX_NAME_BYTES];
    let name = &mut capitals[..called.len().min(MAX_NAME_BYTES)];
    name.copy_from_slice(&called[..called.len().min(MAX_NAME_BYTES)]);
    name.make_ascii_uppercase();
    let invocation = Invocation { name, args: *args, times, redirects: Redirects::Forward };
    // This is the beginning of an HTTP request, which a web page can make a browser send to this port.
    if matches!(invocation.name, b"POST" | b"HOST:") {
        session.closing = true;
        return;
    }
    if !session.admitted && !matches!(invocation.name, b"AUTH" | b"HELLO" | b"QUIT" | b"RESET") {
        return match &session.above_quota {
            Some(status) => above_quota(replies, status),
            None => replies.error("NOAUTH", format_args!("Authentication required.")),
        };
    }
    if !check(&endpoint.node, called, &invocation, replies) {
        if let Some(transaction) = &mut session.transaction {
            transaction.fail();
        }
        return;
    }
    let at_once = matches!(invocation.name, b"MULTI" | b"EXEC" | b"DISCARD" | b"RESET" | b"QUIT");
    if let Some(transaction) = session.transaction.as_mut().filter(|_| !at_once) {
        if transaction.push(bytes) {
            return replies.simple("QUEUED");
        }
        let bounds = format_args!("a transaction has up to {MAX_QUEUED} commands and {MAX_QUEUED_BYTES} bytes");
        return replies.error("ERR", bounds);
    }
    let redirects = match session.executing {
        true => Redirects::Forward,
        false => cluster::redirects(endpoint, &invocation),
    };
    dispatch(endpoint, session, &Invocation { redirects, ..invocation }, replies).await;
}

/// Executes a command that [`check`] has accepted.
async fn dispatch<F: SequenceService>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    match invocation.name {
        b"INCR" | b"INCRBY" | b"GET" | b"SET" if ids::is_key(&endpoint.node, invocation.get(1)) => {
            ids::execute(endpoint, session.sender.caller(), invocation, replies).await;
        }
        b"SEQ.ID" => ids::list(endpoint, session.sender.caller(), invocation, replies).await,
        b"INCR" | b"INCRBY" => incr(endpoint, session.sender.caller(), invocation, replies).await,
        b"GET" => reads::get(endpoint, session.sender.caller(), invocation, replies).await,
        b"MGET" => reads::mget(endpoint, session.sender.caller(), invocation, replies).await,
        b"EXISTS" => reads::exists(endpoint, session.sender.caller(), invocation, replies).await,
        b"TYPE" | b"TTL" | b"PTTL" => {
            reads::type_or_ttl(endpoint, session.sender.caller(), invocation, replies).await;
        }
        b"SET" => sets::set(endpoint, session.sender.caller(), invocation, replies).await,
        b"SETNX" => sets::setnx(endpoint, session.sender.caller(), invocation, replies).await,
        b"MSET" => sets::mset(endpoint, session.sender.caller(), invocation, replies).await,
        b"SEQ.NEXT" => exact::next(endpoint, session.sender.caller(), invocation, replies).await,
        b"SEQ.GET" => exact::get(endpoint, session.sender.caller(), invocation, replies).await,
        b"MULTI" | b"EXEC" | b"DISCARD" => transact(session, invocation.name, replies),
        // WATCH is not supported, so UNWATCH has nothing to do.
        b"UNWATCH" => replies.simple("OK"),
        b"PING" if invocation.args.count() > 2 => {
            replies.error("ERR", format_args!("wrong number of arguments for 'ping' command"))
        }
        b"PING" if invocation.args.count() == 2 => replies.bulk(invocation.get(1)),
        b"PING" => replies.simple("PONG"),
        b"ECHO" => replies.bulk(invocation.get(1)),
        b"AUTH" => auth(endpoint, session, invocation, replies).await,
        b"HELLO" => hello(endpoint, session, invocation, replies).await,
        b"RESET" => reset(&endpoint.node, session, replies),
        b"SELECT" => select(&endpoint.node, invocation.get(1), replies),
        b"INFO" => replies.bulk(tables::info(&endpoint.node).as_bytes()),
        b"ROLE" => {
            replies.array(3);
            replies.bulk(b"master");
            replies.integer(0);
            replies.array(0);
        }
        b"CLUSTER" => cluster::execute(endpoint, invocation, replies),
        // Each node serves reads of its own slots, and a slot in migration is served by forwarding.
        b"READONLY" | b"READWRITE" | b"ASKING" => replies.simple("OK"),
        b"COMMAND" => command(invocation, replies),
        b"CONFIG" => config(&endpoint.node, invocation, replies),
        b"CLIENT" => client(session, invocation, replies),
        _ => {
            replies.simple("OK");
            session.closing = true;
        }
    }
}

/// Returns whether a command is supported with the given number of arguments. Encodes an error if it is not.
fn check(node: &Node, called: &[u8], invocation: &Invocation<'_, '_>, replies: &mut Replies) -> bool {
    let count = invocation.args.count();
    let of_cluster = node.cluster.iter().flat_map(|_| OF_CLUSTER);
    let known = SERVED.iter().chain(of_cluster).find(|served| served.name.as_bytes().eq_ignore_ascii_case(called));
    let (unserved, arity) = match known {
        // SET has its own error for options.
        Some(served) if tables::takes(served.arity, count) || (invocation.name == b"SET" && count > 3) => return true,
        Some(served) => (Unserved::Unknown, Some(served.arity)),
        None => tables::unserved(called),
    };
    let called = Excerpt(called);
    match (unserved, arity) {
        (_, Some(arity)) if !tables::takes(arity, count) => {
            replies.error("ERR", format_args!("wrong number of arguments for '{}' command", invocation.lower()));
        }
        (Unserved::Lowering, _) => {
            replies.error("ERR", format_args!("{called} is refused: numbers never go back, and none is ever removed"));
        }
        (Unserved::Expiring, _) => replies.error(
            "ERR",
            format_args!(
                "{called} is refused: numbers never go back, and none is ever removed. A counter that expires, as of a rate \
                 limiter, is no sequence"
            ),
        ),
        (Unserved::OtherType, _) => replies.error(
            "WRONGTYPE",
            format_args!("{called} is refused: a key here is a sequence, for INCR, INCRBY, GET, MGET, EXISTS and SET"),
        ),
        (Unserved::Watching, _) => replies.error(
            "ERR",
            format_args!("{called} is refused: others take numbers of a sequence at any time; EXEC is a batch here"),
        ),
        (Unserved::Unknown, _) => replies.error(
            "ERR",
            format_args!(
                "unknown command {called}: this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID"
            ),
        ),
    }
    false
}

/// Executes SELECT. A port for clients of Redis Cluster has the error of Redis.
fn select(node: &Node, index: &[u8], replies: &mut Replies) {
    match index {
        b"0" => replies.simple("OK"),
        _ if node.cluster.is_some() && integer(index).is_some() => {
            replies.error("ERR", format_args!("SELECT is not allowed in cluster mode"));
        }
        _ => replies.error("ERR", format_args!("DB index is out of range: there is one, 0")),
    }
}

/// Executes MULTI, EXEC or DISCARD.
fn transact(session: &mut Session, name: &[u8], replies: &mut Replies) {
    match (name, session.transaction.take()) {
        (b"MULTI", None) => {
            session.transaction = Some(Transaction::default());
            replies.simple("OK");
        }
        (b"MULTI", begun) => {
            session.transaction = begun;
            replies.error("ERR", format_args!("MULTI calls can not be nested"));
        }
        (b"DISCARD", Some(_)) => replies.simple("OK"),
        (_, None) => {
            replies.error("ERR", format_args!("{} without MULTI", String::from_utf8_lossy(name)));
        }
        (_, begun) => session.exec = begun,
    }
}

/// Resets the session to the state of a new connection.
fn reset(node: &Node, session: &mut Session, replies: &mut Replies) {
    let wrong_passwords = session.wrong_passwords;
    *session = Session { wrong_passwords, ..Session::new(session.id, node, session.peer.clone()) };
    replies.resp3 = false;
    replies.simple("RESET");
}

/// Executes an INCR or INCRBY that could not be part of a batch, because its arguments are invalid or out of range.
async fn incr<F: SequenceService>(
    endpoint: &Endpoint<F>,
    caller: &Caller,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let keyspace = endpoint.keyspace();
    let Some(counter) = counters::find(endpoint, &keyspace, invocation.get(1), replies) else { return };
    let Some(count) = amount(invocation, replies) else { return };
    match counter.next(endpoint, caller, invocation.call(), count).await {
        Ok(allocation) => replies.integer(allocation.value.0),
        Err(refusal) => counter.refuse(endpoint, replies, &refusal),
    }
}

/// Returns the count of an INCR or INCRBY. Encodes an error if it is invalid.
fn amount(invocation: &Invocation<'_, '_>, replies: &mut Replies) -> Option<Count> {
    let by = if invocation.name == b"INCR" { b"1" } else { invocation.get(2) };
    let (negative, digits) = by.strip_prefix(b"-").map_or((false, by), |digits| (true, digits));
    let amount = integer(digits).filter(|amount| i64::try_from(*amount).is_ok() && !(negative && *amount == 0));
    let Some(amount) = amount else {
        replies.error("ERR", format_args!("value is not an integer or out of range"));
        return None;
    };
    if negative {
        replies.error("ERR", format_args!("-{amount} is refused: numbers never go back"));
        return None;
    }
    let count = u32::try_from(amount).ok().and_then(|count| Count::new(count).ok());
    if count.is_none() {
        replies.error("ERR", format_args!("count {amount} is not in 1..={}", limits::MAX_COUNT));
    }
    count
}

/// Authenticates a client, or encodes an error.
async fn authenticate<F>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    user: Option<&[u8]>,
    password: &[u8],
    replies: &mut Replies,
) -> bool {
    let outcome = match &endpoint.node.tenants {
        None => auth::check(&endpoint.node.config, user, password),
        Some(tenants) => {
            match auth::token(user, password).map(|token| tenants.session(Some(&session.peer), Some(token))) {
                Some(Ok(sender)) => {
                    session.sender = sender;
                    AuthOutcome::Admitted
                }
                // The token is valid, so it was not a guess and the reply is not delayed.
                Some(Err(status)) if is_above_quota(&status) => {
                    above_quota(replies, &status);
                    return false;
                }
                _ => AuthOutcome::Wrong,
            }
        }
    };
    match outcome {
        AuthOutcome::Admitted => {
            (session.admitted, session.wrong_passwords) = (true, 0);
            session.peer.proved();
            return true;
        }
        AuthOutcome::NotNeeded => replies.error(
            "ERR",
            format_args!(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?"
            ),
        ),
        AuthOutcome::Wrong => {
            session.wrong_passwords += 1;
            let may_retry = endpoint
                .node
                .auth_failures
                .delay_reply(session.peer.addr(), session.wrong_passwords, &endpoint.stop)
                .await;
            session.closing |= !may_retry;
            replies.error("WRONGPASS", format_args!("invalid username-password pair or user is disabled."));
        }
    }
    false
}

async fn auth<F>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let (user, password) = match invocation.args.count() {
        2 => (None, invocation.get(1)),
        3 => (Some(invocation.get(1)), invocation.get(2)),
        _ => return replies.error("ERR", format_args!("syntax error")),
    };
    if authenticate(endpoint, session, user, password, replies).await {
        replies.simple("OK");
    }
}

async fn hello<F>(
    endpoint: &Endpoint<F>,
    session: &mut Session,
    invocation: &Invocation<'_, '_>,
    replies: &mut Replies,
) {
    let mut args = invocation.iter();
    let version = match args.next() {
        None => session.resp3,
        Some(b"2") => false,
        Some(b"3") => true,
        Some(other) if integer(other).is_some() => {
            return replies.error("NOPROTO", format_args!("unsupported protocol version"));
        }
        Some(_) => return replies.error("ERR", format_args!("Protocol version is not an integer or out of range")),
    };
    let mut name = None;
    while let Some(option) = args.next() {
        if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(user), Some(password)) = (args.next(), args.next())
        {
            if !authenticate(endpoint, session, Some(user), password, replies).await {
                return;
            }
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let Some(given) = args.next()
        {
            if !is_name(given) {
                return replies.error("ERR", format_args!("{BAD_NAME}"));
            }
            name = Some(given);
        } else {
            return replies.error("ERR", format_args!("Syntax error in HELLO option {}", Excerpt(option)));
        }
    }
    if !session.admitted {
        return replies.error("NOAUTH", format_args!("HELLO must be called with the client already authenticated"));
    }
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    (session.resp3, replies.resp3) = (version, version);
    replies.map(7);
    for (key, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    for (key, value) in [("proto", if version { 3 } else { 2 }), ("id", session.id)] {
        replies.bulk(key.as_bytes());
        replies.integer(value);
    }
    for (key, value) in [("mode", endpoint.node.mode()), ("role", "master")] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
}

const BAD_NAME: &str = "Client names cannot contain spaces, newlines or special characters.";

/// Returns whether a client name is valid.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

fn command(invocation: &Invocation<'_, '_>, replies: &mut Replies) {
    let describe = |served: &Served, replies: &mut Replies| {
        replies.array(6);
        replies.bulk(served.name.as_bytes());
        replies.signed(served.arity);
        replies.array(served.flags.len());
        served.flags.iter().for_each(|flag| replies.simple(flag));
        replies.signed(served.keys.0);
        replies.signed(served.keys.1);
        replies.integer(served.key_step());
    };
    match &*invocation.word(1) {
        "count" => replies.integer(SERVED.len() as u64),
        // Nothing is returned, because the documentation of Redis applies and clients already have it.
        "docs" => replies.map(0),
        "list" => {
            replies.array(SERVED.len());
            SERVED.iter().for_each(|served| replies.bulk(served.name.as_bytes()));
        }
        "info" if invocation.args.count() > 2 => {
            replies.array(invocation.args.count() - 2);
            for name in invocation.iter().skip(1) {
                let known = SERVED.iter().find(|served| served.name.as_bytes().eq_ignore_ascii_case(name));
                match known {
                    Some(served) => describe(served, replies),
                    None => replies.nil(),
                }
            }
        }
        "" | "info" => {
            replies.array(SERVED.len());
            SERVED.iter().for_each(|served| describe(served, replies));
        }
        _ => replies.error("ERR", format_args!("unknown subcommand {}", Excerpt(invocation.get(1)))),
    }
}

fn config(node: &Node, invocation: &Invocation<'_, '_>, replies: &mut Replies) {
    match &*invocation.word(1) {
        "get" if invocation.args.count() > 2 => {}
        "get" => return replies.error("ERR", format_args!("wrong number of arguments for 'config|get' command")),
        "set" | "rewrite" | "resetstat" => {
            let text = "settings of this port are in the settings file: only CONFIG GET is served";
            return replies.error("ERR", format_args!("{text}"));
        }
        _ => return replies.error("ERR", format_args!("unknown subcommand {}", Excerpt(invocation.get(1)))),
    }
    let most = node.admission.most_callers().to_string();
    let idle = node.config.idle_timeout.unwrap_or_default().as_secs().to_string();
    let settings = [("save", ""), ("appendonly", "no"), ("databases", "1"), ("maxclients", &most), ("timeout", &idle)];
    let wanted =
        |name: &str| invocation.iter().skip(1).any(|want| want == b"*" || want.eq_ignore_ascii_case(name.as_bytes()));
    replies.map(settings.iter().filter(|(name, _)| wanted(name)).count());
    for (name, value) in settings.iter().filter(|(name, _)| wanted(name)) {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
}

fn client(session: &mut Session, invocation: &Invocation<'_, '_>, replies: &mut Replies) {
    match (&*invocation.word(1), invocation.args.count()) {
        ("setname", 3) if !is_name(invocation.get(2)) => replies.error("ERR", format_args!("{BAD_NAME}")),
        ("setname", 3) => {
            session.name = invocation.get(2).to_vec();
            replies.simple("OK");
        }
        ("getname", 2) if session.name.is_empty() => replies.nil(),
        ("getname", 2) => replies.bulk(&session.name),
        ("id", 2) => replies.integer(session.id),
        ("setinfo", 4) | ("no-evict" | "no-touch", 3) => replies.simple("OK"),
        ("info", 2) => {
            let name = String::from_utf8_lossy(&session.name);
            replies
                .bulk(format!("id={} name={name} db=0 resp={}\n", session.id, 2 + u8::from(session.resp3)).as_bytes());
        }
        _ => {
            let sub = Excerpt(invocation.get(1));
            replies.error("ERR", format_args!("unknown subcommand or wrong number of arguments for {sub}"));
        }
    }
}

/// Returns the [`Call`], the context with which the service processes a request. It has the default timeout, because
/// Redis clients state none.
pub(super) fn call(redirects: Redirects) -> Call {
    Call { deadline: timeout::after(DEFAULT_TIMEOUT), hops: 0, redirects, via: Via::Resp }
}
