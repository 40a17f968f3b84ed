//! The attempts of one call under one deadline. This module chooses the node for each attempt, waits for the backoff
//! before the next attempt, and keeps the error of the last attempt.
//!
//! An attempt is repeated only after a retryable refusal or a failed connection. The backoff doubles with each attempt,
//! is jittered, and is never shorter than the server requested. If the time until the deadline is too short for the
//! next backoff and attempt, the call fails at once with the error of the last attempt.
//!
//! If a refusal states that a section moved to another set, the next attempt is sent to that set at once and does not
//! spend from the retry budget. This happens only if the stated epoch is greater than the epoch of the route by which
//! the refused request was sent, so a call cannot circle between two nodes with outdated routes.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use seq_channel::CallerChannel;
use seq_channel::batch::{Batchers, Kind, NodeBatcher};
use seq_core::{Epoch, SetId};
use seq_proto::reason::{Outcome, Reason, key};
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use crate::directory::sections::{SectionRoute, SetIndex};
use crate::directory::{Claim, Directory};
use crate::discovery;
use crate::error::{CallError, Refused, SetUnavailable, Unreachable};
use crate::node_client;
use crate::place::Place;
use crate::shared::Shared;

/// First backoff. It is longer than the time that a node needs to adopt a route that it has just received.
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// Longest backoff, unless a server requests a longer one. It is short compared with the time that a change of a
/// section's owner takes.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Minimum time until the deadline for another attempt to be made. With less time, the attempt would usually exceed the
/// deadline. The call would then return the error of this attempt instead of the refusal that it already has, and its
/// caller would not know whether numbers were consumed.
pub(crate) const LEAST_ATTEMPT: Duration = Duration::from_millis(20);

/// Maximum number of times that one call continues at once, without backoff, in the set to which the uid's section
/// moved. After that, such an error is retried like any other error. The limit is larger than the number of moves of a
/// section that are expected during one call.
pub(crate) const MAX_FOLLOWED: u32 = 8;

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    shared: &'a Shared,
    deadline: Instant,
    made: u32,
    /// Number of attempts with unknown outcome, each of which may have changed a counter.
    lost: u32,
    /// Address of the last attempt that failed. The next attempt is sent to another address if there is one.
    excluded: Option<Arc<str>>,
    /// Route by which the last attempt was sent; `None` before the first attempt.
    route: Option<SectionRoute>,
    /// Number of responses after which the call continued at once in another set.
    followed: u32,
    /// Whether the call fails without retries if no node of the section's set can be reached. This is so if the caller
    /// also waits for items of other sets.
    fails_fast: bool,
    /// If the call is limited to one attempt, the time at which this attempt has to end. The failure of the attempt is
    /// then the error of the call. `None` for calls with retries.
    once: Option<Instant>,
}

/// Node to which an attempt is sent, with the route version and the epoch that the request states.
pub(crate) struct Target {
    pub(crate) addr: Arc<str>,
    pub(crate) channel: CallerChannel,
    /// Version of the routes that the client has of the node's set, for the field of the same name in
    /// [`v1::NextRequest`].
    pub(crate) route_version: Option<u64>,
    /// Newest known epoch of the counter's section.
    pub(crate) epoch: u64,
}

/// Node to which an attempt of a call for ids is sent.
pub(crate) struct IdTarget {
    pub(crate) addr: Arc<str>,
    pub(crate) client: IdServiceClient<CallerChannel>,
}

/// Batcher for the owner of a counter's section, with the route version and the epoch that a call through this batcher
/// states.
#[derive(Debug)]
pub(crate) struct StreamTarget<K: Kind> {
    pub(crate) batcher: Arc<NodeBatcher<K>>,
    /// Version of the client's routes of the owner's set.
    pub(crate) route_version: Option<u64>,
    /// Newest known epoch of the counter's section.
    pub(crate) epoch: u64,
}

/// The set that a refusal names, and the epoch under which the section arrived in that set, as far as the refusal
/// states them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedSet {
    pub(crate) set: Option<SetId>,
    pub(crate) since: Option<Epoch>,
}

/// A refusal of an item, with its consequences for the retry of the item.
pub(crate) struct Classified {
    pub(crate) error: CallError,
    /// Whether the call continues at once in the set to which the item's section moved.
    pub(crate) moved: bool,
    /// Set whose budget pays for a retry.
    pub(crate) charged: Option<SetIndex>,
    /// Minimum backoff.
    pub(crate) retry_after: Option<Duration>,
}

impl<'a> Attempts<'a> {
    /// Creates the state of a call without any attempt.
    pub(crate) fn new(shared: &'a Shared, deadline: Instant) -> Attempts<'a> {
        Attempts {
            shared,
            deadline,
            made: 0,
            lost: 0,
            excluded: None,
            route: None,
            followed: 0,
            fails_fast: false,
            once: None,
        }
    }

    /// If `yes` is true, makes the call fail without retries when no node of the section's set can be reached. It is
    /// used for the items of a batch whose other items are in other sets.
    pub(crate) fn failing_fast(self, yes: bool) -> Attempts<'a> {
        Attempts { fails_fast: yes, ..self }
    }

    /// Limits the call to one attempt, which ends at `until`. If the attempt fails, the call returns its error, and the
    /// caller decides with [`Attempts::pause`] whether to make another call. `made` is the number of attempts that the
    /// caller has already made.
    pub(crate) fn once(self, until: Instant, made: u32) -> Attempts<'a> {
        Attempts { once: Some(until.min(self.deadline)), made, ..self }
    }

    /// Returns a copy of this state, with which some items of the call are retried separately. If `charged` is a set,
    /// the next retry of these items spends from the retry budget of this set.
    pub(crate) fn fork(&self, charged: Option<SetIndex>) -> Attempts<'a> {
        let mut fork = Attempts { shared: self.shared, excluded: self.excluded.clone(), ..*self };
        fork.charge(charged);
        fork
    }

    /// Makes the next retry spend from the retry budget of the set `set`. Does nothing if `set` is `None`.
    fn charge(&mut self, set: Option<SetIndex>) {
        if let (Some(route), Some(set)) = (&mut self.route, set) {
            route.set = set;
        }
    }

    /// Returns the node to which the next attempt for the counter at a place is sent.
    pub(crate) fn target(&mut self, place: impl Into<Place>) -> Result<Target, CallError> {
        let (shared, place) = (self.shared, place.into());
        let directory = shared.routes.load();
        let outside = || CallError::UidOutside { uid: place.uid().unwrap_or_default() };
        let route = directory.route_of(place).ok_or_else(outside)?;
        self.begin(&directory, route);
        let set = directory.set(route.set);
        let excluded = self.excluded.as_deref();
        let is_suspect = |addr: &str| shared.pool.is_suspect(addr);
        let own = set.host(route.owner, excluded, is_suspect).map(|addr| (addr, set));
        // If no address of the section's set is known, the request is sent to a node of another set, which forwards it.
        let other = || directory.others(set).find_map(|set| Some((set.host(None, excluded, is_suspect)?, set)));
        let Some((addr, set)) = own.or_else(other) else {
            let named = NamedSet { set: Some(set.id()), since: None };
            return Err(self.set_unavailable(place.uid(), named, None));
        };
        match shared.pool.get_for_caller(&addr) {
            Ok(channel) => Ok(Target { addr, channel, route_version: set.known_version(), epoch: route.epoch.0 }),
            Err(error) => Err(self.unreachable(addr, Status::unavailable(error.to_string()))),
        }
    }

    /// Returns the node to which the next attempt of a call for ids is sent. It is a node of the set `home`, or of
    /// another set while no node of `home` can be reached. Any node forwards the call to the owner of the lane.
    pub(crate) fn id_target(&mut self, home: SetIndex) -> Result<IdTarget, CallError> {
        let addr = self.any_node(home)?;
        match node_client::of_ids(&self.shared.pool, &addr) {
            Ok(client) => Ok(IdTarget { addr, client }),
            Err(error) => Err(self.unreachable(addr, Status::unavailable(error.to_string()))),
        }
    }

    /// Returns the address of the node to which the next attempt of a call is sent that any node serves: see
    /// [`Attempts::id_target`].
    fn any_node(&mut self, home: SetIndex) -> Result<Arc<str>, CallError> {
        let shared = self.shared;
        let directory = shared.routes.load();
        let excluded = self.excluded.as_deref();
        let is_suspect = |addr: &str| shared.pool.is_suspect(addr);
        let home = directory.set(home);
        let mut sets = iter::once(home).chain(directory.others(home));
        let set = sets.find(|set| !set.is_down(is_suspect)).unwrap_or(home);
        let Some(addr) = set.host(None, excluded, is_suspect) else {
            return Err(self.set_unavailable(None, NamedSet { set: Some(set.id()), since: None }, None));
        };
        let index = directory.index_of(set.id()).expect("the set is in the directory");
        self.begin(&directory, SectionRoute { epoch: Epoch(0), set: index, owner: None, is_claim: false });
        Ok(addr)
    }

    /// Returns the batcher for the owner of the section at a place; `None` if the owner is unknown or was recently
    /// unreachable.
    #[inline]
    pub(crate) fn stream_target<K: Kind>(&mut self, batchers: &Batchers<K>, place: Place) -> Option<StreamTarget<K>> {
        let directory = self.shared.routes.load();
        let route = directory.route_of(place)?;
        let set = directory.set(route.set);
        let addr = set.addr(route.owner?)?;
        if self.shared.pool.is_suspect(addr) {
            return None;
        }
        let route_version = set.known_version();
        let batcher = batchers.get_or_create(addr);
        self.begin(&directory, route);
        Some(StreamTarget { batcher, route_version, epoch: route.epoch.0 })
    }

    /// Begins an attempt that is sent by `route`. If it is the first attempt of the call, counts the call in the retry
    /// budget of the route's set.
    fn begin(&mut self, directory: &Directory, route: SectionRoute) {
        if self.route.replace(route).is_none() {
            directory.set(route.set).state().budget.earn();
        }
    }

    /// Returns the newest known epoch of the section of each place; 0 for a section of which no epoch is known.
    pub(crate) fn epochs(&self, places: impl Iterator<Item = Place>) -> Vec<u64> {
        let directory = self.shared.routes.load();
        places.map(|place| directory.route_of(place).map_or(0, |route| route.epoch.0)).collect()
    }

    /// Returns the set of the section of each place; `None` for a uid that is in no known cluster.
    pub(crate) fn sets(&self, places: impl Iterator<Item = Place>) -> Vec<Option<SetIndex>> {
        let directory = self.shared.routes.load();
        places.map(|place| directory.route_of(place).map(|route| route.set)).collect()
    }

    /// Creates a request. Its timeout is the remaining time for the attempt.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.attempt_until().saturating_duration_since(Instant::now()));
        request
    }

    /// Returns the time at which an attempt has to end.
    fn attempt_until(&self) -> Instant {
        self.once.unwrap_or(self.deadline)
    }

    /// Makes one attempt, which ends at the deadline at the latest.
    pub(crate) async fn attempt<T>(
        &mut self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        self.made += 1;
        match tokio::time::timeout_at(self.attempt_until(), call).await {
            Ok(response) => response.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the caller's deadline passed")),
        }
    }

    /// Adopts the routes of a response.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &str) {
        self.shared.adopt(routes, from);
    }

    /// Handles the failure of an attempt that was sent to `addr`. Waits for the backoff if the call has another
    /// attempt. Otherwise returns the call's error. `place` is `None` for a call for ids, which any node serves.
    pub(crate) async fn prepare_retry(
        &mut self,
        place: Option<Place>,
        addr: &Arc<str>,
        failed: Status,
    ) -> Result<(), CallError> {
        match FailureKind::of(&failed) {
            FailureKind::TimedOut => {
                self.lost += 1;
                Err(self.deadline_exceeded())
            }
            FailureKind::Connection => {
                let sent = !seq_channel::not_processed(&failed);
                self.retry_after_break(place, addr, failed, sent).await
            }
            FailureKind::Refusal { reason } => {
                self.lost += u32::from(is_outcome_unknown(&reason));
                let refused = self.refused(place.and_then(Place::uid), &failed, reason);
                self.retry_after_refusal(place, addr, refused, named_set(&failed)).await
            }
        }
    }

    /// As [`Attempts::prepare_retry`], after the stream in which the call was made has ended. `sent` is whether the
    /// call had been sent before the stream ended.
    pub(crate) async fn prepare_stream_retry(
        &mut self,
        place: Place,
        addr: &Arc<str>,
        failed: Status,
        sent: bool,
    ) -> Result<(), CallError> {
        self.made += 1;
        if sent {
            self.prepare_retry(Some(place), addr, failed).await
        } else {
            self.retry_after_break(Some(place), addr, failed, false).await
        }
    }

    /// As [`Attempts::prepare_retry`], after a single item was refused in a response.
    pub(crate) async fn prepare_item_retry(
        &mut self,
        place: Place,
        addr: &Arc<str>,
        item: v1::ItemError,
    ) -> Result<(), CallError> {
        self.made += 1;
        self.lost += u32::from(is_outcome_unknown(&item.reason));
        let named = NamedSet::of(&item);
        let refused = self.item(place, item);
        self.retry_after_refusal(Some(place), addr, refused, named).await
    }

    /// Returns the error of a call that was made in a stream and got no response before its deadline. `sent` is whether
    /// the call had been sent.
    pub(crate) fn timed_out(&mut self, sent: bool) -> CallError {
        self.made += u32::from(sent);
        self.lost += u32::from(sent);
        self.deadline_exceeded()
    }

    async fn retry_after_break(
        &mut self,
        place: Option<Place>,
        addr: &Arc<str>,
        failed: Status,
        sent: bool,
    ) -> Result<(), CallError> {
        self.lost += u32::from(sent);
        self.shared.pool.suspect(addr);
        let at_once = self.exclude(addr);
        let mut error = self.unreachable(addr.clone(), failed);
        if let Some((set, id)) = self.down_set() {
            discovery::refresh_from_others(self.shared, set, None).await;
            if self.has_moved(place) {
                self.followed += 1;
                return Ok(());
            }
            error = self.set_unavailable(place.and_then(Place::uid), NamedSet { set: Some(id), since: None }, None);
            if self.fails_fast {
                return Err(error);
            }
        }
        self.retry(error, None, at_once).await
    }

    /// Returns the set to which the last attempt was sent if none of this set's nodes can be reached and its cluster
    /// has other sets; otherwise `None`.
    fn down_set(&self) -> Option<(SetIndex, SetId)> {
        let SectionRoute { set: index, .. } = self.route?;
        let directory = self.shared.routes.load();
        let set = directory.set(index);
        let is_down = set.is_down(|addr| self.shared.pool.is_suspect(addr)) && directory.others(set).next().is_some();
        is_down.then(|| (index, set.id()))
    }

    /// Returns whether the call may continue at once in another set, because the newest routes show that the
    /// section has moved there since the last attempt.
    fn has_moved(&self, place: Option<Place>) -> bool {
        let now = place.and_then(|place| self.shared.routes.load().route_of(place));
        let moved = now.zip(self.route).is_some_and(|(now, by)| now.set != by.set && now.epoch > by.epoch);
        moved && self.followed < MAX_FOLLOWED
    }

    async fn retry_after_refusal(
        &mut self,
        place: Option<Place>,
        addr: &Arc<str>,
        refused: Refused,
        named: NamedSet,
    ) -> Result<(), CallError> {
        let at_once = refused.reason == Reason::ShuttingDown && self.exclude(addr);
        let sent_by = self.route;
        let Classified { error, moved, charged, retry_after } =
            self.classify(place, refused, named, sent_by.map(|by| by.epoch));
        if moved {
            self.followed += 1;
            return Ok(());
        }
        if self.is_final(&error) {
            return Err(error);
        }
        self.charge(charged);
        if let (Some(charged), Some(by)) = (charged, sent_by)
            && charged != by.set
        {
            // With newer routes, the next attempt can be sent directly to the set that the node could not reach.
            discovery::refresh_from_others(self.shared, charged, Some((by.set, addr))).await;
        }
        self.retry(error, retry_after, at_once).await
    }

    /// Classifies the refusal of an item. If the refusal states that the section moved to another set, adopts this
    /// route. `sent_by` is the epoch of the route by which the item was sent.
    pub(crate) fn classify(
        &self,
        place: Option<Place>,
        refused: Refused,
        named: NamedSet,
        sent_by: Option<Epoch>,
    ) -> Classified {
        self.suspect_owner(place, &refused.reason);
        let retry_after = refused.retry_after;
        if refused.reason == Reason::SetUnavailable {
            let charged = named.set.and_then(|set| self.shared.routes.load().index_of(set));
            let error = self.set_unavailable(refused.uid, named, Some(refused));
            return Classified { error, moved: false, charged, retry_after };
        }
        let mut moved = false;
        if refused.reason == Reason::Moved
            && let (NamedSet { set: Some(set), since: Some(since) }, Some(place)) = (named, place)
        {
            self.shared.routes.adopt_claims(&[(place, Claim { set, since })]);
            moved = sent_by.is_some_and(|sent_by| since > sent_by) && self.followed < MAX_FOLLOWED;
        }
        Classified { error: CallError::Refused(Box::new(refused)), moved, charged: None, retry_after }
    }

    /// Returns whether the call fails with `error` at once even though the error is retryable.
    pub(crate) fn is_final(&self, error: &CallError) -> bool {
        self.fails_fast && matches!(error, CallError::SetUnavailable(_))
    }

    /// Counts a response after which items are sent to another set at once.
    pub(crate) fn count_followed(&mut self) {
        self.followed += 1;
    }

    /// Excludes `addr` from the following attempts, in place of the address that was excluded before. Returns whether
    /// it is the first address that the call excludes. The retry after a first exclusion needs no backoff.
    fn exclude(&mut self, addr: &Arc<str>) -> bool {
        self.excluded.replace(addr.clone()).is_none()
    }

    async fn retry(&self, error: CallError, wait_for: Option<Duration>, at_once: bool) -> Result<(), CallError> {
        let retries = error.is_retryable() && self.once.is_none();
        if retries && self.pause(wait_for, at_once).await { Ok(()) } else { Err(error) }
    }

    /// Waits for the backoff before the next attempt. The backoff is at least `at_least`, and zero if `at_once` is set.
    /// Returns `false` without waiting if the deadline or the retry budget allows no further attempt.
    pub(crate) async fn pause(&self, at_least: Option<Duration>, at_once: bool) -> bool {
        let wait = if at_once { Duration::ZERO } else { backoff(self.made, at_least, fastrand::f64()) };
        let now = Instant::now();
        if now + wait + LEAST_ATTEMPT >= self.deadline || !self.spend(now) {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    /// Takes a retry from the budget of the set to which the last attempt was sent. Returns `false` if the budget is
    /// exhausted.
    fn spend(&self, now: Instant) -> bool {
        self.route.is_some_and(|route| self.shared.routes.load().set(route.set).state().budget.spend(now))
    }

    /// Converts the error of one item in a response to a refusal.
    pub(crate) fn item(&self, place: Place, item: v1::ItemError) -> Refused {
        Refused {
            uid: place.uid(),
            code: Code::from(i32::try_from(item.code).unwrap_or_default()),
            may_have_applied: self.may_have_applied() || is_outcome_unknown(&item.reason),
            reason: item.reason,
            message: item.message,
            bound: None,
            retry_after: (item.retry_after_ms > 0).then(|| Duration::from_millis(item.retry_after_ms.into())),
            attempts: self.made,
        }
    }

    /// Marks the owner of the section as suspect, that is, recently unreachable, if the reason of a refusal
    /// states that another node could not reach the owner. A request that this client sent to the owner directly would
    /// probably time out too.
    fn suspect_owner(&self, place: Option<Place>, reason: &str) {
        use Reason::{OwnerConnectionLost, OwnerTimedOut, OwnerUnreachable};

        if !matches!(Reason::parse(reason), Some(OwnerTimedOut | OwnerConnectionLost | OwnerUnreachable)) {
            return;
        }
        let directory = self.shared.routes.load();
        let route = place.and_then(|place| directory.route_of(place));
        let owner = route.and_then(|route| directory.set(route.set).addr(route.owner?));
        if let Some(owner) = owner {
            self.shared.pool.suspect(owner);
        }
    }

    /// Returns the state that all calls of the client share.
    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Returns the deadline of the call.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the number of attempts with unknown outcome, which may have changed a counter.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    fn may_have_applied(&self) -> bool {
        self.lost > 0
    }

    /// Returns the error of a call whose deadline has passed.
    fn deadline_exceeded(&self) -> CallError {
        CallError::DeadlineExceeded { attempts: self.made, may_have_applied: self.may_have_applied() }
    }

    fn refused(&self, uid: Option<u64>, failed: &Status, reason: String) -> Refused {
        Refused {
            uid,
            code: failed.code(),
            // The message of a refusal without a reason may be empty. Then only the gRPC code indicates where the
            // refusal comes from.
            message: if reason.is_empty() {
                format!("{:?}: {}", failed.code(), failed.message())
            } else {
                failed.message().into()
            },
            reason,
            bound: number(failed, key::BOUND),
            retry_after: failed.get_details_retry_info().and_then(|info| info.retry_delay),
            attempts: self.made,
            may_have_applied: self.may_have_applied(),
        }
    }

    /// Returns the error for a set whose nodes cannot be reached.
    fn set_unavailable(&self, uid: Option<u64>, named: NamedSet, refused: Option<Refused>) -> CallError {
        let name = named.set.and_then(|set| self.shared.routes.load().by_id(set).map(|set| set.name().to_owned()));
        CallError::SetUnavailable(Box::new(SetUnavailable {
            uid,
            set: named.set.map_or(0, |set| set.0),
            name: name.unwrap_or_default(),
            retry_after: refused.as_ref().and_then(|refused| refused.retry_after),
            attempts: self.made,
            may_have_applied: refused.map_or(self.may_have_applied(), |refused| refused.may_have_applied),
        }))
    }

    pub(crate) fn unreachable(&self, addr: Arc<str>, source: Status) -> CallError {
        let (attempts, may_have_applied) = (self.made, self.may_have_applied());
        CallError::Unreachable(Arc::new(Unreachable { addr, attempts, may_have_applied, source }))
    }
}

impl NamedSet {
    /// Returns the set that an item's refusal names.
    pub(crate) fn of(item: &v1::ItemError) -> NamedSet {
        NamedSet { set: item.set_id.map(SetId), since: item.since.map(Epoch) }
    }
}

/// Returns the set that a status names.
fn named_set(failed: &Status) -> NamedSet {
    NamedSet { set: number(failed, key::SET).map(SetId), since: number(failed, key::SINCE).map(Epoch) }
}

/// Returns a number in the metadata of a status.
fn number(failed: &Status, key: &str) -> Option<u64> {
    status::metadata(failed, key).and_then(|number| number.parse().ok())
}

/// Kinds of failed attempts.
enum FailureKind {
    /// The call's deadline passed. Either this client or a server noticed this first.
    TimedOut,
    /// The connection failed.
    Connection,
    /// A server refused. `reason` is empty if the refusal does not come from the sequence service itself.
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
        // Only the timeout of the request can cause this code, but a server may notice the timeout before the client
        // does.
        match failed.code() {
            Code::Cancelled | Code::DeadlineExceeded => FailureKind::TimedOut,
            _ => FailureKind::Refusal { reason: String::new() },
        }
    }
}

/// Returns whether the request may have changed a counter although it was refused with this reason. This is so if a
/// node forwarded the request and got no response, or if the refusal does not come from the sequence service itself.
pub(crate) fn is_outcome_unknown(reason: &str) -> bool {
    reason.is_empty() || Reason::parse(reason).is_some_and(|reason| reason.outcome() == Outcome::Unknown)
}

/// Returns the backoff after `made` attempts. `at_least` is the backoff that a server requested. `jitter` is in
/// `0.0 .. 1.0`. It shortens the client's own, doubling backoff by up to half, and lengthens a requested backoff by up
/// to half. The longer of the two is returned.
fn backoff(made: u32, at_least: Option<Duration>, jitter: f64) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << made.saturating_sub(1).min(16)).min(MAX_BACKOFF);
    let own = doubled.mul_f64(1.0 - jitter / 2.0);
    at_least.map_or(own, |at_least| at_least.mul_f64(1.0 + jitter / 2.0).max(own))
}

#[cfg(test)]
mod tests;
