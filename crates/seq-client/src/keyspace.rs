//! Calls for the numbers of keys. A call is sent to the owner of its key's bucket, as far as the owner is known, and a
//! batch in one part to each owner. Any other node forwards calls to the owners. Deadlines and retries are the same as
//! those of calls for uids.

use std::sync::Arc;

use seq_channel::CallerChannel;
use seq_core::SectionId;
use seq_core::keyspace::{Bucket, Hashing};
use seq_core::layout::SectionRun;
use seq_core::limits::{MAX_COUNT, MAX_KEY_BYTES};
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::{Reason, v1};
use tonic::{Request, Response, Status};

use crate::allocation::{Allocation, Current};
use crate::attempts::Attempts;
use crate::batch_call::BatchMethod;
use crate::client::{BatchResult, Client};
use crate::cluster_view::SectionView;
use crate::directory::sections::SetIndex;
use crate::discovery;
use crate::error::CallError;
use crate::node_client;
use crate::place::Place;
use crate::series::refusal;
use crate::stream_call;

mod batch;

use batch::{CurrentKeys, NextKeys, PlacedKey};

/// The client of the node to which an attempt is sent.
type Node = KeyServiceClient<CallerChannel>;

/// A keyspace: counters of keys, which are any bytes. Clones share the connections of the client that opened it.
///
/// ```no_run
/// # async fn example(client: seq_client::Client) -> Result<(), seq_client::CallError> {
/// let conversations = client.keyspace("main").await?;
/// let message = conversations.next("conv:8f3a").await?;
/// println!("{} after {}", message.value, message.prev);
/// # Ok(())
/// # }
/// ```
///
/// # Retries
/// Any node serves a call, and a call is sent to the owner of its key first. A failed attempt is repeated in the same
/// way as by [`Client`]. If a response is lost, the numbers in it are skipped and never allocated again.
///
/// # Concurrency
/// Concurrent calls of [`Keyspace::next`] and [`Keyspace::next_n`] share the messages of one stream to each node, as
/// those of [`Client::next`] do.
///
/// # Cancel safety
/// Dropping the future of a call abandons the call. The call may have consumed numbers.
#[derive(Clone, Debug)]
pub struct Keyspace {
    client: Client,
    /// The set that was the first to send the routes of the keyspace's cluster.
    home: SetIndex,
    name: Arc<str>,
    hashing: Hashing,
    /// Sections of the buckets.
    buckets: SectionRun,
}

impl Client {
    /// Returns the keyspace with the name `name`. Sends a request only if the client does not know the keyspace yet.
    ///
    /// # Errors
    /// [`CallError::Refused`] with `UNKNOWN_KEYSPACE` if the seeds do not know a keyspace of this name. They know a new
    /// keyspace within a second of its creation.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn keyspace(&self, name: &str) -> Result<Keyspace, CallError> {
        if let Some(known) = self.known_keyspace(name) {
            return Ok(known);
        }
        discovery::refresh(self.shared(), self.attempts().deadline()).await;
        self.known_keyspace(name).ok_or_else(|| {
            let text = format!("no keyspace is named {name:?}: `seqsvr keyspace list` lists them");
            let reason = Reason::UnknownKeyspace;
            refusal(reason.name(), reason.code(), text)
        })
    }

    /// Returns the names of all keyspaces in the newest routes, in the order in which they were created. Sends no
    /// request.
    #[must_use]
    pub fn known_keyspaces(&self) -> Vec<String> {
        let directory = self.shared().routes.load();
        let keyspaces = directory.series().filter(|(_, known)| known.record.is_keyspace());
        keyspaces.map(|(_, known)| known.record.name.clone()).collect()
    }

    /// Returns the keyspace with the name `name`; `None` if the newest routes do not have it. Sends no request.
    #[must_use]
    pub fn known_keyspace(&self, name: &str) -> Option<Keyspace> {
        let directory = self.shared().routes.load();
        let is_it = |known: &seq_core::series::Series| known.name == name && known.is_keyspace();
        let (home, known) = directory.series().find(|(_, known)| is_it(&known.record))?;
        let (name, hashing) = (known.record.name.as_str().into(), known.record.lanes.keys?);
        Some(Keyspace { client: self.clone(), home, name, hashing, buckets: known.record.sections })
    }
}

impl Keyspace {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hashing of the keys, which has a digest of the seed and not the seed. Proxies use it.
    #[must_use]
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns the sections of the buckets. Proxies use them.
    #[must_use]
    pub fn buckets(&self) -> SectionRun {
        self.buckets
    }

    /// Returns the section of a key's bucket, with its owner according to the newest routes.
    #[must_use]
    pub fn section_of(&self, key: &[u8]) -> SectionView {
        let section = self.bucket(key);
        let directory = self.client.shared().routes.load();
        SectionView { section, owner: directory.bucket(self.home, section).and_then(|route| route.owner) }
    }

    /// Takes the next number of a key.
    ///
    /// # Errors
    /// [`CallError`]. If [`CallError::may_have_applied`] returns `true`, a number may have been consumed, which is then
    /// skipped.
    pub async fn next(&self, key: impl AsRef<[u8]>) -> Result<Allocation, CallError> {
        self.next_n(key, 1).await
    }

    /// Takes the next `count` numbers of a key. `count` is in `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// As [`Keyspace::next`].
    pub async fn next_n(&self, key: impl AsRef<[u8]>, count: u32) -> Result<Allocation, CallError> {
        check_count(count)?;
        let (raw_key, keyspace) = (checked(key.as_ref())?.to_vec(), self.name.to_string());
        let place = self.place(&raw_key);
        let mut attempts = self.client.attempts();
        if let Some(allocation) = stream_call::next_key(&mut attempts, &self.name, (place, &raw_key), count).await? {
            return Ok(allocation);
        }
        let request = v1::NextKeyRequest { keyspace, raw_key, count, ..v1::NextKeyRequest::default() };
        let (response, addr) = self.call(&mut attempts, place, request).await?;
        let v1::NextResponse { value, prev, epoch, lost, .. } = response;
        let allocation = Allocation::checked(value, prev, epoch, count, &addr)?;
        Ok(Allocation { lost: lost.unwrap_or(0).saturating_add(attempts.lost()), ..allocation })
    }

    /// Takes the next number of each of several keys. Sends one request to each node that owns buckets of these keys. A
    /// key that occurs twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had
    /// to be retried. The number of keys is not limited: the keys of one owner are sent in requests of up to 10,000
    /// keys and 128 KiB, one after another.
    ///
    /// # Errors
    /// As [`Client::next_many`]. A key of another size than 1 to 512 bytes refuses its own item, with the reason
    /// `KEY_SIZE`.
    ///
    /// # Cancel safety
    /// Dropping the future may consume numbers of any of the keys.
    pub async fn next_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> BatchResult<Allocation> {
        self.next_many_n(keys, 1).await
    }

    /// Takes the next `count` numbers of each of several keys, as [`Keyspace::next_many`] takes one. `count` is in
    /// `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// As [`Keyspace::next_many`], and [`CallError::CountOutOfRange`].
    pub async fn next_many_n<K: AsRef<[u8]>>(&self, keys: &[K], count: u32) -> BatchResult<Allocation> {
        check_count(count)?;
        let counts = if count == 1 { Vec::new() } else { vec![count; keys.len()] };
        self.batch(&NextKeys(&self.name), keys.iter().map(AsRef::as_ref), &counts).await
    }

    /// Takes the next `count` numbers for each pair `(key, count)`, otherwise as [`Keyspace::next_many`]. Each count is
    /// in `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// As [`Keyspace::next_many`], and [`CallError::CountOutOfRange`] if a count is out of range.
    pub async fn next_each<K: AsRef<[u8]>>(&self, items: &[(K, u32)]) -> BatchResult<Allocation> {
        items.iter().try_for_each(|(_, count)| check_count(*count))?;
        let counts: Vec<u32> = items.iter().map(|(_, count)| *count).collect();
        self.batch(&NextKeys(&self.name), items.iter().map(|(key, _)| key.as_ref()), &counts).await
    }

    /// Reads the last number of a key. Changes nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn current(&self, key: impl AsRef<[u8]>) -> Result<Current, CallError> {
        let (raw_key, keyspace) = (checked(key.as_ref())?.to_vec(), self.name.to_string());
        let place = self.place(&raw_key);
        let request = v1::CurrentKeyRequest { keyspace, raw_key, ..v1::CurrentKeyRequest::default() };
        let (response, addr) = self.call(&mut self.client.attempts(), place, request).await?;
        Current::checked(response.value, response.exactness, response.epoch, &addr)
    }

    /// Reads the last number of each of several keys. Sends one request to each node that owns buckets of these keys.
    /// Changes no counter.
    ///
    /// # Errors
    /// As [`Keyspace::next_many`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn current_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> BatchResult<Current> {
        self.batch(&CurrentKeys(&self.name), keys.iter().map(AsRef::as_ref), &[]).await
    }

    /// Raises a key to a number, so that its next number is greater than `to`. This is used to import counters. It is
    /// idempotent. Returns the epoch of the ownership that applied the advance, 1 or above.
    ///
    /// # Errors
    /// [`CallError`]. `ALREADY_PAST` means that the last number of the key is greater than `to`, or may be; see
    /// [`Client::advance`].
    pub async fn advance(&self, key: impl AsRef<[u8]>, to: u64) -> Result<u64, CallError> {
        let (raw_key, keyspace) = (checked(key.as_ref())?.to_vec(), self.name.to_string());
        let place = self.place(&raw_key);
        let request = v1::AdvanceKeyRequest { keyspace, raw_key, to: Some(to), ..v1::AdvanceKeyRequest::default() };
        let (response, _) = self.call(&mut self.client.attempts(), place, request).await?;
        Ok(response.epoch)
    }

    /// Returns the place of a key.
    fn place(&self, key: &[u8]) -> Place {
        Place::Bucket { home: self.home, section: self.bucket(key) }
    }

    fn bucket(&self, key: &[u8]) -> SectionId {
        SectionId(self.buckets.first.0 + u32::from(Bucket::of(key).index()))
    }

    /// Makes a batch call with the keys of a valid size, and returns the results of all keys. `counts` has a count for
    /// each key; empty if it is 1 for every key.
    async fn batch<'a, A: BatchMethod<Item = PlacedKey<'a>>>(
        &self,
        method: &A,
        keys: impl Iterator<Item = &'a [u8]>,
        counts: &[u32],
    ) -> BatchResult<A::Answer> {
        let item = |key| Ok(PlacedKey { key: checked(key)?, place: self.place(key) });
        let items: Vec<Result<PlacedKey<'a>, CallError>> = keys.map(item).collect();
        let sent: Vec<PlacedKey<'a>> = items.iter().filter_map(|item| item.as_ref().ok().copied()).collect();
        let of_sent = items.iter().zip(counts).filter(|(item, _)| item.is_ok());
        let counts: Vec<u32> = of_sent.map(|(_, count)| *count).collect();
        let results = self.client.batch(method, &sent, &counts).await?;
        if sent.len() == items.len() {
            return Ok(results);
        }
        let mut results = results.into_iter();
        let result = |item: Result<_, _>| item.and_then(|_| results.next().expect("a result for each item sent"));
        Ok(items.into_iter().map(result).collect())
    }

    /// Sends a request to the owner of the bucket at a place, and then to one node after another, until a node
    /// responds. Returns the response and the address of the node that responded.
    async fn call<M: KeyRequest>(
        &self,
        attempts: &mut Attempts<'_>,
        place: Place,
        message: M,
    ) -> Result<(M::Response, Arc<str>), CallError> {
        loop {
            let target = attempts.target(place)?;
            let request = attempts.request(message.clone().routed(target.route_version, target.epoch));
            match attempts.attempt(M::send(node_client::of_keys(&target.channel), request)).await {
                Ok(response) => {
                    attempts.adopt(M::routes(&response), &target.addr);
                    return Ok((response, target.addr));
                }
                Err(failed) => attempts.prepare_retry(Some(place), &target.addr, failed).await?,
            }
        }
    }
}

/// A request for one key.
trait KeyRequest: Clone {
    type Response;

    /// Returns the request with the version of the client's routes and the newest known epoch of its bucket.
    fn routed(self, route_version: Option<u64>, epoch: u64) -> Self;

    fn send(
        node: Node,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;

    fn routes(response: &Self::Response) -> Option<&v1::Routes>;
}

/// Implements [`KeyRequest`] for a message of one key.
macro_rules! key_request {
    ($request:ident, $response:ident, $method:ident) => {
        impl KeyRequest for v1::$request {
            type Response = v1::$response;

            fn routed(self, route_version: Option<u64>, epoch: u64) -> Self {
                v1::$request { route_version, epoch, ..self }
            }

            async fn send(mut node: Node, request: Request<Self>) -> Result<Response<Self::Response>, Status> {
                node.$method(request).await
            }

            fn routes(response: &Self::Response) -> Option<&v1::Routes> {
                response.routes.as_ref()
            }
        }
    };
}

key_request!(NextKeyRequest, NextResponse, next);
key_request!(CurrentKeyRequest, CurrentResponse, current);
key_request!(AdvanceKeyRequest, AdvanceResponse, advance);

fn check_count(count: u32) -> Result<(), CallError> {
    if (1..=MAX_COUNT).contains(&count) { Ok(()) } else { Err(CallError::CountOutOfRange { uid: None, count }) }
}

/// Checks the size of a key.
///
/// # Errors
/// The refusal `KEY_SIZE`.
fn checked(key: &[u8]) -> Result<&[u8], CallError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Ok(key);
    }
    let text = format!("the key has {} bytes: a key has 1 to {MAX_KEY_BYTES}", key.len());
    Err(refusal(Reason::KeySize.name(), Reason::KeySize.code(), text))
}
