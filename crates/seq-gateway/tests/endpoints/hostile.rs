//! Peers that mean harm, or only do it: they are refused, cut or held back, and others do not feel them.

use std::time::Duration;

use seq_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use crate::twin::Door;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(door: &Door) -> TcpStream {
    TcpStream::connect(door.addr).await.unwrap()
}

/// Completes when the other side has closed the connection.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // An end and a reset are the same here.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is closed");
}

async fn next(door: &Door, uid: u64) -> u64 {
    let request = v1::NextRequest { uid, count: 1, ..v1::NextRequest::default() };
    tokio::time::timeout(PATIENCE, door.client().next(request)).await.expect("an answer").unwrap().into_inner().value
}

#[tokio::test]
async fn a_connection_too_many_is_closed_at_once() {
    let door = Door::open_for(3).await;
    assert_eq!(next(&door, 1).await, 1);
    let (mut two, _three) = (connect(&door).await, connect(&door).await);
    for _ in 0..100 {
        closed(&mut connect(&door).await).await;
    }
    assert_eq!(next(&door, 1).await, 2, "who was let in is served");
    two.shutdown().await.unwrap();
    closed(&mut two).await;
    let again = async {
        loop {
            let endpoint = Endpoint::from_shared(format!("http://{}", door.addr)).unwrap();
            let Ok(channel) = endpoint.connect().await else { continue };
            let mut client = v1::sequence_service_client::SequenceServiceClient::new(channel);
            let request = v1::NextRequest { uid: 1, count: 1, ..v1::NextRequest::default() };
            if client.next(request).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("a place that is free again is given to somebody");
}

#[tokio::test]
async fn what_is_not_http_ends_its_connection_alone() {
    let door = Door::open().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let huge_frame = [preface.as_slice(), &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1_000));
    let long_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let garbage: [&[u8]; 6] = [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        &huge_frame,
        many_headers.as_bytes(),
        long_header.as_bytes(),
    ];
    for bytes in garbage {
        let mut stream = connect(&door).await;
        // It may be cut before all of it is sent.
        let _ = stream.write_all(bytes).await;
        closed(&mut stream).await;
    }
    assert_eq!(next(&door, 1).await, 1);
    assert_eq!(door.twin.calls().len(), 1);
}

#[tokio::test]
async fn who_never_reads_is_not_read_from_for_ever() {
    let door = Door::open().await;
    let (send, messages) = mpsc::channel(1);
    let _unread = door.client().next_stream(ReceiverStream::new(messages)).await.unwrap();
    let ask = v1::NextManyRequest { uids: vec![7; 100], ..v1::NextManyRequest::default() };
    // Far more than the windows of both sides hold.
    let talking = async {
        for tag in 0..1_000_000 {
            let message = v1::NextStreamRequest { tag, ask: Some(ask.clone()), ..v1::NextStreamRequest::default() };
            if tokio::time::timeout(Duration::from_millis(500), send.send(message)).await.is_err() {
                return tag;
            }
        }
        panic!("a million messages were taken")
    };
    let taken = talking.await;
    let given = door.twin.last(7);
    assert!(given <= taken * 100, "{given} numbers for {taken} messages");
    assert_eq!(next(&door, 1).await, 1);
    assert_eq!(door.twin.last(7), given, "nothing more is done for it");
}

#[tokio::test]
async fn calls_that_are_given_up_at_once_hurt_nobody() {
    let door = Door::open().await;
    let flood = Endpoint::from_shared(format!("http://{}", door.addr)).unwrap().connect().await.unwrap();
    for turn in 0..2_000_u64 {
        let mut client = v1::sequence_service_client::SequenceServiceClient::new(flood.clone());
        let request = v1::NextRequest { uid: 2, count: 1, ..v1::NextRequest::default() };
        // Long enough to be sent now and then, and never to be answered.
        let _ = tokio::time::timeout(Duration::from_micros(turn % 50), client.next(request)).await;
    }
    assert_eq!(next(&door, 1).await, 1);
}

/// The slowest of 100 calls but one.
async fn p99(door: &Door) -> Duration {
    let mut times = Vec::new();
    for _ in 0..200 {
        let sent = Instant::now();
        next(door, 1).await;
        times.push(sent.elapsed());
    }
    times.sort();
    times[times.len() - 3]
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crowds_and_dribblers_are_not_felt_by_others() {
    const ROUNDS: usize = 7;
    const CROWD: usize = 200;
    /// A busy machine spoils a measurement now and then; what is slow by itself is slow every time.
    const TRIES: usize = 4;
    let door = Door::open().await;
    let mut ratio = f64::MAX;
    for _ in 0..TRIES {
        let (mut alone, mut among) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(p99(&door).await);
            let mut crowd = Vec::new();
            for place in 0..CROWD {
                let mut stream = connect(&door).await;
                let some: &[u8] = match place % 4 {
                    0 => b"",
                    1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
                    2 => b"POST /seqsvr.v1.SequenceService/Next HTTP/1.1\r\ncontent-length: 9999\r\n\r\n{",
                    _ => b"POST /api/seq/next/5 HTTP/1.1\r\nx: ",
                };
                stream.write_all(some).await.unwrap();
                crowd.push(stream);
            }
            let dribbling = async {
                loop {
                    for stream in &mut crowd {
                        let _ = stream.write_all(b"x").await;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            };
            tokio::select! {
                time = p99(&door) => among.push(time),
                () = dribbling => unreachable!("it dribbles for ever"),
            }
        }
        ratio = ratio.min(median(among).as_secs_f64() / median(alone).as_secs_f64());
        if ratio < 2.0 {
            return;
        }
    }
    panic!("the others' p99 is {ratio:.1} times what it is alone");
}
