//! Codec for gRPC messages. Its buffers are about as large as the messages in them.
//!
//! The codec of the library tonic allocates 8 KiB for each request and 8 KiB for each response, even for small
//! messages. With thousands of requests in flight, these buffers would take much memory and much space in the CPU
//! caches.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, EncodeBuf};
use tonic_prost::{ProstCodec, ProstDecoder};

/// Initial size of a buffer, in bytes. A request for one number fits into it, and so does its response.
const BUFFER_BYTES: usize = 1 << 10;

/// Number of bytes of encoded messages of a stream that are sent together. It is the default of the library tonic.
const STREAM_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, STREAM_BYTES)
}

/// Codec that encodes messages of type `T` and decodes messages of type `U`.
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

/// Encoder that enlarges the buffer by exactly the length of a message if the message does not fit.
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
