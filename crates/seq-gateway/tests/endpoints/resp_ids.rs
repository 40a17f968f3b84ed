//! The Redis port: series.

use expect_test::expect;
use seq_core::{Refusal, SectionId};
use seq_gateway::resp::{RespConfig, RespConfigError};

use crate::resp::{Port, check, check_whole};
use crate::series::TWEET;

#[tokio::test]
async fn a_counter_is_a_key() {
    let port = Port::open();
    let script = "
        GET id:orders
        INCR id:orders
        incr id:orders
        INCRBY id:orders 10
        GET id:orders
        SET id:orders 9007199254740993
        SET id:orders 9007199254740993
        INCR id:orders
        GET id:orders
        MGET id:orders seq:1 id:nothing
        EXISTS id:orders id:nothing
        TYPE id:orders
        TTL id:orders
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > GET id:orders
        $-1
        > INCR id:orders
        :1
        > incr id:orders
        :2
        > INCRBY id:orders 10
        :12
        > GET id:orders
        $2
        12
        > SET id:orders 9007199254740993
        +OK
        > SET id:orders 9007199254740993
        +OK
        > INCR id:orders
        :9007199254740994
        > GET id:orders
        $16
        9007199254740994
        > MGET id:orders seq:1 id:nothing
        *3
        $16
        9007199254740994
        $-1
        $-1
        > EXISTS id:orders id:nothing
        :1
        > TYPE id:orders
        +string
        > TTL id:orders
        :-1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_counter_with_an_increment_ends() {
    let port = Port::open();
    let script = "
        INCRBY id:tickets 3
        GET id:tickets
        SET id:tickets 32
        INCR id:tickets
        INCR id:tickets
        INCR id:tickets
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCRBY id:tickets 3
        :22
        > GET id:tickets
        $2
        22
        > SET id:tickets 32
        +OK
        > INCR id:tickets
        :42
        > INCR id:tickets
        :52
        > INCR id:tickets
        -ERR SERIES_ENDED the ids of series "tickets" have ended: the last one is 52
    "#]],
    )
    .await;
}

#[tokio::test]
async fn seq_id_returns_strings() {
    let port = Port::open();
    let script = "
        SEQ.ID id:orders
        SEQ.ID id:orders COUNT 3
        seq.id id:orders after 100 count 2
        SEQ.ID id:orders AFTER 0
        SEQ.ID id:tweets COUNT 2
        SEQ.ID id:media:1341
        INCR id:tweets
        INCR id:media:1341
        COMMAND INFO seq.id
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > SEQ.ID id:orders
        *1
        $1
        1
        > SEQ.ID id:orders COUNT 3
        *3
        $1
        2
        $1
        3
        $1
        4
        > seq.id id:orders after 100 count 2
        *2
        $3
        101
        $3
        102
        > SEQ.ID id:orders AFTER 0
        *1
        $3
        103
        > SEQ.ID id:tweets COUNT 2
        *2
        $19
        1541815603606036480
        $19
        1541815603606036481
        > SEQ.ID id:media:1341
        *1
        $19
        2870685998328902656
        > INCR id:tweets
        :1541815603606036482
        > INCR id:media:1341
        :2870685998328902657
        > COMMAND INFO seq.id
        *1
        *6
        $6
        seq.id
        :-2
        *2
        +write
        +fast
        :1
        :1
        :1
    "#]],
    )
    .await;
    assert_eq!(TWEET.to_string(), "1541815603606036480", "the id of the documents");
}

#[tokio::test]
async fn refused_keys_have_a_reason_and_move_nothing() {
    let port = Port::open();
    let script = "
        INCR id:nothing
        INCR id:
        INCR id:Orders
        INCR id:old
        SET id:old 5
        INCR id:orders:0
        GET id:orders:0
        INCR id:orders:x
        INCR id:media
        INCR id:media:8192
        INCR id:media:-1
        INCR id:media:
        INCR id:media:1:2
        GET id:orders
    ";
    check(&mut port.call().await, script, expect![[r#"
        > INCR id:nothing
        -ERR UNKNOWN_SERIES no series is named "nothing": `seqsvr series list` lists them, and a new one is known within a second
        > INCR id:
        -ERR UNKNOWN_SERIES no series is named "": `seqsvr series list` lists them, and a new one is known within a second
        > INCR id:Orders
        -ERR UNKNOWN_SERIES no series is named "Orders": `seqsvr series list` lists them, and a new one is known within a second
        > INCR id:old
        -ERR SERIES_RETIRED series "old" is retired: it gives out no more ids
        > SET id:old 5
        -ERR SERIES_RETIRED series "old" is retired: it gives out no more ids
        > INCR id:orders:0
        -ERR LANE_NOT_ALLOWED the lane 0 is named, and series "orders" chooses its lanes itself: leave the lane out
        > GET id:orders:0
        -ERR LANE_NOT_ALLOWED the lane 0 is named, and series "orders" chooses its lanes itself: leave the lane out
        > INCR id:orders:x
        -ERR LANE_OUT_OF_RANGE "x" is no lane of series "orders", whose lanes are 0 to 0
        > INCR id:media
        -ERR LANE_REQUIRED series "media" needs a lane, 0 to 8191
        > INCR id:media:8192
        -ERR LANE_OUT_OF_RANGE series "media" has no lane 8192: its lanes are 0 to 8191
        > INCR id:media:-1
        -ERR LANE_OUT_OF_RANGE "-1" is no lane of series "media", whose lanes are 0 to 8191
        > INCR id:media:
        -ERR LANE_OUT_OF_RANGE "" is no lane of series "media", whose lanes are 0 to 8191
        > INCR id:media:1:2
        -ERR LANE_OUT_OF_RANGE "1:2" is no lane of series "media", whose lanes are 0 to 8191
        > GET id:orders
        $-1
    "#]]).await;
}

#[tokio::test]
async fn refused_values_have_a_reason_and_move_nothing() {
    let port = Port::open();
    let script = "
        INCRBY id:orders 0
        INCRBY id:orders -5
        INCRBY id:orders x
        INCRBY id:orders 1000001
        INCRBY id:tweets 2
        GET id:tweets
        SET id:tweets 5
        MGET id:tweets
        SET id:orders 0
        SET id:orders 9000000000000000000
        SET id:orders -1
        SET id:orders +1
        SET id:orders 1.5
        SET id:orders 1e18
        SET id:orders 9223372036854775808
        SET id:orders 5 NX
        SET id:tickets 3
        SETNX id:orders 5
        GET id:orders
    ";
    check(&mut port.call().await, script, expect![[r#"
        > INCRBY id:orders 0
        -ERR count 0 is not in 1..=1000000
        > INCRBY id:orders -5
        -ERR -5 is refused: numbers never go back
        > INCRBY id:orders x
        -ERR value is not an integer or out of range
        > INCRBY id:orders 1000001
        -ERR count 1000001 is not in 1..=1000000
        > INCRBY id:tweets 2
        -ERR NOT_A_COUNTER INCRBY 'id:tweets' is refused: the ids before the last one do not follow from it, as the time is in them: SEQ.ID key COUNT n lists them
        > GET id:tweets
        -ERR NOT_A_COUNTER the ids of series "tweets" follow the clock: only a counter is read or advanced
        > SET id:tweets 5
        -ERR NOT_A_COUNTER the ids of series "tweets" follow the clock: only a counter is read or advanced
        > MGET id:tweets
        -ERR NOT_A_COUNTER the ids of series "tweets" follow the clock: only a counter is read or advanced
        > SET id:orders 0
        -ERR NOT_AN_ID "0" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders 9000000000000000000
        -ERR ADVANCE_TOO_FAR the id 9000000000000000000 is too far ahead: one request raises series "orders" to 4611686018427387903 at most now
        > SET id:orders -1
        -ERR NOT_AN_ID "-1" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders +1
        -ERR NOT_AN_ID "+1" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders 1.5
        -ERR NOT_AN_ID "1.5" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders 1e18
        -ERR NOT_AN_ID "1e18" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders 9223372036854775808
        -ERR NOT_AN_ID "9223372036854775808" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SET id:orders 5 NX
        -ERR 'NX' is refused: SET raises a series, and has no option for it
        > SET id:tickets 3
        -ERR NOT_AN_ID 3 is no id of series "tickets", whose ids are 2, 12, 22, ...
        > SETNX id:orders 5
        -ERR 'id:orders' is no sequence: a key is a prefix and a uid, as in seq:42
        > GET id:orders
        $-1
    "#]]).await;
}

#[tokio::test]
async fn refused_options_have_a_reason_and_move_nothing() {
    let port = Port::open();
    let script = "
        SEQ.ID id:orders COUNT 0
        SEQ.ID id:orders COUNT 10001
        SEQ.ID id:orders COUNT x
        SEQ.ID id:orders COUNT
        SEQ.ID id:orders COUNT 1 COUNT 1
        SEQ.ID id:orders LIMIT 1
        SEQ.ID id:orders AFTER 1e18
        SEQ.ID id:orders AFTER 9223372036854775808
        SEQ.ID id:orders AFTER 9223372036854775807
        SEQ.ID id:orders AFTER 5000000
        SEQ.ID seq:1
        SEQ.ID
        DEL id:orders
        GET id:orders
    ";
    check(&mut port.call().await, script, expect![[r#"
        > SEQ.ID id:orders COUNT 0
        -ERR COUNT_OUT_OF_RANGE the count is not an integer of 1..=10000
        > SEQ.ID id:orders COUNT 10001
        -ERR COUNT_OUT_OF_RANGE the count is not an integer of 1..=10000
        > SEQ.ID id:orders COUNT x
        -ERR COUNT_OUT_OF_RANGE the count is not an integer of 1..=10000
        > SEQ.ID id:orders COUNT
        -ERR syntax error: SEQ.ID key [COUNT n] [AFTER id]
        > SEQ.ID id:orders COUNT 1 COUNT 1
        -ERR syntax error: SEQ.ID key [COUNT n] [AFTER id]
        > SEQ.ID id:orders LIMIT 1
        -ERR syntax error: SEQ.ID key [COUNT n] [AFTER id]
        > SEQ.ID id:orders AFTER 1e18
        -ERR NOT_AN_ID "1e18" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SEQ.ID id:orders AFTER 9223372036854775808
        -ERR NOT_AN_ID "9223372036854775808" is no id of series "orders", whose ids are 1, 2, 3, ...
        > SEQ.ID id:orders AFTER 9223372036854775807
        -ERR SERIES_ENDED the ids of series "orders" have ended: the last one is 9223372036854775807
        > SEQ.ID id:orders AFTER 5000000
        -ERR AFTER_TOO_FAR the id 5000000 is further ahead than one request moves series "orders": a counter skips up to 1000000 numbers
        > SEQ.ID seq:1
        -ERR 'seq:1' names no series: a key is a prefix and a name, as in id:orders, or id:media:7
        > SEQ.ID
        -ERR wrong number of arguments for 'seq.id' command
        > DEL id:orders
        -ERR 'DEL' is refused: numbers never go back, and none is ever removed
        > GET id:orders
        $-1
    "#]]).await;
}

#[tokio::test]
async fn a_last_id_is_read_as_the_settings_allow() {
    let port = Port::with(RespConfig { read_bounds: false, ..RespConfig::defaults() });
    let script = "
        INCR id:tickets
        GET id:tickets
        MGET id:orders id:tickets
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR id:tickets
        :2
        > GET id:tickets
        -INEXACT the last id of series "tickets" is not known, and at most 2, until its next one
        > MGET id:orders id:tickets
        -INEXACT the last id of series "tickets" is not known, and at most 2, until its next one
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_prefix_is_a_setting() {
    let port = Port::with(RespConfig { id_prefix: "ids/".to_owned(), ..RespConfig::defaults() });
    let script = "
        INCR ids/orders
        INCR id:orders
        SEQ.ID id:orders
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR ids/orders
        :1
        > INCR id:orders
        -ERR 'id:orders' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > SEQ.ID id:orders
        -ERR 'id:orders' names no series: a key is a prefix and a name, as in ids/orders, or ids/media:7
    "#]],
    )
    .await;
    let port = Port::with(RespConfig { id_prefix: String::new(), ..RespConfig::defaults() });
    let script = "
        INCR id:orders
        GET orders
        SEQ.ID id:orders
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR id:orders
        -ERR 'id:orders' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > GET orders
        -ERR 'orders' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > SEQ.ID id:orders
        -ERR SEQ.ID is refused: redis.id_prefix is empty, so no key names a series
    "#]],
    )
    .await;
}

#[test]
fn no_key_names_a_uid_and_a_series() {
    let check = |prefix: &str, id_prefix: &str| {
        let (prefix, id_prefix) = (prefix.to_owned(), id_prefix.to_owned());
        RespConfig { prefix, id_prefix, ..RespConfig::defaults() }.validate()
    };
    for (prefix, id_prefix) in [("seq:", "id:"), ("id:", ""), ("", "id:"), ("a:", "b:"), ("ab", "aa")] {
        assert_eq!(check(prefix, id_prefix), Ok(()), "{prefix:?} {id_prefix:?}");
    }
    for (prefix, id_prefix) in [("id:", "id:"), ("seq:", "seq:id:"), ("id:seq:", "id:"), ("", "1:")] {
        let ambiguous = matches!(check(prefix, id_prefix), Err(RespConfigError::AmbiguousPrefix { .. }));
        assert!(ambiguous, "{prefix:?} {id_prefix:?}");
    }
    assert_eq!(check("seq:", "i d:"), Err(RespConfigError::Prefix));
    assert_eq!(check("seq:", &"i".repeat(25)), Err(RespConfigError::PrefixTooLong { bytes: 25 }));
}

#[tokio::test]
async fn neighbouring_increments_are_one_request() {
    let port = Port::open();
    let mut client = port.call().await;
    let incr = "*2\r\n$4\r\nINCR\r\n$9\r\nid:orders\r\n";
    let many = |times| (1..=times).map(|id| format!(":{id}\r\n")).collect::<String>();
    assert_eq!(client.ask(incr.repeat(300)).await, many(300));
    assert!(port.twin.calls().len() <= 3, "{} requests", port.twin.calls().len());
    // Other commands between them are executed in order.
    let commands = [incr, "PING\r\n", incr, incr, "INCR seq:1\r\n", "INCR id:tweets\r\n", incr].concat();
    let expected = format!(":301\r\n+PONG\r\n:302\r\n:303\r\n:1\r\n:{TWEET}\r\n:304\r\n");
    assert_eq!(client.ask(commands).await, expected);
    // A command may be split by a read.
    let three = incr.repeat(3);
    let (start, end) = three.split_at(40);
    client.send(start).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(client.ask(end).await, ":305\r\n:306\r\n:307\r\n");
    let unknown = "INCR id:nothing\r\n".repeat(3);
    assert_eq!(client.ask(unknown).await.matches("-ERR UNKNOWN_SERIES ").count(), 3, "a reply for each");
}

#[tokio::test]
async fn a_transaction_has_series() {
    let port = Port::open();
    let script = "
        MULTI
        INCR id:orders
        INCR id:orders
        SEQ.ID id:orders COUNT 2
        INCR id:nothing
        INCR seq:1
        EXEC
    ";
    check_whole(&mut port.call().await, script, expect![[r#"
        +OK
        +QUEUED
        +QUEUED
        +QUEUED
        +QUEUED
        +QUEUED
        *5
        :1
        :2
        *2
        $1
        3
        $1
        4
        -ERR UNKNOWN_SERIES no series is named "nothing": `seqsvr series list` lists them, and a new one is known within a second
        :1
    "#]]).await;
}

#[tokio::test]
async fn refusals_that_pass_are_retried() {
    let port = Port::open();
    let mut client = port.call().await;
    port.twin.refuse(true);
    let replies = client.ask("INCR id:orders\r\nINCR id:orders\r\nSEQ.ID id:tweets\r\n").await;
    assert_eq!(replies.matches("-TRYAGAIN UNSERVED ").count(), 3, "{replies}");
    port.twin.refuse(false);
    port.twin.stall(Some(Refusal::LaneAhead { section: SectionId(12) }));
    let began = tokio::time::Instant::now();
    let replies = client.ask("INCR id:tweets\r\n".repeat(5)).await;
    assert_eq!(replies.matches("-TRYAGAIN LANE_AHEAD ").count(), 5, "{replies}");
    assert!(began.elapsed() < 3 * std::time::Duration::from_secs(4), "they wait together: {:?}", began.elapsed());
    let unready = Port::unready(10, RespConfig::defaults());
    assert!(unready.call().await.ask("INCR id:orders\r\n").await.starts_with("-LOADING "));
}
