//! Table of the ports of a cluster's processes and the services on each port. A request for a service that is not in
//! the row of its port is refused as unknown.

use crate::roles::{HTTP, REDIS};

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Port of an AllocSvr or a proxy, for callers.
    Callers,
    /// Port of an AllocSvr or a proxy, for clients of Redis.
    Redis,
    /// Port of an AllocSvr, for clients of Redis Cluster.
    RedisCluster,
    /// Port of an AllocSvr, for other AllocSvrs.
    AllocPeers,
    /// Port of a StoreSvr, for other members of the store, for AllocSvrs and for stores of other sets.
    StorePeers,
    /// Port of a StoreSvr, for Raft between the members of the store.
    Raft,
    /// Port of a StoreSvr, for operators.
    Admin,
    /// Port of every process, for metrics and probes.
    Metrics,
}

/// A port, and the services on it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The port.
    pub port: Port,
    /// The key in the set file that has the address of the port.
    pub key: &'static str,
    /// The processes that connect to the port.
    pub peers: &'static str,
    /// The gRPC services of the port, except the services that every gRPC port has.
    pub services: &'static [&'static str],
    /// The services of the port that do not use gRPC.
    pub others: &'static [&'static str],
    /// The servers that a node accepts when it connects to the port, according to their certificates.
    pub accepted: &'static str,
}

/// The services that every gRPC port has in addition to [`STATUS`].
pub const COMMON: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The service with which a node reports its own state. Every gRPC port has it.
pub const STATUS: &str = "seqsvr.v1.StatusService";

/// The table.
pub const TABLE: [Row; 8] = [
    Row {
        port: Port::Callers,
        key: "`addr` of an `[[alloc]]`; `--listen` of a proxy",
        peers: "callers, and nodes that forward their calls",
        services: &[
            "seqsvr.v1.SequenceService",
            "seqsvr.v1.IdService",
            "seqsvr.v1.KeyService",
            "seqsvr.v1.KeyOwnerService",
            STATUS,
        ],
        others: &[HTTP],
        accepted: "role `alloc`, and the set by its name; a proxy has it from the routes, and of a seed that is in none, only the role",
    },
    Row {
        port: Port::Redis,
        key: "`redis` of an `[[alloc]]`; `--redis` of a proxy",
        peers: "clients of Redis",
        services: &[],
        others: &[REDIS],
        accepted: "no node dials it",
    },
    Row {
        port: Port::RedisCluster,
        key: "`redis_cluster` of an `[[alloc]]`",
        peers: "clients of Redis Cluster",
        services: &[],
        others: &[REDIS],
        accepted: "no node dials it",
    },
    Row {
        port: Port::AllocPeers,
        key: "`peer` of an `[[alloc]]`",
        peers: "AllocSvrs, also of other sets",
        services: &["seqsvr.v1.HandoverService", STATUS],
        others: &[],
        accepted: "role `alloc`, and the set by its name",
    },
    Row {
        port: Port::StorePeers,
        key: "`addr` of a `[[store]]`",
        peers: "members of the store, AllocSvrs of the set, stores of other sets",
        services: &["seqsvr.v1.ControlService", "seqsvr.v1.InterSetService", "seqsvr.v1.ForwardService", STATUS],
        others: &[],
        accepted: "role `store`, and the set by its name; at an address that an operator typed, only the role",
    },
    Row {
        port: Port::Raft,
        key: "`raft` of a `[[store]]`",
        peers: "members of the store",
        services: &["seqsvr.v1.RaftService", STATUS],
        others: &[],
        accepted: "role `store`, and the own set",
    },
    Row {
        port: Port::Admin,
        key: "`admin` of a `[[store]]`",
        peers: "operators",
        services: &[
            "seqsvr.v1.StoreAdminService",
            "seqsvr.v1.NodeAdminService",
            "seqsvr.v1.SetAdminService",
            "seqsvr.v1.SeriesAdminService",
            "seqsvr.v1.KeyspaceAdminService",
            "seqsvr.v1.BackupService",
            "seqsvr.v1.AuditService",
            "seqsvr.v1.EventService",
            STATUS,
        ],
        others: &[],
        accepted: "no node dials it",
    },
    Row {
        port: Port::Metrics,
        key: "`http` of every entry; `--http` of a proxy",
        peers: "metrics and probes, without a certificate",
        services: &[],
        others: &["metrics and probes"],
        accepted: "no node dials it",
    },
];

impl Port {
    /// Returns the row of the port.
    ///
    /// # Panics
    /// Never, because every port has a row, which a test checks.
    #[must_use]
    pub fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.port == self).expect("every port has a row")
    }

    /// Returns the port's gRPC services, without the services in [`COMMON`].
    #[must_use]
    pub fn services(self) -> &'static [&'static str] {
        self.row().services
    }
}

/// Returns whether `path`, in the form `/SERVICE/METHOD`, belongs to a service that only the admin port has.
#[must_use]
pub fn is_admin(path: &str) -> bool {
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
    service.is_some_and(|service| service != STATUS && Port::Admin.services().contains(&service))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;
    use crate::roles;

    const HEAD: &str = "\
# Ports

What is registered on each port. A test generates this page from `crates/seq-proto/src/ports.rs`: `UPDATE_EXPECT=1 cargo \
test -p seq-proto ports`; another one compares it with what the ports of a real set list by reflection \
(`e2e ports::`). A method of any other service is unknown at the port (`UNIMPLEMENTED`). The roles that may call what is registered \
are in [roles.md](roles.md). Every gRPC port also has health and reflection. The last column is which server a node accepts \
over TLS where it dials the port; another one is refused in the handshake, and the dialer's log has the address, the \
expected server and the identity that was found. Operators' commands and clients accept any server of the cluster.

";

    #[test]
    fn the_reference_lists_every_port() {
        let mut text = HEAD.to_owned();
        text.push_str("| port | for | registered | accepted servers |\n|---|---|---|---|\n");
        for Row { key, peers, services, others, accepted, .. } in &TABLE {
            let services = services.iter().map(|service| format!("`{service}`"));
            let all: Vec<String> = services.chain(others.iter().map(|&other| other.to_owned())).collect();
            writeln!(text, "| {key} | {peers} | {} | {accepted} |", all.join(", ")).unwrap();
        }
        expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/ports.md")].assert_eq(&text);
    }

    #[test]
    fn every_service_is_on_one_port_and_only_the_status_on_all() {
        let placed = |service: &str| {
            TABLE.iter().filter(|row| row.services.contains(&service) || row.others.contains(&service)).count()
        };
        let own: BTreeSet<&str> =
            roles::TABLE.iter().map(|row| row.service).filter(|service| !COMMON.contains(service)).collect();
        for service in own {
            let ports = match service {
                STATUS => 5,
                REDIS => 2,
                _ => 1,
            };
            assert_eq!(placed(service), ports, "{service}");
        }
        for service in TABLE.iter().flat_map(|row| row.services) {
            assert!(roles::TABLE.iter().any(|row| row.service == *service), "{service} has rights");
        }
    }

    #[test]
    fn the_services_of_operators_are_known_by_their_paths() {
        assert!(is_admin("/seqsvr.v1.NodeAdminService/DrainNode") && is_admin("/seqsvr.v1.BackupService/CreateBackup"));
        for other in ["/seqsvr.v1.StatusService/Status", "/seqsvr.v1.ControlService/Register", "/", ""] {
            assert!(!is_admin(other), "{other}");
        }
    }
}
