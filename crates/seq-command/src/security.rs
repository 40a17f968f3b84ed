//! TLS of the connections of this process. A server presents its own certificate to its peers, and a command presents
//! the certificate of `--identity`.
//!
//! Either all connections of a cluster use TLS, or none does. A command learns from the set file, or from the scheme of
//! the address that the user gives, whether they do. A command connects to only one cluster, so the first set file or
//! address determines it for the whole process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use seq_api::metrics::failed_handshakes;
use seq_api::node_events::NodeEvents;
use seq_auth::{Authorities, ClientCertificate, Credentials, CredentialsError, Files, Identity, Role, Trust};
use seq_channel::{Access, Bearer, Dial, Pool};
use seq_kit::config::Origin;
use seq_kit::connection::Tls;

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::set_file::SetFile;

/// Heading in the help, above the options that every command has.
pub const OF_EVERY_COMMAND: &str = "Options of every command";

/// The certificate of this process.
#[derive(Clone, Args)]
pub struct CertificateArgs {
    /// The directory with the certificates, as `seqsvr cert` writes them.
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        display_order = 901, help_heading = OF_EVERY_COMMAND,
        hide_short_help = true,
        default_value = "certs",
        env = "SEQSVR_CERTS"
    )]
    certs: PathBuf,
    /// Holder of the certificate that a command shows to servers.
    #[arg(long, value_name = "ROLE/NAME", global = true, display_order = 902, help_heading = OF_EVERY_COMMAND, hide_short_help = true,
          default_value = "operator/admin", env = "SEQSVR_IDENTITY", value_parser = holder)]
    identity: String,
    /// Token of a tenant; a command that sends a token shows no certificate. Prefer the variable, because other users
    /// see a command line.
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        display_order = 903, help_heading = OF_EVERY_COMMAND,
        hide_short_help = true,
        env = "SEQSVR_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

impl fmt::Debug for CertificateArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CertificateArgs { certs, identity, token: _ } = self;
        f.debug_struct("CertificateArgs").field("certs", certs).field("identity", identity).finish_non_exhaustive()
    }
}

fn holder(text: &str) -> Result<String, String> {
    // Any name of a cluster serves to check the text, because the directory has the certificates of only one cluster.
    Identity::in_cluster("any", text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

static ARGS: OnceLock<CertificateArgs> = OnceLock::new();

/// Trust of this command's connections. The lock is empty until the first address of the cluster is known, and contains
/// `None` if the cluster has no TLS.
static SHOWN: OnceLock<Option<Trust>> = OnceLock::new();

/// Stores the arguments for all functions of this module. The process must call it once, before it runs the command.
pub fn init(args: CertificateArgs) {
    ARGS.set(args).expect("the command line is read once");
}

fn args() -> &'static CertificateArgs {
    ARGS.get().expect("the command line is read first")
}

/// Returns the directory with the certificates.
pub fn dir() -> &'static Path {
    &args().certs
}

/// Returns the origin of the directory with the certificates, which is a flag, an environment variable or the default.
pub fn origin_of_dir() -> Origin {
    if is_flag("--certs") {
        Origin::Flag { flag: "--certs".to_owned() }
    } else if environment::is_set("SEQSVR_CERTS") {
        Origin::Environment { variable: "SEQSVR_CERTS".to_owned() }
    } else {
        Origin::Default
    }
}

/// Returns the identity whose certificate this command presents, without its cluster, such as `operator/admin`.
pub fn identity() -> &'static str {
    &args().identity
}

/// Returns the environment variables, with their values, that make another process of this program present the same
/// certificate.
pub fn variables() -> [(&'static str, &'static std::ffi::OsStr); 2] {
    [("SEQSVR_CERTS", dir().as_os_str()), ("SEQSVR_IDENTITY", args().identity.as_ref())]
}

/// Determines whether this command's connections use TLS. If they do, the first call reads the command's credentials.
///
/// # Errors
/// The credentials are missing or damaged, or an earlier call of this process had the opposite value of `secure`.
pub fn use_tls(secure: bool) -> Result<(), Failure> {
    let shown = match SHOWN.get() {
        Some(shown) => shown.as_ref(),
        None => {
            let hint = "`seqsvr cert issue` makes them; --certs and --identity name others";
            let files = || Files::in_dir(dir(), &args().identity);
            let load = || match args().token {
                Some(_) => {
                    Authorities::load(&files()).map(Trust::from).map_err(|error| unusable(&error, Exit::Usage, hint))
                }
                None => load(files(), Exit::Usage, hint).map(Trust::from),
            };
            let loaded = secure.then(load).transpose()?;
            SHOWN.get_or_init(|| loaded).as_ref()
        }
    };
    if shown.is_some() == secure {
        return Ok(());
    }
    let what = "one address needs TLS and another has none, but either all nodes of a cluster have TLS or none has";
    Err(Failure::new(Exit::Usage, what).hint("write https:// before all of them, or http://"))
}

/// Returns the trust and the token that this command's connections use. If [`use_tls`] was not called before, the
/// connections use no TLS, and a later call of `use_tls(true)` fails.
///
/// # Errors
/// The token does not have the form of a token.
pub fn access() -> Result<Access, Failure> {
    let token = ARGS.get().and_then(|args| args.token.as_deref()).filter(|token| !token.is_empty());
    let bearer = token.map(Bearer::new).transpose();
    let bearer = bearer.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", origin_of_token())))?;
    Ok(Access { bearer, ..without_token() })
}

/// Returns the flag or the environment variable that set the token. Errors name it instead of the token, because the
/// token is secret.
fn origin_of_token() -> &'static str {
    if is_flag("--token") { "--token" } else { "$SEQSVR_TOKEN" }
}

/// Returns whether the command line has a flag.
fn is_flag(flag: &str) -> bool {
    let is_it = |word: &str| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    std::env::args_os().any(|word| word.to_str().is_some_and(is_it))
}

/// Returns the trust of this command's connections without a token. Requests that need no token use it.
pub fn without_token() -> Access {
    Access { trust: SHOWN.get_or_init(|| None).clone(), bearer: None }
}

/// Returns the [`Dial`] that makes this command's connections.
pub fn dial() -> Dial {
    without_token().dial()
}

/// Returns whether this command's connections use TLS.
pub fn is_tls() -> bool {
    matches!(SHOWN.get(), Some(Some(_)))
}

/// Returns a new pool for this command's connections, which makes one connection to each node.
pub fn pool() -> Pool {
    Pool::with_dial(1, dial())
}

/// Reads the credentials of the set's node `node`, which has the role `role`. Returns `None` if the set has no TLS.
pub fn of_node(set: &SetFile, role: Role, node: &str) -> Result<Option<Credentials>, Failure> {
    if !set.is_secure() {
        return Ok(None);
    }
    let identity = Identity::of_node(&set.cluster(), role, &set.spec.name, node);
    let identity = identity.map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let hint = format!(
        "`seqsvr cert issue --set {}` makes them; `plaintext = true` in the set file runs it without TLS, on loopback only",
        set.path.display()
    );
    of(&identity, &hint).map(Some)
}

/// Reads the credentials of a proxy.
pub fn of_proxy(name: &str) -> Result<Credentials, Failure> {
    let files = Files::in_dir(dir(), &format!("{}/{name}", Role::Proxy));
    load(files, Exit::Config, &format!("`seqsvr cert issue {}/{name} --host HOST` makes them", Role::Proxy))
}

fn of(identity: &Identity, hint: &str) -> Result<Credentials, Failure> {
    let credentials = load(Files::in_dir(dir(), &identity.short()), Exit::Config, hint)?;
    let found = credentials.certificate().identity;
    if found == *identity {
        return Ok(credentials);
    }
    let path = credentials.files().certificate.display();
    Err(Failure::new(Exit::Config, format!("{path}: the certificate is of {found}, and this process is {identity}")))
}

fn load(files: Files, exit: Exit, hint: &str) -> Result<Credentials, Failure> {
    let credentials = Credentials::load(files).map_err(|error| unusable(&error, exit, hint))?;
    let (certificate, now) = (credentials.certificate(), crate::utc::now());
    let path = credentials.files().certificate.display();
    if certificate.left(now).is_zero() {
        return Err(
            Failure::new(exit, format!("{path}: the certificate has expired")).hint("`seqsvr cert rotate` renews it")
        );
    }
    if now < certificate.not_before {
        let what = format!("{path}: the certificate is not valid before {}", crate::utc::text(certificate.not_before));
        return Err(Failure::new(exit, what)
            .hint("is the clock of this machine right? `seqsvr cert issue` makes new certificates"));
    }
    Ok(credentials)
}

fn unusable(error: &CredentialsError, exit: Exit, hint: &str) -> Failure {
    Failure::new(exit, error.to_string()).hint(hint)
}

/// Returns the TLS for a port that accepts only connections with a certificate. Returns `None` if `credentials` is
/// `None`. Failed handshakes are counted in the node's `events`.
pub fn certified(credentials: Option<&Credentials>, node: &str, events: &NodeEvents) -> Option<Tls> {
    tls(credentials, ClientCertificate::Required, (node, events))
}

/// Returns the TLS for a port that also accepts connections without a certificate, for example of probes. Returns
/// `None` if `credentials` is `None`. Failed handshakes are counted in the node's `events`.
pub fn open(credentials: Option<&Credentials>, node: &str, events: &NodeEvents) -> Option<Tls> {
    tls(credentials, ClientCertificate::Optional, (node, events))
}

fn tls(
    credentials: Option<&Credentials>,
    clients: ClientCertificate,
    (node, events): (&str, &NodeEvents),
) -> Option<Tls> {
    let failures = failed_handshakes(node, events);
    credentials.map(|credentials| Tls::new(credentials.clone(), clients, failures))
}
