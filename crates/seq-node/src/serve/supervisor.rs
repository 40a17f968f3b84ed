//! Sends notifications to systemd (`sd_notify(3)`): that the process is ready or stopping, a line with its status, and
//! the regular notifications that systemd's watchdog expects.
//!
//! If NOTIFY_SOCKET is not in the environment, which is so outside of a unit of `Type=notify`, nothing is sent.
//!
//! Invariant: the process never waits for a supervisor that does not read its socket. If the socket has no room for a
//! notification, the notification is lost. The available libraries for this protocol would wait in that case, so none
//! of them is used.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::time::Duration;
use std::{ffi, io};

use seq_command::environment;
use seq_kit::http::Checks;
use tokio::time::MissedTickBehavior;

/// Longest interval between two evaluations of the readiness checks.
const INTERVAL: Duration = Duration::from_millis(500);

/// Notifies the supervisor of the state of the process until the future is dropped, even while the process stops.
/// `stopping` completes when a stop is requested.
///
/// The notifications for the watchdog are sent on the current runtime. So the watchdog detects if the main thread makes
/// no progress. It does not detect that a store has no majority, because a restart would not help then.
pub(super) async fn notify(checks: Checks, stopping: impl Future<Output = ()>) {
    let Some(socket) = environment::notify_socket() else { return };
    let supervisor = match Supervisor::at(&socket) {
        Ok(supervisor) => supervisor,
        Err(error) => return tracing::warn!(?socket, %error, "the supervisor cannot be notified"),
    };
    let watchdog = environment::watchdog();
    let watched = || watchdog.map(|_| "WATCHDOG=1".to_owned());
    // The interval is half of the timeout, as sd_watchdog_enabled(3) recommends.
    let mut tick = tokio::time::interval(watchdog.map_or(INTERVAL, |timeout| INTERVAL.min(timeout / 2)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopping = pin!(stopping);
    let mut reported = Reported::default();
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let (former, update) = (reported.clone(), reported.update(checks.ask()));
                if !supervisor.send(update) {
                    // The notification was lost, so it is sent again at the next tick.
                    reported = former;
                }
            }
            () = &mut stopping => break,
        }
        supervisor.send(watched());
    }
    supervisor.send(Some("STOPPING=1\nSTATUS=stopping".to_owned()));
    loop {
        tick.tick().await;
        supervisor.send(watched());
    }
}

/// The socket of a supervisor.
struct Supervisor {
    socket: UnixDatagram,
    addr: SocketAddr,
}

impl Supervisor {
    /// Opens a socket to the supervisor. `name` is a path, or an abstract name after a `@`.
    fn at(name: &ffi::OsStr) -> io::Result<Supervisor> {
        let addr = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Supervisor { socket, addr })
    }

    /// Sends a notification, if there is one. Returns `false` if it was lost.
    fn send(&self, notification: Option<String>) -> bool {
        let Some(notification) = notification else { return true };
        let sent = self.socket.send_to_addr(notification.as_bytes(), &self.addr);
        if let Err(error) = &sent {
            tracing::debug!(%error, notification, "the supervisor was not notified");
        }
        sent.is_ok()
    }
}

/// The state of the process of which the supervisor was last notified.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// Whether the supervisor was notified that the process is ready. systemd ignores later notifications of readiness.
    ready: bool,
    status: String,
}

impl Reported {
    /// Returns the notification that has to be sent after the readiness checks had the result `checks`; `None` if no
    /// notification is needed.
    fn update(&mut self, checks: Result<(), Vec<(String, String)>>) -> Option<String> {
        let is_ready = checks.is_ok();
        let status = match checks {
            Ok(()) => "ready".to_owned(),
            Err(failed) => {
                let failed: Vec<String> = failed.iter().map(|(check, reason)| format!("{check}: {reason}")).collect();
                format!("not ready: {}", failed.join("; "))
            }
        };
        let becomes_ready = is_ready && !self.ready;
        if status == self.status && !becomes_ready {
            return None;
        }
        self.ready |= is_ready;
        // The protocol has one assignment per line.
        self.status.clone_from(&status);
        let status = status.replace('\n', " ");
        Some(if becomes_ready { format!("READY=1\nSTATUS={status}") } else { format!("STATUS={status}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(check: &str, reason: &str) -> Result<(), Vec<(String, String)>> {
        Err(vec![(check.to_owned(), reason.to_owned())])
    }

    #[test]
    fn a_process_is_ready_once_and_every_change_of_its_status_is_sent() {
        let mut reported = Reported::default();
        let mut update = |checks| reported.update(checks);
        assert_eq!(update(failed("lease", "no store")).as_deref(), Some("STATUS=not ready: lease: no store"));
        assert_eq!(update(failed("lease", "no store")), None);
        assert_eq!(update(Ok(())).as_deref(), Some("READY=1\nSTATUS=ready"));
        assert_eq!(update(Ok(())), None);
        assert_eq!(update(failed("lease", "two\nlines")).as_deref(), Some("STATUS=not ready: lease: two lines"));
        assert_eq!(update(Ok(())).as_deref(), Some("STATUS=ready"));
    }
}
