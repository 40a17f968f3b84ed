//! Ids of series under SIGKILL: no id is given out twice, ids of a counter and of a named lane rise in real time, and
//! the time in an id is the time of its call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use seq_testkit::ids::{Clocks, IdLoad, SERIES};

use crate::cluster::{Place, seqsvr};
use crate::dev;

/// Kills; `E2E_KILLS` replaces the number.
const KILLS: u32 = 3;

#[test]
fn kills_repeat_no_id() {
    let kills = std::env::var("E2E_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let place = Place::new();
    let (mut server, addr) = dev::start(&place);
    for series in SERIES {
        series.create(&[], |args| seqsvr(&[args, &["--addr", &addr]].concat()).status.success());
    }
    let load = IdLoad::start(&[addr.trim_start_matches("http://").to_owned()]);
    for _ in 0..kills {
        load.wait_served();
        server.kill();
        (server, _) = dev::start(&place);
    }
    load.wait_served();
    load.end(&format!("{kills} kills"), Clocks::RIGHT);
}

/// Connections, each for one id: a session of a database that caches numbers burns them at its end.
const CONNECTIONS: u64 = 25_865;

#[test]
fn a_connection_for_each_id_burns_none() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let redis = dev::redis(&place);
    let made = seqsvr(&["series", "create", "k-burn", "--counter", "--yes", "--addr", &addr]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for id in 1..=CONNECTIONS {
        let mut connection = TcpStream::connect(&redis).unwrap();
        connection.write_all(b"INCR id:k-burn\r\n").unwrap();
        let mut response = String::new();
        BufReader::new(connection).read_line(&mut response).unwrap();
        assert_eq!(response, format!(":{id}\r\n"));
    }
}
