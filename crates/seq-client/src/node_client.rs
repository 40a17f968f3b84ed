//! Creates the gRPC clients for a node, with the size limits of this SDK.

use seq_channel::{CallerChannel, Pool, PoolError};
use seq_core::limits::MAX_RESPONSE_BYTES;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;

/// Returns the client for calls for numbers to the node at `addr`, over a connection of the pool.
pub(crate) fn of(pool: &Pool, addr: &str) -> Result<SequenceServiceClient<CallerChannel>, PoolError> {
    Ok(of_uids(&pool.get_for_caller(addr)?))
}

/// Returns the client for calls for numbers over a channel.
pub(crate) fn of_uids(channel: &CallerChannel) -> SequenceServiceClient<CallerChannel> {
    SequenceServiceClient::new(channel.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
}

/// Returns the client for calls for ids to the node at `addr`, over a connection of the pool.
pub(crate) fn of_ids(pool: &Pool, addr: &str) -> Result<IdServiceClient<CallerChannel>, PoolError> {
    Ok(IdServiceClient::new(pool.get_for_caller(addr)?).max_decoding_message_size(MAX_RESPONSE_BYTES))
}

/// Returns the client for calls for keys over a channel.
pub(crate) fn of_keys(channel: &CallerChannel) -> KeyServiceClient<CallerChannel> {
    KeyServiceClient::new(channel.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
}
