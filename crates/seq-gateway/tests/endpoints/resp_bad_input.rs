//! Misbehaving Redis clients: they get an error and are disconnected, without effect on other connections.

use std::time::Duration;

use expect_test::expect;
use seq_gateway::resp::parse::{MAX_COMMAND_BYTES, MAX_INLINE_BYTES};
use seq_gateway::resp::{self, RespConfig, RespNode};
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::connection::Listener;
use seq_kit::tasks::TaskGroup;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::resp::{Port, TIMEOUT};
use crate::twin::Twin;

#[tokio::test]
async fn malformed_input_closes_the_connection_with_the_reason() {
    let port = Port::open();
    let inline = [b'x'; MAX_INLINE_BYTES];
    let table: [&[u8]; 12] = [
        b"*x\r\n",
        b"*-\r\n",
        b"*99999999999999999999\r\n",
        b"*1000000\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$2147483648\r\n",
        b"*1\r\n:5\r\n",
        b"*1\r\n*1\r\n*1\r\n",
        b"*1\r\n$4\r\nPINGPONG",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n*y\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &inline,
    ];
    let mut transcript = String::new();
    for bytes in table {
        let mut client = port.call().await;
        // The valid command is executed before the error.
        client.send([b"INCR seq:1\r\n", bytes].concat()).await;
        let received = client.rest().await;
        let received = received.split_once("\r\n").unwrap().1;
        let shown = bytes.escape_ascii().to_string();
        transcript += &format!("{}\n{received}", &shown[..shown.len().min(60)]);
    }
    expect![[r#"
        *x\r\n
        -ERR Protocol error: a length is not a number that ends in CR LF
        *-\r\n
        -ERR Protocol error: a length is not a number that ends in CR LF
        *99999999999999999999\r\n
        -ERR Protocol error: a length is not a number that ends in CR LF
        *1000000\r\n
        -ERR Protocol error: 1000000 arguments are more than the 10001 a command may have
        *1\r\n$-1\r\n
        -ERR Protocol error: a bulk string of -1 bytes is not in 0..=1024
        *1\r\n$2147483648\r\n
        -ERR Protocol error: a bulk string of 2147483648 bytes is not in 0..=1024
        *1\r\n:5\r\n
        -ERR Protocol error: expected '$', got ':'
        *1\r\n*1\r\n*1\r\n
        -ERR Protocol error: expected '$', got '*'
        *1\r\n$4\r\nPINGPONG
        -ERR Protocol error: a bulk string does not end in CR LF
        \x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n*y\r\n
        -ERR unknown command '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03': this port has INCR, INCRBY, GET, MGET, EXISTS, SET, SEQ.GET, SEQ.NEXT and SEQ.ID
        -ERR Protocol error: a length is not a number that ends in CR LF
        GET / HTTP/1.1\r\nHost: localhost\r\n\r\n
        -ERR wrong number of arguments for 'get' command
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        -ERR Protocol error: a line is longer than 1024 bytes
    "#]].assert_eq(&transcript.replace('\r', ""));
    assert_eq!(port.twin.last(1), 12, "one for each connection");
}

#[tokio::test]
async fn an_endless_command_is_cut_at_its_limit() {
    let port = Port::open();
    let mut client = port.call().await;
    client.send("*10001\r\n").await;
    let key = format!("$1024\r\n{}\r\n", "k".repeat(1_024));
    let mut sent = 0;
    while sent <= 2 * MAX_COMMAND_BYTES && client.stream.write_all(key.as_bytes()).await.is_ok() {
        sent += key.len();
    }
    let mut received = Vec::new();
    let _ = tokio::time::timeout(TIMEOUT, client.stream.read_to_end(&mut received)).await.expect("the end");
    let received = String::from_utf8(received).unwrap();
    assert!(received.is_empty() || received.contains("longer than 524288 bytes"), "{received}");
    assert_eq!(port.call().await.ask("INCR seq:1\r\n").await, ":1\r\n");
}

#[tokio::test]
async fn a_pipeline_of_a_million_commands_gets_replies_in_order() {
    const COMMANDS: usize = 1_000_000;
    let port = Port::open();
    let mut client = port.call().await;
    let (mut reader, mut writer) = client.stream.split();
    let writing = async {
        let commands = "INCR seq:1\r\n".repeat(1_000);
        for _ in 0..COMMANDS / 1_000 {
            writer.write_all(commands.as_bytes()).await.unwrap();
        }
    };
    let reading = async {
        let (mut expected, mut received) = (1, Vec::new());
        while expected <= COMMANDS {
            let read = reader.read_buf(&mut received).await.unwrap();
            assert!(read > 0, "closed at {expected}");
            let mut begin = 0;
            while let Some(end) = received[begin..].iter().position(|byte| *byte == b'\n') {
                assert_eq!(received[begin..=begin + end], *format!(":{expected}\r\n").as_bytes());
                (begin, expected) = (begin + end + 1, expected + 1);
            }
            received.drain(..begin);
        }
    };
    // Another connection is served at the same time.
    let other = async {
        let mut other = port.call().await;
        for value in 1..=100 {
            assert_eq!(other.ask("INCR seq:2\r\n").await, format!(":{value}\r\n"));
        }
    };
    tokio::join!(writing, reading, other);
}

#[tokio::test]
async fn a_connection_above_the_limit_gets_an_error() {
    const MOST: usize = 500;
    let port = Port::open_for(MOST, RespConfig::defaults());
    let mut clients = Vec::new();
    for _ in 0..MOST {
        let mut client = port.call().await;
        assert_eq!(client.ask("PING\r\n").await, "+PONG\r\n");
        clients.push(client);
    }
    for _ in 0..20 {
        assert_eq!(port.call().await.rest().await, "-ERR max number of clients reached\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.ask("PING\r\n").await, "+PONG\r\n");
    }
    clients.truncate(MOST - 1);
    let admitted = async {
        loop {
            let mut client = port.call().await;
            client.send("QUIT\r\n").await;
            if client.rest().await == "+OK\r\n" {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, admitted).await.expect("a permit is free again");
}

/// Returns a port with an in-process connection, for paused time.
fn pipe() -> (Twin, TaskGroup, DuplexStream) {
    let (twin, group) = (Twin::default(), TaskGroup::new());
    twin.route(1);
    let (near, far) = tokio::io::duplex(1_024);
    let listener = Listener::new(tokio_stream::StreamExt::chain(tokio_stream::once(Ok(far)), tokio_stream::pending()));
    resp::serve(
        twin.clone(),
        &RespNode::new(
            RespConfig::defaults(),
            (Admission::of("a1", 1, ConnectionMetrics::none()), &seq_api::node_events::NodeEvents::default()),
            None,
            seq_kit::memory::MemoryBudget::unlimited(),
            seq_kit::departure::Departure::default(),
        ),
        "test",
        listener,
        &group,
    )
    .unwrap();
    (twin, group, near)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_not_read_from_and_then_disconnected() {
    let (twin, group, mut near) = pipe();
    let began = Instant::now();
    let mut sent = 0;
    // Ends when the port disconnects; until then the port reads no more than its buffers hold.
    while near.write_all(b"INCR seq:1\r\n").await.is_ok() {
        sent += 1;
    }
    let (took, taken) = (began.elapsed(), twin.last(1));
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
    assert!(sent < 3_000 && taken < 3_000, "{sent} were sent and {taken} taken");
    group.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_single_bytes_is_disconnected() {
    let (_twin, group, mut near) = pipe();
    // Complete commands may be arbitrarily far apart.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        near.write_all(b"PING\r\n").await.unwrap();
        let mut pong = [0; 7];
        near.read_exact(&mut pong).await.unwrap();
    }
    let began = Instant::now();
    let mut received = Vec::new();
    for byte in b"*2\r\n$4\r\nINCR\r\n$6\r\nseq:42\r\n".iter().cycle() {
        if near.write_all(&[*byte]).await.is_err() || began.elapsed() > Duration::from_secs(60) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    near.read_to_end(&mut received).await.unwrap();
    let (took, received) = (began.elapsed(), String::from_utf8(received).unwrap());
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(received, "-ERR Protocol error: a command took longer than 30s to arrive\r\n");
    group.cancel();
}
