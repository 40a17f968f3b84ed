//! Which cluster a client command talks to.

/// Where the cluster is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// Address of a node, as http://host:port; repeat it for more nodes to start from.
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',',
          default_value = "http://127.0.0.1:7100")]
    pub(crate) addrs: Vec<String>,
}
