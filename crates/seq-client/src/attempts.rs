//! The attempts of one call under one deadline: the target of each, the backoff between them, and the error of the
//! last.
//!
//! Only a retryable refusal and a failed connection are retried. The backoff doubles, is jittered, and is never shorter
//! than the server requested. A call whose next backoff does not fit its deadline fails at once with the last error.

use std::sync::Arc;
use std::time::Duration;

use seq_channel::batch::NodeBatcher;
use seq_proto::reason::{Outcome, Reason};
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use crate::error::{CallError, Refused, Unreachable};
use crate::node_client;
use crate::shared::Shared;

/// The first backoff: longer than a node needs to adopt a route it was just sent.
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// The longest backoff unless a server requests a longer one: short against a change of owner.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    shared: &'a Shared,
    deadline: Instant,
    made: u32,
    /// Attempts with unknown outcome: they may have moved a counter.
    lost: u32,
    /// The address that failed last.
    excluded: Option<Arc<str>>,
}

/// The node of one attempt, and the route information that its request carries.
pub(crate) struct Target {
    pub(crate) addr: Arc<str>,
    pub(crate) client: SequenceServiceClient<Channel>,
    /// Version of the routes that chose the node.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

/// The batcher of a uid's owner, and the route information that the call carries.
#[derive(Debug)]
pub(crate) struct StreamTarget {
    pub(crate) batcher: Arc<NodeBatcher>,
    /// Version of the routes that chose the owner.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

impl<'a> Attempts<'a> {
    /// No attempt yet.
    pub(crate) fn new(shared: &'a Shared, deadline: Instant) -> Attempts<'a> {
        shared.budget.earn();
        Attempts { shared, deadline, made: 0, lost: 0, excluded: None }
    }

    /// The node of the next attempt for a uid.
    pub(crate) fn target(&self, uid: u64) -> Result<Target, CallError> {
        let shared = self.shared;
        let directory = shared.routes.load();
        let set = directory.set(directory.set_of(uid).ok_or(CallError::UidOutside { uid })?);
        let route = set.route(uid);
        let addr = set.host(route.owner, self.excluded.as_deref(), |addr| shared.pool.is_suspect(addr));
        match node_client::of(&shared.pool, &addr) {
            Ok(client) => {
                Ok(Target { addr, client, route_version: shared.routes.known_version(set), epoch: route.epoch.0 })
            }
            Err(error) => Err(self.unreachable(addr, Status::unavailable(error.to_string()))),
        }
    }

    /// The batcher of the uid's owner; `None` while the owner is suspect or unknown, or coalescing is off.
    #[inline]
    pub(crate) fn stream_target(&self, uid: u64) -> Option<StreamTarget> {
        let batchers = self.shared.batchers.as_ref()?;
        let directory = self.shared.routes.load();
        let set = directory.set(directory.set_of(uid)?);
        let route = set.route(uid);
        let addr = set.addr(route.owner?)?;
        if self.shared.pool.is_suspect(addr) {
            return None;
        }
        let route_version = self.shared.routes.known_version(set);
        Some(StreamTarget { batcher: batchers.get_or_create(addr), route_version, epoch: route.epoch.0 })
    }

    /// The newest known epoch of each uid's section; 0 where none is known.
    pub(crate) fn epochs(&self, uids: &[u64]) -> Vec<u64> {
        let directory = self.shared.routes.load();
        let epoch = |uid: &u64| directory.set_of(*uid).map_or(0, |set| directory.set(set).route(*uid).epoch.0);
        uids.iter().map(epoch).collect()
    }

    /// A request with the remaining time of the call as its timeout.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.deadline.saturating_duration_since(Instant::now()));
        request
    }

    /// Makes one attempt, up to the deadline.
    pub(crate) async fn attempt<T>(
        &mut self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        self.made += 1;
        match tokio::time::timeout_at(self.deadline, call).await {
            Ok(response) => response.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the caller's deadline passed")),
        }
    }

    /// Adopts the routes of a response. Invalid routes are logged and otherwise ignored: the response itself is valid.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &Arc<str>) {
        let Some(routes) = routes else { return };
        match self.shared.routes.adopt(routes, None) {
            Ok(true) => self.shared.drop_unused_addrs(),
            Ok(false) => {}
            Err(error) => tracing::warn!(from = &**from, %error, "routes in a response were not adopted"),
        }
    }

    /// Classifies a failed attempt and waits out the backoff of the next one; returns the call's error if there is
    /// none.
    pub(crate) async fn prepare_retry(&mut self, uid: u64, addr: &Arc<str>, failed: Status) -> Result<(), CallError> {
        match FailureKind::of(&failed) {
            FailureKind::TimedOut => {
                self.lost += 1;
                Err(self.deadline_exceeded())
            }
            FailureKind::Connection => {
                let sent = !seq_channel::not_processed(&failed);
                self.retry_after_break(addr, failed, sent).await
            }
            FailureKind::Refusal { reason } => {
                self.lost += u32::from(is_outcome_unknown(&reason));
                self.suspect_owner(uid, &reason);
                let refused = self.refused(uid, &failed, reason);
                self.retry_after_refusal(addr, refused).await
            }
        }
    }

    /// As [`Attempts::prepare_retry`], for a call in a stream that ended; `sent` is whether the call had been sent.
    pub(crate) async fn prepare_stream_retry(
        &mut self,
        uid: u64,
        addr: &Arc<str>,
        failed: Status,
        sent: bool,
    ) -> Result<(), CallError> {
        self.made += 1;
        if sent {
            self.prepare_retry(uid, addr, failed).await
        } else {
            self.retry_after_break(addr, failed, false).await
        }
    }

    /// As [`Attempts::prepare_retry`], for an item that was refused within the response to a batch.
    pub(crate) async fn prepare_item_retry(
        &mut self,
        uid: u64,
        addr: &Arc<str>,
        item: v1::ItemError,
    ) -> Result<(), CallError> {
        self.made += 1;
        self.lost += u32::from(is_outcome_unknown(&item.reason));
        let refused = self.item(uid, item);
        self.retry_after_refusal(addr, refused).await
    }

    /// The error of a call in a stream that got no response before its deadline.
    pub(crate) fn timed_out(&mut self, sent: bool) -> CallError {
        self.made += u32::from(sent);
        self.lost += u32::from(sent);
        self.deadline_exceeded()
    }

    async fn retry_after_break(&mut self, addr: &Arc<str>, failed: Status, sent: bool) -> Result<(), CallError> {
        self.lost += u32::from(sent);
        self.shared.pool.suspect(addr);
        let at_once = self.exclude(addr);
        let error = self.unreachable(addr.clone(), failed);
        self.retry(error, None, at_once).await
    }

    async fn retry_after_refusal(&mut self, addr: &Arc<str>, refused: Refused) -> Result<(), CallError> {
        let at_once = refused.reason == Reason::ShuttingDown && self.exclude(addr);
        let wait_for = refused.retry_after;
        self.retry(CallError::Refused(Box::new(refused)), wait_for, at_once).await
    }

    /// Excludes an address from further attempts. Returns `true` for the first one: its retry needs no backoff.
    fn exclude(&mut self, addr: &Arc<str>) -> bool {
        self.excluded.replace(addr.clone()).is_none()
    }

    async fn retry(&self, error: CallError, wait_for: Option<Duration>, at_once: bool) -> Result<(), CallError> {
        if error.is_retryable() && self.pause(wait_for, at_once).await { Ok(()) } else { Err(error) }
    }

    /// Waits out the backoff of the next attempt. Returns `false` at once if the deadline or the retry budget allows
    /// none.
    pub(crate) async fn pause(&self, at_least: Option<Duration>, at_once: bool) -> bool {
        let wait = if at_once { Duration::ZERO } else { backoff(self.made, at_least, fastrand::f64()) };
        let now = Instant::now();
        if now + wait >= self.deadline || !self.shared.budget.spend(now) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    /// The error of an item that a server refused within a response.
    pub(crate) fn item(&self, uid: u64, item: v1::ItemError) -> Refused {
        self.suspect_owner(uid, &item.reason);
        Refused {
            uid,
            code: Code::from(i32::try_from(item.code).unwrap_or_default()),
            may_have_applied: self.may_have_applied() || is_outcome_unknown(&item.reason),
            reason: item.reason,
            message: item.message,
            retry_after: (item.retry_after_ms > 0).then(|| Duration::from_millis(item.retry_after_ms.into())),
            attempts: self.made,
        }
    }

    /// Marks the owner suspect if another node could not reach it: a direct request would most likely time out as well.
    fn suspect_owner(&self, uid: u64, reason: &str) {
        use Reason::{OwnerConnectionLost, OwnerTimedOut, OwnerUnreachable};

        if !matches!(Reason::parse(reason), Some(OwnerTimedOut | OwnerConnectionLost | OwnerUnreachable)) {
            return;
        }
        let directory = self.shared.routes.load();
        if let Some(owner) = directory.set_of(uid).and_then(|set| directory.set(set).owner(uid)) {
            self.shared.pool.suspect(owner);
        }
    }

    /// The deadline of the call.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Attempts with unknown outcome: they may have moved a counter.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    fn may_have_applied(&self) -> bool {
        self.lost > 0
    }

    /// The error of a call whose deadline has passed.
    fn deadline_exceeded(&self) -> CallError {
        CallError::DeadlineExceeded { attempts: self.made, may_have_applied: self.may_have_applied() }
    }

    fn refused(&self, uid: u64, failed: &Status, reason: String) -> Refused {
        Refused {
            uid,
            code: failed.code(),
            reason,
            message: failed.message().to_owned(),
            retry_after: failed.get_details_retry_info().and_then(|info| info.retry_delay),
            attempts: self.made,
            may_have_applied: self.may_have_applied(),
        }
    }

    fn unreachable(&self, addr: Arc<str>, source: Status) -> CallError {
        let (attempts, may_have_applied) = (self.made, self.may_have_applied());
        CallError::Unreachable(Arc::new(Unreachable { addr, attempts, may_have_applied, source }))
    }
}

/// Classification of a failed attempt.
enum FailureKind {
    /// The call's deadline passed, as noticed here or by a server.
    TimedOut,
    /// The connection failed.
    Connection,
    /// A server refused; the reason is empty when it is not the sequence service's own.
    Refusal { reason: String },
}

impl FailureKind {
    fn of(failed: &Status) -> FailureKind {
        if let Some(reason) = status::reason(failed) {
            return FailureKind::Refusal { reason };
        }
        if seq_channel::caused_by::<tonic::TimeoutExpired>(failed) {
            return FailureKind::TimedOut;
        }
        if seq_channel::is_transport(failed) {
            return FailureKind::Connection;
        }
        // Only the request's own timeout cancels this call; a server may notice it first.
        match failed.code() {
            Code::Cancelled | Code::DeadlineExceeded => FailureKind::TimedOut,
            _ => FailureKind::Refusal { reason: String::new() },
        }
    }
}

/// Whether a refusal with this reason may have moved a counter: a forwarded request got no response, or the refusal is
/// not the sequence service's own.
pub(crate) fn is_outcome_unknown(reason: &str) -> bool {
    reason.is_empty() || Reason::parse(reason).is_some_and(|reason| reason.outcome() == Outcome::Unknown)
}

/// The backoff after `made` attempts; `jitter` is in `0.0 .. 1.0` and shortens the doubled backoff by up to half, or
/// lengthens the one that the server requested by up to half.
fn backoff(made: u32, at_least: Option<Duration>, jitter: f64) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << made.saturating_sub(1).min(16)).min(MAX_BACKOFF);
    let own = doubled.mul_f64(1.0 - jitter / 2.0);
    at_least.map_or(own, |at_least| at_least.mul_f64(1.0 + jitter / 2.0).max(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_is_jittered_and_is_never_shorter_than_requested() {
        let ms = Duration::from_millis;
        assert_eq!([1, 2, 3, 7, 90].map(|made| backoff(made, None, 0.0)), [ms(10), ms(20), ms(40), ms(500), ms(500)]);
        assert_eq!(backoff(2, None, 1.0), ms(10));
        assert_eq!(backoff(1, Some(ms(100)), 0.0), ms(100));
        assert_eq!(backoff(1, Some(ms(100)), 1.0), ms(150));
        assert_eq!(backoff(20, Some(ms(100)), 0.0), ms(500));
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_never_passes_the_deadline() {
        let shared = Shared {
            pool: seq_channel::Pool::new(),
            routes: crate::directory::Routes::default(),
            seeds: Vec::new(),
            budget: crate::budget::Budget::new(Instant::now()),
            batchers: None,
            refreshed: tokio::sync::Mutex::default(),
        };
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut attempts = Attempts::new(&shared, deadline);
        attempts.made = 1;
        while attempts.pause(None, false).await {
            attempts.made += 1;
        }
        assert!(Instant::now() < deadline);
        // Without jitter the backoffs are 10, 20 .. 320 ms and then 500 ms each.
        assert!((10..=20).contains(&attempts.made), "{} attempts", attempts.made);
        assert!(!attempts.pause(Some(Duration::from_secs(4)), false).await);
    }
}
