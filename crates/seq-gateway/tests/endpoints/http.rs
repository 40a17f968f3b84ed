//! HTTP as bytes, so that nothing stands between a test and what is on the wire.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::Request;
use tonic::transport::Channel;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One request over a connection of its own. A length that the headers state is not replaced by the true one.
pub(crate) async fn http1(addr: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
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
    // Who is refused unread may be cut off before all of it is sent.
    let sending = async { write.write_all(request.as_bytes()).await };
    let mut answer = Vec::new();
    let reading = async { tokio::time::timeout(PATIENCE, read.read_to_end(&mut answer)).await.expect("an answer") };
    let _ = tokio::join!(sending, reading);
    parse(&String::from_utf8(answer).unwrap())
}

fn parse(answer: &str) -> Answer {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

/// One request among others of an HTTP/2 connection.
pub(crate) async fn http2(channel: &Channel, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
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
        Answer {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("an answer")
}
