//! The service of keys of a fake server.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use seq_core::keyspace::{Bucket, KeyHash, Seed};
use seq_core::layout::SectionRun;
use seq_core::limits::MAX_KEY_BYTES;
use seq_core::{Epoch, Refusal, SectionId};
use seq_proto::v1::key_service_server::KeyService;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::{Reason, convert, status, v1};
use tonic::{Request, Response, Status, Streaming};

use super::service::{Corruption, MAX_HELD, Seen, Service, exactness, has_deadline, refusal, refuse_waits};

/// A keyspace of the fake cluster.
struct Keyspace {
    seed: Seed,
    buckets: SectionRun,
}

/// Reason why an item for a key is refused.
enum KeyRefusal {
    Size(usize),
    Numbers(Refusal),
}

impl From<Refusal> for KeyRefusal {
    fn from(refusal: Refusal) -> KeyRefusal {
        KeyRefusal::Numbers(refusal)
    }
}

impl KeyRefusal {
    fn size_text(bytes: usize) -> String {
        format!("the key has {bytes} bytes: a key has 1 to {MAX_KEY_BYTES}")
    }

    fn status(self) -> Status {
        match self {
            KeyRefusal::Size(bytes) => Reason::KeySize.status(KeyRefusal::size_text(bytes)),
            KeyRefusal::Numbers(refusal) => status::to_status(&refusal),
        }
    }

    fn item(self, index: u32) -> v1::ItemError {
        match self {
            KeyRefusal::Size(bytes) => Reason::KeySize.item(index, KeyRefusal::size_text(bytes)),
            KeyRefusal::Numbers(refusal) => status::to_item(index, &refusal),
        }
    }
}

impl Keyspace {
    fn locate(&self, key: &[u8]) -> Result<(SectionId, KeyHash), KeyRefusal> {
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            return Err(KeyRefusal::Size(key.len()));
        }
        let section = SectionId(self.buckets.first.0 + u32::from(Bucket::of(key).index()));
        Ok((section, self.seed.hash(key)))
    }
}

/// Returns the keys of a request, which states them as texts or as bytes.
fn keys(texts: Vec<String>, raw: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if raw.is_empty() { texts.into_iter().map(String::into_bytes).collect() } else { raw }
}

impl Service {
    fn find_keyspace(&self, name: &str) -> Result<Keyspace, Status> {
        let series = self.world.series();
        let found = series.iter().find(|series| series.name == name && series.is_keyspace());
        let keyspace = found
            .and_then(|series| Some(Keyspace { seed: series.lanes.keys.as_ref()?.seed()?, buckets: series.sections }));
        keyspace.ok_or_else(|| Reason::UnknownKeyspace.status(format!("no keyspace is named {name:?}")))
    }

    /// Records a request for keys, then injects the configured faults.
    async fn admit_keys(
        &self,
        method: &'static str,
        keys: &[Vec<u8>],
        epochs: &[u64],
        route_version: Option<u64>,
        has_deadline: bool,
    ) -> Result<(), Status> {
        let (keys, epochs) = (keys.to_vec(), epochs.to_vec());
        self.node.record(Seen { method, uids: Vec::new(), keys, epochs, route_version, has_deadline }).await
    }

    async fn next_keys_response(
        &self,
        request: v1::NextKeysRequest,
        has_deadline: bool,
        method: &'static str,
    ) -> Result<v1::NextManyResponse, Status> {
        let v1::NextKeysRequest { keyspace, keys: texts, raw_keys, counts, route_version, known_epochs } = request;
        let keys = keys(texts, raw_keys);
        self.admit_keys(method, &keys, &known_epochs, route_version, has_deadline).await?;
        let items = convert::items(keys.len(), &counts, &known_epochs);
        let items = items.map_err(|refusal| status::to_status(&refusal))?;
        let keyspace = self.find_keyspace(&keyspace)?;
        let mut response = v1::NextManyResponse { routes: self.routes(route_version), ..Default::default() };
        for ((key, (count, epoch)), index) in keys.iter().zip(items).zip(0..) {
            let next = || -> Result<_, KeyRefusal> {
                self.node.check_key(key)?;
                Ok(self.world.next_key(self.set, keyspace.locate(key)?, count?, epoch)?)
            };
            let (value, prev, epoch) = next().unwrap_or_else(|refusal| {
                response.errors.push(refusal.item(index));
                Default::default()
            });
            response.values.push(value.0);
            response.prevs.push(prev.0);
            response.epochs.push(epoch.0);
        }
        if self.node.corrupts(Corruption::Lists) {
            response.values.pop();
        }
        Ok(response)
    }
}

#[tonic::async_trait]
impl KeyService for Service {
    async fn next(&self, request: Request<v1::NextKeyRequest>) -> Result<Response<v1::NextResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::NextKeyRequest { keyspace, key, raw_key, count, route_version, epoch } = request.into_inner();
        let key = if raw_key.is_empty() { key.into_bytes() } else { raw_key };
        self.admit_keys("NextKey", std::slice::from_ref(&key), &[epoch], route_version, has_deadline).await?;
        let keyspace = self.find_keyspace(&keyspace)?;
        let next = || -> Result<_, KeyRefusal> {
            self.node.check_key(&key)?;
            Ok(self.world.next_key(self.set, keyspace.locate(&key)?, convert::count(count)?, Epoch(epoch))?)
        };
        let (value, prev, epoch) = next().map_err(KeyRefusal::status)?;
        let routes = self.routes(route_version);
        Ok(Response::new(v1::NextResponse { value: value.0, prev: prev.0, epoch: epoch.0, routes, lost: None }))
    }

    async fn next_many(&self, request: Request<v1::NextKeysRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        let has_deadline = has_deadline(&request);
        self.next_keys_response(request.into_inner(), has_deadline, "NextKeys").await.map(Response::new)
    }

    type NextStreamStream = Pin<Box<dyn Stream<Item = Result<v1::NextStreamResponse, Status>> + Send>>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextKeysMessage>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        if !self.node.has_streams() {
            return Err(Status::unimplemented(""));
        }
        let service = self.clone();
        let responses = request.into_inner().map(move |message| {
            let service = service.clone();
            async move {
                let v1::NextKeysMessage { tag, request, timeout_ms, now_only } = message?;
                let request = request.unwrap_or_default();
                let outcome = match service.next_keys_response(request, timeout_ms > 0, "NextKeyStream").await {
                    Ok(mut response) => {
                        if now_only {
                            refuse_waits(&mut response);
                        }
                        Outcome::Response(response)
                    }
                    Err(status) => Outcome::Refusal(refusal(&status)),
                };
                Ok(v1::NextStreamResponse { tag, outcome: Some(outcome) })
            }
        });
        Ok(Response::new(Box::pin(responses.buffer_unordered(MAX_HELD))))
    }

    async fn current(&self, request: Request<v1::CurrentKeyRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::CurrentKeyRequest { keyspace, key, raw_key, route_version, epoch } = request.into_inner();
        let key = if raw_key.is_empty() { key.into_bytes() } else { raw_key };
        self.admit_keys("CurrentKey", std::slice::from_ref(&key), &[epoch], route_version, has_deadline).await?;
        let keyspace = self.find_keyspace(&keyspace)?;
        let current = || -> Result<_, KeyRefusal> {
            self.node.check_key(&key)?;
            Ok(self.world.current_key(self.set, keyspace.locate(&key)?, Epoch(epoch))?)
        };
        let (reading, epoch) = current().map_err(KeyRefusal::status)?;
        let (routes, exactness) = (self.routes(route_version), exactness(reading.exact).into());
        Ok(Response::new(v1::CurrentResponse { value: reading.value.0, exactness, epoch: epoch.0, routes }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentKeysRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::CurrentKeysRequest { keyspace, keys: texts, raw_keys, route_version, known_epochs } =
            request.into_inner();
        let keys = keys(texts, raw_keys);
        self.admit_keys("CurrentKeys", &keys, &known_epochs, route_version, has_deadline).await?;
        let items = convert::items(keys.len(), &[], &known_epochs);
        let items = items.map_err(|refusal| status::to_status(&refusal))?;
        let keyspace = self.find_keyspace(&keyspace)?;
        let mut response = v1::CurrentManyResponse { routes: self.routes(route_version), ..Default::default() };
        for ((key, (_, epoch)), index) in keys.iter().zip(items).zip(0..) {
            let current = || -> Result<_, KeyRefusal> {
                self.node.check_key(key)?;
                Ok(self.world.current_key(self.set, keyspace.locate(key)?, epoch)?)
            };
            let (value, exactness, epoch) = match current() {
                Ok((reading, epoch)) => (reading.value.0, exactness(reading.exact), epoch.0),
                Err(refusal) => {
                    response.errors.push(refusal.item(index));
                    (0, v1::Exactness::Unspecified, 0)
                }
            };
            response.values.push(value);
            response.exactness.push(exactness.into());
            response.epochs.push(epoch);
        }
        Ok(Response::new(response))
    }

    async fn advance(&self, request: Request<v1::AdvanceKeyRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::AdvanceKeyRequest { keyspace, key, raw_key, to, route_version, epoch } = request.into_inner();
        let key = if raw_key.is_empty() { key.into_bytes() } else { raw_key };
        self.admit_keys("AdvanceKey", std::slice::from_ref(&key), &[epoch], route_version, has_deadline).await?;
        let keyspace = self.find_keyspace(&keyspace)?;
        let advance = || -> Result<_, KeyRefusal> {
            self.node.check_key(&key)?;
            Ok(self.world.advance_key(self.set, keyspace.locate(&key)?, convert::to(to, 0)?, Epoch(epoch))?)
        };
        let epoch = advance().map_err(KeyRefusal::status)?;
        Ok(Response::new(v1::AdvanceResponse { epoch: epoch.0, routes: self.routes(route_version) }))
    }
}
