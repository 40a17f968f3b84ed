//! The Redis port: exactness of last numbers, and commands that raise a sequence.

use expect_test::expect;
use seq_gateway::resp::RespConfig;

use crate::resp::{Port, check};

/// The last numbers of odd uids are upper bounds, as after the crash of an owner.
const READS: &str = "
    SET seq:3 130000
    SET seq:4 130000
    GET seq:3
    GET seq:4
    MGET seq:3 seq:4
    MGET seq:4 seq:6
    EXISTS seq:3
    EXISTS seq:4 seq:6
    TYPE seq:3
    TTL seq:3
    TYPE seq:4
    SEQ.GET seq:3
    SEQ.GET seq:4
    seq.get seq:6
    SEQ.GET seq:
    SEQ.GET seq:1000
";

#[tokio::test]
async fn reads_take_bounds_and_seq_get_tells_them() {
    let port = Port::open();
    check(
        &mut port.call().await,
        READS,
        expect![[r#"
            > SET seq:3 130000
            +OK
            > SET seq:4 130000
            +OK
            > GET seq:3
            $6
            130000
            > GET seq:4
            $6
            130000
            > MGET seq:3 seq:4
            *2
            $6
            130000
            $6
            130000
            > MGET seq:4 seq:6
            *2
            $6
            130000
            $-1
            > EXISTS seq:3
            :1
            > EXISTS seq:4 seq:6
            :1
            > TYPE seq:3
            +string
            > TTL seq:3
            :-1
            > TYPE seq:4
            +string
            > SEQ.GET seq:3
            *3
            :130000
            $11
            upper_bound
            :1
            > SEQ.GET seq:4
            *3
            :130000
            $5
            exact
            :1
            > seq.get seq:6
            *3
            :0
            $5
            exact
            :1
            > SEQ.GET seq:
            -ERR 'seq:' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            > SEQ.GET seq:1000
            -ERR uid 1000 is outside the set's uids 0..1000
        "#]],
    )
    .await;
}

#[tokio::test]
async fn reads_without_bounds_state_numbers_that_were_given() {
    let port = Port::with(RespConfig { read_bounds: false, ..RespConfig::defaults() });
    check(
        &mut port.call().await,
        READS,
        expect![[r#"
            > SET seq:3 130000
            +OK
            > SET seq:4 130000
            +OK
            > GET seq:3
            -INEXACT the last number of uid 3 is not known, and at most 130000, until its next one: SEQ.GET returns the bound
            > GET seq:4
            $6
            130000
            > MGET seq:3 seq:4
            -INEXACT the last number of uid 3 is not known, and at most 130000, until its next one: SEQ.GET returns the bound
            > MGET seq:4 seq:6
            *2
            $6
            130000
            $-1
            > EXISTS seq:3
            -INEXACT the last number of uid 3 is not known, and at most 130000, until its next one: SEQ.GET returns the bound
            > EXISTS seq:4 seq:6
            :1
            > TYPE seq:3
            -INEXACT the last number of uid 3 is not known, and at most 130000, until its next one: SEQ.GET returns the bound
            > TTL seq:3
            -INEXACT the last number of uid 3 is not known, and at most 130000, until its next one: SEQ.GET returns the bound
            > TYPE seq:4
            +string
            > SEQ.GET seq:3
            *3
            :130000
            $11
            upper_bound
            :1
            > SEQ.GET seq:4
            *3
            :130000
            $5
            exact
            :1
            > seq.get seq:6
            *3
            :0
            $5
            exact
            :1
            > SEQ.GET seq:
            -ERR 'seq:' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            > SEQ.GET seq:1000
            -ERR uid 1000 is outside the set's uids 0..1000
        "#]],
    )
    .await;
}

#[tokio::test]
async fn seq_next_states_what_the_other_protocols_do() {
    let port = Port::open();
    let script = "
        SEQ.NEXT seq:2
        SEQ.NEXT seq:2 10
        seq.next seq:0002
        SEQ.NEXT seq:2 0
        SEQ.NEXT seq:2 1000001
        SEQ.NEXT seq:2 x
        SEQ.NEXT seq:2 1 1
        SEQ.NEXT
        SEQ.NEXT foo
        SEQ.NEXT seq:1000
        INCR seq:2
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > SEQ.NEXT seq:2
            *4
            :1
            :0
            :0
            :1
            > SEQ.NEXT seq:2 10
            *4
            :11
            :1
            :0
            :1
            > seq.next seq:0002
            *4
            :12
            :11
            :0
            :1
            > SEQ.NEXT seq:2 0
            -ERR the count is not an integer of 1..=1000000
            > SEQ.NEXT seq:2 1000001
            -ERR the count is not an integer of 1..=1000000
            > SEQ.NEXT seq:2 x
            -ERR the count is not an integer of 1..=1000000
            > SEQ.NEXT seq:2 1 1
            -ERR wrong number of arguments for 'seq.next' command
            > SEQ.NEXT
            -ERR wrong number of arguments for 'seq.next' command
            > SEQ.NEXT foo
            -ERR 'foo' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            > SEQ.NEXT seq:1000
            -ERR uid 1000 is outside the set's uids 0..1000
            > INCR seq:2
            :13
        "#]],
    )
    .await;
}

/// Commands of Spring Data's `RedisAtomicLong`: SETNX with 0 at its creation, then INCR, INCRBY and GET.
#[tokio::test]
async fn setnx_raises_where_there_was_no_number() {
    let port = Port::open();
    let script = "
        SETNX seq:2 0
        INCR seq:2
        INCRBY seq:2 5
        GET seq:2
        SETNX seq:2 0
        SETNX seq:2 100
        GET seq:2
        SETNX seq:4 100
        SETNX seq:4 200
        INCR seq:4
        SET seq:6 100 NX
        SET seq:6 200 NX
        SET seq:6 200 nx EX 5
        SET seq:6 200 XX
        GET seq:6
        SETNX seq:8 -1
        SETNX foo 1
        SETNX seq:1000 1
        SETNX seq:8
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > SETNX seq:2 0
            :1
            > INCR seq:2
            :1
            > INCRBY seq:2 5
            :6
            > GET seq:2
            $1
            6
            > SETNX seq:2 0
            :0
            > SETNX seq:2 100
            :0
            > GET seq:2
            $1
            6
            > SETNX seq:4 100
            :1
            > SETNX seq:4 200
            :0
            > INCR seq:4
            :101
            > SET seq:6 100 NX
            +OK
            > SET seq:6 200 NX
            $-1
            > SET seq:6 200 nx EX 5
            -ERR 'EX' is refused: SET raises a sequence, and has no option but NX
            > SET seq:6 200 XX
            -ERR 'XX' is refused: SET raises a sequence, and has no option but NX
            > GET seq:6
            $3
            100
            > SETNX seq:8 -1
            -ERR value is not an integer or out of range
            > SETNX foo 1
            -ERR 'foo' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            > SETNX seq:1000 1
            -ERR uid 1000 is outside the set's uids 0..1000
            > SETNX seq:8
            -ERR wrong number of arguments for 'setnx' command
        "#]],
    )
    .await;
}

#[tokio::test]
async fn mset_is_a_set_for_each_key() {
    let port = Port::open();
    let script = "
        MSET seq:2 10 seq:4 20
        MGET seq:2 seq:4
        MSET seq:2 11 foo 1
        MSET seq:2 11 seq:4 x
        MSET seq:2 11 seq:4
        MSET seq:2
        GET seq:2
        MSET seq:2 12 seq:4 5 seq:6 7
        MGET seq:2 seq:4 seq:6
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > MSET seq:2 10 seq:4 20
            +OK
            > MGET seq:2 seq:4
            *2
            $2
            10
            $2
            20
            > MSET seq:2 11 foo 1
            -ERR 'foo' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
            > MSET seq:2 11 seq:4 x
            -ERR value is not an integer or out of range
            > MSET seq:2 11 seq:4
            -ERR wrong number of arguments for 'mset' command
            > MSET seq:2
            -ERR wrong number of arguments for 'mset' command
            > GET seq:2
            $2
            10
            > MSET seq:2 12 seq:4 5 seq:6 7
            -ERR uid 4 is past that number, and numbers never go back
            > MGET seq:2 seq:4 seq:6
            *3
            $2
            12
            $2
            20
            $-1
        "#]],
    )
    .await;
}
