//! Invalid input is refused with its reason, before anything moves.

use seq_core::limits::{MAX_CALL_BYTES, MAX_COUNT, MAX_ITEMS};
use seq_proto::{status, v1};
use tonic::{Code, Status};

use crate::raw;
use crate::twin::{TestServer, UIDS};

fn next(uid: u64, count: u32, hops: u32) -> v1::NextRequest {
    v1::NextRequest { uid: Some(uid), count, hops, ..v1::NextRequest::default() }
}

fn check(status: &Status, code: Code, reason: &str, text: &str) {
    assert_eq!(status.code(), code, "{status}");
    assert_eq!(status::reason(status).as_deref(), Some(reason), "{status}");
    assert!(status.message().contains(text), "{:?} does not contain {text:?}", status.message());
}

#[tokio::test]
async fn an_invalid_request_for_one_uid_is_refused() {
    let server = TestServer::open().await;
    let table = [
        (next(1, MAX_COUNT + 1, 0), Code::InvalidArgument, "COUNT_OUT_OF_RANGE", "1..=1000000"),
        (next(1, u32::MAX, 0), Code::InvalidArgument, "COUNT_OUT_OF_RANGE", "1..=1000000"),
        (next(1, 1, 3), Code::InvalidArgument, "TOO_MANY_HOPS", "3 hops are more than the 2"),
        (next(UIDS, 1, 0), Code::OutOfRange, "UID_OUT_OF_RANGE", "uid 1000 is outside"),
    ];
    for (request, code, reason, text) in table {
        check(&server.client().next(request).await.unwrap_err(), code, reason, text);
    }
    let read = v1::CurrentRequest { uid: Some(1), hops: 3, ..v1::CurrentRequest::default() };
    let refused = server.client().current(read).await.unwrap_err();
    check(&refused, Code::InvalidArgument, "TOO_MANY_HOPS", "3 hops");
    assert_eq!(server.twin.calls().len(), 1, "only the uid is checked by the service");
    assert_eq!(server.twin.last(1), 0);
}

#[tokio::test]
async fn advance_never_lowers_a_uid() {
    let server = TestServer::open().await;
    let advance = async |uid, to, hops| {
        let request = v1::AdvanceRequest { uid: Some(uid), to: Some(to), hops, ..v1::AdvanceRequest::default() };
        server.client().advance(request).await
    };
    assert_eq!(advance(1, 1_000, 0).await.unwrap().into_inner().epoch, 1);
    assert_eq!(server.twin.last(1), 1_000);
    let table = [
        (advance(1, 999, 0).await, Code::FailedPrecondition, "ALREADY_PAST", "uid 1 is past that number"),
        (advance(1, 1 << 62, 0).await, Code::InvalidArgument, "ADVANCE_TOO_FAR", "above 4611686018427387903"),
        (advance(1, 2_000, 3).await, Code::InvalidArgument, "TOO_MANY_HOPS", "3 hops"),
    ];
    for (answer, code, reason, text) in table {
        check(&answer.unwrap_err(), code, reason, text);
    }
    assert_eq!(server.twin.last(1), 1_000);
}

#[tokio::test]
async fn an_invalid_batch_is_refused_as_a_whole() {
    let server = TestServer::open().await;
    let many = |items: usize, counts: Vec<u32>, hops| v1::NextManyRequest {
        uids: vec![1; items],
        counts,
        hops,
        ..v1::NextManyRequest::default()
    };
    let table = [
        (many(0, vec![], 0), "EMPTY_BATCH", "1..=10000"),
        (many(MAX_ITEMS + 1, vec![], 0), "BATCH_TOO_LARGE", "10001 items are more than the 10000"),
        (many(3, vec![1, 1], 0), "COUNTS_MISMATCH", "2 counts or epochs for 3 uids"),
        (many(1, vec![1, 1], 0), "COUNTS_MISMATCH", "2 counts or epochs for 1 uids"),
        (many(1, vec![], 3), "TOO_MANY_HOPS", "3 hops"),
    ];
    for (request, reason, text) in table {
        check(&server.client().next_many(request).await.unwrap_err(), Code::InvalidArgument, reason, text);
    }
    let read = |items: usize| v1::CurrentManyRequest { uids: vec![1; items], ..v1::CurrentManyRequest::default() };
    let refused = server.client().current_many(read(0)).await.unwrap_err();
    check(&refused, Code::InvalidArgument, "EMPTY_BATCH", "1..=10000");
    let refused = server.client().current_many(read(MAX_ITEMS + 1)).await.unwrap_err();
    check(&refused, Code::InvalidArgument, "BATCH_TOO_LARGE", "10000");
    let refused = server.client().current_many(v1::CurrentManyRequest { known_epochs: vec![1], ..read(2) }).await;
    check(&refused.unwrap_err(), Code::InvalidArgument, "COUNTS_MISMATCH", "1 counts or epochs for 2 uids");
    assert_eq!(server.twin.calls(), []);
}

#[tokio::test]
async fn invalid_items_are_refused_one_by_one() {
    let server = TestServer::open().await;
    let uids = vec![1, 2, UIDS, 1];
    let request = v1::NextManyRequest { uids, counts: vec![2, 1_000_001, 1, 3], ..v1::NextManyRequest::default() };
    let answer = server.client().next_many(request).await.unwrap().into_inner();
    assert_eq!(answer.values, [2, 0, 0, 5]);
    assert_eq!(answer.prevs, [0, 0, 0, 2]);
    assert_eq!(answer.epochs, [1, 0, 0, 1]);
    let errors: Vec<_> = answer.errors.iter().map(|error| (error.index, error.code, error.reason.as_str())).collect();
    assert_eq!(errors, [(1, 3, "COUNT_OUT_OF_RANGE"), (2, 11, "UID_OUT_OF_RANGE")]);
    assert_eq!(server.twin.last(2), 0);
}

#[tokio::test]
async fn malformed_bytes_are_refused() {
    let server = TestServer::open().await;
    let table: [(&'static str, &'static [u8]); 4] = [
        ("/seqsvr.v1.SequenceService/Next", b"\x08"),
        ("/seqsvr.v1.SequenceService/Next", b"\x0a\xff\xff\xff\xff\x0f"),
        ("/seqsvr.v1.SequenceService/NextMany", b"\x0a\x05\x01\x02"),
        ("/seqsvr.v1.SequenceService/Current", b"not protobuf at all"),
    ];
    for (method, bytes) in table {
        let refused = raw::send(server.channel.clone(), method, bytes).await.unwrap_err();
        check(&refused, Code::InvalidArgument, "MALFORMED", "decode Protobuf");
    }
    assert_eq!(server.twin.calls(), []);
    // The connection stays usable.
    assert_eq!(server.client().next(next(1, 1, 0)).await.unwrap().into_inner().value, 1);
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_unread() {
    let server = TestServer::open().await;
    let uids = vec![u64::MAX; MAX_CALL_BYTES / 10 + 1];
    let request = v1::NextManyRequest { uids, ..v1::NextManyRequest::default() };
    let refused = server.client().next_many(request).await.unwrap_err();
    check(&refused, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", &MAX_CALL_BYTES.to_string());
    assert_eq!(server.twin.calls(), []);
    assert_eq!(server.client().next(next(1, 1, 0)).await.unwrap().into_inner().value, 1);
}

#[tokio::test]
async fn the_largest_batch_fits() {
    let server = TestServer::open().await;
    let (uids, counts) = (vec![UIDS - 1; MAX_ITEMS], vec![MAX_COUNT; MAX_ITEMS]);
    let request = v1::NextManyRequest { uids, counts, route_version: Some(u64::MAX), hops: 1, known_epochs: vec![] };
    let answer = server.client().next_many(request).await.unwrap().into_inner();
    assert_eq!(answer.values.last(), Some(&(MAX_ITEMS as u64 * u64::from(MAX_COUNT))));
}
