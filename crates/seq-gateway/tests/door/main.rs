//! The gRPC port before a frontend that counts in a map, asked by a real client.

mod bad_input;
mod http;
mod json;
mod raw;
mod serving;
mod stream;
mod text;
mod twin;
