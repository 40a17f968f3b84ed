use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use prost::Message;
use prost_types::FileDescriptorSet;

use super::*;
use crate::DESCRIPTORS;

const HEAD: &str = "\
# Roles

Which role may call which method, at ports with TLS. A test generates this page from `crates/seq-proto/src/roles.rs`: \
`UPDATE_EXPECT=1 cargo test -p seq-proto roles`. `set` means nodes of the own set only, `yes` those of any set of the \
cluster. What is not in the table is denied with `ROLE_DENIED`. An AllocSvr acts for itself only: a request for another \
node is refused with `OTHER_HOLDER`. `token` is a caller without a certificate, at nodes that have tenants.

";

fn holder(role: Role, set: &str) -> Identity {
    let made =
        if role.is_of_set() { Identity::of_node("c", role, set, "n") } else { Identity::of_cluster("c", role, "n") };
    made.unwrap()
}

/// Returns every method, as `(service, method)`.
fn methods() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().flat_map(|row| row.methods.iter().map(|method| (row.service, *method)))
}

fn is_allowed(service: &str, method: &str, caller: &Identity) -> bool {
    called(service, &format!("/{service}/{method}")).check(Some(caller), "own").is_ok()
}

fn called<'a>(service: &str, path: &'a str) -> Called<'a> {
    match service {
        HTTP => Called::by_path("/api/seq/next/1"),
        REDIS => Called::REDIS,
        _ => Called::by_path(path),
    }
}

#[test]
fn the_reference_lists_every_cell() {
    let mut text = HEAD.to_owned();
    let names: Vec<&str> = Role::ALL.iter().map(|role| role.name()).collect();
    writeln!(text, "| method | {} | token |\n|---|{}---|", names.join(" | "), "---|".repeat(names.len())).unwrap();
    let mut cells = 0;
    for (service, method) in methods() {
        let cell = |role: &Role| match [holder(*role, "own"), holder(*role, "other")]
            .map(|caller| is_allowed(service, method, &caller))
        {
            [true, true] => "yes",
            [true, false] => "set",
            [false, false] => "-",
            [false, true] => unreachable!("no row allows the nodes of other sets alone"),
        };
        let token = if called(service, &format!("/{service}/{method}")).admits_tokens() { "yes" } else { "-" };
        let row: Vec<&str> = Role::ALL.iter().map(cell).chain([token]).collect();
        cells += row.len();
        writeln!(text, "| `{service}/{method}` | {} |", row.join(" | ")).unwrap();
    }
    writeln!(text, "\n{cells} cells.").unwrap();
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/roles.md")].assert_eq(&text);
}

#[test]
fn callers_that_are_no_nodes_get_no_ids_of_nodes_and_processes() {
    use v1::status_response::Role as Part;

    let of_store = v1::StoreStatus {
        id: 1,
        allocs: vec![v1::AllocMember { id: 7, incarnation: 8, renew_seq: 9, sections: 5, ..Default::default() }],
        ..Default::default()
    };
    let of_alloc = v1::AllocStatus { id: 7, incarnation: 8, last_incarnation: 8, sections: 5, ..Default::default() };
    for part in [Part::Store(of_store), Part::Alloc(of_alloc)] {
        let whole = v1::StatusResponse { pid: 3, role: Some(part), ..Default::default() };
        let narrowed = |role: Option<Role>| {
            let mut status = whole.clone();
            narrow(&mut status, role.map(|role| holder(role, "own")).as_ref());
            status
        };
        for role in [None, Some(Store), Some(Alloc), Some(Operator), Some(Viewer)] {
            assert_eq!(narrowed(role), whole, "{role:?}");
        }
        for role in [Client, Metrics, Proxy] {
            let status = narrowed(Some(role));
            assert_eq!(status.pid, 0);
            match status.role.unwrap() {
                Part::Store(store) => {
                    let alloc = &store.allocs[0];
                    assert_eq!(
                        (store.id, alloc.id, alloc.incarnation, alloc.renew_seq, alloc.sections),
                        (1, 0, 0, 0, 5)
                    );
                }
                Part::Alloc(alloc) => {
                    assert_eq!((alloc.id, alloc.incarnation, alloc.last_incarnation, alloc.sections), (0, 0, 0, 5));
                }
            }
        }
    }
}

#[test]
fn every_method_of_the_protocol_has_one_row() {
    let descriptors = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let mut declared = BTreeSet::new();
    for file in &descriptors.file {
        for service in &file.service {
            for method in &service.method {
                declared.insert((format!("{}.{}", file.package(), service.name()), method.name().to_owned()));
            }
        }
    }
    let own = |service: &str| service.starts_with("seqsvr.");
    let rows: Vec<_> =
        methods().filter(|(service, _)| own(service)).map(|(s, m)| (s.to_owned(), m.to_owned())).collect();
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), declared);
    assert_eq!(rows.len(), declared.len(), "none has two");
}

#[test]
fn what_is_not_in_the_table_is_denied() {
    for path in [
        "/seqsvr.v1.ControlService/Registers",
        "/seqsvr.v1.ControlService/",
        "/seqsvr.v2.SequenceService/Next",
        "/a.b/c",
    ] {
        for role in Role::ALL {
            let denied = Called::by_path(path).check(Some(&holder(role, "own")), "own").unwrap_err();
            assert_eq!(crate::status::reason(&denied).as_deref(), Some("ROLE_DENIED"), "{path} {role}");
        }
    }
    for path in ["/seqsvr.v1.StatusService/Status", "/", "/api/seq/next/1"] {
        assert!(Called::by_path(path).check(None, "own").is_err(), "{path}: without a certificate");
    }
}

#[test]
fn a_node_acts_for_itself() {
    let caller = holder(Role::Alloc, "own");
    assert!(check_acts_as(Some(&caller), "n").is_ok());
    let denied = check_acts_as(Some(&caller), "m").unwrap_err();
    assert_eq!(crate::status::reason(&denied).as_deref(), Some("OTHER_HOLDER"));
    assert!(check_acts_as(Some(&holder(Role::Store, "own")), "m").is_ok(), "it forwards");
    assert!(check_acts_as(None, "m").is_ok(), "no TLS");
}
