//! Clients of Redis that do everything wrong: told so, cut, and nobody else notices.

use std::time::Duration;

use expect_test::expect;
use seq_gateway::resp::parse::{MAX_COMMAND_BYTES, MAX_INLINE_BYTES};
use seq_gateway::resp::{self, RespConfig, RespNode};
use seq_kit::admission::Admission;
use seq_kit::connection::Listener;
use seq_kit::tasks::TaskGroup;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::resp::{PATIENCE, Port};
use crate::twin::Twin;

#[tokio::test]
async fn input_that_is_no_command_ends_the_connection_with_the_reason() {
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
    let mut said = String::new();
    for bytes in table {
        let mut talk = port.call().await;
        // What was right before it is answered.
        talk.send([b"INCR seq:1\r\n", bytes].concat()).await;
        let heard = talk.rest().await;
        let heard = heard.split_once("\r\n").unwrap().1;
        let shown = bytes.escape_ascii().to_string();
        said += &format!("{}\n{heard}", &shown[..shown.len().min(60)]);
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
        -ERR unknown command '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03': this port has INCR, INCRBY, GET, MGET, EXISTS and SET of sequences
        -ERR Protocol error: a length is not a number that ends in CR LF
        GET / HTTP/1.1\r\nHost: localhost\r\n\r\n
        -ERR wrong number of arguments for 'get' command
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        -ERR Protocol error: a line is longer than 1024 bytes
    "#]].assert_eq(&said.replace('\r', ""));
    assert_eq!(port.twin.last(1), 12, "one for each connection");
}

#[tokio::test]
async fn a_command_without_end_is_cut_at_its_limit() {
    let port = Port::open();
    let mut talk = port.call().await;
    talk.send("*10001\r\n").await;
    let key = format!("$1024\r\n{}\r\n", "k".repeat(1_024));
    let mut sent = 0;
    while sent <= 2 * MAX_COMMAND_BYTES && talk.stream.write_all(key.as_bytes()).await.is_ok() {
        sent += key.len();
    }
    let mut heard = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, talk.stream.read_to_end(&mut heard)).await.expect("the end");
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.is_empty() || heard.contains("longer than 524288 bytes"), "{heard}");
    assert_eq!(port.call().await.ask("INCR seq:1\r\n").await, ":1\r\n");
}

#[tokio::test]
async fn a_pipeline_of_a_million_commands_is_answered_in_order() {
    const COMMANDS: usize = 1_000_000;
    let port = Port::open();
    let mut talk = port.call().await;
    let (mut reader, mut writer) = talk.stream.split();
    let writing = async {
        let commands = "INCR seq:1\r\n".repeat(1_000);
        for _ in 0..COMMANDS / 1_000 {
            writer.write_all(commands.as_bytes()).await.unwrap();
        }
    };
    let reading = async {
        let (mut expected, mut heard) = (1, Vec::new());
        while expected <= COMMANDS {
            let read = reader.read_buf(&mut heard).await.unwrap();
            assert!(read > 0, "closed at {expected}");
            let mut begin = 0;
            while let Some(end) = heard[begin..].iter().position(|byte| *byte == b'\n') {
                assert_eq!(heard[begin..=begin + end], *format!(":{expected}\r\n").as_bytes());
                (begin, expected) = (begin + end + 1, expected + 1);
            }
            heard.drain(..begin);
        }
    };
    // Others are answered meanwhile.
    let other = async {
        let mut other = port.call().await;
        for value in 1..=100 {
            assert_eq!(other.ask("INCR seq:2\r\n").await, format!(":{value}\r\n"));
        }
    };
    tokio::join!(writing, reading, other);
}

#[tokio::test]
async fn connections_are_counted_and_the_next_one_is_told() {
    const MOST: usize = 500;
    let port = Port::open_for(MOST, RespConfig::defaults());
    let mut talks = Vec::new();
    for _ in 0..MOST {
        let mut talk = port.call().await;
        assert_eq!(talk.ask("PING\r\n").await, "+PONG\r\n");
        talks.push(talk);
    }
    for _ in 0..20 {
        assert_eq!(port.call().await.rest().await, "-ERR max number of clients reached\r\n");
    }
    for talk in &mut talks {
        assert_eq!(talk.ask("PING\r\n").await, "+PONG\r\n");
    }
    talks.truncate(MOST - 1);
    let admitted = async {
        loop {
            let mut talk = port.call().await;
            talk.send("QUIT\r\n").await;
            if talk.rest().await == "+OK\r\n" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, admitted).await.expect("a place is free again");
}

/// A port on a connection of this process, so that time can be passed.
fn pipe() -> (Twin, TaskGroup, DuplexStream) {
    let (twin, group) = (Twin::default(), TaskGroup::new());
    twin.route(1);
    let (near, far) = tokio::io::duplex(1_024);
    let listener = Listener::new(tokio_stream::StreamExt::chain(tokio_stream::once(Ok(far)), tokio_stream::pending()));
    resp::serve(twin.clone(), &RespNode::new(RespConfig::defaults(), Admission::of("a1", 1)), "test", listener, &group)
        .unwrap();
    (twin, group, near)
}

#[tokio::test(start_paused = true)]
async fn who_never_reads_is_not_read_from_and_then_cut() {
    let (twin, group, mut near) = pipe();
    let began = Instant::now();
    let mut sent = 0;
    // Ends when the port has gone; until then it takes no more than it has room for.
    while near.write_all(b"INCR seq:1\r\n").await.is_ok() {
        sent += 1;
    }
    let (took, taken) = (began.elapsed(), twin.last(1));
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
    assert!(sent < 3_000 && taken < 3_000, "{sent} were sent and {taken} taken");
    group.cancel();
}

#[tokio::test(start_paused = true)]
async fn who_sends_a_byte_now_and_then_is_cut() {
    let (_twin, group, mut near) = pipe();
    // Whole commands may be as far apart as one likes.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        near.write_all(b"PING\r\n").await.unwrap();
        let mut pong = [0; 7];
        near.read_exact(&mut pong).await.unwrap();
    }
    let began = Instant::now();
    let mut heard = Vec::new();
    for byte in b"*2\r\n$4\r\nINCR\r\n$6\r\nseq:42\r\n".iter().cycle() {
        if near.write_all(&[*byte]).await.is_err() || began.elapsed() > Duration::from_secs(60) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    near.read_to_end(&mut heard).await.unwrap();
    let (took, heard) = (began.elapsed(), String::from_utf8(heard).unwrap());
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(heard, "-ERR Protocol error: a command took longer than 30s to arrive\r\n");
    group.cancel();
}
