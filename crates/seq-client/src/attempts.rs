//! One call's life: one deadline over all attempts, where the next attempt goes, and when there is none.
//!
//! Only what can succeed later is repeated: a refusal that says so, and a connection that failed. The wait doubles, is
//! jittered, and is never shorter than the server asked for. A call that cannot wait ends at once with what it knows.

use std::sync::Arc;
use std::time::Duration;

use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use crate::budget::Budget;
use crate::coalesce::{Lanes, Seat};
use crate::directory::Routes;
use crate::error::{CallError, Refused, Unreachable};
use crate::pool::{self, Pool};

/// The first wait between attempts: longer than a node needs to adopt a route it was just sent.
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// The longest wait that is not asked for by a server: short against a change of owner.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// What all calls of a client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) routes: Routes,
    pub(crate) seeds: Vec<Arc<str>>,
    pub(crate) budget: Budget,
    /// `None` when every call goes alone.
    pub(crate) lanes: Option<Lanes>,
    /// When the directory was last asked for anew. Held while it is.
    pub(crate) refreshed: tokio::sync::Mutex<Option<Instant>>,
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    shared: &'a Shared,
    deadline: Instant,
    made: u32,
    /// Attempts that ended without saying whether they moved a counter.
    lost: u32,
    /// The address that failed last.
    avoid: Option<Arc<str>>,
}

/// Where one attempt goes, and what it says of the caller's routes.
pub(crate) struct Target {
    pub(crate) addr: Arc<str>,
    pub(crate) client: SequenceServiceClient<Channel>,
    /// Version of the routes that sent the call there.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

impl Shared {
    /// The client of a node, with the limits of this SDK.
    pub(crate) fn client(&self, addr: &str) -> Result<SequenceServiceClient<Channel>, pool::PoolError> {
        let client = SequenceServiceClient::new(self.pool.get(addr)?);
        Ok(client.max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES))
    }

    /// Closes the connections to addresses that no route table names any more.
    pub(crate) fn forget_unnamed(&self) {
        let directory = self.routes.load();
        let named = |addr: &str| directory.names(addr) || self.seeds.iter().any(|seed| &**seed == addr);
        self.pool.retain(named);
        if let Some(lanes) = &self.lanes {
            lanes.retain(named);
        }
    }
}

impl<'a> Attempts<'a> {
    /// No attempt yet.
    pub(crate) fn new(shared: &'a Shared, deadline: Instant) -> Attempts<'a> {
        shared.budget.earn();
        Attempts { shared, deadline, made: 0, lost: 0, avoid: None }
    }

    /// Where the next attempt for a uid goes.
    pub(crate) fn target(&self, uid: u64) -> Result<Target, CallError> {
        let shared = self.shared;
        let directory = shared.routes.load();
        let set = directory.set(directory.set_of(uid).ok_or(CallError::UidOutside { uid })?);
        let route = set.route(uid);
        let addr = set.host(route.owner, self.avoid.as_deref(), |addr| shared.pool.is_suspect(addr));
        match shared.client(&addr) {
            Ok(client) => {
                Ok(Target { addr, client, route_version: shared.routes.known_version(set), epoch: route.epoch.0 })
            }
            Err(error) => Err(self.unreachable(addr, Status::unavailable(error.to_string()))),
        }
    }

    /// Where the call can go together with others: the owner's lane, while the owner is well.
    #[inline]
    pub(crate) fn seat(&self, uid: u64) -> Option<Seat> {
        let lanes = self.shared.lanes.as_ref()?;
        let directory = self.shared.routes.load();
        let set = directory.set(directory.set_of(uid)?);
        let route = set.route(uid);
        let addr = set.addr(route.owner?)?;
        if self.shared.pool.is_suspect(addr) {
            return None;
        }
        let route_version = self.shared.routes.known_version(set);
        Some(Seat { lane: lanes.get(addr), route_version, epoch: route.epoch.0 })
    }

    /// Newest epoch known for each uid's section; empty when none is known.
    pub(crate) fn epochs(&self, uids: &[u64]) -> Vec<u64> {
        let directory = self.shared.routes.load();
        let epoch = |uid: &u64| directory.set_of(*uid).map_or(0, |set| directory.set(set).route(*uid).epoch.0);
        uids.iter().map(epoch).collect()
    }

    /// A request that tells the server how long the caller waits.
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
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the caller's deadline passed")),
        }
    }

    /// Takes routes in that came with an answer. Bad ones are noted and otherwise ignored: the answer itself is good.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &Arc<str>) {
        let Some(routes) = routes else { return };
        match self.shared.routes.adopt(routes, None) {
            Ok(true) => self.shared.forget_unnamed(),
            Ok(false) => {}
            Err(error) => tracing::warn!(from = &**from, %error, "routes in an answer were not adopted"),
        }
    }

    /// Judges a failed attempt and waits until the next one is due, or says why there is none.
    pub(crate) async fn again(&mut self, uid: u64, addr: &Arc<str>, failed: Status) -> Result<(), CallError> {
        match Kind::of(&failed) {
            Kind::OutOfTime => {
                self.lost += 1;
                Err(self.deadline_exceeded())
            }
            Kind::Connection => {
                let sent = !pool::not_processed(&failed);
                self.after_break(addr, failed, sent).await
            }
            Kind::Refusal { reason } => {
                self.lost += u32::from(moves_unseen(&reason));
                self.heed(uid, &reason);
                let refused = self.refused(uid, &failed, reason);
                self.after_refusal(addr, refused).await
            }
        }
    }

    /// As [`Attempts::again`], for an attempt in a stream that ended after the call was sent, or before.
    pub(crate) async fn again_streamed(
        &mut self,
        uid: u64,
        addr: &Arc<str>,
        failed: Status,
        sent: bool,
    ) -> Result<(), CallError> {
        self.made += 1;
        if sent { self.again(uid, addr, failed).await } else { self.after_break(addr, failed, false).await }
    }

    /// As [`Attempts::again`], for an attempt that was refused within an answer to many.
    pub(crate) async fn again_item(&mut self, uid: u64, addr: &Arc<str>, item: v1::ItemError) -> Result<(), CallError> {
        self.made += 1;
        self.lost += u32::from(moves_unseen(&item.reason));
        let refused = self.item(uid, item);
        self.after_refusal(addr, refused).await
    }

    /// The error of an attempt in a stream that was not answered in time.
    pub(crate) fn late(&mut self, sent: bool) -> CallError {
        self.made += u32::from(sent);
        self.lost += u32::from(sent);
        self.deadline_exceeded()
    }

    async fn after_break(&mut self, addr: &Arc<str>, failed: Status, sent: bool) -> Result<(), CallError> {
        self.lost += u32::from(sent);
        self.shared.pool.suspect(addr);
        let at_once = self.leave(addr);
        let error = self.unreachable(addr.clone(), failed);
        self.retry(error, None, at_once).await
    }

    async fn after_refusal(&mut self, addr: &Arc<str>, refused: Refused) -> Result<(), CallError> {
        let at_once = refused.reason == "SHUTTING_DOWN" && self.leave(addr);
        let wait_for = refused.retry_after;
        self.retry(CallError::Refused(Box::new(refused)), wait_for, at_once).await
    }

    /// Goes elsewhere from now on; answers whether that need not wait, because it is the first time.
    fn leave(&mut self, addr: &Arc<str>) -> bool {
        self.avoid.replace(addr.clone()).is_none()
    }

    async fn retry(&self, error: CallError, wait_for: Option<Duration>, at_once: bool) -> Result<(), CallError> {
        if error.is_retryable() && self.pause(wait_for, at_once).await { Ok(()) } else { Err(error) }
    }

    /// Waits until the next attempt is due; answers `false` at once when there is none, for want of time or of budget.
    pub(crate) async fn pause(&self, at_least: Option<Duration>, at_once: bool) -> bool {
        let wait = if at_once { Duration::ZERO } else { backoff(self.made, at_least, fastrand::f64()) };
        let now = Instant::now();
        if now + wait >= self.deadline || !self.shared.budget.spend(now) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    /// The error of an item that a server refused within an answer.
    pub(crate) fn item(&self, uid: u64, item: v1::ItemError) -> Refused {
        self.heed(uid, &item.reason);
        Refused {
            uid,
            code: Code::from(i32::try_from(item.code).unwrap_or_default()),
            may_have_applied: self.may_have_applied() || moves_unseen(&item.reason),
            reason: item.reason,
            message: item.message,
            retry_after: (item.retry_after_ms > 0).then(|| Duration::from_millis(item.retry_after_ms.into())),
            attempts: self.made,
        }
    }

    /// Heeds what a node says of the owner: to ask it oneself would only be to wait for it once more.
    fn heed(&self, uid: u64, reason: &str) {
        if !matches!(reason, "OWNER_TIMED_OUT" | "OWNER_CONNECTION_LOST" | "OWNER_UNREACHABLE") {
            return;
        }
        let directory = self.shared.routes.load();
        if let Some(owner) = directory.set_of(uid).and_then(|set| directory.set(set).owner(uid)) {
            self.shared.pool.suspect(owner);
        }
    }

    /// When the call ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What all calls of the client share.
    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Attempts that ended without saying whether they moved a counter.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    fn may_have_applied(&self) -> bool {
        self.lost > 0
    }

    /// The error of a call whose time is over.
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

/// What a failed attempt says.
enum Kind {
    /// The call's time is over, as seen here or by a server.
    OutOfTime,
    /// The connection failed.
    Connection,
    /// A server refused; the reason is empty when it is not the sequence service's own.
    Refusal { reason: String },
}

impl Kind {
    fn of(failed: &Status) -> Kind {
        if let Some(reason) = status::reason(failed) {
            return Kind::Refusal { reason };
        }
        if pool::caused_by::<tonic::TimeoutExpired>(failed) {
            return Kind::OutOfTime;
        }
        if pool::is_transport(failed) {
            return Kind::Connection;
        }
        // Nobody cancels this call but the timeout it carries, which a server may notice first.
        match failed.code() {
            Code::Cancelled | Code::DeadlineExceeded => Kind::OutOfTime,
            _ => Kind::Refusal { reason: String::new() },
        }
    }
}

/// Whether a refusal with this reason may have moved a counter: a forwarded call got no answer, or somebody else than the
/// sequence service refused.
pub(crate) fn moves_unseen(reason: &str) -> bool {
    matches!(reason, "OWNER_TIMED_OUT" | "OWNER_CONNECTION_LOST" | "")
}

/// How long to wait after `made` attempts; `jitter` is in `0.0 .. 1.0` and shortens the doubled wait by up to half, or
/// lengthens what the server asked for by up to half.
fn backoff(made: u32, at_least: Option<Duration>, jitter: f64) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << made.saturating_sub(1).min(16)).min(MAX_BACKOFF);
    let own = doubled.mul_f64(1.0 - jitter / 2.0);
    at_least.map_or(own, |at_least| at_least.mul_f64(1.0 + jitter / 2.0).max(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_are_jittered_and_never_shorter_than_asked() {
        let ms = Duration::from_millis;
        assert_eq!([1, 2, 3, 7, 90].map(|made| backoff(made, None, 0.0)), [ms(10), ms(20), ms(40), ms(500), ms(500)]);
        assert_eq!(backoff(2, None, 1.0), ms(10));
        assert_eq!(backoff(1, Some(ms(100)), 0.0), ms(100));
        assert_eq!(backoff(1, Some(ms(100)), 1.0), ms(150));
        assert_eq!(backoff(20, Some(ms(100)), 0.0), ms(500));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_before_the_deadline() {
        let shared = Shared {
            pool: Pool::new(),
            routes: Routes::default(),
            seeds: Vec::new(),
            budget: Budget::new(Instant::now()),
            lanes: None,
            refreshed: tokio::sync::Mutex::default(),
        };
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut attempts = Attempts::new(&shared, deadline);
        attempts.made = 1;
        while attempts.pause(None, false).await {
            attempts.made += 1;
        }
        assert!(Instant::now() < deadline);
        // Unshortened, the waits are 10, 20 .. 320 ms and then 500 ms each.
        assert!((10..=20).contains(&attempts.made), "{} attempts", attempts.made);
        assert!(!attempts.pause(Some(Duration::from_secs(4)), false).await);
    }
}
