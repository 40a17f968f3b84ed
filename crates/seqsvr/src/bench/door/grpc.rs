//! Unary gRPC calls, for one uid or for many.

use std::time::Duration;

use futures::future::join_all;
use seq_core::Seq;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::{Ways, failed, refused_item};
use crate::traffic::Answer;

pub(crate) struct Lane {
    client: SequenceServiceClient<Channel>,
    deadline: Duration,
    batch: usize,
}

impl Lane {
    pub(super) fn new(channel: Channel, ways: &Ways) -> Lane {
        Lane { client: SequenceServiceClient::new(channel), deadline: ways.deadline, batch: ways.batch }
    }

    async fn one(&self, uid: u64) -> Answer {
        let call = v1::NextRequest { uid, count: 1, route_version: None, epoch: 0, hops: 0 };
        let given = self.client.clone().next(self.request(call)).await;
        given.map_or_else(
            |status| failed(&status),
            |given| {
                let v1::NextResponse { value, prev, lost, .. } = given.into_inner();
                Answer::Given { value: Seq(value), prev: Seq(prev), lost: lost.unwrap_or(0) }
            },
        )
    }

    async fn many(&self, uids: &[u64]) -> Vec<Answer> {
        let call = v1::NextManyRequest { uids: uids.to_vec(), ..v1::NextManyRequest::default() };
        let answer = self.client.clone().next_many(self.request(call)).await;
        let mut answers = Vec::with_capacity(uids.len());
        listed(answer.map(tonic::Response::into_inner), uids.len(), &mut answers);
        answers
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.deadline);
        request
    }
}

impl super::Lane for Lane {
    async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>) {
        match uids {
            [uid] => answers.push(self.one(*uid).await),
            uids if self.batch == 1 => answers.extend(join_all(uids.iter().map(|uid| self.one(*uid))).await),
            uids if self.batch == uids.len() => answers.extend(self.many(uids).await),
            uids => {
                let calls = uids.chunks(self.batch).map(|uids| self.many(uids));
                answers.extend(join_all(calls).await.into_iter().flatten());
            }
        }
    }
}

/// The answers of a batch, one for each of its items.
pub(super) fn listed(answer: Result<v1::NextManyResponse, Status>, items: usize, answers: &mut Vec<Answer>) {
    let answer = answer.and_then(|answer| {
        let fits = answer.values.len() == items && answer.prevs.len() == items;
        if fits { Ok(answer) } else { Err(Status::unknown("lists of other lengths than the request's")) }
    });
    match answer {
        Ok(answer) => {
            let first = answers.len();
            let given = answer.values.iter().zip(&answer.prevs);
            answers.extend(given.map(|(value, prev)| Answer::Given { value: Seq(*value), prev: Seq(*prev), lost: 0 }));
            let lost = answer.lost.unwrap_or_default();
            for (index, attempts) in lost.indexes.into_iter().zip(lost.attempts) {
                if let Some(Answer::Given { lost, .. }) = answers[first..].get_mut(index as usize) {
                    *lost = attempts;
                }
            }
            for error in &answer.errors {
                if let Some(answer) = answers[first..].get_mut(error.index as usize) {
                    *answer = refused_item(error);
                }
            }
        }
        Err(status) => answers.extend(std::iter::repeat_n(failed(&status), items)),
    }
}
