//! [`Service`] over the SDK.

use std::rc::Rc;
use std::time::Duration;

use seq_client::pool::Pool;
use seq_client::{Allocation, CallError, Client};
use seq_core::Seq;
use seq_proto::Reason;

use super::raises::RaiseWatch;
use super::{Failure, Reply, Service};
use crate::target::{Chain, Target, host_port};

/// A connected SDK.
#[derive(Clone, Debug)]
pub(crate) struct Sdk {
    client: Client,
}

impl Sdk {
    /// Connects to a cluster, with `connections` to each node and `deadline` for every call.
    pub(crate) async fn connect(target: &Target, connections: usize, deadline: Duration) -> anyhow::Result<Sdk> {
        let settings = Client::builder().connections(connections);
        Ok(Sdk { client: target.connect_with(settings, deadline).await? })
    }
}

/// Counts the ceiling raises of a cluster, over its own connections.
pub(crate) fn raise_watch(target: &Target) -> RaiseWatch {
    RaiseWatch::new(Pool::with_connections(1), target.addrs.iter().map(|addr| host_port(addr).to_owned()))
}

impl Service for Sdk {
    async fn next_many(&self, uids: &[u64]) -> Vec<Reply> {
        match self.client.next_many(uids).await {
            Ok(results) => results.into_iter().map(reply).collect(),
            Err(error) => vec![reply(Err(error)); uids.len()],
        }
    }
}

pub(crate) fn reply(result: Result<Allocation, CallError>) -> Reply {
    match result {
        Ok(Allocation { value, prev, lost, .. }) => Reply::Given { value: Seq(value), prev: Seq(prev), lost },
        Err(error) => Reply::Failed(Rc::new(failure(&error))),
    }
}

/// A call's error in the form of the history and the reports.
pub(crate) fn failure(error: &CallError) -> Failure {
    let (reason, attempts) = match error {
        CallError::UidOutside { .. } => ("UID_OUTSIDE", 0),
        CallError::CountOutOfRange { .. } => (Reason::CountOutOfRange.name(), 0),
        CallError::Refused(refused) if refused.reason.is_empty() => ("REFUSED_BY_OTHERS", refused.attempts),
        CallError::Refused(refused) => (&*refused.reason, refused.attempts),
        CallError::Unreachable(unreachable) => ("UNREACHABLE", unreachable.attempts),
        CallError::DeadlineExceeded { attempts, .. } => ("DEADLINE_EXCEEDED", *attempts),
        CallError::BadAnswer { .. } => ("BAD_ANSWER", 1),
        _ => ("OTHER", 1),
    };
    Failure {
        reason: reason.to_owned(),
        message: Chain(error).to_string(),
        retryable: error.is_retryable(),
        // The SDK does not report how many attempts were lost: at most all of them.
        lost: if error.may_have_applied() { attempts.max(1) } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_attempts_that_may_have_advanced_the_counter() {
        let outside = failure(&CallError::UidOutside { uid: 7 });
        assert_eq!((&*outside.reason, outside.retryable, outside.lost), ("UID_OUTSIDE", false, 0));
        let late = failure(&CallError::DeadlineExceeded { attempts: 3, may_have_applied: true });
        assert_eq!((&*late.reason, late.retryable, late.lost), ("DEADLINE_EXCEEDED", true, 3));
        let never_sent = failure(&CallError::DeadlineExceeded { attempts: 3, may_have_applied: false });
        assert_eq!(never_sent.lost, 0);
    }
}
