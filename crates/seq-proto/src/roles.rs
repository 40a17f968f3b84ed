//! Table of all methods with the roles that may call them. Every port uses this table. A method that is not in the
//! table is denied.
//!
//! If a row allows nodes, it allows either those of the port's own set or those of any set of the cluster. The code
//! that reads a node's name or id from a request also checks that a node acts only for itself ([`check_acts_as`]).
//! Ports without TLS know no roles and deny nothing.

use std::fmt;

use seq_auth::{Identity, Role};
use tonic::Status;

use crate::reason::Reason;
use crate::v1;

/// A role that a row allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Holders of a role, in any set.
    Any(Role),
    /// Nodes of the port's own set.
    OwnSet(Role),
    /// Callers without a certificate that present a tenant's token. They are allowed only on nodes that have tenants.
    Token,
}

use Allowed::{Any, OwnSet, Token};
use Role::{Alloc, Client, Metrics, Operator, Proxy, Store, Viewer};

/// Methods of a port, and the roles that may call them.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Full name of a gRPC service; [`HTTP`] or [`REDIS`] for other protocols.
    pub service: &'static str,
    /// Its methods.
    pub methods: &'static [&'static str],
    /// The roles that may call them.
    pub allowed: &'static [Allowed],
}

/// The requests at a gRPC port whose paths belong to no gRPC service: JSON, plain text, and the description of both.
pub const HTTP: &str = "HTTP";

/// The Redis port.
pub const REDIS: &str = "Redis";

const EVERYONE: &[Allowed] =
    &[Any(Store), Any(Alloc), Any(Proxy), Any(Operator), Any(Viewer), Any(Client), Any(Metrics)];

/// Roles that may make calls. They include nodes, because nodes forward the calls of their callers, also to other sets.
const CALLERS: &[Allowed] = &[Any(Alloc), Any(Proxy), Any(Operator), Any(Client), Token];

/// Roles of nodes in the port's own set. They include StoreSvrs, because followers forward requests to the leader. A
/// forwarded request states its original sender, which the leader checks.
const OWN_NODES: &[Allowed] = &[OwnSet(Alloc), OwnSet(Store)];

const OPERATORS: &[Allowed] = &[Any(Operator)];

/// Roles that may read the state of a cluster, but not its settings and backups.
const VIEWERS: &[Allowed] = &[Any(Operator), Any(Viewer)];

/// The table.
pub const TABLE: &[Row] = &[
    Row {
        service: "seqsvr.v1.SequenceService",
        methods: &["Next", "NextMany", "NextStream", "Advance"],
        allowed: CALLERS,
    },
    // A viewer may find the owner of a uid and read the last number of the uid.
    Row {
        service: "seqsvr.v1.SequenceService",
        methods: &["Current", "CurrentMany", "GetRoutes"],
        allowed: &[Any(Alloc), Any(Proxy), Any(Operator), Any(Viewer), Any(Client), Token],
    },
    Row {
        service: "seqsvr.v1.IdService",
        methods: &["Next", "Current", "Advance", "Decode", "ListSeries"],
        allowed: CALLERS,
    },
    Row {
        service: "seqsvr.v1.KeyService",
        methods: &["Next", "NextMany", "NextStream", "Current", "CurrentMany", "Advance"],
        allowed: CALLERS,
    },
    // Only nodes send hashes of keys, because a caller that chose a hash could use the counter of any key.
    Row {
        service: "seqsvr.v1.KeyOwnerService",
        methods: &["NextHashed", "CurrentHashed", "AdvanceHashed"],
        allowed: &[Any(Alloc)],
    },
    Row { service: HTTP, methods: &["*"], allowed: CALLERS },
    Row { service: REDIS, methods: &["*"], allowed: &[Any(Proxy), Any(Operator), Any(Client), Token] },
    // If a section migrates, AllocSvrs of two sets hand it over.
    Row {
        service: "seqsvr.v1.HandoverService",
        methods: &["Prepare", "Stage", "Activate", "MakeSteps"],
        allowed: &[Any(Alloc)],
    },
    Row {
        service: "seqsvr.v1.ControlService",
        methods: &[
            "Register",
            "Renew",
            "RaiseCeilings",
            "Transfer",
            "TransferMany",
            "Depart",
            "ReportLoss",
            "ReportDeath",
        ],
        allowed: OWN_NODES,
    },
    Row {
        service: "seqsvr.v1.RaftService",
        methods: &["Probe", "AppendEntries", "AppendStream", "Vote", "PreVote", "TransferLeader", "InstallSnapshot"],
        allowed: &[OwnSet(Store)],
    },
    Row {
        service: "seqsvr.v1.InterSetService",
        methods: &["Arm", "Arrive", "StartReturn", "CompleteArrival", "Fence", "Exchange", "Confirm", "ReadFinal"],
        allowed: &[Any(Store)],
    },
    // Followers forward requests of operators. The leader checks the operator's rights.
    Row { service: "seqsvr.v1.ForwardService", methods: &["Forward"], allowed: &[OwnSet(Store)] },
    Row { service: "seqsvr.v1.StatusService", methods: &["Status"], allowed: EVERYONE },
    Row {
        service: "seqsvr.v1.StatusService",
        methods: &["ListCeilings", "ListActivity", "DescribeSection", "ListNodeEvents"],
        allowed: VIEWERS,
    },
    Row { service: "seqsvr.v1.StatusService", methods: &["GetConfig"], allowed: OPERATORS },
    Row { service: "seqsvr.v1.StoreAdminService", methods: &["ListMembers"], allowed: VIEWERS },
    Row {
        service: "seqsvr.v1.StoreAdminService",
        methods: &["AddLearners", "ChangeVoters", "TransferLeader", "RaiseFormat"],
        allowed: OPERATORS,
    },
    Row { service: "seqsvr.v1.NodeAdminService", methods: &["ListNodes"], allowed: VIEWERS },
    Row {
        service: "seqsvr.v1.NodeAdminService",
        methods: &["DrainNode", "SetTerms", "MoveSections", "PauseBalancing"],
        allowed: OPERATORS,
    },
    Row {
        service: "seqsvr.v1.SetAdminService",
        methods: &["ListSets", "ListMigrations", "ListSections"],
        allowed: VIEWERS,
    },
    Row {
        service: "seqsvr.v1.SetAdminService",
        methods: &[
            "CreateSet",
            "CloseSet",
            "ForgetSet",
            "PlanMigration",
            "StartMigration",
            "SetPace",
            "RollbackMigration",
            "CompleteMigration",
        ],
        allowed: OPERATORS,
    },
    Row {
        service: "seqsvr.v1.SeriesAdminService",
        methods: &["CreateSeries", "RetireSeries", "SetLayoutWriter"],
        allowed: OPERATORS,
    },
    Row { service: "seqsvr.v1.KeyspaceAdminService", methods: &["CreateKeyspace"], allowed: OPERATORS },
    Row { service: "seqsvr.v1.BackupService", methods: &["CreateBackup"], allowed: OPERATORS },
    Row { service: "seqsvr.v1.AuditService", methods: &["ListEvents"], allowed: VIEWERS },
    Row { service: "seqsvr.v1.EventService", methods: &["ListSetEvents", "WatchSetEvents"], allowed: VIEWERS },
    // Members of the store forward this request to the leader.
    Row { service: "seqsvr.v1.AuditService", methods: &["EndOperation"], allowed: &[OwnSet(Store)] },
    Row { service: "grpc.health.v1.Health", methods: &["Check", "Watch", "List"], allowed: EVERYONE },
    Row { service: "grpc.reflection.v1.ServerReflection", methods: &["ServerReflectionInfo"], allowed: EVERYONE },
    Row { service: "grpc.reflection.v1alpha.ServerReflection", methods: &["ServerReflectionInfo"], allowed: EVERYONE },
];

/// The called method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called<'a> {
    service: &'a str,
    method: &'a str,
}

impl<'a> Called<'a> {
    /// The Redis port.
    pub const REDIS: Called<'static> = Called { service: REDIS, method: "*" };

    /// Returns the method that a request's path names. For the services in the table, the path is `/SERVICE/METHOD`.
    /// Any other path is taken as a method of the service [`HTTP`].
    #[must_use]
    pub fn by_path(path: &'a str) -> Called<'a> {
        let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let known =
            parts.filter(|(service, _)| service.contains('.') || TABLE.iter().any(|row| row.service == *service));
        match known {
            Some((service, method)) => Called { service, method },
            None => Called { service: HTTP, method: "*" },
        }
    }

    /// Returns the roles that may call the method; `None` if the method is not in the table.
    fn allowed(self) -> Option<&'static [Allowed]> {
        let row = TABLE.iter().find(|row| row.service == self.service && row.methods.contains(&self.method));
        row.map(|row| row.allowed)
    }

    /// Returns whether the table has the method.
    #[must_use]
    pub fn is_listed(self) -> bool {
        self.service != HTTP && self.allowed().is_some()
    }

    /// Returns whether a caller without a certificate may call the method with the token of a tenant.
    #[must_use]
    pub fn admits_tokens(self) -> bool {
        self.allowed().is_some_and(|allowed| allowed.contains(&Token))
    }

    /// Checks whether a caller may call the method at a port of the set `set`. `set` is empty if the port belongs to no
    /// set, as the ports of a proxy do.
    ///
    /// # Errors
    /// `ROLE_DENIED`.
    pub fn check(self, caller: Option<&Identity>, set: &str) -> Result<(), Status> {
        let Some(caller) = caller else {
            return Err(Reason::RoleDenied.status(format!("{self} needs a certificate of the cluster")));
        };
        let allows = |allowed: &Allowed| match *allowed {
            Any(role) => caller.role() == role,
            OwnSet(role) => caller.role() == role && caller.set() == Some(set),
            Token => false,
        };
        if self.allowed().is_some_and(|allowed| allowed.iter().any(allows)) {
            return Ok(());
        }
        Err(Reason::RoleDenied.status(format!("{caller} may not call {self} here")))
    }
}

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.method == "*" { f.write_str(self.service) } else { write!(f, "{}/{}", self.service, self.method) }
    }
}

/// Returns whether a caller gets the whole status of a node, including admin ports, sets and migrations. Operators and
/// viewers get it, and any caller at a port without TLS.
#[must_use]
pub fn sees_whole_status(caller: Option<&Identity>) -> bool {
    caller.is_none_or(|caller| matches!(caller.role(), Operator | Viewer))
}

/// Removes the ids of processes and nodes, the incarnations, and the digest of the settings from a node's status,
/// unless the caller is a StoreSvr, an AllocSvr, an operator or a viewer, or the port has no TLS.
pub fn narrow(status: &mut v1::StatusResponse, caller: Option<&Identity>) {
    if caller.is_none_or(|caller| matches!(caller.role(), Store | Alloc | Operator | Viewer)) {
        return;
    }
    (status.pid, status.settings_digest) = (0, 0);
    match &mut status.role {
        Some(v1::status_response::Role::Store(store)) => {
            for alloc in &mut store.allocs {
                (alloc.id, alloc.incarnation, alloc.renew_seq) = (0, 0, 0);
            }
        }
        Some(v1::status_response::Role::Alloc(alloc)) => {
            (alloc.id, alloc.incarnation, alloc.last_incarnation) = (0, 0, 0);
        }
        None => {}
    }
}

/// Checks that a node acts only for itself: if the caller is an AllocSvr, its certificate must have the name `node`,
/// which is the node that the request is for. Callers with other roles are not checked. They only forward requests,
/// which the table allows or denies.
///
/// # Errors
/// `OTHER_HOLDER`.
pub fn check_acts_as(caller: Option<&Identity>, node: &str) -> Result<(), Status> {
    match caller.filter(|caller| caller.role() == Alloc && caller.name() != node) {
        Some(caller) => Err(Reason::OtherHolder.status(format!("{caller} does not act for node {node:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
