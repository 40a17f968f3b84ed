//! The web console of a development cluster, in the process of the cluster.

use std::net::{TcpListener, ToSocketAddrs};
use std::time::Duration;

use anyhow::Context;
use seq_channel::{Dial, Pool};
use seq_command::store_client::Node;
use seq_console::{Options, Server};
use seq_core::set_spec::SetSpec;
use seq_kit::tasks::{Kind, TaskGroup};

/// Address of the port, unless the system chooses all ports.
const ADDR: &str = "127.0.0.1:7150";

/// Timeout of each node, which is in the same process.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the port of the console.
///
/// # Errors
/// The address is taken, or is not a loopback address. The text names the flag with which another address can be set.
pub(super) fn bind(addr: Option<&str>, is_random: bool) -> anyhow::Result<TcpListener> {
    let addr = addr.unwrap_or(if is_random { "127.0.0.1:0" } else { ADDR });
    let is_here = addr.to_socket_addrs().is_ok_and(|mut addrs| addrs.all(|addr| addr.ip().is_loopback()));
    anyhow::ensure!(is_here, "--console {addr}: the console listens on this machine only, as {ADDR}");
    let listener = TcpListener::bind(addr).with_context(|| format!("--console {addr}: the port cannot be opened"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts the console in a task of `tasks`. Returns its address for a browser.
///
/// # Errors
/// The listener cannot be used by the runtime.
pub(super) fn start(listener: TcpListener, sets: &[&SetSpec], tasks: &TaskGroup) -> anyhow::Result<String> {
    let seeds = sets.iter().flat_map(|set| &set.allocs).map(|alloc| Node::at(&alloc.addr)).collect();
    let options = Options {
        pool: Pool::with_dial(1, Dial::tcp()),
        seeds,
        all_sets: true,
        timeout: TIMEOUT,
        identity: "development cluster".to_owned(),
        has_login: false,
    };
    let server = Server::new(tokio::net::TcpListener::from_std(listener)?, options)?;
    let url = server.addresses().next();
    let token = tasks.token();
    tasks.spawn("console", Kind::Disposable, async move { server.serve(token.cancelled()).await });
    Ok(url)
}
