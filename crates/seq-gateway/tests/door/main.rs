//! The gRPC door before a frontend that counts in a map, asked by a real client.

mod bad_input;
mod raw;
mod serving;
mod stream;
mod twin;
