//! A gRPC stream: the messages of a round are in flight at once and may be answered in any order.

use std::time::Duration;

use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::grpc::listed;
use super::{Ways, failed, refused_item};
use crate::traffic::Answer;

pub(crate) struct Lane {
    client: SequenceServiceClient<Channel>,
    deadline: Duration,
    batch: usize,
    open: Option<Open>,
    /// Of the next message.
    tag: u64,
    /// The answers to a round's messages, in their order. Kept from round to round for its memory.
    outcomes: Vec<Option<Outcome>>,
}

struct Open {
    messages: mpsc::Sender<v1::NextStreamRequest>,
    answers: Streaming<v1::NextStreamResponse>,
}

impl Lane {
    pub(super) fn new(channel: Channel, ways: &Ways) -> Lane {
        let client = SequenceServiceClient::new(channel);
        Lane { client, deadline: ways.deadline, batch: ways.batch, open: None, tag: 0, outcomes: Vec::new() }
    }

    /// Sends a round's messages and hears their answers; ends early where the stream does.
    async fn exchange(&mut self, uids: &[u64]) -> Result<(), Status> {
        let timeout_ms = u32::try_from(self.deadline.as_millis()).unwrap_or(u32::MAX);
        let first = self.tag;
        let calls = uids.chunks(self.batch);
        let round = calls.len();
        let (send, messages) = match &self.open {
            Some(open) => (open.messages.clone(), None),
            None => {
                let (send, messages) = mpsc::channel(round);
                (send, Some(messages))
            }
        };
        for uids in calls {
            let ask = v1::NextManyRequest { uids: uids.to_vec(), ..v1::NextManyRequest::default() };
            let message = v1::NextStreamRequest { tag: self.tag, ask: Some(ask), timeout_ms, now_only: false };
            self.tag += 1;
            // There is room for a round, and the last one is over.
            send.try_send(message).map_err(|_| Status::unavailable("the stream has ended"))?;
        }
        if let Some(messages) = messages {
            let answers = self.client.next_stream(ReceiverStream::new(messages)).await?.into_inner();
            self.open = Some(Open { messages: send, answers });
        }
        let open = self.open.as_mut().expect("it was opened");
        for _ in 0..round {
            let answer = open.answers.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            let place = answer.tag.checked_sub(first).and_then(|index| self.outcomes.get_mut(index as usize));
            match place {
                Some(place @ None) => *place = answer.outcome,
                _ => return Err(Status::unknown("a tag that was not asked for")),
            }
        }
        Ok(())
    }
}

impl super::Lane for Lane {
    async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>) {
        self.outcomes.clear();
        self.outcomes.resize_with(uids.len().div_ceil(self.batch), || None);
        let ended = self.exchange(uids).await;
        if ended.is_err() {
            self.open = None;
        }
        for (uids, outcome) in uids.chunks(self.batch).zip(&mut self.outcomes) {
            match outcome.take() {
                Some(Outcome::Answer(answer)) => listed(Ok(answer), uids.len(), answers),
                Some(Outcome::Refusal(error)) => answers.extend(std::iter::repeat_n(refused_item(&error), uids.len())),
                None => {
                    let status = ended.clone().err().unwrap_or_else(|| Status::unknown("an answer without an outcome"));
                    answers.extend(std::iter::repeat_n(failed(&status), uids.len()));
                }
            }
        }
    }
}
