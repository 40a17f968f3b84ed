//! Every command but the run of takes: reads, SET, and what clients ask before they begin.
//!
//! A command that is refused has moved nothing. Refusals that pass are told as `-TRYAGAIN`, or `-LOADING` while the node knows
//! no owner at all: both are what clients of Redis try again.

use std::net::SocketAddr;

use seq_core::{Count, Epoch, Refusal, Target, Uid, limits};
use seq_kit::frontend::{Ask, Current, Frontend, Via};
use seq_proto::status;

use crate::resp::auth::{self, Verdict};
use crate::resp::connection::call;
use crate::resp::encode::{Repeated, Replies};
use crate::resp::gather::{Keys, integer};
use crate::resp::parse::Args;
use crate::resp::tables::{self, REDIS_VERSION, SERVED, Served, Unserved};
use crate::resp::transaction::{MAX_QUEUED, MAX_QUEUED_BYTES, Transaction};
use crate::resp::{Door, Node};

/// Longest name of a command, in bytes; a longer one is none.
const MAX_NAME_BYTES: usize = 24;

/// What a connection is to its client.
pub(super) struct Session {
    id: u64,
    /// Whether it may ask for numbers: no password is set, or it was said.
    pub(super) admitted: bool,
    pub(super) resp3: bool,
    /// Whether the connection ends after the replies so far.
    pub(super) leaves: bool,
    /// As the client calls itself.
    name: Vec<u8>,
    peer: Option<SocketAddr>,
    wrong_passwords: u32,
    /// What was queued since MULTI.
    transaction: Option<Transaction>,
    /// A transaction whose EXEC has come, to be executed at once.
    pub(super) executes: Option<Transaction>,
}

impl Session {
    pub(super) fn new(id: u64, admitted: bool, peer: Option<SocketAddr>) -> Session {
        Session {
            id,
            admitted,
            resp3: false,
            leaves: false,
            name: Vec::new(),
            peer,
            wrong_passwords: 0,
            transaction: None,
            executes: None,
        }
    }

    /// Whether takes are answered as they come, without a look at the session.
    pub(super) fn takes_at_once(&self) -> bool {
        self.admitted && self.transaction.is_none()
    }
}

/// How the node's keys name uids.
pub(super) fn keys(node: &Node) -> Keys<'_> {
    Keys { prefix: node.config.prefix.as_bytes() }
}

/// Tells a refusal.
pub(super) fn refuse(replies: &mut Replies, refusal: &Refusal) {
    let kind = if status::verdict(refusal).retry_after.is_some() { "TRYAGAIN" } else { "ERR" };
    replies.error(kind, format_args!("{refusal}"));
}

/// Tells that the node is not ready.
pub(super) fn loading(replies: &mut Replies) {
    replies.error("LOADING", format_args!("the node does not know yet who owns which uids"));
}

/// A command with its arguments, the name apart and in capitals.
struct Asked<'a, 'b> {
    name: &'b [u8],
    args: Args<'a>,
}

impl<'a> Asked<'a, '_> {
    /// The arguments behind the name.
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.args.iter().skip(1)
    }

    /// An argument, the first one being 1; empty where there is none.
    fn get(&self, place: usize) -> &'a [u8] {
        self.args.iter().nth(place).unwrap_or_default()
    }

    /// An argument that is a word, in small letters.
    fn word(&self, place: usize) -> String {
        String::from_utf8_lossy(self.get(place)).to_ascii_lowercase()
    }

    /// The name in small letters.
    fn lower(&self) -> String {
        String::from_utf8_lossy(self.name).to_ascii_lowercase()
    }
}

/// Answers one command, of which `bytes` are all; within a transaction it is queued.
pub(super) async fn execute<F: Frontend>(
    door: &Door<F>,
    session: &mut Session,
    args: &Args<'_>,
    bytes: &[u8],
    replies: &mut Replies,
) {
    let Some(called) = args.iter().next() else { return };
    let mut capitals = [0; MAX_NAME_BYTES];
    let name = &mut capitals[..called.len().min(MAX_NAME_BYTES)];
    name.copy_from_slice(&called[..called.len().min(MAX_NAME_BYTES)]);
    name.make_ascii_uppercase();
    let asked = Asked { name, args: *args };
    // What a browser sends when a page has it call this port.
    if matches!(asked.name, b"POST" | b"HOST:") {
        session.leaves = true;
        return;
    }
    if !session.admitted && !matches!(asked.name, b"AUTH" | b"HELLO" | b"QUIT" | b"RESET") {
        return replies.error("NOAUTH", format_args!("Authentication required."));
    }
    if !is_sound(called, &asked, replies) {
        if let Some(transaction) = &mut session.transaction {
            transaction.fail();
        }
        return;
    }
    let at_once = matches!(asked.name, b"MULTI" | b"EXEC" | b"DISCARD" | b"RESET" | b"QUIT");
    if let Some(transaction) = session.transaction.as_mut().filter(|_| !at_once) {
        if transaction.push(bytes) {
            return replies.simple("QUEUED");
        }
        let bounds = format_args!("a transaction has up to {MAX_QUEUED} commands and {MAX_QUEUED_BYTES} bytes");
        return replies.error("ERR", bounds);
    }
    answer(door, session, &asked, replies).await;
}

/// Answers a command that is served, with as many arguments as it takes.
async fn answer<F: Frontend>(door: &Door<F>, session: &mut Session, asked: &Asked<'_, '_>, replies: &mut Replies) {
    match asked.name {
        b"INCR" | b"INCRBY" => take(door, asked, replies).await,
        b"GET" => get(door, asked.get(1), replies).await,
        b"MGET" => mget(door, asked, replies).await,
        b"EXISTS" => exists(door, asked, replies).await,
        b"TYPE" | b"TTL" | b"PTTL" => about(door, asked, replies).await,
        b"SET" => set(door, asked, replies).await,
        b"MULTI" | b"EXEC" | b"DISCARD" => transact(session, asked.name, replies),
        // Nothing is ever watched.
        b"UNWATCH" => replies.simple("OK"),
        b"PING" if asked.args.count() > 2 => {
            replies.error("ERR", format_args!("wrong number of arguments for 'ping' command"))
        }
        b"PING" if asked.args.count() == 2 => replies.bulk(asked.get(1)),
        b"PING" => replies.simple("PONG"),
        b"ECHO" => replies.bulk(asked.get(1)),
        b"AUTH" => auth(door, session, asked, replies).await,
        b"HELLO" => hello(door, session, asked, replies).await,
        b"RESET" => reset(&door.node, session, replies),
        b"SELECT" if asked.get(1) == b"0" => replies.simple("OK"),
        b"SELECT" => replies.error("ERR", format_args!("DB index is out of range: there is one, 0")),
        b"INFO" => replies.bulk(tables::info(&door.node).as_bytes()),
        b"ROLE" => {
            replies.array(3);
            replies.bulk(b"master");
            replies.integer(0);
            replies.array(0);
        }
        // Redis's own sentence: clients recognize it and do not request slots.
        b"CLUSTER" => replies.error("ERR", format_args!("This instance has cluster support disabled")),
        b"COMMAND" => command(asked, replies),
        b"CONFIG" => config(&door.node, asked, replies),
        b"CLIENT" => client(session, asked, replies),
        _ => {
            replies.simple("OK");
            session.leaves = true;
        }
    }
}

/// Whether a command is served, with so many arguments. Replies with an error when it is not.
fn is_sound(called: &[u8], asked: &Asked<'_, '_>, replies: &mut Replies) -> bool {
    let count = asked.args.count();
    let known = SERVED.iter().find(|served| served.name.as_bytes().eq_ignore_ascii_case(called));
    let (unserved, arity) = match known {
        // SET replies itself why it takes no options.
        Some(served) if tables::takes(served.arity, count) || (asked.name == b"SET" && count > 3) => return true,
        Some(served) => (Unserved::Unknown, Some(served.arity)),
        None => tables::unserved(called),
    };
    let called = Repeated(called);
    match (unserved, arity) {
        (_, Some(arity)) if !tables::takes(arity, count) => {
            replies.error("ERR", format_args!("wrong number of arguments for '{}' command", asked.lower()));
        }
        (Unserved::Lowering, _) => {
            replies.error("ERR", format_args!("{called} is refused: numbers never go back, and none is ever removed"));
        }
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
                "unknown command {called}: this port has INCR, INCRBY, GET, MGET, EXISTS and SET of sequences"
            ),
        ),
    }
    false
}

/// MULTI, EXEC and DISCARD.
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
        (_, begun) => session.executes = begun,
    }
}

/// Makes the connection one that has just been opened.
fn reset(node: &Node, session: &mut Session, replies: &mut Replies) {
    let Session { id, peer, wrong_passwords, .. } = *session;
    *session = Session { wrong_passwords, ..Session::new(id, node.config.password.is_none(), peer) };
    replies.resp3 = false;
    replies.simple("RESET");
}

/// The uid of a key; says what is wrong when it is none.
fn uid<F>(door: &Door<F>, key: &[u8], replies: &mut Replies) -> Option<Uid> {
    let keys = keys(&door.node);
    let uid = keys.uid(key);
    if uid.is_none() {
        let (key, example) = (Repeated(key), keys.example());
        replies.error("ERR", format_args!("{key} is no sequence: a key is a prefix and a uid, as in {example}"));
    }
    uid
}

/// A take that was not in a run, because something is wrong with it.
async fn take<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let Some(uid) = uid(door, asked.get(1), replies) else { return };
    let by = if asked.name == b"INCR" { b"1" } else { asked.get(2) };
    let (negative, digits) = by.strip_prefix(b"-").map_or((false, by), |digits| (true, digits));
    let amount = integer(digits).filter(|amount| i64::try_from(*amount).is_ok() && !(negative && *amount == 0));
    let Some(amount) = amount else {
        return replies.error("ERR", format_args!("value is not an integer or out of range"));
    };
    if negative {
        return replies.error("ERR", format_args!("-{amount} is refused: numbers never go back"));
    }
    let Some(count) = u32::try_from(amount).ok().and_then(|count| Count::new(count).ok()) else {
        return replies.error("ERR", format_args!("count {amount} is not in 1..={}", limits::MAX_COUNT));
    };
    match door.frontend.next(call(), Ask { uid, count, epoch: Epoch(0) }).await {
        Ok(given) => replies.integer(given.value.0),
        Err(refusal) => refuse(replies, &refusal),
    }
}

/// Tells why a read or SET was refused.
fn refused<F: Frontend>(door: &Door<F>, replies: &mut Replies, refusal: &Refusal) {
    if door.knows_nobody() && status::verdict(refusal).retry_after.is_some() {
        loading(replies);
    } else {
        refuse(replies, refusal);
    }
}

/// The last number as a reading has it; `None` when there never was one.
fn value(current: &Current) -> Option<u64> {
    Some(current.reading.value.0).filter(|value| *value > 0)
}

async fn get<F: Frontend>(door: &Door<F>, key: &[u8], replies: &mut Replies) {
    let Some(uid) = uid(door, key, replies) else { return };
    if door.knows_nobody() {
        return loading(replies);
    }
    let _sample = door.latency.sample(Via::Resp);
    match door.frontend.current(call(), uid, Epoch(0)).await {
        Ok(current) => replies.value(value(&current)),
        Err(refusal) => refused(door, replies, &refusal),
    }
}

/// Reads all keys of a command. A key that is no sequence of this set has no value, as a missing key in Redis. Replies
/// with an error when one cannot be read now.
async fn read<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) -> Option<Vec<Option<u64>>> {
    if door.knows_nobody() {
        loading(replies);
        return None;
    }
    let _sample = door.latency.sample(Via::Resp);
    let keys = keys(&door.node);
    let mut values = vec![None; asked.args.count() - 1];
    let (places, uids): (Vec<_>, Vec<_>) =
        asked.iter().enumerate().filter_map(|(place, key)| Some((place, keys.uid(key)?))).unzip();
    for (place, read) in places.into_iter().zip(door.frontend.current_many(call(), uids).await) {
        match read {
            Ok(current) => values[place] = value(&current),
            Err(Refusal::UidOutOfRange { .. }) => {}
            Err(refusal) => {
                refused(door, replies, &refusal);
                return None;
            }
        }
    }
    Some(values)
}

async fn mget<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let Some(values) = read(door, asked, replies).await else { return };
    replies.array(values.len());
    values.into_iter().for_each(|value| replies.value(value));
}

async fn exists<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) {
    if let Some(values) = read(door, asked, replies).await {
        replies.integer(values.into_iter().flatten().count() as u64);
    }
}

/// TYPE, TTL and PTTL: a sequence that has had a number is a string that never expires.
async fn about<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let Some(values) = read(door, asked, replies).await else { return };
    let exists = values.into_iter().flatten().next().is_some();
    match (asked.name, exists) {
        (b"TYPE", true) => replies.simple("string"),
        (b"TYPE", false) => replies.simple("none"),
        (_, true) => replies.signed(-1),
        (_, false) => replies.signed(-2),
    }
}

async fn set<F: Frontend>(door: &Door<F>, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let Some(uid) = uid(door, asked.get(1), replies) else { return };
    if asked.args.count() > 3 {
        let option = Repeated(asked.get(3));
        return replies.error("ERR", format_args!("{option} is refused: SET raises a sequence, and has no options"));
    }
    let Some(to) = integer(asked.get(2)) else {
        return replies.error("ERR", format_args!("value is not an integer or out of range"));
    };
    if door.knows_nobody() {
        return loading(replies);
    }
    let done = match Target::new(to) {
        Ok(to) => door.frontend.advance(call(), uid, to, Epoch(0)).await,
        Err(refusal) => Err(refusal),
    };
    match done {
        Ok(_) => replies.simple("OK"),
        Err(refusal) => refused(door, replies, &refusal),
    }
}

/// Admits a client, or says why not.
async fn admit<F>(
    door: &Door<F>,
    session: &mut Session,
    user: Option<&[u8]>,
    password: &[u8],
    replies: &mut Replies,
) -> bool {
    match auth::judge(&door.node.config, user, password) {
        Verdict::Admitted => {
            (session.admitted, session.wrong_passwords) = (true, 0);
            return true;
        }
        Verdict::NotNeeded => replies.error(
            "ERR",
            format_args!(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?"
            ),
        ),
        Verdict::Wrong => {
            session.wrong_passwords += 1;
            let again = door.node.guesses.on_wrong(session.peer, session.wrong_passwords, &door.stop).await;
            session.leaves |= !again;
            replies.error("WRONGPASS", format_args!("invalid username-password pair or user is disabled."));
        }
    }
    false
}

async fn auth<F>(door: &Door<F>, session: &mut Session, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let (user, password) = match asked.args.count() {
        2 => (None, asked.get(1)),
        3 => (Some(asked.get(1)), asked.get(2)),
        _ => return replies.error("ERR", format_args!("syntax error")),
    };
    if admit(door, session, user, password, replies).await {
        replies.simple("OK");
    }
}

async fn hello<F>(door: &Door<F>, session: &mut Session, asked: &Asked<'_, '_>, replies: &mut Replies) {
    let mut args = asked.iter();
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
            if !admit(door, session, Some(user), password, replies).await {
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
            return replies.error("ERR", format_args!("Syntax error in HELLO option {}", Repeated(option)));
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
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
}

const BAD_NAME: &str = "Client names cannot contain spaces, newlines or special characters.";

/// Whether a client may call itself so.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

fn command(asked: &Asked<'_, '_>, replies: &mut Replies) {
    let describe = |served: &Served, replies: &mut Replies| {
        replies.array(6);
        replies.bulk(served.name.as_bytes());
        replies.signed(served.arity);
        replies.array(served.flags.len());
        served.flags.iter().for_each(|flag| replies.simple(flag));
        replies.signed(served.keys.0);
        replies.signed(served.keys.1);
        replies.integer(u64::from(served.keys.0 > 0));
    };
    match &*asked.word(1) {
        "count" => replies.integer(SERVED.len() as u64),
        // Texts about commands: those of Redis are true of these as well, and clients have them.
        "docs" => replies.map(0),
        "list" => {
            replies.array(SERVED.len());
            SERVED.iter().for_each(|served| replies.bulk(served.name.as_bytes()));
        }
        "info" if asked.args.count() > 2 => {
            replies.array(asked.args.count() - 2);
            for name in asked.iter().skip(1) {
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
        _ => replies.error("ERR", format_args!("unknown subcommand {}", Repeated(asked.get(1)))),
    }
}

fn config(node: &Node, asked: &Asked<'_, '_>, replies: &mut Replies) {
    match &*asked.word(1) {
        "get" if asked.args.count() > 2 => {}
        "get" => return replies.error("ERR", format_args!("wrong number of arguments for 'config|get' command")),
        "set" | "rewrite" | "resetstat" => {
            let text = "settings of this port are in the settings file: only CONFIG GET is served";
            return replies.error("ERR", format_args!("{text}"));
        }
        _ => return replies.error("ERR", format_args!("unknown subcommand {}", Repeated(asked.get(1)))),
    }
    let most = node.admission.most().to_string();
    let idle = node.config.idle.unwrap_or_default().as_secs().to_string();
    let settings = [("save", ""), ("appendonly", "no"), ("databases", "1"), ("maxclients", &most), ("timeout", &idle)];
    let wanted =
        |name: &str| asked.iter().skip(1).any(|want| want == b"*" || want.eq_ignore_ascii_case(name.as_bytes()));
    replies.map(settings.iter().filter(|(name, _)| wanted(name)).count());
    for (name, value) in settings.iter().filter(|(name, _)| wanted(name)) {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
}

fn client(session: &mut Session, asked: &Asked<'_, '_>, replies: &mut Replies) {
    match (&*asked.word(1), asked.args.count()) {
        ("setname", 3) if !is_name(asked.get(2)) => replies.error("ERR", format_args!("{BAD_NAME}")),
        ("setname", 3) => {
            session.name = asked.get(2).to_vec();
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
            let sub = Repeated(asked.get(1));
            replies.error("ERR", format_args!("unknown subcommand or wrong number of arguments for {sub}"));
        }
    }
}
