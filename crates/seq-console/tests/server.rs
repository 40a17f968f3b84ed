//! Requests to the port of a console, as bytes: access, headers, addresses without a page. No node responds.

#![expect(clippy::disallowed_methods, reason = "the test ends the task")]

use std::net::SocketAddr;
use std::time::Duration;

use seq_channel::{Dial, Pool};
use seq_command::store_client::Node;
use seq_console::{Addresses, Options, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Time within which every response must arrive.
const WITHIN: Duration = Duration::from_secs(20);

struct Console {
    addr: SocketAddr,
    addresses: Addresses,
    served: tokio::task::JoinHandle<()>,
}

impl Console {
    /// Starts a console of a cluster at an address where nothing listens.
    async fn start(has_login: bool) -> Console {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = Options {
            pool: Pool::with_dial(1, Dial::tcp()),
            seeds: vec![Node::at(&closed.to_string())],
            all_sets: true,
            timeout: Duration::from_millis(200),
            identity: "operator/<admin>".to_owned(),
            has_login,
        };
        let server = Server::new(listener, options).unwrap();
        let addresses = server.addresses();
        let served = tokio::spawn(server.serve(std::future::pending()));
        Console { addr: addresses.listen(), addresses, served }
    }

    /// Sends a request with more header lines, each with its line end, and returns the whole response.
    async fn request(&self, method: &str, target: &str, headers: &str) -> String {
        let text = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n{headers}connection: close\r\n\r\n", self.addr);
        self.send(&text).await
    }

    async fn send(&self, request: &str) -> String {
        let exchange = async {
            let mut stream = TcpStream::connect(self.addr).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).await.unwrap();
            String::from_utf8(response).unwrap()
        };
        tokio::time::timeout(WITHIN, exchange).await.expect("the console responds")
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.served.abort();
    }
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

/// Returns the value of a header.
fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn pages_state_that_no_node_responds_and_every_response_has_the_policy() {
    let console = Console::start(false).await;
    for target in ["/", "/map", "/sections", "/section/7", "/nodes", "/sets", "/events", "/uid?uid=7", "/config"] {
        let response = console.request("GET", target, "").await;
        assert_eq!(status(&response), "200", "{target}: {response}");
        assert!(response.contains("no node responds"), "{target}: {response}");
        assert!(response.contains("operator/&lt;admin&gt;") && !response.contains("<admin>"), "{target}: {response}");
    }
    let runbook = console.request("GET", "/runbook/store.md", "").await;
    assert!(runbook.contains("id=\"seqsvrnoleader\""), "the runbook needs no node: {runbook}");
    for target in ["/", "/nowhere", "/assets/0/console.css", "/live?page=/nowhere", "/login?token=x", "/map/levels"] {
        let response = console.request("GET", target, "").await;
        let policy = header(&response, "content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{target}: {response}");
        assert_eq!(header(&response, "x-content-type-options"), Some("nosniff"), "{target}");
    }
}

#[tokio::test]
async fn strange_addresses_have_no_page() {
    let console = Console::start(false).await;
    let long = format!("/{}", "a".repeat(8_000));
    for target in
        ["/nowhere", "/section/", "/section/x", "/section/4294967296", "/runbook/../Cargo.toml", "/runbook/x.md", &long]
    {
        let response = console.request("GET", target, "").await;
        assert_eq!(status(&response), "404", "{target}: {response}");
    }
    assert_eq!(status(&console.request("GET", "/live?page=%2Fnowhere", "").await), "404");
    assert_eq!(status(&console.request("GET", "/map/levels", "").await), "503", "no node responds");
}

#[tokio::test]
async fn other_sites_and_other_names_are_refused() {
    let console = Console::start(false).await;
    let other = console.send("GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n").await;
    assert_eq!((status(&other), header(&other, "connection")), ("421", Some("close")), "{other}");
    let cross = console.request("GET", "/", "sec-fetch-site: cross-site\r\n").await;
    assert_eq!(status(&cross), "403", "{cross}");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(status(&console.request(method, "/", "content-length: 0\r\n").await), "405", "{method}");
    }
}

#[tokio::test]
async fn a_browser_logs_in_once_for_each_address() {
    let console = Console::start(true).await;
    let refused = console.send(&format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", console.addr)).await;
    assert_eq!((status(&refused), header(&refused, "connection")), ("401", Some("close")), "{refused}");
    assert!(refused.contains("not logged in"), "{refused}");
    assert_eq!(status(&console.request("GET", "/live?page=/", "").await), "401");
    assert_eq!(status(&console.request("GET", "/map/levels", "").await), "401");

    let url = console.addresses.next();
    let target = url.strip_prefix(&format!("http://{}", console.addr)).expect("an address of the console");
    let login = console.request("GET", target, "").await;
    assert_eq!((status(&login), header(&login, "location")), ("303", Some("/")), "{login}");
    let cookie = header(&login, "set-cookie").expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    let page = console.request("GET", "/", &format!("cookie: {pair}\r\n")).await;
    assert_eq!(status(&page), "200", "{page}");
    assert_eq!(status(&console.request("GET", target, "").await), "401", "the address was used");
}

#[tokio::test]
async fn a_request_without_a_login_does_not_keep_its_connection() {
    let console = Console::start(true).await;
    let get = |target: &str, headers: &str| format!("GET {target} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", console.addr);
    let refused = console.send(&get("/", "")).await;
    let (_, style) = refused.split_once("rel=\"stylesheet\" href=\"").expect("a style");
    let (style, _) = style.split_once('"').expect("its address");
    assert!(style.starts_with("/assets/"), "{style}");
    for (target, expected) in [("/", "401"), ("/login?token=x", "401"), (style, "200"), ("/assets/0/x", "404")] {
        let response = console.send(&get(target, "")).await;
        let seen = (status(&response), header(&response, "connection"));
        assert_eq!(seen, (expected, Some("close")), "{target}: {response}");
    }

    let url = console.addresses.next();
    let target = url.strip_prefix(&format!("http://{}", console.addr)).expect("an address of the console");
    let login = console.send(&get(target, "")).await;
    let pair = header(&login, "set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie");
    let cookie = format!("cookie: {pair}\r\n");
    let two = get(style, &cookie) + &get(style, &format!("{cookie}connection: close\r\n"));
    let responses = console.send(&two).await;
    assert_eq!(responses.matches("HTTP/1.1 200").count(), 2, "a browser keeps its connection: {responses}");
}

#[tokio::test]
async fn a_stream_begins_with_the_whole_page() {
    let console = Console::start(false).await;
    let mut stream = TcpStream::connect(console.addr).await.unwrap();
    let request = format!("GET /live?page=%2F HTTP/1.1\r\nhost: {}\r\n\r\n", console.addr);
    stream.write_all(request.as_bytes()).await.unwrap();
    let read = async {
        let mut text = String::new();
        let mut bytes = [0; 4_096];
        while !text.contains("no node responds") {
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the stream ended: {text}");
            text += &String::from_utf8_lossy(&bytes[..count]);
        }
        text
    };
    let text = tokio::time::timeout(WITHIN, read).await.expect("an event");
    assert!(text.contains("content-type: text/event-stream") && text.contains("event: values"), "{text}");
}
