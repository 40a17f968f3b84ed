//! The Redis port: transactions, strict arguments, and errors with the texts of Redis.

use std::time::Duration;

use expect_test::expect;
use seq_gateway::resp::RespConfig;

use crate::resp::{Port, check, check_whole};

#[tokio::test]
async fn a_transaction_is_a_batch() {
    let port = Port::open();
    let script = "
        MULTI
        INCR seq:1
        INCRBY seq:1 10
        PING
        GET seq:1
        EXEC
        MULTI
        EXEC
        MULTI
        INCR seq:1
        DISCARD
        GET seq:1
        MULTI
        INCR seq:1
        INCR foo
        INCRBY seq:1 0
        INCR seq:1
        EXEC
    ";
    check_whole(
        &mut port.call().await,
        script,
        expect![[r#"
            +OK
            +QUEUED
            +QUEUED
            +QUEUED
            +QUEUED
            *4
            :1
            :11
            +PONG
            $2
            11
            +OK
            *0
            +OK
            +QUEUED
            +OK
            $2
            11
            +OK
            +QUEUED
            +QUEUED
            +QUEUED
            +QUEUED
            *4
            :12
            -ERR 'foo' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            -ERR count 0 is not in 1..=1000000
            :13
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_transaction_with_an_error_takes_nothing() {
    let port = Port::open();
    let script = "
        MULTI
        INCR seq:1
        NONSENSE
        INCR
        EXEC
        GET seq:1
        EXEC
        DISCARD
        MULTI
        MULTI
        WATCH seq:1
        INCR seq:1
        EXEC
        WATCH seq:1
        UNWATCH
    ";
    check_whole(
        &mut port.call().await,
        script,
        expect![[r#"
            +OK
            +QUEUED
            -ERR unknown command 'NONSENSE': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            -ERR wrong number of arguments for 'incr' command
            -EXECABORT Transaction discarded because of previous errors.
            $-1
            -ERR EXEC without MULTI
            -ERR DISCARD without MULTI
            +OK
            -ERR MULTI calls can not be nested
            -ERR 'WATCH' is refused: others take numbers of a sequence at any time; EXEC is a batch here
            +QUEUED
            -EXECABORT Transaction discarded because of previous errors.
            -ERR 'WATCH' is refused: others take numbers of a sequence at any time; EXEC is a batch here
            +OK
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_transaction_is_bounded_and_ends_with_its_connection() {
    let port = Port::open();
    let mut client = port.call().await;
    let queued = "INCR seq:1\r\n".repeat(10_000);
    let replies = client.ask(format!("MULTI\r\n{queued}EXEC\r\n")).await;
    assert!(
        replies.contains("+QUEUED\r\n*10000\r\n:1\r\n:2\r\n") && replies.ends_with(":10000\r\n"),
        "{}",
        &replies[..80]
    );
    let replies = client.ask(format!("MULTI\r\n{queued}INCR seq:1\r\nEXEC\r\n")).await;
    assert!(
        replies.contains("-ERR")
            && replies.ends_with("-EXECABORT Transaction discarded because of previous errors.\r\n")
    );
    assert_eq!(port.twin.last(1), 10_000);
    let mut other = port.call().await;
    other.send("MULTI\r\nINCR seq:2\r\n").await;
    drop(other);
    assert_eq!(client.ask("INCR seq:2\r\n").await, ":1\r\n");
}

#[tokio::test]
async fn numbers_are_read_strictly() {
    let port = Port::open();
    let script = "
        INCRBY seq:1 007
        INCRBY seq:1 +7
        INCRBY seq:1 -0
        INCRBY seq:1 -007
        INCRBY seq:1 17179869184
        INCRBY seq:1 9223372036854775807
        SET seq:1 0100
        SET seq:1 +100
        GET seq:1
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > INCRBY seq:1 007
            -ERR value is not an integer or out of range
            > INCRBY seq:1 +7
            -ERR value is not an integer or out of range
            > INCRBY seq:1 -0
            -ERR value is not an integer or out of range
            > INCRBY seq:1 -007
            -ERR value is not an integer or out of range
            > INCRBY seq:1 17179869184
            -ERR count 17179869184 is not in 1..=1000000
            > INCRBY seq:1 9223372036854775807
            -ERR count 9223372036854775807 is not in 1..=1000000
            > SET seq:1 0100
            -ERR value is not an integer or out of range
            > SET seq:1 +100
            -ERR value is not an integer or out of range
            > GET seq:1
            $-1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn unsupported_redis_commands_get_the_errors_of_redis() {
    let port = Port::open();
    let script = "
        LATENCY LATEST
        LASTSAVE
        LOLWUT
        HELP
        LCS a b
        XYZ
        CLUSTER SLOTS
        CLUSTER INFO
        DECR
        LPUSH seq:1
        CONFIG FOO
        HELLO x
        CLIENT SETNAME
        MGET seq:1 foo seq:1000
        EXISTS foo seq:1
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > LATENCY LATEST
            -ERR unknown command 'LATENCY': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > LASTSAVE
            -ERR unknown command 'LASTSAVE': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > LOLWUT
            -ERR unknown command 'LOLWUT': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > HELP
            -ERR unknown command 'HELP': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > LCS a b
            -ERR unknown command 'LCS': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > XYZ
            -ERR unknown command 'XYZ': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > CLUSTER SLOTS
            -ERR This instance has cluster support disabled
            > CLUSTER INFO
            -ERR This instance has cluster support disabled
            > DECR
            -ERR wrong number of arguments for 'decr' command
            > LPUSH seq:1
            -ERR wrong number of arguments for 'lpush' command
            > CONFIG FOO
            -ERR unknown subcommand 'FOO'
            > HELLO x
            -ERR Protocol version is not an integer or out of range
            > CLIENT SETNAME
            -ERR unknown subcommand or wrong number of arguments for 'SETNAME'
            > MGET seq:1 foo seq:1000
            *3
            $-1
            $-1
            $-1
            > EXISTS foo seq:1
            :0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn small_commands_get_the_replies_of_redis() {
    let port = Port::open();
    let script = "
        TYPE seq:1
        TTL seq:1
        INCR \"seq:1\"
        INCR 'seq:1'
        ECHO \"a b\"
        TYPE seq:1
        TTL seq:1
        PTTL seq:1
        ROLE
        RESET
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > TYPE seq:1
            +none
            > TTL seq:1
            :-2
            > INCR "seq:1"
            :1
            > INCR 'seq:1'
            :2
            > ECHO "a b"
            $3
            a b
            > TYPE seq:1
            +string
            > TTL seq:1
            :-1
            > PTTL seq:1
            :-1
            > ROLE
            *3
            $6
            master
            :0
            *0
            > RESET
            +RESET
        "#]],
    )
    .await;
}

#[tokio::test]
async fn wrong_passwords_close_the_connection() {
    let port = Port::with(RespConfig { password: Some("secret".to_owned()), ..RespConfig::defaults() });
    let mut client = port.call().await;
    client.send("AUTH wrong\r\n".repeat(100)).await;
    let replies = client.rest().await;
    assert!(replies.matches("-WRONGPASS").count() <= 5, "{} guesses got a reply", replies.matches('-').count());
    // The right password is not delayed by the guesses.
    assert_eq!(port.call().await.ask("AUTH secret\r\nINCR seq:1\r\n").await, "+OK\r\n:1\r\n");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_configured_timeout() {
    let port = Port::with(RespConfig { idle_timeout: Some(Duration::from_millis(50)), ..RespConfig::defaults() });
    let mut client = port.call().await;
    // The port has closed it: otherwise the read below would run into the timeout of the test.
    assert_eq!(client.rest().await, "");
    let mut client = port.call().await;
    assert_eq!(client.ask("INCR seq:1\r\n").await, ":1\r\n");
    assert_eq!(client.rest().await, "");
}
