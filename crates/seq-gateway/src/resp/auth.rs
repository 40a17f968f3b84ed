//! The password of the port, and what a guess at it costs.
//!
//! A wrong password is answered after a delay, one at a time for the whole node however many connections guess, and a connection
//! has few tries. A right one is answered at once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Counter, counter};
use seq_kit::metrics::AUTH_FAILURES_TOTAL;
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::resp::RespConfig;

/// Wrong passwords after which a connection is cut: a person's typing errors.
const MAX_WRONG: u32 = 5;

/// Delay of the reply to a wrong password: ten guesses a second for a node, and no cost to a typing error.
const DELAY: Duration = Duration::from_millis(100);

/// Most wrong passwords that wait, so that the last one waits some three seconds. The next ones end their connection at once.
const MAX_WAITING: usize = 32;

/// Least time between two lines of the log about wrong passwords.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What a client is to the port before it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may send every command.
    Admitted,
    /// There is no password, and it named no user.
    NotNeeded,
    /// Name or password is wrong.
    Wrong,
}

/// Judges a name and a password; without a name only the password was sent. Takes as long for every password of one length.
pub(super) fn judge(config: &RespConfig, user: Option<&[u8]>, password: &[u8]) -> Verdict {
    let is_default = user.is_none_or(|user| user == b"default");
    match &config.password {
        // As in Redis, the default user without a password is admitted with any.
        None if user.is_some() && is_default => Verdict::Admitted,
        None if is_default => Verdict::NotNeeded,
        Some(right) if bool::from(right.as_bytes().ct_eq(password)) && is_default => Verdict::Admitted,
        _ => Verdict::Wrong,
    }
}

/// The wrong passwords of a node.
pub(super) struct Guesses {
    failures: Counter,
    waiting: Semaphore,
    /// Held while one of them is delayed.
    turn: Mutex<()>,
    logged: Mutex<Log>,
    total: AtomicU64,
}

/// When wrong passwords were logged last.
#[derive(Default)]
struct Log {
    last: Option<Instant>,
}

impl Guesses {
    pub(super) fn new(node: &str) -> Guesses {
        Guesses {
            failures: counter!(AUTH_FAILURES_TOTAL, "node" => node.to_owned()),
            waiting: Semaphore::new(MAX_WAITING),
            turn: Mutex::new(()),
            logged: Mutex::new(Log::default()),
            total: AtomicU64::new(0),
        }
    }

    /// Counts a connection's wrong password, its `wrong`th, and delays it. Answers whether the connection may try again.
    pub(super) async fn on_wrong(&self, peer: Option<SocketAddr>, wrong: u32, stop: &CancellationToken) -> bool {
        self.failures.increment(1);
        let total = self.total.fetch_add(1, Relaxed) + 1;
        self.log(peer, total);
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

    fn log(&self, peer: Option<SocketAddr>, total: u64) {
        let Ok(mut log) = self.logged.try_lock() else { return };
        if log.last.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
            log.last = Some(Instant::now());
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, total, "wrong passwords at the Redis port");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_right_or_wrong() {
        let with =
            |password: Option<&str>| RespConfig { password: password.map(str::to_owned), ..RespConfig::defaults() };
        let user = |name: &'static str| Some(name.as_bytes());
        let table = [
            (Some("secret"), None, "secret", Verdict::Admitted),
            (Some("secret"), user("default"), "secret", Verdict::Admitted),
            (Some("secret"), user("other"), "secret", Verdict::Wrong),
            (Some("secret"), None, "secreT", Verdict::Wrong),
            (Some("secret"), None, "secre", Verdict::Wrong),
            (Some("secret"), None, "", Verdict::Wrong),
            (None, None, "any", Verdict::NotNeeded),
            (None, user("default"), "any", Verdict::Admitted),
            (None, user("other"), "any", Verdict::Wrong),
        ];
        for (password, user, sent, verdict) in table {
            assert_eq!(judge(&with(password), user, sent.as_bytes()), verdict, "{password:?} {user:?} {sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_of_all_connections_are_answered_one_after_another() {
        let (guesses, stop) = (Guesses::new("a1"), CancellationToken::new());
        let began = Instant::now();
        let tries = (0..100).map(|_| guesses.on_wrong(None, 1, &stop));
        let again = futures::future::join_all(tries).await.into_iter().filter(|again| *again).count();
        assert_eq!(again, MAX_WAITING, "the others are cut");
        assert!(began.elapsed() >= DELAY * MAX_WAITING as u32, "{:?}", began.elapsed());
        assert!(!guesses.on_wrong(None, MAX_WRONG, &stop).await, "a connection has few tries");
    }
}
