//! Decides to which member of the store an AllocSvr sends a call, and how often it repeats the call.
//!
//! Every call of an AllocSvr to the store can be repeated safely. The store recognises a repeated registration by its
//! token and a repeated renewal by its number, and a raise states an absolute ceiling. So if a member does not respond
//! to an attempt, the call is sent to the next member at once. The number of attempts of a call is the number of
//! members plus one, so that the call can try every member and then a member that was named as the leader. After an
//! attempt was abandoned, a response to it is dropped.
//!
//! A time is a duration since any origin that is the same in all calls. The caller, which does the I/O, reads the
//! clock.

use alloc::vec::Vec;
use core::time::Duration;

/// Timeout of one attempt of a call, which is sent to one member, unless an operator configures another timeout.
pub const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);

/// Time for which a member that did not respond is not called first, even if the store reports it as the leader. During
/// this time, calls go to another member, which forwards them to the leader. After this time, a call goes to the
/// reported leader first again. If the leader still does not respond, this call loses one timeout, which is a quarter
/// of a default lease, and the time begins again.
pub const UNRESPONSIVE_FOR: Duration = Duration::from_secs(10);

/// The members of a store, and the member that is called first. `A` is the type of a member's address.
#[derive(Clone, Debug)]
pub struct StoreMembers<A> {
    /// The members that the leader reported last, followed by the members of the set file that are not among them.
    /// Never empty.
    all: Vec<A>,
    /// The members of the set file.
    file: Vec<A>,
    /// The leader, or the follower that forwards to it.
    first: A,
    /// The last member that did not respond, and the time when its attempt failed.
    unresponsive: Option<(A, Duration)>,
}

/// A call in flight, with its current attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall<A> {
    member: A,
    /// Number of the attempt, from 0.
    attempt: u32,
    /// Attempts that may follow.
    left: usize,
}

/// Reason why an attempt brought no response of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure<A> {
    /// The member does not lead; it may know the leader.
    NotLeader(Option<A>),
    /// The member responded, and cannot serve the call now.
    Unavailable,
    /// The member did not respond in time, or cannot be reached.
    NoResponse,
}

impl<A> StoreCall<A> {
    /// Returns the member to send this attempt to.
    #[must_use]
    pub fn member(&self) -> &A {
        &self.member
    }

    /// Returns the number of the attempt, from 0. A response to another attempt is dropped.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl<A: Clone + PartialEq> StoreMembers<A> {
    /// Creates the list from the members of the set file.
    ///
    /// # Panics
    /// Without members.
    #[must_use]
    pub fn new(file: Vec<A>) -> StoreMembers<A> {
        let first = file.first().expect("a store has members").clone();
        StoreMembers { all: file.clone(), file, first, unresponsive: None }
    }

    /// Begins a call with its first attempt.
    #[must_use]
    pub fn begin(&self) -> StoreCall<A> {
        StoreCall { member: self.first.clone(), attempt: 0, left: self.all.len() }
    }

    /// Notes that an attempt got a response of the leader, either from the leader itself or through the member that was
    /// called. The next call goes to that member first.
    pub fn on_response(&mut self, call: &StoreCall<A>) {
        self.first.clone_from(&call.member);
    }

    /// Notes that an attempt failed. Returns true if the caller is to make another attempt, which `call` now describes,
    /// and false if the whole call failed.
    #[must_use]
    pub fn on_failure(&mut self, call: &mut StoreCall<A>, failure: AttemptFailure<A>, now: Duration) -> bool {
        let named = match failure {
            AttemptFailure::NotLeader(leader) => leader.filter(|leader| *leader != call.member),
            AttemptFailure::Unavailable => None,
            AttemptFailure::NoResponse => {
                self.unresponsive = Some((call.member.clone(), now));
                None
            }
        };
        call.member = named.unwrap_or_else(|| self.after(&call.member));
        // The next call starts where this call would have continued.
        self.first.clone_from(&call.member);
        call.attempt += 1;
        let more = call.left > 0;
        call.left = call.left.saturating_sub(1);
        more
    }

    /// Adopts a list of members that the store sent, with the leader first. The list may have members that are not in
    /// the set file, because they were added later. The next call goes to the leader directly, unless the leader failed
    /// to respond within the last [`UNRESPONSIVE_FOR`]. An empty list changes nothing.
    pub fn adopt(&mut self, members: &[A], now: Duration) {
        let Some(leader) = members.first() else { return };
        let unresponsive = self.unresponsive.as_ref();
        let avoided = unresponsive.is_some_and(|(at, since)| at == leader && now - *since < UNRESPONSIVE_FOR);
        if !avoided {
            self.first.clone_from(leader);
        }
        let rest = self.file.iter().filter(|member| !members.contains(member));
        self.all = members.iter().chain(rest).cloned().collect();
    }

    /// Returns the member that follows `member` in the list, after the last member the first. If `member` is not in the
    /// list, returns the first member.
    fn after(&self, member: &A) -> A {
        let next = self.all.iter().position(|one| one == member).map_or(0, |index| index + 1);
        self.all[next % self.all.len()].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttemptFailure::{NoResponse, NotLeader, Unavailable};

    const NOW: Duration = Duration::from_secs(100);

    fn three() -> StoreMembers<&'static str> {
        StoreMembers::new(["s1", "s2", "s3"].into())
    }

    #[test]
    fn each_member_is_tried_once_and_the_one_that_is_named() {
        let mut members = three();
        let mut call = members.begin();
        let mut tried = alloc::vec![*call.member()];
        for failure in [NoResponse, Unavailable, NotLeader(Some("s2"))] {
            assert!(members.on_failure(&mut call, failure, NOW));
            tried.push(*call.member());
        }
        assert_eq!((tried.as_slice(), call.attempt()), (&["s1", "s2", "s3", "s2"][..], 3));
        assert!(!members.on_failure(&mut call, NotLeader(Some("s2")), NOW), "four attempts at three members");
        assert_eq!(*members.begin().member(), "s3", "the next call goes on from there");
        members.on_response(&call);
        assert_eq!(members.begin().member(), call.member());
    }

    #[test]
    fn an_unresponsive_leader_is_called_by_way_of_a_follower_and_tried_again() {
        let mut members = three();
        let mut call = members.begin();
        assert!(members.on_failure(&mut call, NoResponse, NOW));
        members.adopt(&["s1", "s2", "s3"], NOW);
        assert_eq!(*members.begin().member(), "s2", "the follower that forwarded goes on doing so");
        members.adopt(&["s1", "s2", "s3"], NOW + UNRESPONSIVE_FOR);
        assert_eq!(*members.begin().member(), "s1");
    }

    #[test]
    fn members_that_the_set_file_does_not_name_are_found() {
        let mut members = three();
        members.adopt(&["s5", "s4", "s6"], NOW);
        assert_eq!(*members.begin().member(), "s5");
        assert_eq!(members.all, ["s5", "s4", "s6", "s1", "s2", "s3"]);
        assert_eq!((members.after(&"s5"), members.after(&"s3")), ("s4", "s5"));
        members.adopt(&[], NOW);
        assert_eq!(*members.begin().member(), "s5", "a response of an older store names none");
    }
}
