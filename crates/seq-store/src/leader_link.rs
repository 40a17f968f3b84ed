//! Forwarding of requests from a follower to the leader. A request is forwarded only once, and only within the rest of
//! its deadline.
//!
//! An AllocSvr, an operator or another set's store may be unable to reach the leader, although a follower can reach
//! both the sender and the leader. If that follower did not forward the requests, they would fail until another member
//! leads, although a majority of the store is healthy.
//!
//! **Invariant:** the response to a forwarded request comes from the leader, after the leader has applied the command.
//! A follower never responds from its own state. If the follower cannot reach the leader, it refuses the request with
//! LEADER_UNREACHABLE, and this error does not contain the leader's address. Otherwise a caller that cannot reach the
//! leader either would alternate between the follower and the leader. A forwarded request carries [`FORWARDED_BY`], and
//! no member forwards it again. As on any network, a copy of a request may arrive late or twice, but this is harmless
//! because every command can be applied repeatedly.
//!
//! A service forwards a request as in this example:
//!
//! ```ignore
//! match self.leader.hop(request.metadata())? {
//!     None => self.local.renew(request).await,
//!     Some(hop) => hop.forward(request, |channel, request| async move { client(channel).renew(request).await }).await,
//! }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_api::metrics::CONTROL_FORWARDED_TOTAL;
use seq_kit::telemetry::traces;
use seq_proto::{Reason, status};
use seq_raft::{Gate, ProposeError, QuorumStatus, RaftHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::replicated_set::SetState;
use crate::sender::state_sender;

/// Metadata key of a forwarded request. Its value is the Raft id of the member that forwards it.
const FORWARDED_BY: &str = "seqsvr-forwarded-by";

/// Maximum number of requests that a member forwards at the same time. If each request has 128 KiB, they take 128 MiB.
/// The renewals and raises of a set with 400 AllocSvrs need a few hundred requests at the same time.
const MAX_FORWARDED: usize = 1_024;

/// Metadata key with which a gRPC caller states its timeout.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Gate of the connection from this member to the leader. It opens once the member is loaded. Clones share the
/// connection and the limit on concurrent requests.
#[derive(Clone)]
pub(crate) struct LeaderHop(pub(crate) Gate<LeaderLink>);

/// Connection of a follower to the leader.
pub(crate) struct LeaderLink {
    raft: RaftHandle<SetState>,
    /// Names of the set and of the member in metrics.
    names: (String, String),
    /// Timeout of a forwarded request whose caller stated none.
    timeout: Duration,
    /// Address of the leader to which the last request was forwarded, and the connection to it.
    channel: Mutex<Option<(String, Channel)>>,
    permits: Arc<Semaphore>,
}

/// Permission and connection to forward one request to the leader.
pub(crate) struct Hop<'a> {
    link: &'a LeaderLink,
    leader: u64,
    addr: String,
    channel: Channel,
    timeout: Duration,
    _permit: OwnedSemaphorePermit,
}

impl LeaderHop {
    /// Returns the [`Hop`] with which the request with the metadata `metadata` is forwarded to the leader. Returns
    /// `None` if this member must process the request itself, because it leads, knows no leader, is starting, or
    /// received a request that was already forwarded.
    ///
    /// # Errors
    /// `LEADER_UNREACHABLE` if no messages of the leader arrive here, or `NOT_LEADER` if too many requests are being
    /// forwarded.
    pub(crate) fn hop(&self, metadata: &MetadataMap) -> Result<Option<Hop<'_>>, Status> {
        let Some(link) = self.0.peek() else { return Ok(None) };
        if metadata.contains_key(FORWARDED_BY) {
            return Ok(None);
        }
        let Some((leader, addr)) = link.raft.other_leader() else { return Ok(None) };
        // No messages of the leader arrive here, so it would not respond. The caller should retry at another member.
        if let quorum @ QuorumStatus::Leaderless { .. } = link.raft.quorum() {
            link.count("unreachable");
            return Err(link.unreachable(leader, &addr, Code::Unavailable, &quorum.to_string()));
        }
        let Ok(permit) = link.permits.clone().try_acquire_owned() else {
            return Err(ProposeError::NotLeader { leader: Some(addr) }.into());
        };
        let channel = link.channel(&addr).map_err(|why| link.unreachable(leader, &addr, Code::Unavailable, &why))?;
        let timeout = stated_timeout(metadata).unwrap_or(link.timeout);
        Ok(Some(Hop { link, leader, addr, channel, timeout, _permit: permit }))
    }

    /// Returns the addresses of the store's members, beginning with this member. The list is empty while this member is
    /// starting.
    pub(crate) fn stores(&self) -> Vec<String> {
        self.0.peek().map(|link| link.raft.member_addrs()).unwrap_or_default()
    }
}

impl LeaderLink {
    pub(crate) fn new(raft: RaftHandle<SetState>, (set, node): (&str, &str), timeout: Duration) -> LeaderLink {
        let (names, permits) = ((set.to_owned(), node.to_owned()), Arc::new(Semaphore::new(MAX_FORWARDED)));
        LeaderLink { raft, names, timeout, channel: Mutex::default(), permits }
    }

    fn channel(&self, addr: &str) -> Result<Channel, String> {
        let mut known = self.channel.lock();
        if let Some((_, channel)) = known.as_ref().filter(|(there, _)| there == addr) {
            return Ok(channel.clone());
        }
        let channel = self.raft.connect(addr).map_err(|error| error.to_string())?;
        *known = Some((addr.to_owned(), channel.clone()));
        Ok(channel)
    }

    /// Returns the error `LEADER_UNREACHABLE`. Its metadata does not contain the leader's address, for the reason in
    /// the documentation of this module.
    fn unreachable(&self, leader: u64, addr: &str, code: Code, why: &str) -> Status {
        let text = format!("store {leader} at {addr} leads, and this follower cannot forward the request to it: {why}");
        Reason::LeaderUnreachable.status_as(code, text)
    }

    fn count(&self, outcome: &'static str) {
        let (set, node) = self.names.clone();
        let labels = [("set", set), ("node", node), ("outcome", outcome.to_owned())];
        metrics::counter!(CONTROL_FORWARDED_TOTAL, &labels).increment(1);
    }
}

impl Hop<'_> {
    /// Forwards a request to the leader. `call` sends the request on the given channel. Returns the leader's response
    /// or its error, or an error of this member if it received neither.
    ///
    /// # Errors
    /// The leader's error, or `LEADER_UNREACHABLE`.
    pub(crate) async fn forward<Q, R, F>(
        self,
        request: Request<Q>,
        call: impl FnOnce(Channel, Request<Q>) -> F,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let mut forwarded = Request::new(());
        state_sender(&request, &mut forwarded);
        let mut forwarded = forwarded.map(|()| request.into_inner());
        forwarded.set_timeout(self.timeout);
        let me = self.link.raft.id().to_string();
        traces::inject(forwarded.metadata_mut());
        forwarded.metadata_mut().insert(FORWARDED_BY, me.parse().expect("a number is a metadata value"));
        let Hop { link, leader, addr, channel, timeout, _permit } = self;
        let outcome = match tokio::time::timeout(timeout, call(channel, forwarded)).await {
            // Only the message is passed on to the caller, because the leader's headers concern the connection between
            // the two members.
            Ok(Ok(response)) => Ok(Response::new(response.into_inner())),
            // A status with a reason comes from the leader, and a status without a reason comes from the connection.
            Ok(Err(refusal)) if status::reason(&refusal).is_some() => Err(refusal),
            Ok(Err(refusal)) => Err(link.unreachable(leader, &addr, Code::Unavailable, refusal.message())),
            Err(_) => {
                Err(link.unreachable(leader, &addr, Code::DeadlineExceeded, &format!("no response within {timeout:?}")))
            }
        };
        let reached = outcome.as_ref().err().and_then(status::known_reason) != Some(Reason::LeaderUnreachable);
        link.count(if reached { "answered" } else { "unreachable" });
        outcome
    }
}

/// Parses the timeout that the caller states in the gRPC metadata. Returns `None` if the timeout is missing or
/// malformed.
fn stated_timeout(metadata: &MetadataMap) -> Option<Duration> {
    let stated = metadata.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (number, unit) = stated.split_at_checked(stated.len().checked_sub(1)?)?;
    // The gRPC specification allows at most eight digits, so no product below overflows.
    let number = (number.len() <= 8).then(|| number.parse::<u64>().ok())??;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_of_a_call_is_read_as_grpc_states_it() {
        let stated = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(GRPC_TIMEOUT, text.parse().unwrap());
            stated_timeout(&metadata)
        };
        assert_eq!(stated("500m"), Some(Duration::from_millis(500)));
        assert_eq!(stated("499999u"), Some(Duration::from_micros(499_999)));
        assert_eq!(stated("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for unreadable in ["m", "5", "-1S", "999999999S", "1x"] {
            assert_eq!(stated(unreadable), None, "{unreadable}");
        }
        assert_eq!(stated_timeout(&MetadataMap::new()), None);
        // The form that tonic clients send.
        let mut request = Request::new(());
        request.set_timeout(Duration::from_millis(250));
        assert_eq!(stated_timeout(request.metadata()), Some(Duration::from_millis(250)));
    }
}
