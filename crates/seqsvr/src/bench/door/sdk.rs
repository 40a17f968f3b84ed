//! Through the SDK.

use futures::future::join_all;
use seq_client::Client;

use crate::traffic::Answer;
use crate::traffic::sdk::answer;

pub(crate) struct Lane {
    client: Client,
    batch: usize,
}

impl Lane {
    pub(super) fn new(client: Client, batch: usize) -> Lane {
        Lane { client, batch }
    }

    async fn call(&self, uids: &[u64]) -> Vec<Answer> {
        match uids {
            [uid] => vec![answer(self.client.next(*uid).await)],
            uids => match self.client.next_many(uids).await {
                Ok(results) => results.into_iter().map(answer).collect(),
                Err(error) => vec![answer(Err(error)); uids.len()],
            },
        }
    }
}

impl super::Lane for Lane {
    async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>) {
        match uids {
            [uid] => answers.push(answer(self.client.next(*uid).await)),
            uids => answers
                .extend(join_all(uids.chunks(self.batch).map(|uids| self.call(uids))).await.into_iter().flatten()),
        }
    }
}
