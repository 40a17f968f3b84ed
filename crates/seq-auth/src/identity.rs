//! Identities. An identity is the name of a certificate's holder, which is a process or a person, within a cluster.
//!
//! An identity is written as a URI, which must be the only URI among a certificate's subject alternative names:
//!
//! | holder | URI |
//! |---|---|
//! | a store member | `seqsvr://CLUSTER/store/SET/NODE` |
//! | an allocator | `seqsvr://CLUSTER/alloc/SET/NODE` |
//! | a proxy, an operator, a viewer, a client, a reader of metrics | `seqsvr://CLUSTER/ROLE/NAME` |
//!
//! Common names of certificates are ignored. If they served as the names of users, a certificate made for another
//! purpose could be used to log in, as in CVE-2018-16886 of etcd.

use std::fmt;
use std::str::FromStr;

/// The scheme of the URI.
const SCHEME: &str = "seqsvr://";

/// Maximum length, in bytes, of the name of a cluster, a set, a node or another holder. Names in set files have the
/// same limit.
pub const MAX_NAME_BYTES: usize = 63;

/// Role of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A member of a set's store.
    Store,
    /// An allocator of a set.
    Alloc,
    /// A proxy in front of a cluster's sets.
    Proxy,
    /// A person or a program that changes a cluster.
    Operator,
    /// A person or a program that watches a cluster.
    Viewer,
    /// A backend that requests numbers.
    Client,
    /// A reader of metrics.
    Metrics,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 7] =
        [Role::Store, Role::Alloc, Role::Proxy, Role::Operator, Role::Viewer, Role::Client, Role::Metrics];

    /// Returns the role's name in a URI.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Store => "store",
            Role::Alloc => "alloc",
            Role::Proxy => "proxy",
            Role::Operator => "operator",
            Role::Viewer => "viewer",
            Role::Client => "client",
            Role::Metrics => "metrics",
        }
    }

    /// Returns whether holders with this role accept connections. If so, their certificates can be used as the
    /// certificate of a server and of a client, and otherwise only of a client.
    #[must_use]
    pub fn serves(self) -> bool {
        matches!(self, Role::Store | Role::Alloc | Role::Proxy)
    }

    /// Returns whether holders with this role belong to a set. If so, their identities contain the name of the set
    /// before the name of the node.
    #[must_use]
    pub fn is_of_set(self) -> bool {
        matches!(self, Role::Store | Role::Alloc)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a certificate's holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    cluster: String,
    role: Role,
    /// **Invariant:** present if and only if [`Role::is_of_set`].
    set: Option<String>,
    name: String,
}

impl Identity {
    /// Creates the identity of a node that belongs to a set.
    ///
    /// # Errors
    /// The nodes of sets do not have this role, or one of the names is invalid.
    pub fn of_node(cluster: &str, role: Role, set: &str, node: &str) -> Result<Identity, IdentityError> {
        if !role.is_of_set() {
            return Err(IdentityError::Set { role });
        }
        let set = Some(name("set", set)?);
        Ok(Identity { cluster: name("cluster", cluster)?, role, set, name: name("node", node)? })
    }

    /// Creates the identity of a holder that belongs to no set.
    ///
    /// # Errors
    /// The holders with this role belong to sets, or one of the names is invalid.
    pub fn of_cluster(cluster: &str, role: Role, holder: &str) -> Result<Identity, IdentityError> {
        if role.is_of_set() {
            return Err(IdentityError::NoSet { role });
        }
        Ok(Identity { cluster: name("cluster", cluster)?, role, set: None, name: name("holder", holder)? })
    }

    /// Creates an identity in `cluster` from its short form, which is `ROLE/NAME` or `ROLE/SET/NODE`.
    ///
    /// # Errors
    /// The errors of [`Identity::from_str`].
    pub fn in_cluster(cluster: &str, short: &str) -> Result<Identity, IdentityError> {
        format!("{SCHEME}{cluster}/{short}").parse()
    }

    /// Returns the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the set of a store member or an AllocSvr, or `None` for all other roles.
    #[must_use]
    pub fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    /// Returns the node's or holder's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity without its cluster, in the short form that [`Identity::in_cluster`] reads.
    #[must_use]
    pub fn short(&self) -> String {
        match &self.set {
            Some(set) => format!("{}/{set}/{}", self.role, self.name),
            None => format!("{}/{}", self.role, self.name),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.cluster, self.short())
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Identity, IdentityError> {
        let path = uri.strip_prefix(SCHEME).ok_or_else(|| IdentityError::Scheme { uri: uri.to_owned() })?;
        let parts: Vec<&str> = path.split('/').collect();
        let [cluster, role, names @ ..] = &*parts else { return Err(IdentityError::Parts { uri: uri.to_owned() }) };
        let known = Role::ALL.into_iter().find(|known| known.name() == *role);
        let role = known.ok_or_else(|| IdentityError::Role { role: (*role).to_owned() })?;
        match *names {
            [set, node] => Identity::of_node(cluster, role, set, node),
            [holder] => Identity::of_cluster(cluster, role, holder),
            _ => Err(IdentityError::Parts { uri: uri.to_owned() }),
        }
    }
}

/// Returns the name `text` if it is valid. `what` is the kind of the name, for the error. A valid name has no
/// separators, no wildcards and no letters except lower-case ASCII letters, because names are compared byte by byte,
/// and some letters of other alphabets look like ASCII letters.
pub(crate) fn name(what: &'static str, text: &str) -> Result<String, IdentityError> {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.@".contains(&byte);
    let bounds = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if bounds && text.len() <= MAX_NAME_BYTES && text.bytes().all(valid) {
        Ok(text.to_owned())
    } else {
        Err(IdentityError::Name { what, text: text.to_owned() })
    }
}

/// Reason why a text is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The URI has another scheme.
    #[error("{uri:?} does not begin with {SCHEME}")]
    Scheme {
        /// The URI.
        uri: String,
    },
    /// The URI has too few parts or too many.
    #[error("{uri:?} is not {SCHEME}CLUSTER/ROLE/NAME, or {SCHEME}CLUSTER/ROLE/SET/NODE for a store or an alloc")]
    Parts {
        /// The URI.
        uri: String,
    },
    /// There is no such role.
    #[error("{role:?} is no role: store, alloc, proxy, operator, viewer, client, metrics")]
    Role {
        /// The text in place of the role.
        role: String,
    },
    /// The URI contains no set, but holders with its role belong to sets.
    #[error("{role} is a role of a set's nodes: write {role}/SET/NODE")]
    NoSet {
        /// The role.
        role: Role,
    },
    /// The URI contains a set, but holders with its role belong to no set.
    #[error("{role} is no role of a set's nodes: write {role}/NAME")]
    Set {
        /// The role.
        role: Role,
    },
    /// A part is not a valid name.
    #[error(
        "{text:?} is no name of a {what}: 1 to {MAX_NAME_BYTES} lower-case letters, digits and -_.@, beginning with a letter \
         or a digit"
    )]
    Name {
        /// The named part, e.g. `cluster`.
        what: &'static str,
        /// The invalid text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identity_names_cluster_role_and_holder() {
        let node: Identity = "seqsvr://im/store/im-a/s1".parse().unwrap();
        assert_eq!(node, Identity::of_node("im", Role::Store, "im-a", "s1").unwrap());
        assert_eq!((node.cluster(), node.role(), node.set(), node.name()), ("im", Role::Store, Some("im-a"), "s1"));
        let operator = Identity::in_cluster("im", "operator/alice@example.org").unwrap();
        assert_eq!(operator.to_string(), "seqsvr://im/operator/alice@example.org");
        assert_eq!((operator.set(), operator.short()), (None, "operator/alice@example.org".to_owned()));
    }

    #[test]
    fn what_is_none_names_its_fault() {
        let fault = |uri: &str| uri.parse::<Identity>().unwrap_err().to_string();
        assert!(fault("spiffe://im/client/c").contains("does not begin with seqsvr://"));
        assert!(fault("seqsvr://im").contains("CLUSTER/ROLE/NAME"));
        assert!(fault("seqsvr://im/client").contains("CLUSTER/ROLE/NAME"));
        assert!(fault("seqsvr://im/client/a/b/c").contains("CLUSTER/ROLE/NAME"));
        assert!(fault("seqsvr://im/admin/a").contains(r#""admin" is no role"#));
        assert!(fault("seqsvr://im/Client/a").contains(r#""Client" is no role"#));
        assert!(fault("seqsvr://im/store/s1").contains("write store/SET/NODE"));
        assert!(fault("seqsvr://im/client/im-a/c").contains("write client/NAME"));
        for wrong in ["", "*", "a*", "A", ".a", "-a", "a b", "a\0", "a%2f", "ä", &"a".repeat(64)] {
            assert!(fault(&format!("seqsvr://im/client/{wrong}")).contains("is no name of a holder"), "{wrong:?}");
            assert!(fault(&format!("seqsvr://{wrong}/client/c")).contains("is no name of a cluster"), "{wrong:?}");
            assert!(fault(&format!("seqsvr://im/alloc/{wrong}/a1")).contains("is no name of a set"), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn an_identity_is_read_back_from_its_uri(cluster in "[a-z0-9][a-z0-9.-]{0,20}", set in "[a-z0-9][a-z0-9-]{0,9}",
            name in "[a-z0-9][a-z0-9@_.-]{0,20}", role in prop::sample::select(&Role::ALL[..])) {
            let identity = if role.is_of_set() {
                Identity::of_node(&cluster, role, &set, &name)
            } else {
                Identity::of_cluster(&cluster, role, &name)
            }.unwrap();
            prop_assert_eq!(Identity::in_cluster(&cluster, &identity.short()), Ok(identity.clone()));
            prop_assert_eq!(identity.to_string().parse(), Ok(identity));
        }

        #[test]
        fn no_text_is_read_as_another_identity(uri in "(seqsvr://)?[a-z/.*@]{0,30}") {
            if let Ok(identity) = uri.parse::<Identity>() {
                prop_assert_eq!(identity.to_string(), uri);
            }
        }
    }
}
