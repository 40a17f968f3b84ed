//! The Rust SDK: routes, deadlines, retries with a budget.
//!
//! A [`Client`] learns from its seeds which node owns which uid, asks the owner, and learns about changes from the answers.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use seq_client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7100").await?;
//!
//! // The next number of user 42, and the one before it.
//! let next = client.next(42).await?;
//! println!("{} after {}", next.value, next.prev);
//!
//! // A message to a group: one number for each member, each answered by itself.
//! let members = [7, 42, 1_001];
//! for (member, result) in members.iter().zip(client.next_many(&members).await?) {
//!     match result {
//!         Ok(next) => println!("{member}: {}", next.value),
//!         Err(error) => println!("{member}: {error}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`pool`] is the part that servers use among themselves. With the feature `fake` there is a server for tests, `fake`.
//!
//! **Architecture Invariant:** nothing is kept per uid. Order and uniqueness are the servers'; a client that prefetched or
//! remembered numbers could break the order between two processes that share a uid.

mod answer;
mod ask;
mod attempts;
mod batch;
mod budget;
mod client;
mod coalesce;
mod connect;
mod directory;
mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod pool;
#[cfg(test)]
mod tests;

pub use answer::{Allocation, Current};
pub use client::{BatchResult, Client};
pub use connect::{ClientBuilder, DEADLINE};
pub use error::{CallError, ConnectError, Refused, RoutesError, Unreachable};
pub use tonic::Code;
