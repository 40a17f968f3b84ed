//! Unary gRPC calls for ids of a series.

use std::time::Duration;

use futures::future::join_all;
use seq_channel::{CallerChannel, Pool, PoolError};
use seq_core::Seq;
use seq_proto::v1;
use seq_proto::v1::id_service_client::IdServiceClient;
use tonic::{Request, Status};

use super::{EndpointOptions, failed};
use crate::reply::Reply;

/// A client that requests ids of a series. For a batch of n uids, it ignores the uids and requests n ids.
pub(crate) struct Transport {
    /// Drives the connection of `client`.
    _pool: Pool,
    client: IdServiceClient<CallerChannel>,
    series: String,
    lane: Option<u32>,
    deadline: Duration,
    batch: usize,
}

impl Transport {
    pub(crate) fn new(pool: &Pool, addr: &str, options: &EndpointOptions) -> Result<Transport, PoolError> {
        let client = IdServiceClient::new(pool.get_for_caller(addr)?);
        let EndpointOptions { series, lane, deadline, batch, .. } = options.clone();
        Ok(Transport { _pool: pool.clone(), client, series, lane, deadline, batch })
    }

    /// Requests `count` ids. Returns one reply for each id.
    async fn take(&self, count: usize) -> Vec<Reply> {
        let call = v1::NextIdsRequest {
            series: self.series.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            lane: self.lane,
            after: None,
        };
        let mut request = Request::new(call);
        request.set_timeout(self.deadline);
        let response = self.client.clone().next(request).await;
        replies(response.map(tonic::Response::into_inner), count)
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        match uids.len() {
            count if count <= self.batch => replies.extend(self.take(count).await),
            _ => {
                let calls = uids.chunks(self.batch).map(|uids| self.take(uids.len()));
                replies.extend(join_all(calls).await.into_iter().flatten());
            }
        }
    }
}

/// Converts a response to `count` replies, one for each id. The `prev` of each reply is 0, which means that the
/// previous id is not known.
fn replies(response: Result<v1::NextIdsResponse, Status>, count: usize) -> Vec<Reply> {
    let response = response.and_then(|response| {
        let given: u64 = response.runs.iter().map(|run| u64::from(run.count)).sum();
        let fits = given == count as u64;
        if fits {
            Ok(response)
        } else {
            Err(Status::unknown("the response has another number of ids than the request"))
        }
    });
    match response {
        Ok(v1::NextIdsResponse { runs, step, .. }) => {
            let mut replies = Vec::with_capacity(count);
            for run in runs {
                let ids = (0..u64::from(run.count)).map(|at| run.first + at * step);
                replies.extend(ids.map(|id| Reply::Given { value: Seq(id), prev: Seq::ZERO, lost: 0 }));
            }
            replies
        }
        Err(status) => vec![failed(&status); count],
    }
}
