//! Messages between members: client and server side, identity and validation of each message.

pub(crate) mod acknowledged;
mod append_stream;
pub(crate) mod client;
pub(crate) mod formats;
pub(crate) mod identity;
pub(crate) mod link;
pub(crate) mod server;
pub(crate) mod validation;
