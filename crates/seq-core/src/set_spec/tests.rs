use alloc::string::ToString;
use alloc::{format, vec};

use expect_test::{Expect, expect};

use super::*;

fn store(id: u64) -> StoreSpec {
    let (addr, http) = (format!("127.0.0.1:{}", 7200 + id), format!("127.0.0.1:{}", 7210 + id));
    let [raft, admin] = [7230, 7220].map(|port| format!("127.0.0.1:{}", port + id));
    StoreSpec { id, name: format!("s{id}"), addr, raft, admin: Some(admin), http, listen: StoreListen::default() }
}

fn alloc(id: u64) -> AllocSpec {
    let (addr, http) = (format!("a{id}.example.com:7100"), format!("0.0.0.0:{}", 7180 + id));
    AllocSpec {
        name: format!("a{id}"),
        peer: format!("a{id}.example.com:7120"),
        addr,
        http,
        redis: None,
        redis_cluster: None,
        weight: 1,
        listen: AllocListen::default(),
    }
}

fn spec() -> SetSpec {
    SetSpec {
        name: "dev".into(),
        uids: 0..1_000_000,
        section_size: 100_000,
        step: 10_000,
        stores: vec![store(1), store(2), store(3)],
        allocs: vec![alloc(1), alloc(2)],
        genesis: Genesis::Start,
    }
}

/// Breaks a good spec in one way after another, and compares the problems, one on each line.
fn check(spoils: &[fn(&mut SetSpec)], expected: &Expect) {
    let mut said = String::new();
    for spoil in spoils {
        let mut spec = spec();
        spoil(&mut spec);
        said += &lines(spec.validate().expect_err("a bad spec passed"));
    }
    expected.assert_eq(&said);
}

fn check_addrs(addrs: &[&str], expected: &Expect) {
    let mut said = String::new();
    for addr in addrs {
        let mut spec = spec();
        spec.allocs[1].addr = addr.to_string();
        said += &lines(spec.validate().expect_err("a bad address passed"));
    }
    expected.assert_eq(&said);
}

fn lines(errors: Vec<SpecError>) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

/// Breaks three sets that fit each other, and compares the problems.
fn check_many(spoil: impl FnOnce(&mut [SetSpec]), expected: &Expect) {
    let mut sets = three_sets();
    assert_eq!(check_sets(&sets), Ok(()));
    spoil(&mut sets);
    let errors = check_sets(&sets).expect_err("sets that do not go together passed");
    expected.assert_eq(&errors.iter().map(|(set, error)| format!("set {set}: {error}\n")).collect::<String>());
}

fn three_sets() -> Vec<SetSpec> {
    let set = |number: u64| {
        let mut set = spec();
        set.name = format!("im-{number}");
        set.genesis = if number == 0 { Genesis::Init } else { Genesis::Create };
        for addr in set.stores.iter_mut().flat_map(|store| [&mut store.addr, &mut store.raft, &mut store.http]) {
            *addr = addr.replace("127.0.0.1", &format!("10.0.{number}.1"));
        }
        for addr in set.allocs.iter_mut().flat_map(|alloc| [&mut alloc.addr, &mut alloc.peer, &mut alloc.http]) {
            *addr = addr.replace("example", &format!("im-{number}")).replace("0.0.0.0", &format!("10.0.{number}.1"));
        }
        set
    };
    (0..3).map(set).collect()
}

#[test]
fn a_good_spec_gives_its_layout() {
    assert_eq!(spec().validate(), Ok(Layout::new(0..1_000_000, 100_000).unwrap()));
}

#[test]
fn every_allowed_store_count_passes() {
    for count in limits::STORE_COUNTS {
        let stores = (1..=count as u64).map(store).collect();
        assert!(SetSpec { stores, ..spec() }.validate().is_ok(), "{count}");
    }
}

#[test]
fn addresses_of_every_kind_pass() {
    for addr in [
        "localhost:1",
        "im_a1:7100",
        "_a.b_.Im_:1",
        "Alloc-1.im.example:65535",
        "10.1.2.3:7100",
        "[::1]:7100",
        "[2001:db8::7]:7100",
        "1a:80",
    ] {
        let mut spec = spec();
        spec.allocs[0].addr = addr.into();
        assert!(spec.validate().is_ok(), "{addr}: {:?}", spec.validate());
    }
}

#[test]
fn bad_names() {
    check(
        &[
            |spec| spec.name = String::new(),
            |spec| spec.name = "Im_A".into(),
            |spec| spec.stores[0].name = "-s1".into(),
            |spec| spec.allocs[0].name = "a".repeat(64),
            |spec| spec.allocs[1].name = "a1".into(),
            |spec| spec.allocs[1].name = "s2".into(),
            |spec| spec.stores[2].name = "s1".into(),
        ],
        &expect![[r#"
            name: name "" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            name: name "Im_A" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            store[0].name: name "-s1" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            alloc[0].name: name "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            alloc[1].name: "a1" is taken by alloc[0].name
            alloc[1].name: "s2" is taken by store[1].name
            store[2].name: "s1" is taken by store[0].name
        "#]],
    );
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "the bad input")]
fn bad_numbers() {
    check(
        &[
            |spec| spec.stores[1].id = 0,
            |spec| spec.stores[2].id = 1,
            |spec| spec.uids = 7..7,
            |spec| spec.uids = 9..7,
            |spec| spec.section_size = 0,
            |spec| spec.section_size = u32::MAX,
            |spec| spec.uids = 0..u64::MAX,
            |spec| spec.step = 0,
            |spec| spec.step = limits::MAX_STEP + 1,
            |spec| spec.allocs[0].weight = 0,
            |spec| spec.allocs[1].weight = 33,
        ],
        &expect![[r#"
            store[1].id: id 0 means no member; ids start at 1
            store[2].id: "1" is taken by store[0].id
            uids: uid range 7..7 is empty or reversed
            uids: uid range 9..7 is empty or reversed
            section_size: section size 0 is not from 1 to 16777216
            section_size: section size 4294967295 is not from 1 to 16777216
            section_size: 184467440737096 sections are more than the 1048576 a set may have; use larger sections, fewer uids or more sets
            step: step 0 is not from 1 to 4294967296
            step: step 4294967297 is not from 1 to 4294967296
            alloc[0].weight: weight 0 is not from 1 to 32; weights are relative to each other
            alloc[1].weight: weight 33 is not from 1 to 32; weights are relative to each other
        "#]],
    );
}

#[test]
fn too_few_or_too_many_nodes() {
    let crowd: fn(&mut SetSpec) = |spec| {
        let with_port = |id: u64| AllocSpec { http: format!("[::1]:{id}"), ..alloc(id) };
        spec.allocs = (1..=limits::MAX_NODES as u64 + 1).map(with_port).collect();
    };
    check(
        &[
            |spec| spec.stores.clear(),
            |spec| spec.stores.truncate(2),
            |spec| spec.stores.extend((4..=7).map(store)),
            |spec| spec.allocs.clear(),
            crowd,
        ],
        &expect![[r#"
            store: a store has 1, 3 or 5 members, not 0: an even number survives no more failures than one less, and every member past five slows each write
            store: a store has 1, 3 or 5 members, not 2: an even number survives no more failures than one less, and every member past five slows each write
            store: a store has 1, 3 or 5 members, not 7: an even number survives no more failures than one less, and every member past five slows each write
            alloc: a set has 1 to 1024 AllocSvrs, not 0
            alloc: a set has 1 to 1024 AllocSvrs, not 1025
        "#]],
    );
}

#[test]
fn bad_addresses() {
    check_addrs(
        &[
            "",
            "a2.example.com",
            "a2.example.com:",
            "a2.example.com:0",
            "a2.example.com:65536",
            "a2.example.com:+80",
            ":7100",
            "a 2:7100",
            "-a_2:7100",
            "http://a2:7100",
            "::1:7100",
            "[::g]:7100",
            "300.1.2.3:7100",
            "0.0.0.0:7100",
            "[::]:7100",
            &format!("{}:7100", "a.".repeat(150)),
        ],
        &expect![[r#"
            alloc[1].addr: address "" is not host:port
            alloc[1].addr: address "a2.example.com" is not host:port
            alloc[1].addr: address "a2.example.com:" has no port from 1 to 65535
            alloc[1].addr: address "a2.example.com:0" has no port from 1 to 65535
            alloc[1].addr: address "a2.example.com:65536" has no port from 1 to 65535
            alloc[1].addr: address "a2.example.com:+80" has no port from 1 to 65535
            alloc[1].addr: address ":7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "a 2:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "-a_2:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "http://a2:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "::1:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "[::g]:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "300.1.2.3:7100" has a host that is no DNS name, no IPv4 address and no IPv6 address in brackets
            alloc[1].addr: address "0.0.0.0:7100" cannot be dialled: give the address under which others reach the node
            alloc[1].addr: address "[::]:7100" cannot be dialled: give the address under which others reach the node
            alloc[1].addr: address "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.:7100" is longer than 261 bytes
        "#]],
    );
}

#[test]
fn places_to_listen() {
    let mut spec = spec();
    let listening = |port: u16| Some(format!("0.0.0.0:{port}"));
    for alloc in &mut spec.allocs {
        // The nodes are on machines of their own.
        alloc.listen = AllocListen { addr: listening(7100), peer: listening(7120), ..AllocListen::default() };
    }
    assert_eq!(spec.validate().map(drop), Ok(()));
    let at = spec.allocs[0].listening();
    assert_eq!((&*at.addr, &*at.peer, &*at.http), ("0.0.0.0:7100", "0.0.0.0:7120", &*spec.allocs[0].http));
    check(
        &[
            |spec| spec.stores[0].listen.raft = Some("s1.example.com".into()),
            |spec| spec.stores[1].listen.addr = Some("127.0.0.1:7222".into()),
            |spec| spec.allocs[0].listen.redis = Some("0.0.0.0:7179".into()),
            |spec| spec.allocs[0].redis_cluster = Some("0.0.0.0:7175".into()),
            |spec| spec.allocs[1].redis_cluster = spec.allocs[0].addr.clone().into(),
            |spec| {
                let listen = &mut spec.allocs[1].listen;
                (listen.addr, listen.peer) = (Some("[::]:7100".into()), Some("[::]:7100".into()));
            },
        ],
        &expect![[r#"
            store[0].listen.raft: address "s1.example.com" is not host:port
            store[1].admin: "127.0.0.1:7222" is taken by store[1].listen.addr
            alloc[0].listen.redis: the node has no such port: state its key redis too, with the address that others dial, or remove this one
            alloc[0].redis_cluster: address "0.0.0.0:7175" cannot be dialled: give the address under which others reach the node
            alloc[1].redis_cluster: "a1.example.com:7100" is taken by alloc[0].addr
            alloc[1].listen.peer: "[::]:7100" is taken by alloc[1].listen.addr
        "#]],
    );
}

#[test]
fn addresses_given_twice() {
    check(
        &[
            |spec| spec.allocs[1].addr = "A1.example.com:7100".into(),
            |spec| spec.stores[1].addr = "127.0.0.1:7211".into(),
            |spec| {
                spec.stores[0].http = "[::1]:80".into();
                spec.allocs[0].http = "[0:0:0:0:0:0:0:1]:80".into();
            },
            |spec| spec.stores[1].admin = spec.stores[0].admin.clone(),
            |spec| spec.allocs[1].peer = spec.allocs[1].addr.clone(),
        ],
        &expect![[r#"
            alloc[1].addr: "A1.example.com:7100" is taken by alloc[0].addr
            store[1].addr: "127.0.0.1:7211" is taken by store[0].http
            alloc[0].http: "[0:0:0:0:0:0:0:1]:80" is taken by store[0].http
            store[1].admin: "127.0.0.1:7221" is taken by store[0].admin
            alloc[1].peer: "a2.example.com:7100" is taken by alloc[1].addr
        "#]],
    );
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "the bad input")]
fn every_problem_is_named_at_once() {
    check(
        &[|spec| {
            spec.name = "DEV".into();
            spec.uids = 9..7;
            spec.section_size = 0;
            spec.step = 0;
            spec.stores.truncate(2);
            spec.stores[1].id = 1;
            spec.stores[1].addr = "nowhere".into();
            spec.allocs[1].name = "a1".into();
            spec.allocs[1].weight = 0;
        }],
        &expect![[r#"
            name: name "DEV" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            uids: uid range 9..7 is empty or reversed
            section_size: section size 0 is not from 1 to 16777216
            step: step 0 is not from 1 to 4294967296
            store: a store has 1, 3 or 5 members, not 2: an even number survives no more failures than one less, and every member past five slows each write
            store[1].id: "1" is taken by store[0].id
            store[1].addr: address "nowhere" is not host:port
            alloc[1].name: "a1" is taken by alloc[0].name
            alloc[1].weight: weight 0 is not from 1 to 32; weights are relative to each other
        "#]],
    );
}

#[test]
fn sets_of_another_layout() {
    check_many(
        |sets| {
            sets[1].uids = 1_000_000..2_000_000;
            sets[2].section_size = 50_000;
        },
        &expect![[r#"
            set 1: uids: uids 1000000..2000000 in sections of 100000 are not 0..1000000 in sections of 100000 as in set im-0: all sets of a cluster have the same
            set 2: uids: uids 0..1000000 in sections of 50000 are not 0..1000000 in sections of 100000 as in set im-0: all sets of a cluster have the same
        "#]],
    );
}

#[test]
fn two_sets_that_begin_with_all_sections() {
    check_many(
        |sets| sets[2].genesis = Genesis::Start,
        &expect![[r#"
            set 2: genesis: set im-0 begins with all sections of the cluster; any other set has genesis = "create" and gets them by migration
        "#]],
    );
}

#[test]
fn a_genesis_has_the_name_that_it_is_parsed_from() {
    for genesis in Genesis::ALL {
        assert_eq!(Genesis::parse(genesis.name()), Some(genesis));
    }
    assert_eq!(Genesis::parse("Start"), None);
}

#[test]
fn sets_with_one_name() {
    check_many(
        |sets| sets[2].name = "im-0".into(),
        &expect![[r#"
        set 2: name: "im-0" is taken by another set
    "#]],
    );
}

#[test]
fn sets_with_one_address() {
    check_many(
        |sets| sets[1].allocs[0].http = sets[0].stores[2].addr.clone(),
        &expect![[r#"
        set 1: alloc[0].http: "10.0.0.1:7203" is taken by store[2].addr of set im-0
    "#]],
    );
}

#[test]
fn stores_on_machines_of_their_own_may_have_one_admin_address_on_loopback() {
    let mut spec = spec();
    for (index, store) in spec.stores.iter_mut().enumerate() {
        store.addr = format!("10.0.0.{index}:7200");
        store.http = format!("10.0.0.{index}:7210");
        store.raft = format!("10.0.0.{index}:7230");
        store.admin = Some("127.0.0.1:7220".into());
    }
    assert!(spec.validate().is_ok(), "{:?}", spec.validate());
    spec.stores[1].admin = Some("10.0.0.2:7200".into());
    assert!(spec.validate().is_err(), "it is that of another port");
}

#[test]
fn a_set_that_has_an_address_twice_is_not_compared_with_itself() {
    let mut sets = three_sets();
    sets[1].allocs[0].addr = sets[1].allocs[1].addr.clone();
    assert_eq!(check_sets(&sets), Ok(()));
}
