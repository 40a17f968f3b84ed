//! The port of the console: checks each request, and serves pages, their updates and the section map.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use maud::{Markup, html};
use seq_channel::Pool;
use seq_command::store_client::Node;
use seq_observe::Observer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::access::{Access, Refused};
use crate::console::Console;
use crate::heat::Heat;
use crate::html::{self, Frame};
use crate::model::{Age, Model};
use crate::route::Route;
use crate::{access, assets, connections, gzip, live, page};

/// Open streams of updates, each of an open page.
const MAX_STREAMS: usize = 64;

/// The cluster that a console shows, and the access to the console.
pub struct Options {
    /// Connections to nodes.
    pub pool: Pool,
    /// Nodes from which the other nodes are found.
    pub seeds: Vec<Node>,
    /// Whether all sets of the cluster are shown, and not only the sets of the seeds.
    pub all_sets: bool,
    /// Timeout of each node.
    pub timeout: Duration,
    /// Holder of the certificate of the connections, as `operator/admin`, which pages show.
    pub identity: String,
    /// Whether a browser needs the cookie that a token is exchanged for.
    pub has_login: bool,
}

/// A console with an open port.
pub struct Server {
    console: Arc<Console>,
    listener: TcpListener,
    addr: SocketAddr,
    observing: futures::future::BoxFuture<'static, ()>,
}

impl Server {
    /// Creates a console on a listener of a loopback address.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn new(listener: TcpListener, options: Options) -> std::io::Result<Server> {
        let addr = listener.local_addr()?;
        let Options { pool, seeds, all_sets, timeout, identity, has_login } = options;
        let (model, observing) = Model::new(Observer::new(pool.clone(), seeds, all_sets, timeout));
        let console = Console {
            id: access::secret(),
            model,
            heat: Heat::new(pool.clone(), timeout),
            pool,
            timeout,
            identity,
            access: Access::new(addr, has_login),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        };
        Ok(Server { console: Arc::new(console), listener, addr, observing: Box::pin(observing) })
    }

    /// Returns a handle that makes addresses for browsers while the console is served.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses { console: Arc::clone(&self.console), addr: self.addr }
    }

    /// Serves the console until `stop` completes, and then closes all connections.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Server { console, listener, observing, .. } = self;
        let router = Router::new()
            .route("/login", get(log_in))
            .route("/live", get(updates))
            .route("/map/levels", get(levels))
            .fallback(document)
            .layer(middleware::from_fn_with_state(Arc::clone(&console), guard))
            .with_state(console);
        tokio::select! {
            never = connections::serve(listener, router) => match never {},
            () = observing => {}
            () = stop => {}
        }
    }
}

/// Makes addresses for browsers.
pub struct Addresses {
    console: Arc<Console>,
    addr: SocketAddr,
}

impl Addresses {
    /// Returns the address of the port.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.addr
    }

    /// Returns an address that opens the console. With a login it is valid once and for five minutes.
    #[must_use]
    pub fn next(&self) -> String {
        match self.console.access.issue() {
            Some(token) => format!("http://{}/login?token={token}", self.addr),
            None => format!("http://{}/", self.addr),
        }
    }
}

/// Headers of every response. The policy allows only own scripts, styles, images and connections, and no text becomes
/// markup in a browser.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Refuses requests that break a rule about access, and adds the headers of every response.
async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // A browser needs the style of the page that refuses it, and the address with the token.
    let is_open = path == "/login" || path.starts_with("/assets/");
    let login = console.access.check_login(request.headers());
    let is_logged_in = login.is_ok();
    let checked = console.access.check(request.method(), request.headers()).and(if is_open { Ok(()) } else { login });
    let is_kept = is_logged_in && checked.is_ok();
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refusal(&refused),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if !is_kept {
        // The connection of a process that may not read the console does not stay open.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn refusal(refused: &Refused) -> Response {
    let (status, text) = refused.response();
    message(status, text)
}

/// Returns a page with a sentence.
fn message(status: StatusCode, text: &str) -> Response {
    let page = html! {
        (maud::DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "seqsvr" }
                link rel="icon" href=(assets::ICON.path());
                link rel="stylesheet" href=(assets::STYLE.path());
            }
            body.message { main { h1 { "seqsvr" } p { (text) } p { a href="/" { "Overview" } } } }
        }
    };
    (status, markup(&page)).into_response()
}

fn markup(page: &Markup) -> Response {
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, content_type)], page.0.clone()).into_response()
}

/// Exchanges the token of an address for a cookie.
async fn log_in(State(console): State<Arc<Console>>, method: Method, headers: HeaderMap, uri: Uri) -> Response {
    // A preview of the address must not use the token up.
    if method != Method::GET {
        return refusal(&Refused::Method);
    }
    let query = uri.query().unwrap_or_default();
    let token = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    match console.access.log_in(token.as_ref().map_or("", |(_, token)| token)) {
        Ok(cookie) => {
            let Ok(cookie) = HeaderValue::from_str(&cookie) else { return refusal(&Refused::Login) };
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, HeaderValue::from_static("/"))];
            (StatusCode::SEE_OTHER, headers, Body::empty()).into_response()
        }
        // The address was opened a second time by the same browser.
        Err(_) if console.access.check_login(&headers).is_ok() => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("/"))], Body::empty()).into_response()
        }
        Err(refused) => refusal(&refused),
    }
}

/// Serves a page or a file.
async fn document(State(console): State<Arc<Console>>, headers: HeaderMap, uri: Uri) -> Response {
    if let Some(asset) = assets::response(uri.path(), &headers) {
        return asset;
    }
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let route = Route::parse(path, query).filter(page::exists);
    let Some(route) = route else { return message(StatusCode::NOT_FOUND, "there is no page at this address") };
    let seen = console.model.seen().await;
    let page = page::page(&console, &route, &seen).await;
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let frame = Frame {
        state: page::state(&seen),
        age: Age::of(&seen),
        console: &console.id,
        identity: &console.identity,
        path,
        live: format!("/live?page={}", crate::route::escaped(&target)),
    };
    markup(&html::page(&page, &frame))
}

/// Serves the updates of the page in the parameter `page`.
async fn updates(State(console): State<Arc<Console>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let target = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "page").map(|(_, page)| page);
    let target = target.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let Some(route) = Route::parse(path, query).filter(page::exists) else {
        return message(StatusCode::NOT_FOUND, "there is no page at this address");
    };
    let Ok(permit) = Arc::clone(&console.streams).try_acquire_owned() else {
        return message(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open at this console: close some of them");
    };
    live::stream(console, route, permit).into_response()
}

/// Serves the levels of the section map.
async fn levels(State(console): State<Arc<Console>>, headers: HeaderMap, uri: Uri) -> Response {
    let seen = console.model.seen().await;
    let Some((_, observation)) = &seen.last else {
        return (StatusCode::SERVICE_UNAVAILABLE, "no node responds").into_response();
    };
    let bytes = console.heat.bytes(uri.query().unwrap_or_default(), observation).await;
    let media_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    match gzip::is_accepted(&headers) {
        true => ([media_type, gzip::ENCODING], gzip::compress(&bytes, Compression::fast())).into_response(),
        false => ([media_type], bytes).into_response(),
    }
}
