//! A minimal HTTP client on raw bytes, so that tests see exactly the bytes on the wire.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::Request;
use tonic::transport::Channel;

/// Timeout of a response, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Single headers with which browsers mark requests for pages of other sites, and requests ahead of time.
pub(crate) const UNSOLICITED: [(&str, &str); 7] = [
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-site"),
    ("origin", "http://evil.example"),
    ("origin", "null"),
    ("purpose", "prefetch"),
    ("sec-purpose", "prefetch;prerender"),
    ("x-moz", "prefetch"),
];

/// Sends one request over a connection of its own. A content-length in `headers` is sent as it is.
pub(crate) async fn http1(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> HttpResponse {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|(name, _)| *name == "content-length") {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    request.push_str(&format!("\r\n{body}"));
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let (mut read, mut write) = stream.split();
    // The connection of a request that is refused unread may be closed before the whole request is sent.
    let sending = async { write.write_all(request.as_bytes()).await };
    let mut answer = Vec::new();
    let reading = async { tokio::time::timeout(TIMEOUT, read.read_to_end(&mut answer)).await.expect("a response") };
    let _ = tokio::join!(sending, reading);
    parse(&String::from_utf8(answer).unwrap())
}

fn parse(answer: &str) -> HttpResponse {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    HttpResponse { status, headers, body: body.to_owned() }
}

/// Sends one request over a shared HTTP/2 connection.
pub(crate) async fn http2(
    channel: &Channel,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> HttpResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::new(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())))).unwrap();
    let mut channel = channel.clone();
    let asking = async {
        std::future::poll_fn(|context| Service::<Request<Body>>::poll_ready(&mut channel, context)).await.unwrap();
        let (head, body) = channel.call(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        HttpResponse {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    };
    tokio::time::timeout(TIMEOUT, asking).await.expect("a response")
}
