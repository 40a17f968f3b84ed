//! The SDK as a transport.

use futures::future::join_all;
use seq_client::Client;

use crate::traffic::Reply;
use crate::traffic::sdk::reply;

pub(crate) struct Transport {
    client: Client,
    batch: usize,
}

impl Transport {
    pub(super) fn new(client: Client, batch: usize) -> Transport {
        Transport { client, batch }
    }

    async fn call(&self, uids: &[u64]) -> Vec<Reply> {
        match uids {
            [uid] => vec![reply(self.client.next(*uid).await)],
            uids => match self.client.next_many(uids).await {
                Ok(results) => results.into_iter().map(reply).collect(),
                Err(error) => vec![reply(Err(error)); uids.len()],
            },
        }
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        match uids {
            [uid] => replies.push(reply(self.client.next(*uid).await)),
            uids => replies
                .extend(join_all(uids.chunks(self.batch).map(|uids| self.call(uids))).await.into_iter().flatten()),
        }
    }
}
