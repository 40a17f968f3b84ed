//! The server that a dialer expects at an address.
//!
//! A valid certificate of the cluster proves that a server is a node of the cluster, but not that it is the node that
//! the dialer means to reach. Another node may listen at the address because it took over the address, or because some
//! node reported a wrong address, and the certificate of a node of another set is just as valid. A dialer that knows
//! its target therefore states the expected role and set.

use std::fmt;
use std::sync::Arc;

use crate::identity::{Identity, Role};

/// Role that a dialer expects of a server, and set that it expects if it knows the set's name. The default value
/// expects any server of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedServer {
    /// Expected role; `None` for every role that serves.
    role: Option<Role>,
    /// Name of the expected set, never empty. `None` accepts servers of every set, and servers that belong to no set,
    /// such as proxies.
    set: Option<Arc<str>>,
}

impl ExpectedServer {
    /// Expects any server of the cluster.
    #[must_use]
    pub fn any() -> ExpectedServer {
        ExpectedServer::default()
    }

    /// Expects a member of a store, of any set.
    #[must_use]
    pub fn store() -> ExpectedServer {
        ExpectedServer { role: Some(Role::Store), set: None }
    }

    /// Expects an AllocSvr, of any set.
    #[must_use]
    pub fn alloc() -> ExpectedServer {
        ExpectedServer { role: Some(Role::Alloc), set: None }
    }

    /// Restricts the expectation to servers of the set `name`. An empty `name` means that the dialer does not know the
    /// set's name yet, and restricts nothing.
    #[must_use]
    pub fn of_set(self, name: &str) -> ExpectedServer {
        ExpectedServer { set: (!name.is_empty()).then(|| name.into()), ..self }
    }

    /// Returns whether the holder of a certificate meets the expectation.
    #[must_use]
    pub fn accepts(&self, identity: &Identity) -> bool {
        let is_role = self.role.is_none_or(|role| identity.role() == role);
        let is_of_set = self.set.as_deref().is_none_or(|set| identity.set() == Some(set));
        identity.role().serves() && is_role && is_of_set
    }
}

impl fmt::Display for ExpectedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Some(role) => write!(f, "server with role {role}")?,
            None => f.write_str("server with any role")?,
        }
        match &self.set {
            Some(set) => write!(f, " and set {set:?}"),
            None => f.write_str(" and any set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_and_set_are_compared_where_they_are_stated() {
        let holders = ["store/a/s1", "store/b/s1", "alloc/a/a1", "alloc/b/a1", "proxy/p", "operator/o", "client/c"];
        let accepted = |expected: ExpectedServer| {
            let is_accepted = |short: &&str| expected.accepts(&Identity::in_cluster("im", short).unwrap());
            holders.iter().copied().filter(is_accepted).collect::<Vec<_>>()
        };
        assert_eq!(accepted(ExpectedServer::any()), holders[..5]);
        assert_eq!(accepted(ExpectedServer::any().of_set("a")), ["store/a/s1", "alloc/a/a1"]);
        assert_eq!(accepted(ExpectedServer::store()), ["store/a/s1", "store/b/s1"]);
        assert_eq!(accepted(ExpectedServer::store().of_set("b")), ["store/b/s1"]);
        assert_eq!(accepted(ExpectedServer::alloc().of_set("a")), ["alloc/a/a1"]);
        assert_eq!(accepted(ExpectedServer::alloc().of_set("c")), [""; 0]);
    }

    #[test]
    fn an_empty_name_is_of_a_set_that_is_not_known() {
        assert_eq!(ExpectedServer::alloc().of_set(""), ExpectedServer::alloc());
        assert_eq!(ExpectedServer::alloc().of_set("").to_string(), "server with role alloc and any set");
        assert_eq!(ExpectedServer::store().of_set("im-a").to_string(), "server with role store and set \"im-a\"");
    }
}
