//! Fake servers serve the Connect protocol, which clients in other languages speak.

use std::io::{Read, Write};
use std::net::TcpStream;

use seq_proto::Reason;

use crate::fake::FakeServer;

/// The message `{ uid: 42, count: 1 }`.
const NEXT: &[u8] = &[0x08, 42, 0x10, 1];

/// Sends a request over HTTP/1.1; returns the response, whose body is read as Latin-1.
fn post(server: &FakeServer, message: &[u8]) -> String {
    let addr = server.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&addr).unwrap();
    let head = format!(
        "POST /seqsvr.v1.SequenceService/Next HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/proto\r\n\
         connect-timeout-ms: 5000\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        message.len()
    );
    stream.write_all(&[head.as_bytes(), message].concat()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    response.into_iter().map(char::from).collect()
}

#[test]
fn a_fake_server_serves_requests_of_the_connect_protocol() {
    let server = FakeServer::start();
    for value in 1..=2 {
        let response = post(&server, NEXT);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\n"), "{response}");
        // Field 1 is the number.
        assert!(response.contains(&format!("\r\n\r\n\u{8}{}", char::from(value))), "{response:?}");
    }
    assert!(server.seen().iter().all(|request| request.uids == [42] && request.has_deadline), "{:?}", server.seen());

    server.refuse([Reason::Unserved.status("planted")]);
    let response = post(&server, NEXT);
    assert!(
        response.starts_with("HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"),
        "{response}"
    );
    for part in ["\"code\":\"unavailable\"", "\"message\":\"planted\"", "google.rpc.ErrorInfo", "google.rpc.RetryInfo"]
    {
        assert!(response.contains(part), "{response} lacks {part}");
    }
    let malformed = post(&server, &[0xff]);
    assert!(
        malformed.contains("\"code\":\"internal\"") || malformed.contains("\"code\":\"invalid_argument\""),
        "{malformed}"
    );
}
