//! Client that sends the calls of a worker as messages of a single gRPC stream. The messages of a round are in flight
//! concurrently, and their responses may arrive in any order.

use std::time::Duration;

use seq_channel::{CallerChannel, Pool, PoolError};
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::grpc::listed;
use super::{EndpointOptions, failed, refused_item};
use crate::reply::Reply;

/// Largest number of messages of a round. It is also the largest value of `seqsvr bench --pipeline`.
const MAX_ROUND: usize = 4_096;

pub(crate) struct Transport {
    /// Drives the connection of `client`.
    _pool: Pool,
    client: SequenceServiceClient<CallerChannel>,
    deadline: Duration,
    batch: usize,
    open: Option<Open>,
    /// Tag of the next message.
    tag: u64,
    /// Responses to the messages of the current round, in the order of the messages. The buffer is kept so that its
    /// memory is reused.
    outcomes: Vec<Option<Outcome>>,
}

struct Open {
    /// Queue of messages that the stream sends. It has room for the messages of one round, because a round starts after
    /// all responses of the previous round have arrived.
    messages: mpsc::Sender<v1::NextStreamRequest>,
    replies: Streaming<v1::NextStreamResponse>,
}

impl Transport {
    pub(crate) fn new(pool: &Pool, addr: &str, options: &EndpointOptions) -> Result<Transport, PoolError> {
        Ok(Transport {
            _pool: pool.clone(),
            client: SequenceServiceClient::new(pool.get_for_caller(addr)?),
            deadline: options.deadline,
            batch: options.batch,
            open: None,
            tag: 0,
            outcomes: Vec::new(),
        })
    }

    /// Sends the messages of a round, and stores their responses in `outcomes`. Returns an error if the stream ends
    /// before all responses have arrived.
    async fn exchange(&mut self, uids: &[u64]) -> Result<(), Status> {
        let timeout_ms = u32::try_from(self.deadline.as_millis()).unwrap_or(u32::MAX);
        let first = self.tag;
        let calls = uids.chunks(self.batch);
        let round = calls.len();
        let (send, messages) = match &self.open {
            Some(open) => (open.messages.clone(), None),
            None => {
                let (send, messages) = mpsc::channel(MAX_ROUND);
                (send, Some(messages))
            }
        };
        for uids in calls {
            let request = v1::NextManyRequest { uids: uids.to_vec(), ..v1::NextManyRequest::default() };
            let message = v1::NextStreamRequest { tag: self.tag, request: Some(request), timeout_ms, now_only: false };
            self.tag += 1;
            send.try_send(message).map_err(|_| Status::unavailable("the stream has ended"))?;
        }
        if let Some(messages) = messages {
            let replies = self.client.next_stream(ReceiverStream::new(messages)).await?.into_inner();
            self.open = Some(Open { messages: send, replies });
        }
        let open = self.open.as_mut().expect("it was opened");
        for _ in 0..round {
            let reply = open.replies.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            let place = reply.tag.checked_sub(first).and_then(|index| self.outcomes.get_mut(index as usize));
            match place {
                Some(place @ None) => *place = reply.outcome,
                _ => return Err(Status::unknown("a response with an unknown tag")),
            }
        }
        Ok(())
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        self.outcomes.clear();
        self.outcomes.resize_with(uids.len().div_ceil(self.batch), || None);
        let ended = self.exchange(uids).await;
        if ended.is_err() {
            self.open = None;
        }
        for (uids, outcome) in uids.chunks(self.batch).zip(&mut self.outcomes) {
            match outcome.take() {
                Some(Outcome::Response(reply)) => listed(Ok(reply), uids.len(), replies),
                Some(Outcome::Refusal(error)) => replies.extend(std::iter::repeat_n(refused_item(&error), uids.len())),
                None => {
                    let status =
                        ended.clone().err().unwrap_or_else(|| Status::unknown("a response without an outcome"));
                    replies.extend(std::iter::repeat_n(failed(&status), uids.len()));
                }
            }
        }
    }
}
