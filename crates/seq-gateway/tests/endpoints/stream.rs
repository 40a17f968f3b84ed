//! Messages of a stream: each answered once, with its tag, when it is done and not before.

use std::collections::BTreeMap;
use std::time::Duration;

use seq_core::limits;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::twin::Door;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages that a stream holds.
const HELD: u64 = 512;

struct Talk {
    send: mpsc::Sender<v1::NextStreamRequest>,
    answers: Streaming<v1::NextStreamResponse>,
}

impl Talk {
    async fn open(door: &Door) -> Talk {
        let (send, messages) = mpsc::channel(8);
        let answers = door.client().next_stream(ReceiverStream::new(messages)).await.unwrap().into_inner();
        Talk { send, answers }
    }

    async fn say(&self, tag: u64, uids: Vec<u64>) {
        self.send(v1::NextStreamRequest { tag, ask: Some(ask(uids)), timeout_ms: 10_000, now_only: false }).await;
    }

    async fn send(&self, message: v1::NextStreamRequest) {
        tokio::time::timeout(PATIENCE, self.send.send(message)).await.expect("the message is taken").unwrap();
    }

    async fn hear(&mut self) -> v1::NextStreamResponse {
        tokio::time::timeout(PATIENCE, self.answers.message()).await.expect("an answer").unwrap().expect("one more")
    }

    async fn values(&mut self) -> (u64, Vec<u64>) {
        match self.hear().await {
            v1::NextStreamResponse { tag, outcome: Some(Outcome::Answer(answer)) } => (tag, answer.values),
            other => panic!("{other:?}"),
        }
    }
}

fn ask(uids: Vec<u64>) -> v1::NextManyRequest {
    v1::NextManyRequest { uids, ..v1::NextManyRequest::default() }
}

#[tokio::test]
async fn every_message_is_answered_once_under_its_tag() {
    let door = Door::open().await;
    let mut talk = Talk::open(&door).await;
    let mut expected = BTreeMap::new();
    for tag in 0..300 {
        talk.say(tag, vec![tag % 7, 500]).await;
        expected.insert(tag, vec![tag / 7 + 1, tag + 1]);
        if tag % 50 == 49 {
            for _ in 0..50 {
                let (tag, values) = talk.values().await;
                assert_eq!(expected.remove(&tag), Some(values), "tag {tag}");
            }
        }
    }
    drop(talk.send);
    assert!(talk.answers.message().await.unwrap().is_none(), "the stream ends with its last answer");
}

#[tokio::test]
async fn who_waits_holds_nobody_up() {
    let door = Door::open().await;
    door.twin.hold(&[1, 2]);
    let mut talk = Talk::open(&door).await;
    talk.say(10, vec![5, 1]).await;
    talk.say(20, vec![2]).await;
    for tag in 30..40 {
        talk.say(tag, vec![3]).await;
        assert_eq!(talk.values().await, (tag, vec![tag - 29]));
    }
    door.twin.hold(&[1]);
    assert_eq!(talk.values().await, (20, vec![1]));
    door.twin.hold(&[]);
    assert_eq!(talk.values().await, (10, vec![1, 1]));
}

#[tokio::test]
async fn who_says_so_is_refused_instead_of_held() {
    let door = Door::open().await;
    door.twin.hold(&[1]);
    let mut talk = Talk::open(&door).await;
    talk.send(v1::NextStreamRequest { tag: 7, ask: Some(ask(vec![5, 1, 6])), timeout_ms: 10_000, now_only: true })
        .await;
    let Some(Outcome::Answer(answer)) = talk.hear().await.outcome else { panic!("refused as a whole") };
    assert_eq!(answer.values, [1, 0, 1]);
    let [refused] = &answer.errors[..] else { panic!("{:?}", answer.errors) };
    assert_eq!((refused.index, &*refused.reason), (1, seq_proto::status::WOULD_WAIT));
    assert_eq!(door.twin.last(1), 0);
}

#[tokio::test]
async fn a_door_that_closes_answers_what_it_has_read_and_ends_the_stream() {
    let door = Door::open().await;
    door.twin.hold(&[1]);
    let mut talk = Talk::open(&door).await;
    talk.say(1, vec![1]).await;
    talk.say(2, vec![2]).await;
    assert_eq!(talk.values().await, (2, vec![1]));
    door.group.cancel();
    door.twin.hold(&[]);
    assert_eq!(talk.values().await, (1, vec![1]));
    let end =
        tokio::time::timeout(PATIENCE, talk.answers.message()).await.expect("it ends although the caller might go on");
    assert!(end.unwrap().is_none());
}

#[tokio::test]
async fn a_bad_message_is_refused_alone() {
    let door = Door::open().await;
    let mut talk = Talk::open(&door).await;
    let too_many = vec![1; limits::MAX_ITEMS + 1];
    let counts = v1::NextManyRequest { counts: vec![1], ..ask(vec![1, 2]) };
    let hops = v1::NextManyRequest { hops: limits::MAX_HOPS + 1, ..ask(vec![1]) };
    let bad = [
        (None, "EMPTY_BATCH"),
        (Some(ask(Vec::new())), "EMPTY_BATCH"),
        (Some(ask(too_many)), "BATCH_TOO_LARGE"),
        (Some(counts), "COUNTS_MISMATCH"),
        (Some(hops), "TOO_MANY_HOPS"),
    ];
    for (tag, (ask, reason)) in (1..).zip(bad) {
        talk.send(v1::NextStreamRequest { tag, ask, ..v1::NextStreamRequest::default() }).await;
        match talk.hear().await {
            v1::NextStreamResponse { tag: answered, outcome: Some(Outcome::Refusal(refusal)) } => {
                assert_eq!((answered, &*refusal.reason), (tag, reason));
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
    // An item that is bad is refused by itself.
    let counted = v1::NextManyRequest { counts: vec![1, 1_000_001], ..ask(vec![1, 2]) };
    talk.send(v1::NextStreamRequest { tag: 9, ask: Some(counted), ..v1::NextStreamRequest::default() }).await;
    let Some(Outcome::Answer(answer)) = talk.hear().await.outcome else { panic!("refused as a whole") };
    assert_eq!((answer.values, &*answer.errors[0].reason), (vec![1, 0], "COUNT_OUT_OF_RANGE"));
    assert_eq!(door.twin.last(1), 1, "what was refused moved nothing");
}

#[tokio::test]
async fn a_stream_holds_so_many_messages_and_reads_no_more() {
    let door = Door::open().await;
    door.twin.hold(&[1]);
    let mut talk = Talk::open(&door).await;
    for tag in 0..HELD {
        talk.say(tag, vec![1]).await;
    }
    // One more than is held: it is not read, although it could be answered.
    talk.say(HELD, vec![2]).await;
    let held = async {
        loop {
            if door.twin.calls().len() as u64 == HELD {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.expect("all are held");
    assert_eq!(door.twin.last(2), 0);
    door.twin.hold(&[]);
    for _ in 0..=HELD {
        talk.hear().await;
    }
    assert_eq!((door.twin.last(1), door.twin.last(2)), (HELD, 1));
}
