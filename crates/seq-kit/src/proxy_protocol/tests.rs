//! Tests of headers and lists in all forms, and of the addresses of a listener's connections.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio_stream::StreamExt;

use super::*;
use crate::connection::{Connection, Listener};

/// Returns a header of version 2: version and command, family, the rest.
fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE.as_slice(), &[command, family], &length, rest].concat()
}

/// The addresses and ports of a client at 192.0.2.7:4242, and of the balancer.
const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x10, 0x92, 0x1b, 0xbc];

fn read(bytes: &[u8]) -> Result<Source, Refused> {
    let head: &[u8; HEAD] = bytes[..HEAD].try_into().unwrap();
    let length = rest(head)?;
    parse(head, &bytes[HEAD..HEAD + length])
}

#[test]
fn a_header_has_the_address_of_the_client() {
    let client = |addr: &str| Ok(Source::Client(addr.parse().unwrap()));
    assert_eq!(read(&header(0x21, 0x11, &V4)), client("192.0.2.7:4242"));
    let with_details = [V4.as_slice(), &[4, 0, 1, 9]].concat();
    assert_eq!(read(&header(0x21, 0x11, &with_details)), client("192.0.2.7:4242"));
    let mut v6 = [0; 36];
    (v6[0], v6[1], v6[15], v6[33]) = (0x20, 1, 5, 80);
    assert_eq!(read(&header(0x21, 0x21, &v6)), client("[2001::5]:80"));
    assert_eq!(read(&header(0x20, 0x11, &V4)), Ok(Source::Balancer), "a health check");
    assert_eq!(read(&header(0x21, 0, &[])), Ok(Source::Balancer));
    assert_eq!(read(&header(0x21, 0x12, &V4)), Err(Refused::NotTcp), "UDP");
    assert_eq!(read(&header(0x21, 0x11, &V4[..11])), Err(Refused::Malformed));
    assert_eq!(read(&header(0x22, 0x11, &V4)), Err(Refused::Malformed));
    assert_eq!(read(&header(0x11, 0x11, &V4)), Err(Refused::Malformed));
    assert_eq!(read(&header(0x21, 0x11, &[0; 1_025])), Err(Refused::TooLong { bytes: 1_041 }));
}

#[test]
fn networks_are_lists_of_addresses_and_prefixes() {
    let networks: Networks = "10.0.0.5, 192.168.0.0/16,2001:db8::/32 ,::1".parse().unwrap();
    for (ip, is_in) in [
        ("10.0.0.5", true),
        ("10.0.0.6", false),
        ("::ffff:10.0.0.5", true),
        ("192.168.255.1", true),
        ("192.169.0.1", false),
        ("2001:db8:ffff::1", true),
        ("2001:db9::1", false),
        ("::1", true),
    ] {
        assert_eq!(networks.contain(ip.parse().unwrap()), is_in, "{ip}");
    }
    let all: Networks = "0.0.0.0/0".parse().unwrap();
    assert!(all.contain([203, 0, 113, 9].into()) && !all.contain(Ipv6Addr::LOCALHOST.into()));
    assert_eq!("".parse(), Ok(Networks::default()));
    for wrong in ["haproxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.1:80", "10.0.0.0/8 10.1.0.0/8", "::/129"] {
        assert_eq!(wrong.parse::<Networks>(), Err(NoNetwork(wrong.to_owned())));
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), HEAD..200), is_signed in any::<bool>()) {
        let mut bytes = bytes;
        if is_signed {
            bytes[..12].copy_from_slice(SIGNATURE);
        }
        let head: &[u8; HEAD] = bytes[..HEAD].try_into().unwrap();
        if let Ok(length) = rest(head) {
            let _ = parse(head, &bytes[HEAD..bytes.len().min(HEAD + length)]);
        }
    }
}

/// Sends bytes from 127.0.0.1 to a listener that believes `from`; returns the connection and the first bytes that it
/// reads.
async fn accept(from: &str, sent: &[u8]) -> Option<(Connection, Vec<u8>)> {
    let socket = crate::listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let addr = socket.local_addr().unwrap();
    let listener = Listener::from(socket).with_headers(&Headers::from(from.parse().unwrap()));
    let mut incoming = listener.incoming().unwrap();
    // A connection that sends nothing holds up no other connection.
    let _silent = TcpStream::connect(addr).await.unwrap();
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(sent).await.unwrap();
    client.shutdown().await.unwrap();
    let own = client.local_addr().unwrap();
    let accepting = async {
        loop {
            let mut connection = incoming.next().await.unwrap().unwrap();
            let mut bytes = Vec::new();
            if connection.peer().addr().is_some_and(|peer| peer == own || peer.ip() != own.ip()) {
                return connection.read_to_end(&mut bytes).await.ok().map(|_| (connection, bytes));
            }
        }
    };
    let refused = async {
        let mut end = [0];
        let _ = client.read(&mut end).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        accepted = accepting => accepted,
        () = refused => None,
        () = tokio::time::sleep(std::time::Duration::from_millis(500)) => None,
    }
}

#[tokio::test]
async fn a_connection_is_from_the_address_in_its_header() {
    let with_header = [header(0x21, 0x11, &V4), b"*1\r\n".to_vec()].concat();
    let (connection, bytes) = accept("127.0.0.0/8", &with_header).await.expect("accepted");
    assert_eq!((connection.peer().addr(), &*bytes), (Some("192.0.2.7:4242".parse().unwrap()), b"*1\r\n".as_slice()));
    for plain in [b"PING\r\n".as_slice(), b"POST / HTTP/1.1\r\n", b"PRI * HTTP/2.0"] {
        let (connection, bytes) = accept("127.0.0.1", plain).await.expect("without one it is what it is");
        assert!(connection.peer().addr().unwrap().ip().is_loopback() && bytes == plain);
        let (_, bytes) = accept("", plain).await.expect("nobody is listed");
        assert_eq!(bytes, plain);
    }
    for from in ["", "10.0.0.0/8"] {
        assert!(accept(from, &with_header).await.is_none(), "nobody else is believed");
        assert!(accept(from, b"PROXY TCP4 192.0.2.7 10.0.0.1 4242 7100\r\n").await.is_none());
    }
    assert!(accept("127.0.0.1", b"PROXY TCP4 192.0.2.7 10.0.0.1 4242 7100\r\n").await.is_none());
    assert!(accept("127.0.0.1", &with_header[..20]).await.is_none());
}
