use metrics::Counter;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::admission::ConnectionMetrics;
use crate::port::allowance::MOST as MOST_FRAMES;
use crate::port::stream_limit::StreamLimit;

const MOST: u32 = 256;

/// SETTINGS without content, and their acknowledgement.
const EMPTY: [u8; HEAD] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
const ACKNOWLEDGED: [u8; HEAD] = [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0];
const HIDDEN: [u8; HEAD] = [0, 0, 0, IGNORED, ACK, 0, 0, 0, 0];

/// A frame of another type.
const OTHER: [u8; HEAD + 3] = [0, 0, 3, 0, 0, 0, 0, 0, 1, b'a', b'b', b'c'];

fn stating(limit: u8) -> Vec<u8> {
    [&[0, 0, 6, SETTINGS, 0, 0, 0, 0, 0][..], &[0, 3, 0, 0, 0, limit]].concat()
}

fn open() -> (StreamLimit, Limited<DuplexStream>, DuplexStream) {
    let (near, far) = duplex(1_024);
    let limit = StreamLimit::new(MOST, Counter::noop());
    let near = Limited::new(near, Some(limit.join()), (Admission::of("a1", 1, ConnectionMetrics::none()), None));
    (limit, near, far)
}

/// Sends and receives the first frames of a connection.
async fn established() -> (StreamLimit, Limited<DuplexStream>, DuplexStream) {
    let (limit, mut near, mut far) = open();
    far.write_all(&[PREFACE, &EMPTY, &ACKNOWLEDGED].concat()).await.unwrap();
    near.write_all(&[EMPTY, ACKNOWLEDGED].concat()).await.unwrap();
    read(&mut far, &[EMPTY, ACKNOWLEDGED].concat()).await;
    read(&mut near, &[PREFACE, &EMPTY, &ACKNOWLEDGED].concat()).await;
    (limit, near, far)
}

#[track_caller]
fn same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

async fn read(from: &mut (impl AsyncRead + Unpin), expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    from.read_exact(&mut bytes).await.unwrap();
    same(&bytes, expected);
}

#[tokio::test]
async fn a_changed_limit_is_stated_between_frames_and_its_acknowledgement_is_hidden() {
    let (limit, mut near, mut far) = established().await;
    near.write_all(&OTHER[..5]).await.unwrap();
    limit.share(8);
    near.write_all(&OTHER[5..]).await.unwrap();
    near.write_all(&OTHER).await.unwrap();
    read(&mut far, &[&OTHER[..], &stating(8), &OTHER].concat()).await;
    // One changed limit is sent at a time.
    limit.share(4);
    near.write_all(&OTHER).await.unwrap();
    near.flush().await.unwrap();
    read(&mut far, &OTHER).await;
    far.write_all(&[&OTHER[..], &ACKNOWLEDGED, &OTHER].concat()).await.unwrap();
    read(&mut near, &[&OTHER[..], &HIDDEN, &OTHER].concat()).await;
    near.flush().await.unwrap();
    read(&mut far, &stating(4)).await;
}

#[tokio::test]
async fn an_acknowledgement_is_hidden_wherever_it_is_cut() {
    for cut in 1..HEAD {
        let (limit, mut near, mut far) = established().await;
        limit.share(16);
        near.flush().await.unwrap();
        read(&mut far, &stating(16)).await;
        far.write_all(&ACKNOWLEDGED[..cut]).await.unwrap();
        let mut bytes = vec![0; cut];
        near.read_exact(&mut bytes).await.unwrap();
        far.write_all(&[&ACKNOWLEDGED[cut..], &OTHER].concat()).await.unwrap();
        let mut rest = vec![0; HEAD - cut + OTHER.len()];
        near.read_exact(&mut rest).await.unwrap();
        bytes.extend(rest);
        same(&bytes, &[&HIDDEN[..], &OTHER].concat());
    }
}

#[tokio::test]
async fn nothing_is_inserted_before_the_connection_is_open() {
    let (limit, mut near, mut far) = open();
    limit.share(8);
    near.write_all(&EMPTY).await.unwrap();
    far.write_all(&[PREFACE, &EMPTY].concat()).await.unwrap();
    read(&mut near, &[PREFACE, &EMPTY].concat()).await;
    near.write_all(&OTHER).await.unwrap();
    read(&mut far, &[&EMPTY[..], &OTHER].concat()).await;
    // The library's settings are acknowledged: its acknowledgement is not hidden.
    far.write_all(&ACKNOWLEDGED).await.unwrap();
    read(&mut near, &ACKNOWLEDGED).await;
    near.flush().await.unwrap();
    read(&mut far, &stating(8)).await;
}

#[tokio::test]
async fn other_protocols_are_left_alone() {
    let (limit, mut near, mut far) = open();
    limit.share(8);
    let request = b"PRI / HTTP/1.1\r\nhost: x\r\n\r\n";
    far.write_all(request).await.unwrap();
    read(&mut near, request).await;
    near.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    near.flush().await.unwrap();
    read(&mut far, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    far.write_all(&ACKNOWLEDGED).await.unwrap();
    read(&mut near, &ACKNOWLEDGED).await;
}

/// Returns a frame of each type that belongs to no request.
fn control_frames() -> Vec<Vec<u8>> {
    let frame = |kind: u8, flags: u8, payload: usize| {
        [&[0, 0, payload as u8, kind, flags, 0, 0, 0, 0][..], &vec![0; payload]].concat()
    };
    vec![
        frame(2, 0, 5),
        frame(3, 0, 4),
        frame(SETTINGS, 0, 0),
        frame(SETTINGS, ACK, 0),
        frame(6, 0, 8),
        frame(8, 0, 4),
        frame(IGNORED, 0, 0),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_frames_ends_with_a_farewell_at_every_port() {
    for frame in control_frames() {
        for has_limit in [true, false] {
            let (_limit, mut near, mut far) = established().await;
            near.member = near.member.filter(|_| has_limit);
            let sending = async {
                for _ in 0..=MOST_FRAMES {
                    far.write_all(&frame).await.unwrap();
                }
                let mut farewell = vec![0; CALM_DOWN.len()];
                far.read_exact(&mut farewell).await.unwrap();
                same(&farewell, CALM_DOWN);
            };
            let reading = async {
                let mut bytes = vec![0; 1_024];
                loop {
                    if let Err(error) = near.read(&mut bytes).await {
                        return error;
                    }
                }
            };
            let ((), error) = tokio::join!(sending, reading);
            assert!(error.to_string().contains("more frames"), "{error}");
        }
    }
    assert_eq!(CALM_DOWN.len(), HEAD + usize::from(CALM_DOWN[2]));
}

#[tokio::test(start_paused = true)]
async fn frames_that_responses_explain_have_no_limit() {
    let (_limit, mut near, mut far) = established().await;
    let frame = &control_frames()[5];
    let mut bytes = vec![0; 4 * frame.len()];
    for _ in 0..MOST_FRAMES {
        near.write_all(&OTHER).await.unwrap();
        read(&mut far, &OTHER).await;
        far.write_all(&frame.repeat(4)).await.unwrap();
        near.read_exact(&mut bytes).await.unwrap();
    }
    // Within a frame no farewell can be inserted.
    near.write_all(&OTHER[..HEAD]).await.unwrap();
    read(&mut far, &OTHER[..HEAD]).await;
    let error = loop {
        far.write_all(frame).await.unwrap();
        if let Err(error) = near.read_exact(&mut bytes[..frame.len()]).await {
            break error;
        }
    };
    assert!(error.to_string().contains("more frames"), "{error}");
    drop(near);
    assert_eq!(far.read(&mut bytes).await.unwrap(), 0);
}
