//! Access of browsers to the console.
//!
//! Every request needs a `Host` under which the console was opened, so that no name of another site can lead to it
//! (DNS rebinding), and must not come from a page of another site. A console with a login needs a cookie as well: the
//! address that the command prints has a token, which can be exchanged once for the cookie. The console keeps only
//! hashes of tokens and cookies.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

/// Time for which a token can be exchanged.
pub(crate) const TOKEN_LIFE: Duration = Duration::from_secs(300);

/// Tokens that can be exchanged at the same time; a new one replaces the oldest.
const MAX_TOKENS: usize = 4;

/// Browsers that are logged in at the same time; a new one replaces the oldest.
const MAX_SESSIONS: usize = 32;

/// Random bytes of a token and of a cookie.
const SECRET_BYTES: usize = 32;

type Hash = [u8; 32];

/// The rule about access.
pub(crate) struct Access {
    /// Names of the console in the header `Host`, each with the port.
    hosts: Vec<String>,
    /// Name of the cookie. The name has the port, because a browser keeps one collection of cookies for all ports of a
    /// host. For the same reason the browser sends the cookie to a server at any other port of the host.
    cookie: String,
    logins: Option<Mutex<Logins>>,
}

/// Tokens and cookies that are valid.
///
/// **Invariant:** at most [`MAX_TOKENS`] tokens and [`MAX_SESSIONS`] sessions.
#[derive(Default)]
struct Logins {
    tokens: Vec<(Hash, Instant)>,
    sessions: Vec<Hash>,
}

/// A request that is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The name in `Host` is not of this console.
    Host,
    /// The request comes from a page of another site.
    CrossSite,
    /// The method changes something.
    Method,
    /// The browser is not logged in.
    Login,
}

impl Refused {
    /// Returns the status and the text of the response.
    pub(crate) fn response(&self) -> (StatusCode, &'static str) {
        match self {
            Refused::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "this console is reached only under the address that it printed; from another machine, forward the same port \
                 to that address with ssh -L",
            ),
            Refused::CrossSite => (
                StatusCode::FORBIDDEN,
                "the request comes from a page of another site: copy the address into the address bar",
            ),
            Refused::Method => (StatusCode::METHOD_NOT_ALLOWED, "the console only reads: GET and HEAD"),
            Refused::Login => (
                StatusCode::UNAUTHORIZED,
                "not logged in: open the address that `seqsvr console` printed; press Enter in its terminal for a new one, \
                 because an address is valid once and for 5 minutes",
            ),
        }
    }
}

impl Access {
    /// Returns the rule for a console at an address of this machine, with or without a login.
    pub(crate) fn new(addr: SocketAddr, has_login: bool) -> Access {
        let port = addr.port();
        Access {
            hosts: vec![addr.to_string(), format!("localhost:{port}")],
            cookie: format!("seqsvr-console-{port}"),
            logins: has_login.then(Mutex::default),
        }
    }

    /// Returns a new token; `None` for a console without a login.
    pub(crate) fn issue(&self) -> Option<String> {
        let mut logins = self.logins.as_ref()?.lock();
        let token = secret();
        if logins.tokens.len() == MAX_TOKENS {
            logins.tokens.remove(0);
        }
        logins.tokens.push((hash(&token), Instant::now()));
        Some(token)
    }

    /// Exchanges a token for the header that sets the cookie. A token can be exchanged once.
    ///
    /// # Errors
    /// The token is unknown, used or too old.
    pub(crate) fn log_in(&self, token: &str) -> Result<String, Refused> {
        let mut logins = self.logins.as_ref().ok_or(Refused::Login)?.lock();
        let now = Instant::now();
        logins.tokens.retain(|(_, issued)| now.duration_since(*issued) < TOKEN_LIFE);
        let given = hash(token);
        let place = logins.tokens.iter().position(|(known, _)| bool::from(known.ct_eq(&given)));
        logins.tokens.remove(place.ok_or(Refused::Login)?);
        let session = secret();
        if logins.sessions.len() == MAX_SESSIONS {
            logins.sessions.remove(0);
        }
        logins.sessions.push(hash(&session));
        Ok(format!("{}={session}; Path=/; HttpOnly; SameSite=Strict", self.cookie))
    }

    /// Checks the parts of a request that do not depend on its path.
    ///
    /// # Errors
    /// The first rule that the request breaks.
    pub(crate) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if headers.get_all(header::HOST).iter().count() != 1 || !self.hosts.iter().any(|known| known == host) {
            return Err(Refused::Host);
        }
        // Browsers without the header are covered by the rules about Host and the cookie.
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        if !matches!(site, None | Some(b"none" | b"same-origin")) {
            return Err(Refused::CrossSite);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Refused::Method);
        }
        Ok(())
    }

    /// Checks that a request has the cookie of a browser that is logged in.
    ///
    /// # Errors
    /// [`Refused::Login`] if it has not.
    pub(crate) fn check_login(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(logins) = &self.logins else { return Ok(()) };
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|value| value.split("; ")).filter_map(|pair| pair.split_once('='));
        let mut given = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| hash(value));
        let sessions = &logins.lock().sessions;
        // A server at another port of this machine may have set a cookie of the same name, so any of them counts.
        let is_known = |given: Hash| sessions.iter().any(|known| bool::from(known.ct_eq(&given)));
        if given.any(is_known) { Ok(()) } else { Err(Refused::Login) }
    }
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret).into()
}

/// Returns random digits.
pub(crate) fn secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn access(has_login: bool) -> Access {
        at("127.0.0.1:7190", has_login)
    }

    fn at(addr: &str, has_login: bool) -> Access {
        Access::new(addr.parse().expect("an address"), has_login)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).expect("plain text");
        pairs.iter().map(|(name, text)| (header::HeaderName::from_static(name), value(text))).collect()
    }

    fn check(method: Method, pairs: &[(&'static str, &str)]) -> Result<(), Refused> {
        access(true).check(&method, &headers(pairs))
    }

    #[test]
    fn only_own_names_and_own_pages_are_accepted() {
        let own = ("host", "127.0.0.1:7190");
        assert_eq!(check(Method::GET, &[own]), Ok(()));
        assert_eq!(check(Method::HEAD, &[("host", "localhost:7190"), ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(check(Method::GET, &[own, ("sec-fetch-site", "none")]), Ok(()));
        for host in ["evil.example:7190", "127.0.0.1", "127.0.0.1:7191", "127.0.0.1:7190.evil.example", ""] {
            assert_eq!(check(Method::GET, &[("host", host)]), Err(Refused::Host), "{host}");
        }
        assert_eq!(check(Method::GET, &[]), Err(Refused::Host));
        for site in ["cross-site", "same-site", "unknown", ""] {
            assert_eq!(check(Method::GET, &[own, ("sec-fetch-site", site)]), Err(Refused::CrossSite), "{site}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(check(method, &[own]), Err(Refused::Method));
        }
    }

    #[test]
    fn two_hosts_in_a_request_are_refused() {
        let mut two = headers(&[("host", "127.0.0.1:7190")]);
        two.append(header::HOST, HeaderValue::from_static("127.0.0.1:7190"));
        assert_eq!(access(true).check(&Method::GET, &two), Err(Refused::Host));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_exchanged_once_and_in_time() {
        let access = access(true);
        let token = access.issue().expect("a console with a login");
        let cookie = access.log_in(&token).expect("a new token");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(access.log_in(&token), Err(Refused::Login), "used");
        assert_eq!(access.log_in(""), Err(Refused::Login));
        let pair = cookie.split(';').next().expect("a pair");
        assert_eq!(access.check_login(&headers(&[("cookie", pair)])), Ok(()));
        assert_eq!(access.check_login(&headers(&[("cookie", &format!("other=1; {pair}"))])), Ok(()));
        for other in ["", "seqsvr-console-7190=", "seqsvr-console-7191=0", &format!("{pair}0")] {
            assert_eq!(access.check_login(&headers(&[("cookie", other)])), Err(Refused::Login), "{other}");
        }
        let late = access.issue().expect("a console with a login");
        tokio::time::advance(TOKEN_LIFE).await;
        assert_eq!(access.log_in(&late), Err(Refused::Login), "too old");
    }

    #[test]
    fn a_cookie_is_of_one_process_and_one_port() {
        let log_in = |access: &Access| {
            let token = access.issue().expect("a console with a login");
            access.log_in(&token).expect("a new token").split(';').next().expect("a pair").to_owned()
        };
        let console = access(true);
        let pair = log_in(&console);
        assert!(pair.starts_with("seqsvr-console-7190="), "{pair}");
        let cookie = headers(&[("cookie", &pair)]);
        assert_eq!(console.check_login(&cookie), Ok(()));
        assert_eq!(access(true).check_login(&cookie), Err(Refused::Login), "the next process at the same port");
        let other = at("127.0.0.1:7191", true);
        let renamed = headers(&[("cookie", &pair.replace("7190", "7191"))]);
        assert_eq!(other.check_login(&renamed), Err(Refused::Login), "a console at another port");
        // The names of two consoles do not replace each other in the cookies of the host.
        let both = headers(&[("cookie", &format!("{pair}; {}", log_in(&other)))]);
        assert_eq!((console.check_login(&both), other.check_login(&both)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_console_may_have_an_address_of_its_own() {
        let own = at("127.90.3.7:7190", true);
        let of = |host: &str| own.check(&Method::GET, &headers(&[("host", host)]));
        assert_eq!((of("127.90.3.7:7190"), of("127.0.0.1:7190")), (Ok(()), Err(Refused::Host)));
    }

    #[test]
    fn tokens_and_sessions_are_bounded() {
        let access = access(true);
        let first = access.issue().expect("a console with a login");
        for _ in 0..MAX_TOKENS {
            access.issue();
        }
        assert_eq!(access.log_in(&first), Err(Refused::Login), "replaced");
        for _ in 0..2 * MAX_SESSIONS {
            let token = access.issue().expect("a console with a login");
            access.log_in(&token).expect("a new token");
        }
        let logins = access.logins.as_ref().expect("a console with a login").lock();
        assert_eq!((logins.sessions.len(), logins.tokens.len()), (MAX_SESSIONS, MAX_TOKENS - 1));
    }

    #[test]
    fn a_console_without_a_login_has_no_tokens() {
        let open = access(false);
        assert_eq!((open.issue(), open.check_login(&HeaderMap::new())), (None, Ok(())));
        assert_eq!(open.log_in("0"), Err(Refused::Login));
    }
}
