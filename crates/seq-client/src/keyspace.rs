//! Calls for the numbers of keys. A call is sent to the owner of its key's bucket, as far as the owner is known, and a
//! batch to the owner of its first key. Any other node forwards calls to the owners. Deadlines and retries are the same
//! as those of calls for ids.

use std::sync::Arc;
use std::time::Duration;

use seq_channel::CallerChannel;
use seq_core::SectionId;
use seq_core::keyspace::Bucket;
use seq_core::layout::SectionRun;
use seq_core::limits::{MAX_COUNT, MAX_ITEMS, MAX_KEY_BYTES};
use seq_core::series::Series;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::{Reason, v1};
use tonic::{Code, Request, Response, Status};

use crate::allocation::{Allocation, Current, lost};
use crate::attempts::{Attempts, BucketTarget, is_outcome_unknown};
use crate::client::Client;
use crate::directory::sections::SetIndex;
use crate::discovery;
use crate::error::{CallError, Refused};
use crate::series::refusal;

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
/// # Cancel safety
/// Dropping the future of a call abandons the call. The call may have consumed numbers.
#[derive(Clone, Debug)]
pub struct Keyspace {
    client: Client,
    /// The set that was the first to send the routes of the keyspace's cluster.
    home: SetIndex,
    name: Arc<str>,
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

    /// Returns the names of all keyspaces in the newest routes, in the order in which they were created, except the
    /// keyspace of uids, for which the calls for uids are made. Sends no request.
    #[must_use]
    pub fn known_keyspaces(&self) -> Vec<String> {
        let directory = self.shared().routes.load();
        let has_keys = |known: &Series| known.lanes.keys.is_some_and(|keys| !keys.has_uids());
        let keyspaces = directory.series().filter(|(_, known)| has_keys(&known.record));
        keyspaces.map(|(_, known)| known.record.name.clone()).collect()
    }

    fn known_keyspace(&self, name: &str) -> Option<Keyspace> {
        let directory = self.shared().routes.load();
        let is_it = |known: &Series| known.name == name && known.is_keyspace();
        let (home, known) = directory.series().find(|(_, known)| is_it(&known.record))?;
        let (name, buckets) = (known.record.name.as_str().into(), known.record.sections);
        Some(Keyspace { client: self.clone(), home, name, buckets })
    }
}

impl Keyspace {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
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
        let (raw_key, keyspace) = (checked(key.as_ref())?, self.name.to_string());
        let bucket = self.bucket(&raw_key);
        let request = v1::NextKeyRequest { keyspace, raw_key, count, ..v1::NextKeyRequest::default() };
        let mut attempts = self.client.attempts();
        let (response, addr) = self.call(&mut attempts, bucket, request).await?;
        let v1::NextResponse { value, prev, epoch, lost, .. } = response;
        let allocation = Allocation::checked(value, prev, epoch, count, &addr)?;
        Ok(Allocation { lost: lost.unwrap_or(0).saturating_add(attempts.lost()), ..allocation })
    }

    /// Takes the next number of each of several keys, of which there are up to 10,000. Each item succeeds or is refused
    /// independently, and a refused item is not repeated. A key that occurs twice gets numbers twice, in that order.
    ///
    /// # Errors
    /// [`CallError`] if the request failed as a whole.
    pub async fn next_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        self.next_many_n(keys, 1).await
    }

    /// Takes the next `count` numbers of each of several keys, as [`Keyspace::next_many`] takes one.
    ///
    /// # Errors
    /// As [`Keyspace::next_many`].
    pub async fn next_many_n<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        count: u32,
    ) -> Result<Vec<Result<Allocation, CallError>>, CallError> {
        check_count(count)?;
        let Some(raw_keys) = batch(keys)? else { return Ok(Vec::new()) };
        let request = v1::NextKeysRequest {
            keyspace: self.name.to_string(),
            counts: if count == 1 { Vec::new() } else { vec![count; keys.len()] },
            raw_keys,
            ..v1::NextKeysRequest::default()
        };
        let (bucket, mut attempts) = (self.bucket(&request.raw_keys[0]), self.client.attempts());
        let (response, addr) = self.call(&mut attempts, bucket, request).await?;
        let v1::NextManyResponse { values, prevs, epochs, errors, lost: lost_items, .. } = response;
        if [values.len(), prevs.len(), epochs.len()] != [keys.len(); 3] {
            return Err(bad_lists(&addr));
        }
        let lists = values.into_iter().zip(prevs).zip(epochs);
        let mut results: Vec<_> = lists
            .map(|((value, prev), epoch)| {
                let allocation = Allocation::checked(value, prev, epoch, count, &addr)?;
                Ok(Allocation { lost: attempts.lost(), ..allocation })
            })
            .collect();
        for (index, more) in lost(lost_items.as_ref()) {
            if let Some(Ok(allocation)) = results.get_mut(index) {
                allocation.lost = allocation.lost.saturating_add(more);
            }
        }
        put_errors(&mut results, errors, &attempts, &addr)?;
        Ok(results)
    }

    /// Reads the last number of a key. Changes nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn current(&self, key: impl AsRef<[u8]>) -> Result<Current, CallError> {
        let (raw_key, keyspace) = (checked(key.as_ref())?, self.name.to_string());
        let bucket = self.bucket(&raw_key);
        let request = v1::CurrentKeyRequest { keyspace, raw_key, ..v1::CurrentKeyRequest::default() };
        let (response, addr) = self.call(&mut self.client.attempts(), bucket, request).await?;
        Current::checked(response.value, response.exactness, response.epoch, &addr)
    }

    /// Reads the last numbers of several keys, of which there are up to 10,000. Changes nothing.
    ///
    /// # Errors
    /// As [`Keyspace::next_many`].
    pub async fn current_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Result<Current, CallError>>, CallError> {
        let Some(raw_keys) = batch(keys)? else { return Ok(Vec::new()) };
        let keyspace = self.name.to_string();
        let request = v1::CurrentKeysRequest { keyspace, raw_keys, ..v1::CurrentKeysRequest::default() };
        let (bucket, mut attempts) = (self.bucket(&request.raw_keys[0]), self.client.attempts());
        let (response, addr) = self.call(&mut attempts, bucket, request).await?;
        let v1::CurrentManyResponse { values, exactness, epochs, errors, .. } = response;
        if [values.len(), exactness.len(), epochs.len()] != [keys.len(); 3] {
            return Err(bad_lists(&addr));
        }
        let lists = values.into_iter().zip(exactness).zip(epochs);
        let mut results: Vec<_> =
            lists.map(|((value, exactness), epoch)| Current::checked(value, exactness, epoch, &addr)).collect();
        put_errors(&mut results, errors, &attempts, &addr)?;
        Ok(results)
    }

    /// Raises a key to a number, so that its next number is greater than `to`. This is used to import counters. It is
    /// idempotent. Returns the epoch of the ownership that applied the advance, 1 or above.
    ///
    /// # Errors
    /// [`CallError`]. `ALREADY_PAST` means that the last number of the key is greater than `to`, or may be; see
    /// [`Client::advance`].
    pub async fn advance(&self, key: impl AsRef<[u8]>, to: u64) -> Result<u64, CallError> {
        let (raw_key, keyspace) = (checked(key.as_ref())?, self.name.to_string());
        let bucket = self.bucket(&raw_key);
        let request = v1::AdvanceKeyRequest { keyspace, raw_key, to: Some(to), ..v1::AdvanceKeyRequest::default() };
        let (response, _) = self.call(&mut self.client.attempts(), bucket, request).await?;
        Ok(response.epoch)
    }

    /// Returns the bucket of a key.
    fn bucket(&self, key: &[u8]) -> SectionId {
        SectionId(self.buckets.first.0 + u32::from(Bucket::of(key).index()))
    }

    /// Sends a request to the owner of a bucket, and then to one node of the cluster after another, until a node
    /// responds. Returns the response and the address of the node that responded.
    async fn call<M: KeyRequest>(
        &self,
        attempts: &mut Attempts<'_>,
        bucket: SectionId,
        message: M,
    ) -> Result<(M::Response, Arc<str>), CallError> {
        loop {
            let BucketTarget { addr, client, route_version, epoch } = attempts.bucket_target(self.home, bucket)?;
            let request = attempts.request(message.clone().routed(route_version, epoch));
            match attempts.attempt(M::send(client, request)).await {
                Ok(response) => {
                    attempts.adopt(M::routes(&response), &addr);
                    return Ok((response, addr));
                }
                Err(failed) => attempts.prepare_retry(None, &addr, failed).await?,
            }
        }
    }
}

/// A request for keys.
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

/// Implements [`KeyRequest`] for a message of one key, whose field `epoch` is set, or for a message of several keys, of
/// which no epoch is stated.
macro_rules! key_request {
    ($request:ident, $response:ident, $method:ident $(, $epoch:ident)?) => {
        impl KeyRequest for v1::$request {
            type Response = v1::$response;

            fn routed(self, route_version: Option<u64>, _epoch: u64) -> Self {
                v1::$request { route_version, $($epoch: _epoch,)? ..self }
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

key_request!(NextKeyRequest, NextResponse, next, epoch);
key_request!(NextKeysRequest, NextManyResponse, next_many);
key_request!(CurrentKeyRequest, CurrentResponse, current, epoch);
key_request!(CurrentKeysRequest, CurrentManyResponse, current_many);
key_request!(AdvanceKeyRequest, AdvanceResponse, advance, epoch);

fn check_count(count: u32) -> Result<(), CallError> {
    if (1..=MAX_COUNT).contains(&count) { Ok(()) } else { Err(CallError::CountOutOfRange { uid: None, count }) }
}

/// Returns the bytes of a key.
///
/// # Errors
/// The refusal `KEY_SIZE`.
fn checked(key: &[u8]) -> Result<Vec<u8>, CallError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Ok(key.to_vec());
    }
    let text = format!("the key has {} bytes: a key has 1 to {MAX_KEY_BYTES}", key.len());
    Err(refusal(Reason::KeySize.name(), Reason::KeySize.code(), text))
}

/// Returns the bytes of the keys of a batch; `None` if there are none.
///
/// # Errors
/// The refusals `KEY_SIZE` and `BATCH_TOO_LARGE`.
fn batch<K: AsRef<[u8]>>(keys: &[K]) -> Result<Option<Vec<Vec<u8>>>, CallError> {
    if keys.len() > MAX_ITEMS {
        let text = format!("{} keys are more than the {MAX_ITEMS} a request may carry", keys.len());
        return Err(refusal(Reason::BatchTooLarge.name(), Reason::BatchTooLarge.code(), text));
    }
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| checked(key.as_ref())).collect::<Result<_, _>>()?;
    Ok(Some(keys).filter(|keys| !keys.is_empty()))
}

fn bad_lists(addr: &Arc<str>) -> CallError {
    CallError::BadAnswer { addr: addr.clone(), what: "lists of another length than the request" }
}

/// Puts the refusals of items in the places of their results.
fn put_errors<T>(
    results: &mut [Result<T, CallError>],
    errors: Vec<v1::ItemError>,
    attempts: &Attempts<'_>,
    addr: &Arc<str>,
) -> Result<(), CallError> {
    for v1::ItemError { index, code, reason, message, retry_after_ms, .. } in errors {
        let result = results.get_mut(index as usize).ok_or_else(|| bad_lists(addr))?;
        *result = Err(CallError::Refused(Box::new(Refused {
            uid: None,
            code: Code::from(i32::try_from(code).unwrap_or_default()),
            may_have_applied: attempts.lost() > 0 || is_outcome_unknown(&reason),
            reason,
            message,
            bound: None,
            retry_after: (retry_after_ms > 0).then(|| Duration::from_millis(retry_after_ms.into())),
            attempts: 1,
        })));
    }
    Ok(())
}
