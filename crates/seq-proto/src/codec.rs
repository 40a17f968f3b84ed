//! The encoding of gRPC messages, in buffers of about their size.
//!
//! The library's codec allocates 8 KiB for each request and as much for each response, even for small messages.
//! Thousands of requests in flight would each hold that much memory, and spread over the caches.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, EncodeBuf};
use tonic_prost::{ProstCodec, ProstDecoder};

/// Initial bytes of a buffer: requests for one number and their responses fit.
const BUFFER_BYTES: usize = 1 << 10;

/// Encoded messages of a stream that are sent together, in bytes: the library's default.
const STREAM_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, STREAM_BYTES)
}

/// Codec that encodes messages `T`, and decodes `U`.
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

/// Encoder that reserves exactly the length of a message, if the buffer has less space.
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
