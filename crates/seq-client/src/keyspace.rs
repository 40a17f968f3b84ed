//! Calls for the numbers of keys. They can be sent to any node of the cluster, which forwards them to the owners of the
//! keys' buckets. Deadlines and retries are the same as those of calls for ids.

use std::sync::Arc;
use std::time::Duration;

use seq_channel::CallerChannel;
use seq_core::limits::{MAX_COUNT, MAX_ITEMS, MAX_KEY_BYTES};
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::{Reason, v1};
use tonic::{Code, Request, Response, Status};

use crate::allocation::{Allocation, Current, lost};
use crate::attempts::{Attempts, is_outcome_unknown};
use crate::client::Client;
use crate::directory::sections::SetIndex;
use crate::discovery;
use crate::error::{CallError, Refused};
use crate::node_client;
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
/// Any node serves a call. A failed attempt is repeated in the same way as by [`Client`]. If a response is lost, the
/// numbers in it are skipped and never allocated again.
///
/// # Cancel safety
/// Dropping the future of a call abandons the call. The call may have consumed numbers.
#[derive(Clone, Debug)]
pub struct Keyspace {
    client: Client,
    /// The set that was the first to send the routes of the keyspace's cluster.
    home: SetIndex,
    name: Arc<str>,
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

    fn known_keyspace(&self, name: &str) -> Option<Keyspace> {
        let directory = self.shared().routes.load();
        let is_it = |known: &seq_core::series::Series| known.name == name && known.is_keyspace();
        let (home, known) = directory.series().find(|(_, known)| is_it(&known.record))?;
        Some(Keyspace { client: self.clone(), home, name: known.record.name.as_str().into() })
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
        let request = v1::NextKeyRequest {
            keyspace: self.name.to_string(),
            raw_key: checked(key.as_ref())?,
            count,
            ..v1::NextKeyRequest::default()
        };
        let next = |mut node: Node, request| async move { node.next(request).await };
        let mut attempts = self.client.attempts();
        let (response, addr) = self.call(&mut attempts, request, next).await?;
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
        let next = |mut node: Node, request| async move { node.next_many(request).await };
        let mut attempts = self.client.attempts();
        let (response, addr) = self.call(&mut attempts, request, next).await?;
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
        let request = v1::CurrentKeyRequest {
            keyspace: self.name.to_string(),
            raw_key: checked(key.as_ref())?,
            ..v1::CurrentKeyRequest::default()
        };
        let current = |mut node: Node, request| async move { node.current(request).await };
        let (response, addr) = self.call(&mut self.client.attempts(), request, current).await?;
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
        let current = |mut node: Node, request| async move { node.current_many(request).await };
        let mut attempts = self.client.attempts();
        let (response, addr) = self.call(&mut attempts, request, current).await?;
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
        let request = v1::AdvanceKeyRequest {
            keyspace: self.name.to_string(),
            raw_key: checked(key.as_ref())?,
            to: Some(to),
            ..v1::AdvanceKeyRequest::default()
        };
        let advance = |mut node: Node, request| async move { node.advance(request).await };
        let (response, _) = self.call(&mut self.client.attempts(), request, advance).await?;
        Ok(response.epoch)
    }

    /// Sends a request to one node of the cluster after another until a node responds. Returns the response and the
    /// address of the node that responded.
    async fn call<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        attempts: &mut Attempts<'_>,
        message: M,
        send: impl Fn(Node, Request<M>) -> F,
    ) -> Result<(R, Arc<str>), CallError> {
        loop {
            let addr = attempts.any_node(self.home)?;
            let client = node_client::of_keys(&self.client.shared().pool, &addr)
                .map_err(|error| attempts.unreachable(addr.clone(), Status::unavailable(error.to_string())))?;
            let request = attempts.request(message.clone());
            match attempts.attempt(send(client, request)).await {
                Ok(response) => return Ok((response, addr)),
                Err(failed) => attempts.prepare_retry(None, &addr, failed).await?,
            }
        }
    }
}

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
