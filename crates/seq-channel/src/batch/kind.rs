//! The kinds of streams whose messages calls share: those of uids, and those of the keys of one keyspace.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use futures::Stream;
use seq_core::limits::MAX_RESPONSE_BYTES;
use seq_proto::v1;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::{Status, Streaming};

use crate::bearer::CallerChannel;

/// A kind of stream.
pub trait Kind: Debug + Send + Sync + 'static {
    /// What an item names: a uid or a key.
    type Counter: Clone + Debug + Send + Sync + 'static;

    /// A message of the stream.
    type Message: Send + 'static;

    /// Returns the number of bytes of a key; 0 for a uid.
    fn key_bytes(counter: &Self::Counter) -> usize;

    /// Builds a message.
    fn message(&self, tag: u64, timeout_ms: u32, lists: Lists<Self::Counter>) -> Self::Message;

    /// Opens a stream.
    fn open(
        channel: CallerChannel,
        messages: impl Stream<Item = Self::Message> + Send + 'static,
    ) -> impl Future<Output = Result<Streaming<v1::NextStreamResponse>, Status>> + Send;
}

/// The fields of a message.
#[derive(Debug)]
pub struct Lists<C> {
    /// The uids or keys of the items.
    pub counters: Vec<C>,
    /// Counts of the items; empty while every count is 1.
    pub counts: Vec<u32>,
    /// Newest known epochs of the items' sections; empty if none is known.
    pub epochs: Vec<u64>,
    /// Largest number of hops of any call in the message. The number only shows whether a call was forwarded before,
    /// because the receiver does not forward any item of this message.
    pub hops: u32,
    /// The oldest version of any caller's routes. 0 requests the whole route table.
    pub route_version: Option<u64>,
}

/// `SequenceService.NextStream`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uids;

/// `KeyService.NextStream`, for the keyspace with this name.
#[derive(Clone, Debug)]
pub struct Keys(pub Arc<str>);

impl Kind for Uids {
    type Counter = u64;
    type Message = v1::NextStreamRequest;

    fn key_bytes(_: &u64) -> usize {
        0
    }

    fn message(&self, tag: u64, timeout_ms: u32, lists: Lists<u64>) -> v1::NextStreamRequest {
        let Lists { counters: uids, counts, epochs: known_epochs, hops, route_version } = lists;
        let request = v1::NextManyRequest { uids, counts, route_version, hops, known_epochs };
        v1::NextStreamRequest { tag, request: Some(request), timeout_ms, now_only: true }
    }

    async fn open(
        channel: CallerChannel,
        messages: impl Stream<Item = v1::NextStreamRequest> + Send + 'static,
    ) -> Result<Streaming<v1::NextStreamResponse>, Status> {
        let mut client = SequenceServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        client.next_stream(messages).await.map(tonic::Response::into_inner)
    }
}

impl Kind for Keys {
    type Counter = Vec<u8>;
    type Message = v1::NextKeysMessage;

    fn key_bytes(key: &Vec<u8>) -> usize {
        key.len()
    }

    fn message(&self, tag: u64, timeout_ms: u32, lists: Lists<Vec<u8>>) -> v1::NextKeysMessage {
        // Keys are forwarded as hashes, over another service, so a message of keys states no hops.
        let Lists { counters: raw_keys, counts, epochs: known_epochs, hops: _, route_version } = lists;
        let keyspace = self.0.to_string();
        let request = v1::NextKeysRequest { keyspace, keys: Vec::new(), raw_keys, counts, route_version, known_epochs };
        v1::NextKeysMessage { tag, request: Some(request), timeout_ms, now_only: true }
    }

    async fn open(
        channel: CallerChannel,
        messages: impl Stream<Item = v1::NextKeysMessage> + Send + 'static,
    ) -> Result<Streaming<v1::NextStreamResponse>, Status> {
        let mut client = KeyServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        client.next_stream(messages).await.map(tonic::Response::into_inner)
    }
}
