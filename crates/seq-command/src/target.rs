//! The cluster that a client command connects to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seq_channel::Access;
use seq_client::{Client, ClientBuilder, ConnectError};
use seq_load::endpoint::{self, AnyTransport, Endpoint, EndpointOptions, OpenError};
use seq_load::outcome::Chain;
use seq_load::raises::RaiseWatch;
use seq_proto::reason::code_name;
use seq_proto::status;
use tonic::{Code, Status};

use crate::exit::{Exit, Failure};
use crate::port_kind::{self, Needed, PortKind};
use crate::security;
use crate::set_file::{self, SetFile};

pub use seq_load::endpoint::host_port;

/// The first allocator of a development cluster.
pub const DEFAULT_ADDR: &str = "http://127.0.0.1:7100";

/// Addresses of the cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// The set file, from whose allocators the command starts.
    #[arg(long, value_name = "FILE", env = "SEQSVR_SET")]
    set: Option<PathBuf>,
    /// Address of a node, as http://host:port, or https:// for TLS; repeat the flag for more nodes to start from
    /// [default: http://127.0.0.1:7100]
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',', value_parser = node_url)]
    addrs: Vec<String>,
}

/// Reads a set file for a command. Connections that the command makes afterwards use TLS if the set file states it.
pub fn load_set(path: &Path) -> anyhow::Result<SetFile> {
    let set = set_file::read(path)?;
    security::use_tls(set.is_secure())?;
    Ok(set)
}

impl Target {
    /// Returns the URLs that the flags give and the URLs of the AllocSvrs in the set file, or the default URL if there
    /// are none. Connections that the command makes afterwards use TLS if the URLs begin with https://.
    pub fn addrs(&self) -> anyhow::Result<Vec<String>> {
        let mut addrs = self.addrs.clone();
        if let Some(path) = &self.set {
            let set = load_set(path)?;
            let scheme = if set.is_secure() { "https" } else { "http" };
            addrs.extend(set.spec.allocs.iter().map(|alloc| format!("{scheme}://{}", alloc.addr)));
        }
        if addrs.is_empty() {
            addrs.push(DEFAULT_ADDR.to_owned());
        }
        use_scheme_of(&addrs)?;
        Ok(addrs)
    }

    /// Connects to the cluster through the nodes that respond first.
    pub async fn connect(&self, deadline: Duration) -> anyhow::Result<Client> {
        let addrs = self.addrs()?;
        let Access { bearer, .. } = security::access()?;
        let settings = Client::builder().deadline(deadline).dial(security::dial());
        let settings = bearer.into_iter().fold(settings, ClientBuilder::token);
        let settings = addrs.iter().fold(settings, |settings, addr| settings.seed(host_port(addr)));
        match settings.connect().await {
            Ok(client) => Ok(client),
            Err(error) => Err(connect_failure(&error, deadline).await.into()),
        }
    }
}

/// Determines whether this command's connections use TLS. They do if the addresses begin with https://. An address
/// without a scheme means no TLS.
pub fn use_scheme_of(addrs: &[String]) -> Result<(), Failure> {
    addrs.iter().try_for_each(|addr| security::use_tls(addr.starts_with("https://")))
}

/// Checks that an address has the form `host:port` and no scheme, and returns it. clap uses it as the parser of
/// arguments.
pub fn host_and_port(text: &str) -> Result<String, String> {
    if is_address(text) { Ok(text.to_owned()) } else { Err("the address must have the form host:port".to_owned()) }
}

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', '?', '#']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Checks the syntax of a node's URL, which may lack the scheme, and returns it. clap uses it as the parser of
/// arguments.
pub fn node_url(text: &str) -> Result<String, String> {
    let addr = match text.split_once("://") {
        None => text,
        Some(("http" | "https", rest)) => rest.strip_suffix('/').unwrap_or(rest),
        Some(_) => return Err("only http:// and https:// are allowed".to_owned()),
    };
    if is_address(addr) {
        Ok(text.to_owned())
    } else {
        Err("the address must have the form http://host:port".to_owned())
    }
}

async fn connect_failure(error: &ConnectError, deadline: Duration) -> Failure {
    let message = format!("{:#}", Chain(error));
    match error {
        ConnectError::Unreachable { addr, source } => unreachable(addr, source, message, deadline).await,
        ConnectError::NoRoutes { .. } => Failure::new(Exit::Deadline, message)
            .hint("the cluster is starting, or its store has no leader: `seqsvr status`"),
        ConnectError::BadRoutes { .. } => Failure::new(Exit::Failed, message),
        _ => Failure::new(Exit::Usage, message),
    }
}

/// Returns the failure of a command that could not connect to any AllocSvr within `deadline`. The last attempt was at
/// `addr` and failed with `source`. The function probes this address. If the probes find no better explanation, the
/// failure has the text `message`.
pub async fn unreachable(addr: &str, source: &Status, message: String, deadline: Duration) -> Failure {
    match source.code() {
        Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted => {
            let reason = status::reason(source).unwrap_or_else(|| code_name(source.code()));
            let what = format!("{addr} refused this command: {reason}: {}", source.message());
            Failure::new(Exit::Failed, what).hint(format!("`seqsvr explain {reason}`"))
        }
        // The transport reports its own timeout as `Cancelled`.
        Code::DeadlineExceeded | Code::Cancelled => {
            // A server that refuses the certificate closes each connection, and the transport dials again until the
            // deadline. So a refused certificate also appears as a timeout.
            let refusal = port_kind::refusal(addr).await;
            refusal.and_then(|kind| kind.failure(addr, Needed::Alloc)).unwrap_or_else(|| {
                Failure::new(Exit::Deadline, format!("no response from {addr} within the deadline of {deadline:?}"))
                    .hint("--timeout gives it more time; `seqsvr status` shows which nodes respond")
            })
        }
        _ => {
            let kind = port_kind::identify(addr).await;
            kind.and_then(|kind| kind.failure(addr, Needed::Alloc)).unwrap_or_else(|| {
                Failure::new(Exit::CannotConnect, message)
                    .hint("is the cluster running? `seqsvr dev` starts one; --addr URL names another")
            })
        }
    }
}

/// Opens the connections of a load test to `endpoint`. First checks that the ports at the given addresses are of the
/// kind that the endpoint needs.
pub async fn open(endpoint: Endpoint, options: &EndpointOptions, workers: usize) -> Result<Vec<AnyTransport>, Failure> {
    check_ports(endpoint, options).await?;
    match endpoint::open(endpoint, options, workers).await {
        Ok(transports) => Ok(transports),
        Err(OpenError::Address(error)) => Err(Failure::new(Exit::Usage, error.to_string())),
        Err(OpenError::Connect(error)) => Err(connect_failure(&error, options.deadline).await),
        Err(error @ OpenError::Refused { .. }) => Err(Failure::new(Exit::CannotConnect, Chain(&error).to_string())
            .hint("is the server running? --help names the addresses")),
    }
}

/// Returns an error if the port at one of the addresses is of a kind that the endpoint cannot use, because every call
/// to it would fail. A port of an unknown kind is no error. Addresses for the SDK are not checked, because the SDK
/// checks them itself.
async fn check_ports(endpoint: Endpoint, options: &EndpointOptions) -> Result<(), Failure> {
    let (addrs, needed): (Vec<&str>, Needed) = match endpoint {
        Endpoint::Sdk => return Ok(()),
        Endpoint::Resp => (vec![&options.redis], Needed::Redis),
        _ => (options.addrs.iter().map(|addr| host_port(addr)).collect(), Needed::Alloc),
    };
    for addr in addrs {
        if needed == Needed::Redis && port_kind::speaks_redis(addr).await {
            continue;
        }
        match port_kind::identify(addr).await {
            None | Some(PortKind::Http | PortKind::Grpc | PortKind::Other) => {}
            Some(known) => known.failure(addr, needed).map_or(Ok(()), Err)?,
        }
    }
    Ok(())
}

/// Returns a watch that counts the raises of ceilings in a cluster. It uses its own connections to the addresses
/// `addrs`.
pub fn raise_watch(addrs: &[String]) -> RaiseWatch {
    RaiseWatch::new(security::pool(), addrs.iter().map(|addr| host_port(addr).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        for good in ["127.0.0.1:7100", "http://h:1", "http://h:1/", "http://[::1]:7100", "https://h:1"] {
            assert_eq!(node_url(good).as_deref(), Ok(good));
        }
        for bad in ["", "h", "h:0", "h:65536", ":1", "http://h:1/path", "h:port", "http://a@h:1"] {
            assert_eq!(node_url(bad), Err("the address must have the form http://host:port".to_owned()), "{bad:?}");
        }
        assert!(host_and_port("h:1").is_ok() && host_and_port("http://h:1").is_err() && host_and_port("h").is_err());
        assert_eq!(node_url("redis://h:1"), Err("only http:// and https:// are allowed".to_owned()));
    }

    #[tokio::test]
    async fn a_refused_connection_is_one_short_line() {
        // The test needs a TCP port on which no process listens. The system has just assigned the number to a UDP port,
        // so a TCP listener is unlikely.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = format!("127.0.0.1:{}", socket.local_addr().unwrap().port());
        let target = Target { set: None, addrs: vec![addr.clone()] };
        let error = target.connect(Duration::from_secs(5)).await.unwrap_err();
        let expected = format!("no seed answered; {addr} failed last: tcp connect error: Connection refused");
        assert_eq!(error.to_string(), expected);
    }
}
