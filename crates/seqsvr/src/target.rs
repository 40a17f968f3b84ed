//! The cluster that a client command connects to.

use std::time::Duration;

use seq_channel::Pool;
use seq_client::{Client, ConnectError};
use seq_load::endpoint::{self, AnyTransport, Endpoint, EndpointOptions, OpenError};
use seq_load::raises::RaiseWatch;
use tonic::{Code, Status};

use crate::exit::{Exit, Failure};

pub(crate) use seq_load::endpoint::host_port;
pub(crate) use seq_load::outcome::Chain;

/// The first allocator of a development cluster.
pub(crate) const DEFAULT_ADDR: &str = "http://127.0.0.1:7100";

/// Addresses of the cluster.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// Address of a node, as http://host:port; repeat it for more nodes to start from.
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',', default_value = DEFAULT_ADDR,
          value_parser = node_url)]
    pub(crate) addrs: Vec<String>,
}

impl Target {
    /// Connects through the first nodes that respond.
    pub(crate) async fn connect(&self, deadline: Duration) -> anyhow::Result<Client> {
        let settings = Client::builder().deadline(deadline);
        let settings = self.addrs.iter().fold(settings, |settings, addr| settings.seed(addr));
        Ok(settings.connect().await.map_err(|error| connect_failure(&error, deadline))?)
    }
}

/// Validates the syntax of a node's URL.
fn node_url(text: &str) -> Result<String, String> {
    let addr = match text.split_once("://") {
        None => text,
        Some(("http", rest)) => rest.strip_suffix('/').unwrap_or(rest),
        Some(("https", _)) => return Err("TLS is not supported".to_owned()),
        Some(_) => return Err("only http:// is understood".to_owned()),
    };
    let is_address = addr.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', '?', '#']) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address { Ok(text.to_owned()) } else { Err("it is not of the form http://host:port".to_owned()) }
}

fn connect_failure(error: &ConnectError, deadline: Duration) -> Failure {
    let message = format!("{:#}", Chain(error));
    match error {
        // `Cancelled` is how the transport reports its own timeout.
        ConnectError::Unreachable { addr, source }
            if matches!(source.code(), Code::DeadlineExceeded | Code::Cancelled) =>
        {
            Failure::new(Exit::Deadline, format!("no response from {addr} within the deadline of {deadline:?}"))
                .hint("--deadline-ms gives it more time; `seqsvr status` shows which nodes respond")
        }
        ConnectError::Unreachable { addr, source } => wrong_port(addr, source).unwrap_or_else(|| {
            Failure::new(Exit::CannotConnect, message)
                .hint("is the cluster running? `seqsvr dev` starts one; --addr URL names another")
        }),
        ConnectError::NoRoutes { .. } => Failure::new(Exit::Deadline, message)
            .hint("the cluster is starting, or its store has no leader: `seqsvr status`"),
        ConnectError::BadRoutes { .. } => Failure::new(Exit::Failed, message),
        _ => Failure::new(Exit::Usage, message),
    }
}

/// The failure of a request to a port of another service, if the response identifies it.
pub(crate) fn wrong_port(addr: &str, status: &Status) -> Option<Failure> {
    let text = Chain(status).to_string();
    let found = if status.message().starts_with("grpc-status header missing") {
        "speaks HTTP but not gRPC; it may be a port for metrics and probes"
    } else if text.contains("http2 error") {
        "does not speak HTTP/2; it may be a port for clients of Redis"
    } else if status.code() == Code::Unimplemented {
        "does not allocate sequence numbers; it is a store, or another gRPC server"
    } else {
        return None;
    };
    let hint = "name the gRPC port of an AllocSvr: `addr` of an [[alloc]] in the set file";
    Some(Failure::new(Exit::Usage, format!("{addr} {found}")).hint(hint))
}

/// Opens the transports of a load.
pub(crate) async fn open(
    endpoint: Endpoint,
    options: &EndpointOptions,
    workers: usize,
) -> Result<Vec<AnyTransport>, Failure> {
    endpoint::open(endpoint, options, workers).await.map_err(|error| match error {
        OpenError::Address(error) => Failure::new(Exit::Usage, error.to_string()),
        OpenError::Connect(error) => connect_failure(&error, options.deadline),
        OpenError::Refused { .. } => Failure::new(Exit::CannotConnect, error.to_string())
            .hint("is the server running? --help names the addresses"),
    })
}

/// Counts the ceiling raises of a cluster, over its own connections.
pub(crate) fn raise_watch(addrs: &[String]) -> RaiseWatch {
    RaiseWatch::new(Pool::with_connections(1), addrs.iter().map(|addr| host_port(addr).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        for good in ["127.0.0.1:7100", "http://h:1", "http://h:1/", "http://[::1]:7100"] {
            assert_eq!(node_url(good).as_deref(), Ok(good));
        }
        for bad in ["", "h", "h:0", "h:65536", ":1", "http://h:1/path", "h:port", "http://a@h:1"] {
            assert_eq!(node_url(bad), Err("it is not of the form http://host:port".to_owned()), "{bad:?}");
        }
        assert_eq!(node_url("https://h:1"), Err("TLS is not supported".to_owned()));
        assert_eq!(node_url("redis://h:1"), Err("only http:// is understood".to_owned()));
    }

    #[tokio::test]
    async fn a_refused_connection_is_one_short_line() {
        // No TCP port is likely to listen where the system just gave a UDP one.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = format!("127.0.0.1:{}", socket.local_addr().unwrap().port());
        let target = Target { addrs: vec![addr.clone()] };
        let error = target.connect(Duration::from_secs(5)).await.unwrap_err();
        let expected =
            format!("no seed answered; {addr} failed last: tcp connect error: Connection refused (os error 111)");
        assert_eq!(error.to_string(), expected);
    }
}
