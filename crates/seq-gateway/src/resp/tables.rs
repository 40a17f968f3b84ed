//! Tables of the Redis commands that are supported, and of the commands that are refused, with the reason of each
//! refusal. Also the text of INFO.

use std::fmt::Write;

use crate::resp::Node;
use crate::resp::parse::MAX_ARGS;

/// Version of Redis that is reported. Some clients check it before they send a command.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// A supported command.
pub(super) struct Served {
    pub(super) name: &'static str,
    /// Number of arguments, including the name. A negative number states the minimum number of arguments.
    pub(super) arity: i64,
    pub(super) flags: &'static [&'static str],
    /// Positions of the first and the last key among the arguments. 0 means that there are no keys, and -1 means the
    /// last argument.
    pub(super) keys: (i64, i64),
}

impl Served {
    /// Returns the distance between two keys among the arguments; 0 if there are no keys. Clients of Redis Cluster find
    /// the keys of a command by it.
    pub(super) fn key_step(&self) -> u64 {
        match self.keys.0 {
            0 => 0,
            _ if self.name == "mset" => 2,
            _ => 1,
        }
    }
}

const fn served(name: &'static str, arity: i64, flags: &'static [&'static str], keys: (i64, i64)) -> Served {
    Served { name, arity, flags, keys }
}

/// All supported commands.
pub(super) const SERVED: &[Served] = &[
    served("auth", -2, &["noscript", "loading", "stale", "fast", "no_auth"], (0, 0)),
    served("client", -2, &["noscript", "loading", "stale"], (0, 0)),
    served("cluster", -2, &["loading", "stale"], (0, 0)),
    served("command", -1, &["loading", "stale"], (0, 0)),
    served("config", -2, &["admin", "loading", "stale"], (0, 0)),
    served("discard", 1, &["noscript", "loading", "stale", "fast"], (0, 0)),
    served("echo", 2, &["fast"], (0, 0)),
    served("exec", 1, &["noscript", "loading", "stale"], (0, 0)),
    served("exists", -2, &["readonly", "fast"], (1, -1)),
    served("get", 2, &["readonly", "fast"], (1, 1)),
    served("hello", -1, &["noscript", "loading", "stale", "fast", "no_auth"], (0, 0)),
    served("incr", 2, &["write", "fast"], (1, 1)),
    served("incrby", 3, &["write", "fast"], (1, 1)),
    served("info", -1, &["loading", "stale"], (0, 0)),
    served("mget", -2, &["readonly", "fast"], (1, -1)),
    served("mset", -3, &["write"], (1, -1)),
    served("multi", 1, &["noscript", "loading", "stale", "fast"], (0, 0)),
    served("ping", -1, &["fast"], (0, 0)),
    served("pttl", 2, &["readonly", "fast"], (1, 1)),
    served("quit", -1, &["loading", "stale", "fast", "no_auth"], (0, 0)),
    served("reset", 1, &["noscript", "loading", "stale", "fast", "no_auth"], (0, 0)),
    served("role", 1, &["noscript", "loading", "stale", "fast"], (0, 0)),
    served("select", 2, &["loading", "stale", "fast"], (0, 0)),
    served("seq.get", 2, &["readonly", "fast"], (1, 1)),
    served("seq.id", -2, &["write", "fast"], (1, 1)),
    served("seq.next", -2, &["write", "fast"], (1, 1)),
    served("set", 3, &["write"], (1, 1)),
    served("setnx", 3, &["write", "fast"], (1, 1)),
    served("ttl", 2, &["readonly", "fast"], (1, 1)),
    served("type", 2, &["readonly", "fast"], (1, 1)),
    served("unwatch", 1, &["noscript", "loading", "stale", "fast"], (0, 0)),
];

/// Commands that only a port for clients of Redis Cluster supports, in addition to [`SERVED`]. COMMAND does not list
/// them, because clients send them without a look at this list.
pub(super) const OF_CLUSTER: &[Served] = &[
    served("asking", 1, &["fast"], (0, 0)),
    served("readonly", 1, &["loading", "stale", "fast"], (0, 0)),
    served("readwrite", 1, &["loading", "stale", "fast"], (0, 0)),
];

/// Commands that would lower or remove a number, with their arities.
#[rustfmt::skip]
const LOWERING: &[(&str, i64)] = &[
    ("DEL", -2),
    ("UNLINK", -2),
    ("FLUSHALL", -1),
    ("FLUSHDB", -1),
    ("DECR", 2),
    ("DECRBY", 3),
    ("GETDEL", 2),
    ("GETSET", 3),
    ("RENAME", 3),
    ("RENAMENX", 3),
    ("MOVE", 3),
    ("RESTORE", -4),
    ("SWAPDB", 3),
    ("COPY", -3),
];

/// Commands that would remove a number after some time, with their arities.
#[rustfmt::skip]
const EXPIRING: &[(&str, i64)] = &[
    ("EXPIRE", -3),
    ("PEXPIRE", -3),
    ("EXPIREAT", -3),
    ("PEXPIREAT", -3),
    ("GETEX", -2),
    ("SETEX", 4),
    ("PSETEX", 4),
];

/// Redis commands for values that are not numbers, with their arities. Each command is listed, and not only the
/// beginnings of names, because a command that Redis does not have must be reported as unknown.
#[rustfmt::skip]
const OTHER_TYPES: &[(&str, i64)] = &[
    ("APPEND", 3),
    ("BITCOUNT", -2),
    ("BITFIELD", -2),
    ("BITFIELD_RO", -2),
    ("BITOP", -4),
    ("BITPOS", -3),
    ("BLMOVE", 6),
    ("BLMPOP", -5),
    ("BLPOP", -3),
    ("BRPOP", -3),
    ("BRPOPLPUSH", 4),
    ("BZMPOP", -5),
    ("BZPOPMAX", -3),
    ("BZPOPMIN", -3),
    ("GEOADD", -5),
    ("GEODIST", -4),
    ("GEOHASH", -2),
    ("GEOPOS", -2),
    ("GEORADIUS", -6),
    ("GEOSEARCH", -7),
    ("GETBIT", 3),
    ("GETRANGE", 4),
    ("HDEL", -3),
    ("HEXISTS", 3),
    ("HGET", 3),
    ("HGETALL", 2),
    ("HINCRBY", 4),
    ("HINCRBYFLOAT", 4),
    ("HKEYS", 2),
    ("HLEN", 2),
    ("HMGET", -3),
    ("HMSET", -4),
    ("HRANDFIELD", -2),
    ("HSCAN", -3),
    ("HSET", -4),
    ("HSETNX", 4),
    ("HSTRLEN", 3),
    ("HVALS", 2),
    ("INCRBYFLOAT", 3),
    ("LINDEX", 3),
    ("LINSERT", 5),
    ("LLEN", 2),
    ("LMOVE", 5),
    ("LMPOP", -4),
    ("LPOP", -2),
    ("LPOS", -3),
    ("LPUSH", -3),
    ("LPUSHX", -3),
    ("LRANGE", 4),
    ("LREM", 4),
    ("LSET", 4),
    ("LTRIM", 4),
    ("PFADD", -2),
    ("PFCOUNT", -2),
    ("PFMERGE", -2),
    ("RPOP", -2),
    ("RPOPLPUSH", 3),
    ("RPUSH", -3),
    ("RPUSHX", -3),
    ("SADD", -3),
    ("SCARD", 2),
    ("SDIFF", -2),
    ("SDIFFSTORE", -3),
    ("SETBIT", 4),
    ("SETRANGE", 4),
    ("SINTER", -2),
    ("SINTERCARD", -3),
    ("SINTERSTORE", -3),
    ("SISMEMBER", 3),
    ("SMEMBERS", 2),
    ("SMISMEMBER", -3),
    ("SMOVE", 4),
    ("SPOP", -2),
    ("SRANDMEMBER", -2),
    ("SREM", -3),
    ("SSCAN", -3),
    ("STRLEN", 2),
    ("SUBSTR", 4),
    ("SUNION", -2),
    ("SUNIONSTORE", -3),
    ("XACK", -4),
    ("XADD", -5),
    ("XLEN", 2),
    ("XRANGE", -4),
    ("XREAD", -4),
    ("XREADGROUP", -7),
    ("XTRIM", -4),
    ("ZADD", -4),
    ("ZCARD", 2),
    ("ZCOUNT", 4),
    ("ZINCRBY", 4),
    ("ZPOPMAX", -2),
    ("ZPOPMIN", -2),
    ("ZRANGE", -4),
    ("ZRANGEBYSCORE", -4),
    ("ZRANK", -3),
    ("ZREM", -3),
    ("ZREVRANGE", -4),
    ("ZREVRANK", -3),
    ("ZSCAN", -3),
    ("ZSCORE", 3),
];

/// Reason why a command is not supported.
pub(super) enum Unserved {
    Lowering,
    Expiring,
    OtherType,
    /// `WATCH`, because there is no state to watch.
    Watching,
    Unknown,
}

/// Returns the reason for which a command is not supported, and the command's arity if Redis has the command.
pub(super) fn unserved(name: &[u8]) -> (Unserved, Option<i64>) {
    let arity = |table: &[(&str, i64)]| {
        table.iter().find(|(is, _)| is.as_bytes().eq_ignore_ascii_case(name)).map(|(_, arity)| *arity)
    };
    if let Some(arity) = arity(LOWERING) {
        (Unserved::Lowering, Some(arity))
    } else if let Some(arity) = arity(EXPIRING) {
        (Unserved::Expiring, Some(arity))
    } else if let Some(arity) = arity(OTHER_TYPES) {
        (Unserved::OtherType, Some(arity))
    } else if name.eq_ignore_ascii_case(b"WATCH") {
        (Unserved::Watching, Some(-2))
    } else {
        (Unserved::Unknown, None)
    }
}

/// Returns whether a command of this arity may have `count` arguments, including its name.
pub(super) fn takes(arity: i64, count: usize) -> bool {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if arity < 0 { count >= -arity } else { count == arity }
}

/// Returns the text of INFO.
pub(super) fn info(node: &Node) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        write!(text, "{key}:{value}\r\n").expect("a String takes every write");
    };
    line("# Server\r\nredis_version", &REDIS_VERSION);
    line("seqsvr_version", &env!("CARGO_PKG_VERSION"));
    line("redis_mode", &node.mode());
    line("process_id", &std::process::id());
    line("uptime_in_seconds", &node.started.elapsed().as_secs());
    line("\r\n# Clients\r\nconnected_clients", &node.admission.count());
    line("maxclients", &node.admission.most_callers());
    line("\r\n# Persistence\r\nloading", &0);
    line("\r\n# Replication\r\nrole", &"master");
    line("connected_slaves", &0);
    if node.cluster.is_some() {
        line("\r\n# Cluster\r\ncluster_enabled", &1);
        line("\r\n# Sequences\r\nkeyspace", &node.config.keyspace);
    } else {
        line("\r\n# Sequences\r\nkey_prefix", &node.config.prefix);
        line("id_key_prefix", &node.config.id_prefix);
        line("keyspace", &node.config.keyspace);
    }
    line("max_keys", &(MAX_ARGS - 1));
    text
}
