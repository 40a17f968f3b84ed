//! Which cluster a client command talks to.

use std::time::Duration;

use seq_client::{Client, ClientBuilder, ConnectError};
use tonic::Status;

use crate::exit::{Exit, Failure};

/// The first allocator of a development cluster.
pub(crate) const DEFAULT_ADDR: &str = "http://127.0.0.1:7100";

/// Where the cluster is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// Address of a node, as http://host:port; repeat it for more nodes to start from.
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',', default_value = DEFAULT_ADDR)]
    pub(crate) addrs: Vec<String>,
}

impl Target {
    /// Connects through the first nodes that answer.
    pub(crate) async fn connect(&self, deadline: Duration) -> anyhow::Result<Client> {
        self.connect_with(Client::builder().deadline(deadline)).await
    }

    /// Connects with other settings.
    pub(crate) async fn connect_with(&self, settings: ClientBuilder) -> anyhow::Result<Client> {
        let settings = self.addrs.iter().fold(settings, |settings, addr| settings.seed(addr));
        Ok(settings.connect().await.map_err(|error| connect_failure(&error))?)
    }
}

fn connect_failure(error: &ConnectError) -> Failure {
    let message = format!("{:#}", Chain(error));
    match error {
        ConnectError::Unreachable { .. } => Failure::new(Exit::CannotConnect, message)
            .hint("is the cluster running? `seqsvr dev` starts one; --addr URL names another"),
        ConnectError::NoRoutes { .. } => Failure::new(Exit::Deadline, message)
            .hint("the cluster is starting, or its store has no leader: `seqsvr status`"),
        ConnectError::BadRoutes { .. } => Failure::new(Exit::Failed, message),
        _ => Failure::new(Exit::Usage, message),
    }
}

/// A node's "host:port" out of its URL.
pub(crate) fn host_port(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/')
}

/// An error with its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut said = String::new();
        for error in std::iter::successors(Some(self.0), |error| error.source()) {
            // A status prints its details and its source as code would; its message is for people.
            let text =
                error.downcast_ref().map_or_else(|| error.to_string(), |status: &Status| status.message().to_owned());
            // Layers of a transport repeat each other.
            if text == "transport error" || said.ends_with(&text) {
                continue;
            }
            let separator = if said.is_empty() { "" } else { ": " };
            write!(f, "{separator}{text}")?;
            said = text;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_there_is_one_short_line() {
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
