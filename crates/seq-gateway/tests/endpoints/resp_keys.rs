//! Keys of a keyspace over the Redis port: a key of Redis that names neither a uid nor a series is a key, whole.

use std::sync::atomic::Ordering::Relaxed;

use expect_test::expect;
use seq_api::node_events::NodeEvents;
use seq_gateway::resp::{RespConfig, RespConfigError};
use seq_tenant::{Tenants, file, token};

use crate::resp::{Port, check};

fn config() -> RespConfig {
    RespConfig { keyspace: "main".to_owned(), ..RespConfig::defaults() }
}

/// Returns a command as clients send it.
fn command(args: &[&[u8]]) -> Vec<u8> {
    let args = args.iter().map(|arg| [format!("${}\r\n", arg.len()).as_bytes(), arg, b"\r\n"].concat());
    let args: Vec<_> = args.collect();
    [format!("*{}\r\n", args.len()).into_bytes(), args.concat()].concat()
}

#[tokio::test]
async fn a_key_is_a_sequence() {
    let port = Port::with(config());
    let script = "
        GET conv:42
        INCR conv:42
        incr conv:42
        INCRBY conv:42 10
        GET conv:42
        INCR CONV:42
        INCR {conv}:42
        INCR seq:42
        INCR seq:x
        INCR id:orders
        MGET conv:42 seq:42 nothing id:orders conv:42 seq:1000
        EXISTS conv:42 conv:42 nothing seq:42
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > GET conv:42
            $-1
            > INCR conv:42
            :1
            > incr conv:42
            :2
            > INCRBY conv:42 10
            :12
            > GET conv:42
            $2
            12
            > INCR CONV:42
            :1
            > INCR {conv}:42
            :1
            > INCR seq:42
            :1
            > INCR seq:x
            :1
            > INCR id:orders
            :1
            > MGET conv:42 seq:42 nothing id:orders conv:42 seq:1000
            *6
            $2
            12
            $1
            1
            $-1
            $1
            1
            $2
            12
            $-1
            > EXISTS conv:42 conv:42 nothing seq:42
            :3
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_key_has_a_type_and_details_as_a_uid_has() {
    let port = Port::with(config());
    let script = "
        INCRBY conv:42 12
        TYPE conv:42
        TYPE nothing
        TTL conv:42
        PTTL nothing
        SEQ.NEXT conv:42 3
        SEQ.GET conv:42
        SEQ.GET nothing
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > INCRBY conv:42 12
            :12
            > TYPE conv:42
            +string
            > TYPE nothing
            +none
            > TTL conv:42
            :-1
            > PTTL nothing
            :-2
            > SEQ.NEXT conv:42 3
            *4
            :15
            :12
            :0
            :1
            > SEQ.GET conv:42
            *3
            :15
            $5
            exact
            :1
            > SEQ.GET nothing
            *3
            :0
            $5
            exact
            :1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn set_raises_a_key() {
    let port = Port::with(config());
    let script = "
        SET conv:42 100
        INCR conv:42
        SET conv:42 7
        SET conv:42 500 NX
        SETNX conv:42 500
        SETNX conv:43 500
        SET conv:44 9 NX
        MSET conv:42 200 seq:5 20 conv:45 30
        MGET conv:42 conv:43 conv:44 seq:5 conv:45
        MSET conv:42 300 conv:43 1
        GET conv:42
        SET conv:42 10 EX 60
        SET conv:42 ten
        SET conv:42 9223372036854775807
        INCR conv:42
        INCR seq:5
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > SET conv:42 100
            +OK
            > INCR conv:42
            :101
            > SET conv:42 7
            -ERR ALREADY_PAST key "conv:42" is past that number, or may be, and numbers never go back
            > SET conv:42 500 NX
            $-1
            > SETNX conv:42 500
            :0
            > SETNX conv:43 500
            :1
            > SET conv:44 9 NX
            +OK
            > MSET conv:42 200 seq:5 20 conv:45 30
            +OK
            > MGET conv:42 conv:43 conv:44 seq:5 conv:45
            *5
            $3
            200
            $3
            500
            $1
            9
            $2
            20
            $2
            30
            > MSET conv:42 300 conv:43 1
            -ERR ALREADY_PAST key "conv:43" is past that number, or may be, and numbers never go back
            > GET conv:42
            $3
            300
            > SET conv:42 10 EX 60
            -ERR 'EX' is refused: SET raises a sequence, and has no option but NX
            > SET conv:42 ten
            -ERR value is not an integer or out of range
            > SET conv:42 9223372036854775807
            -ERR ADVANCE_TOO_FAR 9223372036854775807 is above 4611686018427387903, the highest number that a uid or key of this section is raised to now: the section's ceiling would go there permanently, and its next owner starts all of them at the ceiling
            > INCR conv:42
            :301
            > INCR seq:5
            :21
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_lowers_or_removes_a_key_is_refused_by_name() {
    let port = Port::with(config());
    let script = "
        INCR conv:42
        DEL conv:42
        EXPIRE conv:42 60
        SETEX conv:42 60 1
        DECR conv:42
        INCRBY conv:42 -1
        INCRBY conv:42 0
        INCRBY conv:42 x
        LPUSH conv:42 x
        GET conv:42
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > INCR conv:42
            :1
            > DEL conv:42
            -ERR 'DEL' is refused: numbers never go back, and none is ever removed
            > EXPIRE conv:42 60
            -ERR 'EXPIRE' is refused: numbers never go back, and none is ever removed. A counter that expires, as of a rate limiter, is no sequence
            > SETEX conv:42 60 1
            -ERR 'SETEX' is refused: numbers never go back, and none is ever removed. A counter that expires, as of a rate limiter, is no sequence
            > DECR conv:42
            -ERR 'DECR' is refused: numbers never go back, and none is ever removed
            > INCRBY conv:42 -1
            -ERR -1 is refused: numbers never go back
            > INCRBY conv:42 0
            -ERR count 0 is not in 1..=1000000
            > INCRBY conv:42 x
            -ERR value is not an integer or out of range
            > LPUSH conv:42 x
            -WRONGTYPE 'LPUSH' is refused: a key here is a sequence, for INCR, INCRBY, GET, MGET, EXISTS and SET
            > GET conv:42
            $1
            1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_key_has_1_to_512_bytes_of_any_value() {
    let port = Port::with(config());
    let mut client = port.call().await;
    let (longest, longer) = ([b'x'; 512], [b'x'; 513]);
    for key in [&longest[..], b"\0\r\n\xff", "\u{e9}t\u{e9}".as_bytes(), b" ", &[b'y'; 100]] {
        let taken = client.ask([command(&[b"INCR", key]), command(&[b"INCRBY", key, b"2"])].concat()).await;
        assert_eq!(taken, ":1\r\n:3\r\n", "{}", key.escape_ascii());
        assert_eq!(client.ask(command(&[b"GET", key])).await, "$1\r\n3\r\n", "{}", key.escape_ascii());
    }
    for (key, bytes) in [(&b""[..], 0), (&longer, 513)] {
        let refused = format!("-ERR KEY_SIZE the key has {bytes} bytes: a key has 1 to 512\r\n");
        for args in [&[b"INCR", key][..], &[b"GET", key], &[b"SET", key, b"1"], &[b"SEQ.NEXT", key]] {
            assert_eq!(client.ask(command(args)).await, refused, "{bytes}");
        }
        assert_eq!(client.ask(command(&[b"MGET", key, &longest])).await, "*2\r\n$-1\r\n$1\r\n3\r\n", "no key has it");
        assert_eq!(client.ask(command(&[b"EXISTS", key])).await, ":0\r\n");
    }
    assert_eq!(client.ask(command(&[b"INCR", &[b'x'; 1_024]])).await.split(' ').nth(1), Some("KEY_SIZE"));
}

#[tokio::test]
async fn a_pipeline_is_a_request_for_each_run_of_keys() {
    let port = Port::with(config());
    let mut client = port.call().await;
    let keys: Vec<String> = (0..64).map(|index| format!("conversation:{index:02}:3f2504e0-4f89-11d3")).collect();
    let pipeline: Vec<u8> = keys.iter().flat_map(|key| command(&[b"INCR", key.as_bytes()])).collect();
    assert_eq!(client.ask(&pipeline).await, ":1\r\n".repeat(64));
    let calls = port.twin.calls().len();
    assert!((1..8).contains(&calls), "{calls} requests for 64 commands");
    // Runs of uids, keys and other commands stay in order, also within a transaction and across reads.
    let mixed: [&[&[u8]]; 9] = [
        &[b"INCR", b"a"],
        &[b"INCR", b"a"],
        &[b"INCR", b"seq:1"],
        &[b"INCRBY", b"a", b"5"],
        &[b"GET", b"a"],
        &[b"INCR", b"seq:1"],
        &[b"INCR", b"id:orders"],
        &[b"INCR", b""],
        &[b"INCR", b"a"],
    ];
    let mixed: Vec<u8> = mixed.iter().flat_map(|args| command(args)).collect();
    let tail = "-ERR KEY_SIZE the key has 0 bytes: a key has 1 to 512\r\n:8\r\n";
    assert_eq!(client.ask(&mixed).await, format!(":1\r\n:2\r\n:1\r\n:7\r\n$1\r\n7\r\n:2\r\n:1\r\n{tail}"));
    let whole = [command(&[b"MULTI"]), mixed.clone(), command(&[b"EXEC"])].concat();
    let sent = [whole, command(&[b"ECHO", b"end"])].concat();
    for part in sent.chunks(7) {
        client.send(part).await;
    }
    let tail = "-ERR KEY_SIZE the key has 0 bytes: a key has 1 to 512\r\n:16\r\n$3\r\nend\r\n";
    let numbers = ":9\r\n:10\r\n:3\r\n:15\r\n$2\r\n15\r\n:4\r\n:2\r\n";
    let expected = format!("+OK\r\n{}*9\r\n{numbers}{tail}", "+QUEUED\r\n".repeat(9));
    let received = client.receive(expected.len()).await;
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}

#[tokio::test]
async fn a_key_without_numbers_left_is_named() {
    let port = Port::with(config());
    let mut client = port.call().await;
    assert_eq!(client.ask("SET conv:9 4611686018427387903\r\n").await, "+OK\r\n");
    let refused = "-ERR EXHAUSTED key \"conv:9\" has no 1 numbers left below 2^63\r\n";
    let sent = "INCR conv:8\r\nINCR conv:9\r\nINCR conv:8\r\n";
    assert_eq!(client.ask(sent).await, format!(":1\r\n{refused}:2\r\n"));
    let past = client.ask("SET conv:9 1\r\n").await;
    assert_eq!(past, "-ERR ALREADY_PAST key \"conv:9\" is past that number, or may be, and numbers never go back\r\n");
}

#[tokio::test]
async fn a_bound_of_a_key_is_no_value_if_the_settings_say_so() {
    let port = Port::with(RespConfig { read_bounds: false, ..config() });
    let mut client = port.call().await;
    assert_eq!(client.ask("INCR conv:42\r\nGET conv:42\r\n").await, ":1\r\n$1\r\n1\r\n");
    port.twin.bounds_of_keys.store(true, Relaxed);
    let script = "
        GET conv:42
        MGET seq:1 conv:42
        SEQ.GET conv:42
    ";
    check(
        &mut client,
        script,
        expect![[r#"
            > GET conv:42
            -INEXACT the last number of key 'conv:42' is not known, and at most 1, until its next one: SEQ.GET returns the bound
            > MGET seq:1 conv:42
            -INEXACT the last number of uid 1 is not known, and at most 0, until its next one: SEQ.GET returns the bound
            > SEQ.GET conv:42
            *3
            :1
            $11
            upper_bound
            :1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_keyspace_must_exist_and_a_node_without_routes_knows_none() {
    let commands = "INCR conv:42\r\nGET conv:42\r\nMGET conv:42\r\nSET conv:42 1\r\nSEQ.NEXT conv:42\r\n";
    let port = Port::with(RespConfig { keyspace: "other".to_owned(), ..config() });
    let unknown = "-ERR UNKNOWN_KEYSPACE no keyspace is named \"other\": `seqsvr keyspace list` lists them, and a new one is \
                   known within a second\r\n";
    assert_eq!(port.call().await.ask(commands).await, unknown.repeat(5));
    assert_eq!(port.call().await.ask("INCR seq:1\r\nMGET seq:1\r\n").await, ":1\r\n*1\r\n$1\r\n1\r\n");
    let port = Port::unready(10, config());
    assert_eq!(port.call().await.ask(commands).await, "-LOADING the node has no routes yet\r\n".repeat(5));
    port.twin.route(1);
    assert_eq!(port.call().await.ask("INCR conv:42\r\n").await, ":1\r\n");
    let port = Port::open();
    let refused = "-ERR 'conv:42' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace\r\n";
    let replies = port.call().await.ask(commands).await;
    assert_eq!(replies, format!("{refused}{refused}*1\r\n$-1\r\n{refused}{refused}"));
}

#[test]
fn the_name_of_a_keyspace_is_checked_at_the_start() {
    let of = |keyspace: &str| RespConfig { keyspace: keyspace.to_owned(), ..config() }.validate();
    assert_eq!((of(""), of("main"), of("a-b.c_9")), (Ok(()), Ok(()), Ok(())));
    for name in ["Main", "a b", "a/b", &"x".repeat(64)] {
        assert_eq!(of(name), Err(RespConfigError::Keyspace { name: name.to_owned() }));
    }
}

#[tokio::test]
async fn keys_of_tenants_are_charged_command_by_command() {
    let open = |lines: &str| {
        let (token, hash) = token::generate("im").unwrap();
        let text = format!("[[tenant]]\nname = \"im\"\ntokens = [\"{hash}\"]\n{lines}");
        let tenants = Tenants::new("a1", file::parse(&text).unwrap(), &NodeEvents::default());
        (Port::open_to_with(tenants, config()), format!("AUTH {}\r\n", *token))
    };
    let (port, auth) = open("uids = [\"0..10\"]");
    let mut client = port.call().await;
    let refused = "-ERR OTHER_TENANTS_KEY the tenant may use no key of keyspace \"main\": `keys` in the tenants file are its keys, \
                   if it has `uids`\r\n";
    let sent = "INCR a\r\nINCR seq:1\r\nGET a\r\nSET a 1\r\nINCR b\r\nINCR c\r\n";
    let replies = client.ask(format!("{auth}{sent}")).await;
    assert_eq!(replies, format!("+OK\r\n{refused}:1\r\n{}", refused.repeat(4)));
    assert_eq!(port.twin.calls(), []);
    let (port, auth) = open("uids = [\"0..10\"]\nkeys = [\"main/conv:*\"]");
    let mut client = port.call().await;
    let other = "-ERR OTHER_TENANTS_KEY the tenant may not use key \"user:1\" of keyspace \"main\": `keys` in the tenants file are \
                 its keys\r\n";
    let sent = "INCR conv:1\r\nINCR user:1\r\nINCR conv:1\r\nMGET conv:1 user:1\r\nGET user:1\r\nSET user:1 5\r\nGET conv:1\r\n";
    let replies = client.ask(format!("{auth}{sent}")).await;
    assert_eq!(replies, format!("+OK\r\n:1\r\n{other}:2\r\n{}$1\r\n2\r\n", other.repeat(3)));
    let (port, auth) = open("max_count = 5\nmax_advance = 100\ncalls_per_s = 9");
    let mut client = port.call().await;
    let cap = "-ERR COUNT_ABOVE_QUOTA count 6 is above the tenant's quota of 5 for an item\r\n";
    let sent = "INCR a\r\nINCRBY a 6\r\nINCRBY a 5\r\nINCR b\r\nSET b 102\r\nSET b 101\r\n";
    let far = "-ERR ADVANCE_TOO_FAR";
    let replies = client.ask(format!("{auth}{sent}")).await;
    let lines: Vec<&str> = replies.split_inclusive("\r\n").collect();
    assert_eq!(&lines[..5], ["+OK\r\n", ":1\r\n", cap, ":6\r\n", ":1\r\n"]);
    assert!(lines[5].starts_with(far) && lines[6] == "+OK\r\n", "{replies}");
    let replies = client.ask("INCR a\r\n".repeat(9)).await;
    let over = "-TRYAGAIN QUOTA_EXCEEDED the tenant's quota is used up for now\r\n";
    assert!(replies.starts_with(":7\r\n") && replies.ends_with(over), "{replies}");
}
