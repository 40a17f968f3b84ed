//! The port for clients of Redis Cluster: the slots that it shows, and the commands that it redirects.

use expect_test::expect;
use seq_core::keyspace::Bucket;
use seq_gateway::resp::{ClusterNodes, RespConfig};

use crate::resp::{Port, check, check_whole};

/// Last slot.
const LAST: u16 = 16_383;

/// Starts the port of node a1, of a set whose nodes a1 and a2 have such a port, and a3 has none.
fn open() -> Port {
    let config = RespConfig { keyspace: "main".to_owned(), ..RespConfig::defaults() };
    let addrs = [("a1", "10.0.0.1:7175"), ("a2", "[fd00::2]:7175")];
    Port::of_cluster(config, ClusterNodes::new(("im", "im-a", "a1"), addrs))
}

/// Starts the port, with the slots up to 8,191 at node a1, and the others at node a2.
fn halves() -> Port {
    let port = open();
    port.twin.route_slots(1, &[(8_191, Some(1)), (LAST, Some(2))]);
    port
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn the_port_is_a_node_of_a_cluster() {
    let port = halves();
    let mut client = port.call().await;
    let info = client.ask("INFO\r\n").await;
    assert!(info.contains("redis_mode:cluster\r\n") && info.contains("cluster_enabled:1\r\n"), "{info}");
    assert!(!info.contains("key_prefix"), "{info}");
    let script = "
        HELLO
        CLUSTER MYID
        CLUSTER KEYSLOT 123456789
        CLUSTER SLOTS
        CLUSTER SHARDS
        CLUSTER NODES
        CLUSTER INFO
        CLUSTER COUNTKEYSINSLOT 7
        CLUSTER MEET 10.0.0.3 7175
        CLUSTER nonsense
        CLUSTER
        READONLY
        READWRITE
        ASKING
        SELECT 0
        SELECT 1
        COMMAND COUNT
    ";
    check(&mut client, script, expect![[r#"
        > HELLO
        *14
        $6
        server
        $5
        redis
        $7
        version
        $5
        7.0.0
        $5
        proto
        :2
        $2
        id
        :1
        $4
        mode
        $7
        cluster
        $4
        role
        $6
        master
        $7
        modules
        *0
        > CLUSTER MYID
        $40
        203d45887f85581e1390b477fcd1fc617f537018
        > CLUSTER KEYSLOT 123456789
        :12739
        > CLUSTER SLOTS
        *2
        *3
        :0
        :8191
        *4
        $8
        10.0.0.1
        :7175
        $40
        203d45887f85581e1390b477fcd1fc617f537018
        *0
        *3
        :8192
        :16383
        *4
        $7
        fd00::2
        :7175
        $40
        10d3be394726903529b5aa2af16159c26cd74b13
        *0
        > CLUSTER SHARDS
        *2
        *4
        $5
        slots
        *2
        :0
        :8191
        $5
        nodes
        *1
        *14
        $2
        id
        $40
        203d45887f85581e1390b477fcd1fc617f537018
        $4
        port
        :7175
        $2
        ip
        $8
        10.0.0.1
        $8
        endpoint
        $8
        10.0.0.1
        $4
        role
        $6
        master
        $18
        replication-offset
        :0
        $6
        health
        $6
        online
        *4
        $5
        slots
        *2
        :8192
        :16383
        $5
        nodes
        *1
        *14
        $2
        id
        $40
        10d3be394726903529b5aa2af16159c26cd74b13
        $4
        port
        :7175
        $2
        ip
        $7
        fd00::2
        $8
        endpoint
        $7
        fd00::2
        $4
        role
        $6
        master
        $18
        replication-offset
        :0
        $6
        health
        $6
        online
        > CLUSTER NODES
        $188
        203d45887f85581e1390b477fcd1fc617f537018 10.0.0.1:7175@0 myself,master - 0 0 1 connected 0-8191
        10d3be394726903529b5aa2af16159c26cd74b13 fd00::2:7175@0 master - 0 0 1 connected 8192-16383

        > CLUSTER INFO
        $312
        cluster_state:ok
        cluster_slots_assigned:16384
        cluster_slots_ok:16384
        cluster_slots_pfail:0
        cluster_slots_fail:0
        cluster_known_nodes:2
        cluster_size:2
        cluster_current_epoch:1
        cluster_my_epoch:1
        cluster_stats_messages_sent:0
        cluster_stats_messages_received:0
        total_cluster_links_buffer_limit_exceeded:0

        > CLUSTER COUNTKEYSINSLOT 7
        -ERR CLUSTER countkeysinslot is refused: a node keeps hashes of keys, without a list or a count for each slot
        > CLUSTER MEET 10.0.0.3 7175
        -ERR CLUSTER meet is refused: slots are assigned by the set's store: `seqsvr node drain` and `seqsvr section move` move them
        > CLUSTER nonsense
        -ERR unknown subcommand or wrong number of arguments for 'nonsense'
        > CLUSTER
        -ERR wrong number of arguments for 'cluster' command
        > READONLY
        +OK
        > READWRITE
        +OK
        > ASKING
        +OK
        > SELECT 0
        +OK
        > SELECT 1
        -ERR SELECT is not allowed in cluster mode
        > COMMAND COUNT
        :31
    "#]]).await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn version_3_of_the_protocol_has_maps_and_verbatim_strings() {
    let port = halves();
    let mut client = port.call().await;
    client.ask("HELLO 3\r\n").await;
    check(
        &mut client,
        "CLUSTER SLOTS\nCLUSTER SHARDS\nCLUSTER NODES",
        expect![[r#"
        > CLUSTER SLOTS
        *2
        *3
        :0
        :8191
        *4
        $8
        10.0.0.1
        :7175
        $40
        203d45887f85581e1390b477fcd1fc617f537018
        %0
        *3
        :8192
        :16383
        *4
        $7
        fd00::2
        :7175
        $40
        10d3be394726903529b5aa2af16159c26cd74b13
        %0
        > CLUSTER SHARDS
        *2
        %2
        $5
        slots
        *2
        :0
        :8191
        $5
        nodes
        *1
        %7
        $2
        id
        $40
        203d45887f85581e1390b477fcd1fc617f537018
        $4
        port
        :7175
        $2
        ip
        $8
        10.0.0.1
        $8
        endpoint
        $8
        10.0.0.1
        $4
        role
        $6
        master
        $18
        replication-offset
        :0
        $6
        health
        $6
        online
        %2
        $5
        slots
        *2
        :8192
        :16383
        $5
        nodes
        *1
        %7
        $2
        id
        $40
        10d3be394726903529b5aa2af16159c26cd74b13
        $4
        port
        :7175
        $2
        ip
        $7
        fd00::2
        $8
        endpoint
        $7
        fd00::2
        $4
        role
        $6
        master
        $18
        replication-offset
        :0
        $6
        health
        $6
        online
        > CLUSTER NODES
        =192
        txt:203d45887f85581e1390b477fcd1fc617f537018 10.0.0.1:7175@0 myself,master - 0 0 1 connected 0-8191
        10d3be394726903529b5aa2af16159c26cd74b13 fd00::2:7175@0 master - 0 0 1 connected 8192-16383

    "#]],
    )
    .await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn a_command_for_a_slot_of_another_node_is_redirected() {
    let port = halves();
    // The slots of the tags.
    assert_eq!([&b"a"[..], b"b", b"c", b"d"].map(|tag| Bucket::of(tag).index()), [15_495, 3_300, 7_365, 11_298]);
    let script = "
        INCR b
        INCR {b}:1
        INCR a
        INCRBY d 7
        INCRBY a x
        GET a
        GET b
        SET a 1
        SETNX a 1
        TTL a
        TYPE a
        EXISTS a
        SEQ.NEXT a
        SEQ.GET a
        seq.next b
        MGET b c
        MGET {a}1 {a}2
        MGET a b {b}:1
        EXISTS {d}1 {d}2
        EXISTS a b
        MSET {a}1 10 {a}2 20
        MSET a 10 b 20
        MGET a b
        GET a
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR b
        :1
        > INCR {b}:1
        :1
        > INCR a
        -MOVED 15495 fd00::2:7175
        > INCRBY d 7
        -MOVED 11298 fd00::2:7175
        > INCRBY a x
        -ERR value is not an integer or out of range
        > GET a
        -MOVED 15495 fd00::2:7175
        > GET b
        $1
        1
        > SET a 1
        -MOVED 15495 fd00::2:7175
        > SETNX a 1
        -MOVED 15495 fd00::2:7175
        > TTL a
        -MOVED 15495 fd00::2:7175
        > TYPE a
        -MOVED 15495 fd00::2:7175
        > EXISTS a
        -MOVED 15495 fd00::2:7175
        > SEQ.NEXT a
        -MOVED 15495 fd00::2:7175
        > SEQ.GET a
        -MOVED 15495 fd00::2:7175
        > seq.next b
        *4
        :2
        :1
        :0
        :1
        > MGET b c
        *2
        $1
        2
        $-1
        > MGET {a}1 {a}2
        -MOVED 15495 fd00::2:7175
        > MGET a b {b}:1
        *3
        $-1
        $1
        2
        $1
        1
        > EXISTS {d}1 {d}2
        -MOVED 11298 fd00::2:7175
        > EXISTS a b
        :1
        > MSET {a}1 10 {a}2 20
        -MOVED 15495 fd00::2:7175
        > MSET a 10 b 20
        +OK
        > MGET a b
        *2
        $2
        10
        $2
        20
        > GET a
        -MOVED 15495 fd00::2:7175
    "#]],
    )
    .await;
    // A pipeline is one batch, and each of its commands is redirected for itself.
    let pipeline = "INCR b\nINCR a\nINCR c\nINCR d";
    check_whole(
        &mut port.call().await,
        pipeline,
        expect![[r#"
        :21
        -MOVED 15495 fd00::2:7175
        :1
        -MOVED 11298 fd00::2:7175
    "#]],
    )
    .await;
}

#[tokio::test]
async fn keys_of_uids_and_series_are_keys_of_the_keyspace() {
    let port = halves();
    let script = "
        INCR seq:{b}
        INCR {b}id:orders
        INCR {b}42
        GET id:orders
        INCR seq:1
        SEQ.ID id:orders
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > INCR seq:{b}
            :1
            > INCR {b}id:orders
            :1
            > INCR {b}42
            :1
            > GET id:orders
            $-1
            > INCR seq:1
            -MOVED 13783 fd00::2:7175
            > SEQ.ID id:orders
            -ERR SEQ.ID is refused: at a port for clients of Redis Cluster, no key names a series
        "#]],
    )
    .await;
    assert_eq!(port.twin.last(1), 0);
}

#[tokio::test]
async fn a_transaction_is_never_redirected() {
    let port = halves();
    let script = "MULTI\nINCR a\nINCR b\nSET d 9\nGET d\nEXEC\nINCR a";
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
        :1
        +OK
        $1
        9
        -MOVED 15495 fd00::2:7175
    "#]],
    )
    .await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn the_table_follows_the_routes() {
    let port = open();
    let mut client = port.call().await;
    check(
        &mut client,
        "CLUSTER SLOTS\nINCR a\nCLUSTER KEYSLOT a",
        expect![[r#"
        > CLUSTER SLOTS
        -LOADING the node has no routes yet
        > INCR a
        -LOADING the node has no routes yet
        > CLUSTER KEYSLOT a
        :15495
    "#]],
    )
    .await;
    port.twin.route_slots(1, &[(LAST, Some(2))]);
    check(
        &mut client,
        "INCR a\nCLUSTER NODES",
        expect![[r#"
        > INCR a
        -MOVED 15495 fd00::2:7175
        > CLUSTER NODES
        $178
        203d45887f85581e1390b477fcd1fc617f537018 10.0.0.1:7175@0 myself,master - 0 0 1 connected
        10d3be394726903529b5aa2af16159c26cd74b13 fd00::2:7175@0 master - 0 0 1 connected 0-16383

    "#]],
    )
    .await;
    // Node a3 has no port for clients of Redis Cluster, so all calls are forwarded.
    port.twin.route_slots(2, &[(8_191, Some(1)), (9_000, Some(2)), (LAST, Some(3))]);
    check(
        &mut client,
        "INCR a\nINCR d\nCLUSTER NODES",
        expect![[r#"
        > INCR a
        :1
        > INCR d
        :1
        > CLUSTER NODES
        $188
        203d45887f85581e1390b477fcd1fc617f537018 10.0.0.1:7175@0 myself,master - 0 0 2 connected 0-8191
        10d3be394726903529b5aa2af16159c26cd74b13 fd00::2:7175@0 master - 0 0 2 connected 8192-16383

    "#]],
    )
    .await;
    port.twin.route_slots(3, &[(8_191, Some(1)), (9_000, Some(2)), (LAST, None)]);
    check(
        &mut client,
        "INCR a\nMGET a b\nCLUSTER NODES\nCLUSTER INFO",
        expect![[r#"
        > INCR a
        -CLUSTERDOWN Hash slot not served
        > MGET a b
        -CLUSTERDOWN Hash slot not served
        > CLUSTER NODES
        $188
        203d45887f85581e1390b477fcd1fc617f537018 10.0.0.1:7175@0 myself,master - 0 0 3 connected 0-8191
        10d3be394726903529b5aa2af16159c26cd74b13 fd00::2:7175@0 master - 0 0 3 connected 8192-16383

        > CLUSTER INFO
        $312
        cluster_state:ok
        cluster_slots_assigned:16384
        cluster_slots_ok:16384
        cluster_slots_pfail:0
        cluster_slots_fail:0
        cluster_known_nodes:2
        cluster_size:2
        cluster_current_epoch:3
        cluster_my_epoch:3
        cluster_stats_messages_sent:0
        cluster_stats_messages_received:0
        total_cluster_links_buffer_limit_exceeded:0

    "#]],
    )
    .await;
    let made = port.twin.routes_made();
    check(
        &mut client,
        "INCR b\nINCR b\nINCR b",
        expect![[r#"
        > INCR b
        :1
        > INCR b
        :2
        > INCR b
        :3
    "#]],
    )
    .await;
    assert_eq!(port.twin.routes_made(), made, "the table is computed once for a version of the routes");
}

#[tokio::test]
async fn another_redis_port_has_no_cluster() {
    let port = Port::open();
    let script = "
        CLUSTER SLOTS
        READONLY
        SELECT 1
    ";
    check(&mut port.call().await, script, expect![[r#"
        > CLUSTER SLOTS
        -ERR This instance has cluster support disabled
        > READONLY
        -ERR unknown command 'READONLY': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
        > SELECT 1
        -ERR DB index is out of range: there is one, 0
    "#]]).await;
}
