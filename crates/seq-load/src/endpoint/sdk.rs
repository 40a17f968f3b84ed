//! The SDK as a transport.

use futures::future::join_all;
use seq_client::Client;

use crate::outcome::reply;
use crate::reply::Reply;

pub(crate) struct Transport {
    client: Client,
    batch: usize,
}

impl Transport {
    pub(crate) fn new(client: Client, batch: usize) -> Transport {
        Transport { client, batch }
    }

    /// Sends one call for `uids`, and returns one reply for each uid. If the batch size is 1, calls [`Client::next`];
    /// otherwise calls [`Client::next_many`], even if `uids` has a single uid.
    async fn call(&self, uids: &[u64]) -> Vec<Reply> {
        match uids {
            [uid] if self.batch == 1 => vec![reply(self.client.next(*uid).await)],
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
            [uid] if self.batch == 1 => replies.push(reply(self.client.next(*uid).await)),
            uids if uids.len() <= self.batch => replies.extend(self.call(uids).await),
            uids => replies
                .extend(join_all(uids.chunks(self.batch).map(|uids| self.call(uids))).await.into_iter().flatten()),
        }
    }
}
