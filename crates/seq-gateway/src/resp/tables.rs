//! What the port says of itself, and which commands of Redis it refuses with which reason.

use std::fmt::Write;

use crate::resp::Node;
use crate::resp::parse::MAX_ARGS;

/// The version of Redis whose clients are answered as they expect; some look at it before they send a command.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// A command that is served.
pub(super) struct Served {
    pub(super) name: &'static str,
    /// How many arguments, the name included; that many or more when it is below 0.
    pub(super) arity: i64,
    pub(super) flags: &'static [&'static str],
    /// Places of the first and the last key; 0 when there are none, -1: to the end.
    pub(super) keys: (i64, i64),
}

const fn served(name: &'static str, arity: i64, flags: &'static [&'static str], keys: (i64, i64)) -> Served {
    Served { name, arity, flags, keys }
}

/// Every command that is served.
pub(super) const SERVED: &[Served] = &[
    served("auth", -2, &["noscript", "loading", "stale", "fast", "no_auth"], (0, 0)),
    served("client", -2, &["noscript", "loading", "stale"], (0, 0)),
    served("command", -1, &["loading", "stale"], (0, 0)),
    served("config", -3, &["admin", "loading", "stale"], (0, 0)),
    served("echo", 2, &["fast"], (0, 0)),
    served("exists", -2, &["readonly", "fast"], (1, -1)),
    served("get", 2, &["readonly", "fast"], (1, 1)),
    served("hello", -1, &["noscript", "loading", "stale", "fast", "no_auth"], (0, 0)),
    served("incr", 2, &["write", "fast"], (1, 1)),
    served("incrby", 3, &["write", "fast"], (1, 1)),
    served("info", -1, &["loading", "stale"], (0, 0)),
    served("mget", -2, &["readonly", "fast"], (1, -1)),
    served("ping", -1, &["fast"], (0, 0)),
    served("quit", -1, &["loading", "stale", "fast", "no_auth"], (0, 0)),
    served("select", 2, &["loading", "stale", "fast"], (0, 0)),
    served("set", 3, &["write"], (1, 1)),
];

/// Would lower a number, or remove it.
const LOWERING: &[&[u8]] = &[
    b"DEL",
    b"UNLINK",
    b"FLUSHALL",
    b"FLUSHDB",
    b"EXPIRE",
    b"PEXPIRE",
    b"EXPIREAT",
    b"PEXPIREAT",
    b"DECR",
    b"DECRBY",
    b"GETDEL",
    b"GETEX",
    b"GETSET",
    b"SETEX",
    b"PSETEX",
    b"RENAME",
    b"RENAMENX",
    b"MOVE",
    b"RESTORE",
    b"SWAPDB",
    b"COPY",
];

/// First letters of commands for values that are no numbers.
const OTHER_TYPES: &[&[u8]] = &[
    b"APPEND",
    b"BIT",
    b"BL",
    b"BRPOP",
    b"BZ",
    b"GEO",
    b"GETBIT",
    b"GETRANGE",
    b"H",
    b"INCRBYFLOAT",
    b"L",
    b"PF",
    b"RPOP",
    b"RPUSH",
    b"SADD",
    b"SCARD",
    b"SDIFF",
    b"SETBIT",
    b"SETRANGE",
    b"SINTER",
    b"SISMEMBER",
    b"SMEMBERS",
    b"SMISMEMBER",
    b"SMOVE",
    b"SPOP",
    b"SRANDMEMBER",
    b"SREM",
    b"SSCAN",
    b"STRLEN",
    b"SUBSTR",
    b"SUNION",
    b"X",
    b"Z",
];

/// Why a command is not served.
pub(super) enum Unserved {
    Lowering,
    OtherType,
    Unknown,
}

/// Why a command is not served; its name in capitals.
pub(super) fn unserved(name: &[u8]) -> Unserved {
    if LOWERING.contains(&name) {
        Unserved::Lowering
    } else if OTHER_TYPES.iter().any(|start| name.starts_with(start)) {
        Unserved::OtherType
    } else {
        Unserved::Unknown
    }
}

/// The text of INFO.
pub(super) fn info(node: &Node) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        write!(text, "{key}:{value}\r\n").expect("a String takes every write");
    };
    line("# Server\r\nredis_version", &REDIS_VERSION);
    line("seqsvr_version", &env!("CARGO_PKG_VERSION"));
    line("redis_mode", &"standalone");
    line("process_id", &std::process::id());
    line("uptime_in_seconds", &node.started.elapsed().as_secs());
    line("\r\n# Clients\r\nconnected_clients", &node.admission.count());
    line("maxclients", &node.admission.most());
    line("\r\n# Persistence\r\nloading", &0);
    line("\r\n# Replication\r\nrole", &"master");
    line("connected_slaves", &0);
    line("\r\n# Sequences\r\nkey_prefix", &node.config.prefix);
    line("max_keys", &(MAX_ARGS - 1));
    text
}
