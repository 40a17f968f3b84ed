//! Unary gRPC calls, for one uid or for many.

use std::time::Duration;

use futures::future::join_all;
use seq_channel::{CallerChannel, Pool, PoolError};
use seq_core::Seq;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::{Request, Status};

use super::{EndpointOptions, failed, refused_item};
use crate::reply::Reply;

pub(crate) struct Transport {
    /// Drives the connection of `client`.
    _pool: Pool,
    client: SequenceServiceClient<CallerChannel>,
    deadline: Duration,
    batch: usize,
}

impl Transport {
    pub(crate) fn new(pool: &Pool, addr: &str, options: &EndpointOptions) -> Result<Transport, PoolError> {
        let client = SequenceServiceClient::new(pool.get_for_caller(addr)?);
        Ok(Transport { _pool: pool.clone(), client, deadline: options.deadline, batch: options.batch })
    }

    async fn one(&self, uid: u64) -> Reply {
        let call = v1::NextRequest { uid: Some(uid), count: 1, route_version: None, epoch: 0, hops: 0, above: None };
        let given = self.client.clone().next(self.request(call)).await;
        given.map_or_else(
            |status| failed(&status),
            |given| {
                let v1::NextResponse { value, prev, lost, .. } = given.into_inner();
                Reply::Given { value: Seq(value), prev: Seq(prev), lost: lost.unwrap_or(0) }
            },
        )
    }

    async fn many(&self, uids: &[u64]) -> Vec<Reply> {
        let call = v1::NextManyRequest { uids: uids.to_vec(), ..v1::NextManyRequest::default() };
        let reply = self.client.clone().next_many(self.request(call)).await;
        let mut replies = Vec::with_capacity(uids.len());
        listed(reply.map(tonic::Response::into_inner), uids.len(), &mut replies);
        replies
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.deadline);
        request
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        match uids {
            [uid] => replies.push(self.one(*uid).await),
            uids if self.batch == 1 => replies.extend(join_all(uids.iter().map(|uid| self.one(*uid))).await),
            uids if self.batch == uids.len() => replies.extend(self.many(uids).await),
            uids => {
                let calls = uids.chunks(self.batch).map(|uids| self.many(uids));
                replies.extend(join_all(calls).await.into_iter().flatten());
            }
        }
    }
}

/// Adds the replies of a batch, one for each item.
pub(crate) fn listed(reply: Result<v1::NextManyResponse, Status>, items: usize, replies: &mut Vec<Reply>) {
    let reply = reply.and_then(|reply| {
        let fits = reply.values.len() == items && reply.prevs.len() == items;
        if fits { Ok(reply) } else { Err(Status::unknown("the response has another number of items than the request")) }
    });
    match reply {
        Ok(reply) => {
            let first = replies.len();
            let given = reply.values.iter().zip(&reply.prevs);
            replies.extend(given.map(|(value, prev)| Reply::Given { value: Seq(*value), prev: Seq(*prev), lost: 0 }));
            let lost = reply.lost.unwrap_or_default();
            for (index, attempts) in lost.indexes.into_iter().zip(lost.attempts) {
                if let Some(Reply::Given { lost, .. }) = replies[first..].get_mut(index as usize) {
                    *lost = attempts;
                }
            }
            for error in &reply.errors {
                if let Some(reply) = replies[first..].get_mut(error.index as usize) {
                    *reply = refused_item(error);
                }
            }
        }
        Err(status) => replies.extend(std::iter::repeat_n(failed(&status), items)),
    }
}
