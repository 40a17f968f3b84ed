//! Password authentication on the Redis port, with a rate limit on wrong passwords.
//!
//! Each reply to a wrong password is delayed, and the delays of all connections of a node follow one after another, so
//! more connections do not allow more guesses. A connection also has only a few attempts. The reply to the right
//! password is not delayed.

use std::net::SocketAddr;
use std::time::Duration;

use seq_api::metrics::auth_failures;
use seq_api::node_events::NodeEvents;
use seq_kit::refusal_log::RefusalLog;
use seq_tenant::Token;
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::resp::RespConfig;

/// Number of wrong passwords after which a connection is closed. It allows for a few typing errors.
const MAX_WRONG: u32 = 5;

/// Delay of the reply to a wrong password. It allows ten guesses a second for the whole node. A person who mistypes a
/// password does not notice the delay.
const DELAY: Duration = Duration::from_millis(100);

/// Limit on the number of replies that are delayed at the same time. The last of them waits about three seconds. If the
/// limit is reached, a further wrong password closes its connection at once.
const MAX_WAITING: usize = 32;

/// Outcome of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthOutcome {
    /// The client may send every command.
    Admitted,
    /// No password is configured, and the client named no user.
    NotNeeded,
    /// Name or password is wrong.
    Wrong,
}

/// Checks the user and the password that a client sent. `user` is `None` if the client sent only a password. The check
/// takes the same time for all passwords of the same length.
pub(super) fn check(config: &RespConfig, user: Option<&[u8]>, password: &[u8]) -> AuthOutcome {
    let is_default = user.is_none_or(|user| user == b"default");
    match &config.password {
        // If no password is configured, the default user is admitted with any password, as in Redis.
        None if user.is_some() && is_default => AuthOutcome::Admitted,
        None if is_default => AuthOutcome::NotNeeded,
        Some(right) if bool::from(right.as_bytes().ct_eq(password)) && is_default => AuthOutcome::Admitted,
        _ => AuthOutcome::Wrong,
    }
}

/// Returns the tenant's token that a client sent as its password; `None` if the password is not a token. The client
/// must have named either the tenant as its user, or no user.
pub(super) fn token<'a>(user: Option<&'a [u8]>, password: &'a [u8]) -> Option<Token<'a>> {
    let password = std::str::from_utf8(password).ok()?;
    match user {
        Some(user) => Token::of_user(std::str::from_utf8(user).ok()?, password),
        None => Token::parse(password),
    }
}

/// Wrong passwords of all connections of a node.
pub(super) struct AuthFailures {
    failures: RefusalLog,
    waiting: Semaphore,
    /// Lock that is held while a reply is delayed, so that the delays follow one after another.
    turn: Mutex<()>,
}

impl AuthFailures {
    pub(super) fn new(node: &str, events: &NodeEvents) -> AuthFailures {
        AuthFailures {
            failures: auth_failures(node, events),
            waiting: Semaphore::new(MAX_WAITING),
            turn: Mutex::new(()),
        }
    }

    /// Counts and logs a wrong password, and delays the reply to it. `wrong` is the number of wrong passwords on its
    /// connection so far. Returns whether the connection may try again.
    pub(super) async fn delay_reply(&self, peer: Option<SocketAddr>, wrong: u32, stop: &CancellationToken) -> bool {
        if let Some((event, suppressed)) = self.failures.count() {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(event, peer, suppressed, "a wrong password at the Redis port");
        }
        let Ok(_waiting) = self.waiting.try_acquire() else { return false };
        let delayed = async {
            let _turn = self.turn.lock().await;
            tokio::time::sleep(DELAY).await;
        };
        tokio::select! {
            () = delayed => wrong < MAX_WRONG,
            () = stop.cancelled() => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_password_is_right_or_wrong() {
        let with =
            |password: Option<&str>| RespConfig { password: password.map(str::to_owned), ..RespConfig::defaults() };
        let user = |name: &'static str| Some(name.as_bytes());
        let table = [
            (Some("secret"), None, "secret", AuthOutcome::Admitted),
            (Some("secret"), user("default"), "secret", AuthOutcome::Admitted),
            (Some("secret"), user("other"), "secret", AuthOutcome::Wrong),
            (Some("secret"), None, "secreT", AuthOutcome::Wrong),
            (Some("secret"), None, "secre", AuthOutcome::Wrong),
            (Some("secret"), None, "", AuthOutcome::Wrong),
            (None, None, "any", AuthOutcome::NotNeeded),
            (None, user("default"), "any", AuthOutcome::Admitted),
            (None, user("other"), "any", AuthOutcome::Wrong),
        ];
        for (password, user, sent, expected) in table {
            assert_eq!(check(&with(password), user, sent.as_bytes()), expected, "{password:?} {user:?} {sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_passwords_of_all_connections_are_delayed_one_by_one() {
        let (failures, stop) = (AuthFailures::new("a1", &NodeEvents::default()), CancellationToken::new());
        let began = Instant::now();
        let tries = (0..100).map(|_| failures.delay_reply(None, 1, &stop));
        let admitted = futures::future::join_all(tries).await.into_iter().filter(|may_retry| *may_retry).count();
        assert_eq!(admitted, MAX_WAITING, "the others are closed");
        assert!(began.elapsed() >= DELAY * MAX_WAITING as u32, "{:?}", began.elapsed());
        assert!(!failures.delay_reply(None, MAX_WRONG, &stop).await, "a connection has few attempts");
    }
}
