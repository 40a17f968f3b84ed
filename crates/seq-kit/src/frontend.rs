//! What every door stands before: the numbers, whoever owns them.
//!
//! A door turns bytes into these calls and answers into bytes. The implementation answers for the sections it owns and
//! forwards the rest, waits for ceilings up to the deadline, and never answers above one.

use std::future::Future;

use seq_core::route::RouteUpdate;
use seq_core::{Count, Epoch, Reading, Refusal, RouteVersion, Seq, Target, Uid};
use tokio::time::Instant;

/// What a door knows of a call besides its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When the caller stops waiting. Not a lease: it only bounds how long a call is held.
    pub deadline: Instant,
    /// How often servers have forwarded the call.
    pub hops: u32,
    /// The way it came in, for the books.
    pub via: Via,
}

/// The way a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// From a caller, over gRPC.
    Grpc,
    /// From a caller, as a message of a gRPC stream.
    Stream,
    /// From a caller, over the Redis protocol.
    Resp,
    /// From a caller, as JSON or plain text over HTTP.
    Json,
    /// From another node that does not own the section.
    Forwarded,
}

impl Via {
    /// Every way, in the order of their values as numbers.
    pub const ALL: [Via; 5] = [Via::Grpc, Via::Stream, Via::Resp, Via::Json, Via::Forwarded];

    /// The value of the label `via`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Via::Grpc => "grpc",
            Via::Stream => "stream",
            Via::Resp => "resp",
            Via::Json => "json",
            Via::Forwarded => "forwarded",
        }
    }
}

/// One item of a call for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The user.
    pub uid: Uid,
    /// How many numbers.
    pub count: Count,
    /// Newest epoch of the uid's section that the caller has seen; 0 for none.
    pub epoch: Epoch,
}

/// Numbers given out: `value - count + 1 ..= value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The last number taken.
    pub value: Seq,
    /// The number given out before, or 0 when there was none or the owner does not know it.
    pub prev: Seq,
    /// The ownership that gave them out.
    pub epoch: Epoch,
    /// Attempts of the same item at owners that were replaced before they responded: each may have taken as many numbers.
    pub lost: u32,
}

/// A read of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The last number or a bound on it.
    pub reading: Reading,
    /// The ownership that answered.
    pub epoch: Epoch,
}

/// An item of a batch as a door hands it over: the question, or why the door found it bad.
pub type Asked = Result<Ask, Refusal>;

/// An item's answer, `None` while it has none.
pub type Answered<T> = Option<Result<T, Refusal>>;

/// The service behind the doors. Clones are handles on the same service.
///
/// Dropping a returned future abandons the call; numbers may have been consumed.
pub trait Frontend: Clone + Send + Sync + 'static {
    /// Takes numbers of one uid.
    fn next(&self, call: Call, ask: Ask) -> impl Future<Output = Result<Allocation, Refusal>> + Send;

    /// Takes what can be given out here and now: adds one answer for each ask to `answers`, in order. `None` is an item that
    /// must wait, or that another node answers; then the later items of its section are `None` as well, so that a uid's items
    /// stay in order. [`Frontend::take_rest`] answers them.
    ///
    /// Never waits and, where all is answered, allocates nothing beyond `answers`. The clock is read once for all asks; they
    /// must have arrived before the call.
    fn take_now(&self, via: Via, asks: &[Asked], answers: &mut Vec<Answered<Allocation>>);

    /// Answers what [`Frontend::take_now`] left open, waiting and forwarding up to the call's deadline. `asks` and `answers`
    /// are of one length; every answer is `Some` at the end.
    fn take_rest(
        &self,
        call: Call,
        asks: &[Asked],
        answers: &mut [Answered<Allocation>],
    ) -> impl Future<Output = ()> + Send;

    /// Takes numbers for many uids, each by itself, in order; an item that the door found bad already keeps its refusal.
    fn next_many(&self, call: Call, asks: &[Asked]) -> impl Future<Output = Vec<Result<Allocation, Refusal>>> + Send {
        async move {
            let mut answers = Vec::with_capacity(asks.len());
            self.take_now(call.via, asks, &mut answers);
            if answers.iter().any(Option::is_none) {
                self.take_rest(call, asks, &mut answers).await;
            }
            answers.into_iter().map(|answer| answer.expect("every item is answered")).collect()
        }
    }

    /// Reads one uid's last number.
    fn current(&self, call: Call, uid: Uid, epoch: Epoch) -> impl Future<Output = Result<Current, Refusal>> + Send;

    /// Reads many uids' last numbers, each by itself, in order.
    fn current_many(&self, call: Call, uids: Vec<Uid>) -> impl Future<Output = Vec<Result<Current, Refusal>>> + Send;

    /// Takes all numbers of a uid up to `to`; repeating it changes nothing. Answers the ownership that did it. `epoch` is the
    /// newest one of the uid's section that the caller has seen.
    ///
    /// Refused with [`Refusal::AlreadyPast`] when the uid is past the number, or may be.
    fn advance(
        &self,
        call: Call,
        uid: Uid,
        to: Target,
        epoch: Epoch,
    ) -> impl Future<Output = Result<Epoch, Refusal>> + Send;

    /// Version of the route table, 0 when there is none yet. Cheap enough for every call.
    fn route_version(&self) -> RouteVersion;

    /// The routes newer than a version, or `None` when there are none.
    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate>;
}
