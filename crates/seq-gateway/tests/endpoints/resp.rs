//! The Redis port as a client sees it: commands and replies, in bytes.

use std::net::SocketAddr;
use std::time::Duration;

use expect_test::{Expect, expect};
use seq_api::node_events::NodeEvents;
use seq_gateway::resp::{self, ClusterNodes, RespConfig, RespNode};
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::departure::Departure;
use seq_kit::listen;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_tenant::Tenants;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::twin::Twin;

/// Timeout of a reply, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The twin behind the port.
pub(crate) struct Port {
    pub(crate) twin: Twin,
    pub(crate) group: TaskGroup,
    pub(crate) addr: SocketAddr,
}

impl Port {
    pub(crate) fn open() -> Port {
        Port::with(RespConfig::defaults())
    }

    pub(crate) fn with(config: RespConfig) -> Port {
        Port::open_for(10_000, config)
    }

    /// Starts a port that admits `connections` connections.
    pub(crate) fn open_for(connections: usize, config: RespConfig) -> Port {
        let port = Port::unready(connections, config);
        port.twin.route(1);
        port
    }

    /// Starts a port of a node that has no routes yet.
    pub(crate) fn unready(connections: usize, config: RespConfig) -> Port {
        Port::open_full(connections, config, MemoryBudget::unlimited(), None)
    }

    /// Starts a port whose connections hold memory of `memory`.
    pub(crate) fn open_within(memory: MemoryBudget) -> Port {
        let port = Port::open_full(1_000, RespConfig::defaults(), memory, None);
        port.twin.route(1);
        port
    }

    /// Starts a port whose callers are of tenants.
    pub(crate) fn open_to(tenants: Tenants) -> Port {
        Port::open_to_with(tenants, RespConfig::defaults())
    }

    /// Starts a port of a tenant's callers with these settings.
    pub(crate) fn open_to_with(tenants: Tenants, config: RespConfig) -> Port {
        let port = Port::open_full(1_000, config, MemoryBudget::unlimited(), Some(tenants));
        port.twin.route(1);
        port
    }

    /// Starts a port for clients of Redis Cluster, of a node without routes.
    pub(crate) fn of_cluster(config: RespConfig, nodes: ClusterNodes) -> Port {
        let counted = (Admission::of("a1", 1_000, ConnectionMetrics::none()), &NodeEvents::default());
        let (memory, departure) = (MemoryBudget::unlimited(), Departure::default());
        Port::serve(&RespNode::of_cluster((config, nodes), counted, None, memory, departure))
    }

    fn open_full(connections: usize, config: RespConfig, memory: MemoryBudget, tenants: Option<Tenants>) -> Port {
        let counted = (Admission::of("a1", connections, ConnectionMetrics::none()), &NodeEvents::default());
        Port::serve(&RespNode::new(config, counted, tenants, memory, Departure::default()))
    }

    fn serve(node: &RespNode) -> Port {
        let (twin, group) = (Twin::default(), TaskGroup::new());
        let listener = listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        resp::serve(twin.clone(), node, "test", listener, &group).unwrap();
        Port { twin, group, addr }
    }

    pub(crate) async fn call(&self) -> Client {
        Client { stream: TcpStream::connect(self.addr).await.unwrap(), echoes: 0 }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.group.cancel();
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    echoes: u32,
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads `bytes` bytes.
    pub(crate) async fn receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = vec![0; bytes];
        tokio::time::timeout(TIMEOUT, self.stream.read_exact(&mut received)).await.expect("a response").unwrap();
        received
    }

    /// Sends commands and returns the replies to them; an ECHO marks their end.
    pub(crate) async fn ask(&mut self, commands: impl AsRef<[u8]>) -> String {
        self.echoes += 1;
        let end = format!("end of {:08}", self.echoes);
        let mark = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{end}\r\n", end.len());
        self.send([commands.as_ref(), mark.as_bytes()].concat()).await;
        let end = format!("${}\r\n{end}\r\n", end.len());
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            let mut more = [0; 4096];
            let read = tokio::time::timeout(TIMEOUT, self.stream.read(&mut more)).await;
            let read = read.unwrap_or_else(|_| panic!("no more after {}", received.escape_ascii())).unwrap();
            assert!(read > 0, "closed after {}", received.escape_ascii());
            received.extend_from_slice(&more[..read]);
        }
        received.truncate(received.len() - end.len());
        String::from_utf8(received).unwrap()
    }

    /// Reads until the port closes the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut received = Vec::new();
        tokio::time::timeout(TIMEOUT, self.stream.read_to_end(&mut received)).await.expect("the end").unwrap();
        String::from_utf8(received).unwrap()
    }
}

/// Sends the commands of a script, one per line, and compares the transcript: replies below their command.
pub(crate) async fn check(client: &mut Client, script: &str, expected: Expect) {
    let mut transcript = String::new();
    for command in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let replies = client.ask(format!("{command}\r\n")).await;
        transcript += &format!("> {command}\n");
        transcript.extend(replies.lines().map(|line| format!("{line}\n")));
    }
    expected.assert_eq(&transcript);
}

/// Sends a script as [`check`] does, but in one write: within a transaction nothing marks the end of a reply.
pub(crate) async fn check_whole(client: &mut Client, script: &str, expected: Expect) {
    let commands = script.lines().map(str::trim).filter(|line| !line.is_empty());
    let replies = client.ask(commands.map(|command| format!("{command}\r\n")).collect::<String>()).await;
    expected.assert_eq(&replies.replace('\r', ""));
}

#[tokio::test]
async fn a_sequence_is_a_key() {
    let port = Port::open();
    let script = "
        GET seq:42
        INCR seq:42
        incr seq:0000000000042
        INCRBY seq:42 10
        GET seq:42
        INCRBY seq:42 1000000
        MGET seq:42 seq:7 seq:42
        EXISTS seq:42 seq:7 seq:42
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > GET seq:42
        $-1
        > INCR seq:42
        :1
        > incr seq:0000000000042
        :2
        > INCRBY seq:42 10
        :12
        > GET seq:42
        $2
        12
        > INCRBY seq:42 1000000
        :1000012
        > MGET seq:42 seq:7 seq:42
        *3
        $7
        1000012
        $-1
        $7
        1000012
        > EXISTS seq:42 seq:7 seq:42
        :2
    "#]],
    )
    .await;
}

#[tokio::test]
async fn set_raises_and_never_lowers() {
    let port = Port::open();
    let script = "
        SET seq:42 1000
        SET seq:42 1000
        INCR seq:42
        SET seq:42 1000
        SET seq:42 0
        SET seq:7 0
        GET seq:7
        SET seq:42 2000 NX
        SET seq:42 2000 EX 10
        SET seq:42 -1
        SET seq:42 1e3
        SET seq:42 4611686018427387903
        SET seq:42 4611686018427387904
        SET seq:42 18446744073709551616
        GET seq:42
    ";
    check(&mut port.call().await, script, expect![[r#"
        > SET seq:42 1000
        +OK
        > SET seq:42 1000
        +OK
        > INCR seq:42
        :1001
        > SET seq:42 1000
        -ERR uid 42 is past that number, and numbers never go back
        > SET seq:42 0
        -ERR uid 42 is past that number, and numbers never go back
        > SET seq:7 0
        +OK
        > GET seq:7
        $-1
        > SET seq:42 2000 NX
        $-1
        > SET seq:42 2000 EX 10
        -ERR 'EX' is refused: SET raises a sequence, and has no option but NX
        > SET seq:42 -1
        -ERR value is not an integer or out of range
        > SET seq:42 1e3
        -ERR value is not an integer or out of range
        > SET seq:42 4611686018427387903
        +OK
        > SET seq:42 4611686018427387904
        -ERR 4611686018427387904 is above 4611686018427387903, the highest number that a uid or key of this section is raised to now: the section's ceiling would go there permanently, and its next owner starts all of them at the ceiling
        > SET seq:42 18446744073709551616
        -ERR value is not an integer or out of range
        > GET seq:42
        $19
        4611686018427387903
    "#]]).await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn invalid_commands_get_an_error_and_move_nothing() {
    let port = Port::open();
    let script = "
        INCR
        INCR seq:1 2
        INCRBY seq:1
        INCRBY seq:1 0
        INCRBY seq:1 -5
        INCRBY seq:1 1000001
        INCRBY seq:1 99999999999999999999
        INCRBY seq:1 one
        INCR foo
        INCR seq:
        INCR seq:-1
        INCR seq:18446744073709551616
        INCR seq:1000
        GET seq:1000
        MGET seq:1 foo
        MGET seq:1 seq:1000
        SELECT 1
        PING a b
        CONFIG SET save x
        CLIENT KILL x
        HELLO 4
        AUTH secret
        GET seq:1
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR
        -ERR wrong number of arguments for 'incr' command
        > INCR seq:1 2
        -ERR wrong number of arguments for 'incr' command
        > INCRBY seq:1
        -ERR wrong number of arguments for 'incrby' command
        > INCRBY seq:1 0
        -ERR count 0 is not in 1..=1000000
        > INCRBY seq:1 -5
        -ERR -5 is refused: numbers never go back
        > INCRBY seq:1 1000001
        -ERR count 1000001 is not in 1..=1000000
        > INCRBY seq:1 99999999999999999999
        -ERR value is not an integer or out of range
        > INCRBY seq:1 one
        -ERR value is not an integer or out of range
        > INCR foo
        -ERR 'foo' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > INCR seq:
        -ERR 'seq:' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > INCR seq:-1
        -ERR 'seq:-1' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > INCR seq:18446744073709551616
        -ERR 'seq:18446744073709551616' is no sequence: a key is a prefix and a uid, as in seq:42; for keys of any bytes, set redis.keyspace to the name of a keyspace
        > INCR seq:1000
        -ERR uid 1000 is outside the set's uids 0..1000
        > GET seq:1000
        -ERR uid 1000 is outside the set's uids 0..1000
        > MGET seq:1 foo
        *2
        $-1
        $-1
        > MGET seq:1 seq:1000
        *2
        $-1
        $-1
        > SELECT 1
        -ERR DB index is out of range: there is one, 0
        > PING a b
        -ERR wrong number of arguments for 'ping' command
        > CONFIG SET save x
        -ERR settings of this port are in the settings file: only CONFIG GET is served
        > CLIENT KILL x
        -ERR unknown subcommand or wrong number of arguments for 'KILL'
        > HELLO 4
        -NOPROTO unsupported protocol version
        > AUTH secret
        -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        > GET seq:1
        $-1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn unsupported_commands_are_refused_with_the_reason() {
    let port = Port::open();
    let script = "
        DEL seq:1
        FLUSHALL
        EXPIRE seq:1 10
        DECR seq:1
        GETSET seq:1 1
        LPUSH seq:1 x
        HGETALL seq:1
        APPEND seq:1 x
        WATCH seq:1
        EVAL x 0
        nonsense
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
            > DEL seq:1
            -ERR 'DEL' is refused: numbers never go back, and none is ever removed
            > FLUSHALL
            -ERR 'FLUSHALL' is refused: numbers never go back, and none is ever removed
            > EXPIRE seq:1 10
            -ERR 'EXPIRE' is refused: numbers never go back, and none is ever removed. A counter that expires, as of a rate limiter, is no sequence
            > DECR seq:1
            -ERR 'DECR' is refused: numbers never go back, and none is ever removed
            > GETSET seq:1 1
            -ERR 'GETSET' is refused: numbers never go back, and none is ever removed
            > LPUSH seq:1 x
            -WRONGTYPE 'LPUSH' is refused: a key here is a sequence, for INCR, INCRBY, GET, MGET, EXISTS and SET
            > HGETALL seq:1
            -WRONGTYPE 'HGETALL' is refused: a key here is a sequence, for INCR, INCRBY, GET, MGET, EXISTS and SET
            > APPEND seq:1 x
            -WRONGTYPE 'APPEND' is refused: a key here is a sequence, for INCR, INCRBY, GET, MGET, EXISTS and SET
            > WATCH seq:1
            -ERR 'WATCH' is refused: others take numbers of a sequence at any time; EXEC is a batch here
            > EVAL x 0
            -ERR unknown command 'EVAL': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
            > nonsense
            -ERR unknown command 'nonsense': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
        "#]],
    )
    .await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a transcript")]
async fn connection_setup_of_clients_is_supported() {
    let port = Port::open();
    let script = "
        PING
        PING hello
        ECHO hello
        SELECT 0
        CLIENT ID
        CLIENT GETNAME
        CLIENT SETNAME me
        CLIENT GETNAME
        CLIENT SETINFO LIB-NAME redis-py
        CLIENT NO-EVICT ON
        CLIENT INFO
        CONFIG GET save
        CONFIG GET appendonly maxclients
        COMMAND COUNT
        COMMAND DOCS
        COMMAND INFO incr nonsense
        HELLO
        HELLO 3 SETNAME you
        GET seq:1
        CONFIG GET save
        COMMAND DOCS
        CLIENT GETNAME
        HELLO 2
        GET seq:1
    ";
    let mut client = port.call().await;
    check(
        &mut client,
        script,
        expect![[r#"
            > PING
            +PONG
            > PING hello
            $5
            hello
            > ECHO hello
            $5
            hello
            > SELECT 0
            +OK
            > CLIENT ID
            :1
            > CLIENT GETNAME
            $-1
            > CLIENT SETNAME me
            +OK
            > CLIENT GETNAME
            $2
            me
            > CLIENT SETINFO LIB-NAME redis-py
            +OK
            > CLIENT NO-EVICT ON
            +OK
            > CLIENT INFO
            $25
            id=1 name=me db=0 resp=2

            > CONFIG GET save
            *2
            $4
            save
            $0

            > CONFIG GET appendonly maxclients
            *4
            $10
            appendonly
            $2
            no
            $10
            maxclients
            $5
            10000
            > COMMAND COUNT
            :31
            > COMMAND DOCS
            *0
            > COMMAND INFO incr nonsense
            *2
            *6
            $4
            incr
            :2
            *2
            +write
            +fast
            :1
            :1
            :1
            $-1
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
            $10
            standalone
            $4
            role
            $6
            master
            $7
            modules
            *0
            > HELLO 3 SETNAME you
            %7
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
            :3
            $2
            id
            :1
            $4
            mode
            $10
            standalone
            $4
            role
            $6
            master
            $7
            modules
            *0
            > GET seq:1
            _
            > CONFIG GET save
            %1
            $4
            save
            $0

            > COMMAND DOCS
            %0
            > CLIENT GETNAME
            $3
            you
            > HELLO 2
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
            $10
            standalone
            $4
            role
            $6
            master
            $7
            modules
            *0
            > GET seq:1
            $-1
        "#]],
    )
    .await;
    let info = client.ask("INFO\r\n").await;
    for line in ["redis_version:7.0.0", "connected_clients:1", "maxclients:10000", "key_prefix:seq:"] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line} is missing in {info}");
    }
    client.send("PING\r\nQUIT\r\nPING\r\n").await;
    assert_eq!(client.rest().await, "+PONG\r\n+OK\r\n");
}

#[tokio::test]
async fn a_password_is_required_first() {
    let port = Port::with(RespConfig { password: Some("secret".to_owned()), ..RespConfig::defaults() });
    let mut client = port.call().await;
    // Before authentication, the ECHO that marks the end of replies is refused as well.
    client
        .send("INCR seq:1\r\nPING\r\nnonsense\r\nHELLO 3\r\nAUTH wrong\r\nAUTH secre\r\nAUTH somebody secret\r\n")
        .await;
    client.send("INCR seq:1\r\nHELLO 3 AUTH default wrong\r\nQUIT\r\n").await;
    expect![[r#"
        -NOAUTH Authentication required.
        -NOAUTH Authentication required.
        -NOAUTH Authentication required.
        -NOAUTH HELLO must be called with the client already authenticated
        -WRONGPASS invalid username-password pair or user is disabled.
        -WRONGPASS invalid username-password pair or user is disabled.
        -WRONGPASS invalid username-password pair or user is disabled.
        -NOAUTH Authentication required.
        -WRONGPASS invalid username-password pair or user is disabled.
        +OK
    "#]]
    .assert_eq(&client.rest().await.replace('\r', ""));
    assert_eq!(port.twin.last(1), 0);
    // Commands in the same write as the password are executed as well.
    assert_eq!(port.call().await.ask("AUTH secret\r\nINCR seq:1\r\nINCR seq:1\r\n").await, "+OK\r\n:1\r\n:2\r\n");
    let replies = port.call().await.ask("HELLO 2 AUTH default secret\r\nINCR seq:1\r\n").await;
    assert!(replies.ends_with(":3\r\n"), "{replies}");
}

#[tokio::test]
async fn a_node_without_routes_is_loading() {
    let port = Port::unready(10, RespConfig::defaults());
    port.twin.hold(&[1]);
    let script = "
        INCR seq:1
        GET seq:1
        MGET seq:1
        SET seq:1 5
        PING
    ";
    check(
        &mut port.call().await,
        script,
        expect![[r#"
        > INCR seq:1
        -LOADING the node has no routes yet
        > GET seq:1
        -LOADING the node has no routes yet
        > MGET seq:1
        -LOADING the node has no routes yet
        > SET seq:1 5
        -LOADING the node has no routes yet
        > PING
        +PONG
    "#]],
    )
    .await;
    port.twin.route(1);
    port.twin.hold(&[]);
    assert_eq!(port.call().await.ask("INCR seq:1\r\n").await, ":1\r\n");
}

#[tokio::test]
async fn replies_are_in_order_even_if_one_waits() {
    let port = Port::open();
    port.twin.hold(&[1]);
    let mut client = port.call().await;
    client.send("INCR seq:2\r\nINCR seq:1\r\nINCR seq:2\r\nPING\r\nINCRBY seq:1 5\r\nGET seq:1\r\n").await;
    // Other connections of the same thread are served at the same time.
    let mut other = port.call().await;
    for value in 1..=10 {
        assert_eq!(other.ask("INCR seq:3\r\n").await, format!(":{value}\r\n"));
    }
    port.twin.hold(&[]);
    let expected = b":1\r\n:1\r\n:2\r\n+PONG\r\n:6\r\n$1\r\n6\r\n";
    assert_eq!(client.receive(expected.len()).await.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[tokio::test]
async fn the_largest_batches_are_served() {
    let port = Port::open();
    let mut client = port.call().await;
    let keys = |keys: usize| (0..keys).map(|uid| format!("$7\r\nseq:{:03}\r\n", uid % 1_000)).collect::<String>();
    let replies = client.ask(format!("SET seq:1 5\r\n*10001\r\n$4\r\nMGET\r\n{}", keys(10_000))).await;
    assert!(replies.starts_with("+OK\r\n*10000\r\n$-1\r\n$1\r\n5\r\n$-1\r\n"), "{}", &replies[..60]);
    assert_eq!(replies.lines().filter(|line| *line == "5").count(), 10);
    let replies = client.ask(format!("*10001\r\n$6\r\nEXISTS\r\n{}", keys(10_000))).await;
    assert_eq!(replies, ":10\r\n");
}

#[tokio::test]
async fn shutdown_closes_connections_between_commands() {
    let port = Port::open();
    let mut client = port.call().await;
    assert_eq!(client.ask("INCR seq:1\r\n").await, ":1\r\n");
    let quiet = port.call().await;
    assert_eq!(port.group.shutdown(TIMEOUT).await, Ok(()));
    assert_eq!(client.rest().await, "");
    assert!(TcpStream::connect(port.addr).await.is_err(), "the port is closed");
    drop(quiet);
}
