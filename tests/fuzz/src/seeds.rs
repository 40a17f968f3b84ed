//! The committed inputs, and their construction: `cargo test` feeds each input to its target.

use std::path::{Path, PathBuf};

use prost::Message;
use seq_proto::v1;

/// A target by name.
type Target = (&'static str, fn(&[u8]));

/// Every target that does not need a build for the fuzzer.
const TARGETS: [Target; 8] = [
    ("apply", crate::apply),
    ("control", crate::control),
    ("handover", crate::handover),
    ("inter_set", crate::inter_set),
    ("json", crate::json),
    ("messages", crate::messages),
    ("resp", crate::resp),
    ("wire", crate::wire),
];

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

#[test]
fn committed_inputs_pass() {
    for (target, run) in TARGETS {
        let files: Vec<_> = std::fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{target} has no committed input");
        for file in files {
            println!("{}", file.display());
            run(&std::fs::read(&file).unwrap());
        }
    }
}

/// Returns bytes without a pattern: structured targets make long runs of them.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(next).collect()
}

/// Returns messages for the target `control`: a section is granted, raised, transferred, and offered.
fn calls() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |kind: u8, message: Vec<u8>| {
        bytes.push(kind);
        bytes.extend(message);
    };
    let register = v1::RegisterRequest {
        set: "fuzz".into(),
        node: "a3".into(),
        addr: "a3:1".into(),
        token: 3,
        lease_ms: 2_000,
        ..Default::default()
    };
    push(0, register.encode_length_delimited_to_vec());
    let renew = v1::RenewRequest {
        node_id: 3,
        incarnation: 1,
        renew_seq: 1,
        released: vec![0],
        released_epochs: vec![1],
        ..Default::default()
    };
    push(1, renew.encode_length_delimited_to_vec());
    let raise = v1::RaiseCeilingsRequest {
        node_id: 3,
        incarnation: 1,
        sections: vec![0],
        epochs: vec![1],
        ceilings: vec![100],
        ..Default::default()
    };
    push(2, raise.encode_length_delimited_to_vec());
    let transfer = v1::TransferRequest {
        node_id: 2,
        incarnation: 1,
        section: 0,
        epoch: 1,
        to_node_id: 1,
        to_incarnation: 1,
        handover_id: 1,
        ..Default::default()
    };
    push(3, transfer.encode_length_delimited_to_vec());
    let offer = Some(v1::HandoverOffer {
        set: "fuzz".into(),
        section: 0,
        epoch: 2,
        handover_id: 1,
        incarnation: 1,
        ..Default::default()
    });
    push(4, v1::PrepareRequest { offer: offer.clone() }.encode_length_delimited_to_vec());
    let stage =
        v1::StageRequest { offer, slots: vec![0, 9], distances: vec![3, 1], advanced: vec![1], ..Default::default() };
    push(5, stage.encode_length_delimited_to_vec());
    push(7, Vec::new());
    bytes
}

/// Writes the constructed inputs; run it after a change of a message or a target.
#[test]
#[ignore = "it writes into the tree: cargo test -p seq-fuzz seeds -- --ignored"]
fn seeds_are_written() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(corpus(target)).unwrap();
        std::fs::write(corpus(target).join(name), bytes).unwrap();
    };
    for seed in 1..=4 {
        write("apply", &format!("noise-{seed}"), &noise(seed, 600));
        write("handover", &format!("noise-{seed}"), &noise(seed, 600));
        write("inter_set", &format!("noise-{seed}"), &noise(seed, 3_000));
    }
    write("control", "calls", &calls());
    let next =
        v1::NextManyRequest { uids: vec![1, 2], counts: vec![1, 9], known_epochs: vec![0, 3], ..Default::default() };
    write("wire", "next-many", &[&[0], &*next.encode_to_vec()].concat());
    let advance = v1::AdvanceRequest { uid: Some(1), to: Some(1 << 62), ..Default::default() };
    write("wire", "advance", &[&[7], &*advance.encode_to_vec()].concat());
    let state = crate::replica::Replica::new().state;
    let routes = state.routes_since(seq_core::RouteVersion(0)).as_ref().map(v1::Routes::from).unwrap_or_default();
    write("wire", "routes", &[&[1], &*routes.encode_to_vec()].concat());
    write("messages", "next-many", &[&[45], &*next.encode_to_vec()].concat());
    write("json", "next", br#" {"uid":"18446744073709551615","count":1,"routeVersion":0,"epoch":"7","hops":2}"#);
    write(
        "resp",
        "pipeline",
        b"\x07*2\r\n$4\r\nINCR\r\n$5\r\nseq:1\r\nPING\r\n*3\r\n$3\r\nSET\r\n$5\r\nseq:1\r\n$2\r\n99\r\n",
    );
    // The kind, then lists and options of postcard: a vote of term 1, no log id, no entry.
    write("raft", "append", &[0, 1, 1, 1, 0, 0, 0]);
    write("raft", "vote", &[1, 1, 1, 0, 0]);
    write("record", "watermark", &[8, 0, 0, 0, 0, 0, 0, 0, 0]);
}
