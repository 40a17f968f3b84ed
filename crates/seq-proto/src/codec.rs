//! The encoding of gRPC messages, in buffers of about their size.
//!
//! The library's codec has 8 KiB for each request and as much for each response, however small they are: thousands of
//! requests under way would hold that much each, and spread over that much of the caches.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, EncodeBuf};
use tonic_prost::{ProstCodec, ProstDecoder};

/// Bytes that a buffer begins with: requests for one number and their responses fit.
const BUFFER_BYTES: usize = 1 << 10;

/// Encoded messages of a stream that are sent together, in bytes: the library's default.
const STREAM_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, STREAM_BYTES)
}

/// Encodes messages `T`, and decodes `U`.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Encoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Encoder<T> {
        Encoder(PhantomData)
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstCodec::<T, U>::raw_decoder(buffers())
    }
}

/// Encodes each message into space for exactly its length, where the buffer has less.
#[derive(Debug)]
pub struct Encoder<T>(PhantomData<T>);

impl<T: Message> tonic::codec::Encoder for Encoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message.encode_raw(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}
