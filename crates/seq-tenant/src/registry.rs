//! Finds the tenant of a request. An operator can replace the definitions of all tenants while the node runs. A tenant
//! whose definition is unchanged keeps the state of its quotas.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use seq_api::metrics::auth_failures;
use seq_api::node_events::NodeEvents;
use seq_auth::{Identity, Role};
use seq_kit::connection::Peer;
use seq_kit::refusal_log::RefusalLog;
use seq_proto::Reason;
use tonic::Status;

use crate::caller::Caller;
use crate::file::{PROXY, TenantSpec};
use crate::quota::{Connected, Tenant};
use crate::token::{Token, TokenHash};

/// Tenants of a node. Clones share them.
#[derive(Clone)]
pub struct Tenants(Arc<Inner>);

struct Inner {
    node: String,
    current: ArcSwap<Registry>,
    failures: RefusalLog,
}

/// The tenants that a tenants file defines.
#[derive(Default)]
struct Registry {
    generation: u64,
    by_name: HashMap<String, Arc<Tenant>>,
    /// Tenants by the names of their clients, and by `proxy/NAME` for each of their proxies.
    by_certificate: HashMap<String, Arc<Tenant>>,
}

/// Proof of a caller's rights.
#[derive(Clone, Debug)]
enum Proof {
    /// A role that belongs to no tenant.
    Role,
    /// The certificate of a client, given by the client's name.
    Certificate(String),
    /// The certificate of a proxy, given as `proxy/NAME`. If no tenant lists the proxy, it belongs to no tenant.
    Proxy(String),
    /// A token, given as the name of its tenant and the hash of its secret.
    Token(String, TokenHash),
}

impl Tenants {
    /// Creates the tenants of `node`. Requests with an invalid token are counted in the node's `events`.
    #[must_use]
    pub fn new(node: &str, specs: Vec<TenantSpec>, events: &NodeEvents) -> Tenants {
        let tenants = Tenants(Arc::new(Inner {
            node: node.to_owned(),
            current: ArcSwap::default(),
            failures: auth_failures(node, events),
        }));
        tenants.replace(specs);
        tenants
    }

    /// Replaces the definitions of all tenants. A tenant whose definition is unchanged keeps the state of its quotas.
    pub fn replace(&self, specs: Vec<TenantSpec>) {
        let before = self.0.current.load();
        let mut next = Registry { generation: before.generation + 1, ..Registry::default() };
        for (index, spec) in specs.into_iter().enumerate() {
            let former = before.by_name.get(&spec.name);
            let tenant = match former.filter(|former| *former.spec() == spec) {
                Some(unchanged) => unchanged.clone(),
                None => Arc::new(Tenant::new(spec, &self.0.node, index, former.map(|former| &**former))),
            };
            for certificate in &tenant.spec().certificates {
                next.by_certificate.insert(certificate.clone(), tenant.clone());
            }
            next.by_name.insert(tenant.spec().name.clone(), tenant);
        }
        self.0.current.store(Arc::new(next));
    }

    /// Returns the caller of a request. It is found by `token` if the request has a token, and otherwise by the
    /// certificate of the connection `peer`. If the caller belongs to a tenant and the connection does not count for a
    /// tenant yet, the connection counts for this tenant from then on.
    ///
    /// # Errors
    /// `UNKNOWN_TOKEN`, `NO_TENANT`, `TOO_MANY_CONNECTIONS`.
    pub fn caller(&self, peer: Option<&Peer>, token: Option<Token<'_>>) -> Result<Caller, Status> {
        let caller = self.resolve(&proof(peer.and_then(Peer::identity), token)?)?;
        if let (Caller::Tenant(tenant), Some(peer)) = (&caller, peer)
            && !peer.has_attachment()
        {
            peer.attach(Box::new(connect(tenant)?));
        }
        if let Some(peer) = peer {
            peer.proved();
        }
        Ok(caller)
    }

    /// Returns the caller of all requests of one stream or connection. It is found as in [`Tenants::caller`].
    ///
    /// # Errors
    /// The errors of [`Tenants::caller`].
    pub fn session(&self, peer: Option<&Peer>, token: Option<Token<'_>>) -> Result<Session, Status> {
        let proof = proof(peer.and_then(Peer::identity), token)?;
        let generation = self.0.current.load().generation;
        let caller = self.caller(peer, token)?;
        Ok(Session { tenants: Some(self.clone()), proof, generation, caller })
    }

    fn resolve(&self, proof: &Proof) -> Result<Caller, Status> {
        let registry = self.0.current.load();
        let found = match proof {
            Proof::Role => return Ok(Caller::Unlimited),
            Proof::Certificate(name) => registry.by_certificate.get(name),
            Proof::Proxy(name) => match registry.by_certificate.get(name) {
                None => return Ok(Caller::Unlimited),
                found => found,
            },
            Proof::Token(tenant, hash) => {
                registry.by_name.get(tenant).filter(|tenant| tenant.spec().tokens.iter().any(|known| known == hash))
            }
        };
        found.cloned().map(Caller::Tenant).ok_or_else(|| match proof {
            Proof::Certificate(name) => Reason::NoTenant.status(format!("client/{name} is of no tenant")),
            _ => {
                self.count_failure();
                Reason::UnknownToken.status("the token is of no tenant")
            }
        })
    }

    /// Counts a request with an invalid token. Logs the first such request, and at most one per minute after it.
    fn count_failure(&self) {
        if let Some((event, suppressed)) = self.0.failures.count() {
            tracing::warn!(event, node = self.0.node, suppressed, "a token of no tenant was sent");
        }
    }
}

fn proof(identity: Option<&Identity>, token: Option<Token<'_>>) -> Result<Proof, Status> {
    match (token, identity) {
        (Some(token), _) => Ok(Proof::Token(token.tenant.to_owned(), token.hash())),
        (None, Some(identity)) => Ok(match identity.role() {
            Role::Client => Proof::Certificate(identity.name().to_owned()),
            Role::Proxy => Proof::Proxy(format!("{PROXY}{}", identity.name())),
            // Whether holders of the other roles may call was checked before, with the table of roles.
            _ => Proof::Role,
        }),
        (None, None) => Err(Reason::UnknownToken.status("the request needs a token of a tenant, or a certificate")),
    }
}

fn connect(tenant: &Arc<Tenant>) -> Result<Connected, Status> {
    tenant.connect().ok_or_else(|| {
        let name = &tenant.spec().name;
        Reason::TooManyConnections.status(format!("tenant {name} has reached its limit of open connections"))
    })
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenants").field("node", &self.0.node).finish_non_exhaustive()
    }
}

/// Caller of all requests of a connection or a stream.
#[derive(Debug)]
pub struct Session {
    /// `None` if the node has no tenants.
    tenants: Option<Tenants>,
    proof: Proof,
    /// Number of the definitions of the tenants by which `caller` was found. Each replacement of the definitions
    /// increases the number by 1.
    generation: u64,
    caller: Caller,
}

impl Session {
    /// Returns the session of a node without tenants.
    #[must_use]
    pub fn unlimited() -> Session {
        Session { tenants: None, proof: Proof::Role, generation: 0, caller: Caller::Unlimited }
    }

    /// Finds the caller again if the definitions of the tenants were replaced since the caller was found.
    ///
    /// # Errors
    /// `UNKNOWN_TOKEN` or `NO_TENANT` if the token or the certificate belongs to no tenant any more.
    pub fn refresh(&mut self) -> Result<(), Status> {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let generation = tenants.0.current.load().generation;
        if generation != self.generation {
            self.caller = tenants.resolve(&self.proof)?;
            self.generation = generation;
        }
        Ok(())
    }

    /// Returns the caller, as of the last refresh.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

#[cfg(test)]
mod tests;
