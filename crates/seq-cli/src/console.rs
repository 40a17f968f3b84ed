//! The command `console`, which serves web pages about a cluster to a browser on this machine.

use std::io::{BufRead, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::security;
use seq_command::signals::Interrupts;
use seq_command::store_client::SetAddress;
use seq_command::time_limit::time;
use seq_console::{Addresses, Options, Server};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr console\n  seqsvr console --set three-node.toml --identity viewer/alice\n  \
                        seqsvr console --addr https://10.0.0.1:7100 --listen 127.0.0.1:0\n\n\
                        Pages: overview, section map, sections, nodes, sets and migrations, events, uid, configuration and the runbook. The console \
                        only reads; each page names the commands that change something. It queries nodes while a page is open, and for \
                        ten minutes after that.\n\n\
                        In a cluster with TLS a browser logs in with the address that is printed, which is valid once and for five \
                        minutes; Enter prints a new one. To see the console of another machine: ssh -L 7150:127.0.0.1:7150 HOST.\n\n\
                        With --addr, or with neither, the pages have all sets of the cluster; with --set the set of the file.\n\n\
                        Exit codes: 1 the port is taken, 2 a wrong file or address, 130 interrupted."
)]
pub struct ConsoleArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Address of the port for the browser, on this machine; with port 0 the system chooses one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7150")]
    listen: SocketAddr,
    /// Timeout of each node.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    timeout: Duration,
}

/// The address of the console, as JSON.
#[derive(Serialize)]
struct Opened<'a> {
    listen: String,
    url: &'a str,
    /// Whether the URL contains a login, which is valid for one use within five minutes.
    has_login: bool,
}

pub async fn run(args: ConsoleArgs, output: &Output) -> anyhow::Result<Exit> {
    if !args.listen.ip().is_loopback() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, args.listen.port()));
        let message = format!("--listen {}: the console listens on this machine only, as {local}", args.listen);
        let hint = format!("from another machine: ssh -L {}:{local} HOST", local.port());
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let seeds = args.target.nodes()?;
    let has_login = security::is_tls();
    let options = Options {
        pool: security::pool(),
        seeds,
        all_sets: !args.target.is_set_file(),
        timeout: args.timeout,
        identity: if has_login { security::identity().to_owned() } else { "cluster without TLS".to_owned() },
        has_login,
    };
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let message = format!("--listen {}: {error}", args.listen);
        Failure::new(Exit::Failed, message).hint("--listen 127.0.0.1:0 lets the system choose a port")
    })?;
    let server = Server::new(listener, options)?;
    let addresses = server.addresses();
    print(&addresses, has_login, output)?;
    let mut interrupts = Interrupts::new()?;
    let mut lines = lines();
    let stop = async {
        loop {
            tokio::select! {
                _ = interrupts.next() => return,
                Some(()) = lines.recv() => {
                    if let Err(error) = print(&addresses, has_login, output) {
                        note(format_args!("the address cannot be printed: {error}"));
                    }
                }
            }
        }
    };
    server.serve(stop).await;
    Ok(Exit::Interrupted)
}

fn print(addresses: &Addresses, has_login: bool, output: &Output) -> std::io::Result<()> {
    let url = addresses.next();
    if output.is_json() {
        return output.json(&Opened { listen: addresses.listen().to_string(), url: &url, has_login });
    }
    output.line(format_args!("the console is at {url}"))?;
    if has_login {
        let hint = if reads_terminal() { "; Enter prints a new address" } else { "" };
        output.line(format_args!("  valid once and for 5 minutes{hint}"))?;
    }
    output.line("  Ctrl-C ends it")
}

/// Returns whether the input is a terminal whose keys belong to this process. The system stops a background process
/// that reads from its terminal.
fn reads_terminal() -> bool {
    let stdin = std::io::stdin();
    stdin.is_terminal() && rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Starts a thread that reads lines from the terminal, and returns the receiver of one value for each line. The thread
/// ends with the process. If stdin is not a terminal, no thread is started.
fn lines() -> mpsc::Receiver<()> {
    let (send, lines) = mpsc::channel(1);
    if reads_terminal() {
        std::thread::spawn(move || {
            for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
                if send.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    lines
}
