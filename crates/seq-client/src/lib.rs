//! The Rust client of the sequence service. It routes requests to owners, and retries them within a deadline and a
//! retry budget.
//!
//! A [`Client`] fetches the routes, which map uids to owners, from its seed nodes. It sends each request to the owner
//! of the request's uid, and adopts newer routes from the responses. Sections can migrate between the sets of a
//! cluster. The routes of each set name all sets of its cluster, so a client that has a seed in one set can reach all
//! of them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use seq_client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7100").await?;
//!
//! // The next number of user 42, and the number before it.
//! let next = client.next(42).await?;
//! println!("{} after {}", next.value, next.prev);
//!
//! // A message to a group: one number for each member, each with a result of its own.
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
//! Over TLS a client presents a certificate of the cluster, issued by `seqsvr cert issue client/NAME`:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use seq_client::{Client, Credentials, Files};
//!
//! let credentials = Credentials::load(Files::in_dir("certs".as_ref(), "client/backend"))?;
//! let client = Client::builder().seed("https://127.0.0.1:7400").tls(credentials.clone()).connect().await?;
//!
//! // After a rotation, new connections use the new certificate.
//! credentials.reload()?;
//! # Ok(())
//! # }
//! ```
//!
//! Ids of a series are unique in the cluster. They are used e.g. as message ids, order numbers, or ids that contain a
//! shard ([`Series`]). [`Segments`] fetches ids before they are needed. [`Tickets`] takes ids from counters in several
//! sets in rotation:
//!
//! ```no_run
//! # async fn example(client: seq_client::Client) -> Result<(), seq_client::CallError> {
//! let tweets = client.series("tweets").await?;
//! println!("{}", tweets.next().await?);
//! # Ok(())
//! # }
//! ```
//!
//! The feature `tls` is on by default; without it, the client has no library for TLS. The feature `serde` serializes
//! ids as strings. The feature `fake` adds `fake`, a server for tests.
//!
//! # Order of the modules
//! Each module uses only modules further up in this list:
//! * `budget`: the limit on retries. `directory`: the routes of all sets, each with its budget. `batch_plan`,
//!   `node_client`.
//! * `error`, then `allocation`: results.
//! * `shared`: the state of a client; `discovery`: routes from seeds and other sets.
//! * `attempts`: targets and retries of one call.
//! * `stream_call`, `batch_call`: the requests of a call. `ids`: results of calls for ids.
//! * `client`: the calls. `connect`: settings of a client, and connecting it. `cluster_view`: the client's routes, for
//!   proxies.
//! * `keyspace`: the calls for keys. `series`: the calls for ids. `segments`: ids that are fetched ahead. `tickets`:
//!   ids from several counters.
//!
//! **Architecture Invariant:** the client keeps no state for single uids. The servers guarantee order and uniqueness. A
//! client that fetched numbers before they are needed, or cached them, could break the order between two processes that
//! use the same uid.

mod allocation;
mod attempts;
mod batch_call;
mod batch_plan;
mod budget;
mod client;
mod cluster_view;
mod connect;
mod directory;
mod discovery;
mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod ids;
mod keyspace;
mod node_client;
mod segments;
mod series;
mod shared;
mod stream_call;
#[cfg(test)]
mod tests;
mod tickets;

pub use allocation::{Allocation, Current};
pub use client::{BatchResult, Client, DEADLINE};
pub use cluster_view::SectionView;
pub use connect::ClientBuilder;
pub use directory::RoutesError;
pub use error::{CallError, ConnectError, Refused, SetUnavailable, Unreachable};
pub use ids::{CurrentId, DecodedId, Ids};
pub use keyspace::Keyspace;
pub use segments::{Segments, SegmentsBuilder};
#[cfg(feature = "tls")]
pub use seq_auth::{Authorities, Credentials, CredentialsError, Files};
pub use seq_channel::{BadToken, Bearer, Dial};
pub use seq_ids::{CounterShape, Id, NotAnId, Shape, TimedShape};
pub use series::Series;
pub use tickets::Tickets;
pub use tonic::Code;
