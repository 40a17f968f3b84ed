//! MariaDB as a ticket server, as two ticket servers of odd and even numbers, and as the table of Leaf's segments.

use std::path::Path;

use anyhow::ensure;
use futures::future::try_join_all;

use crate::peer::{Peer, find, free_port};
use crate::suite::Bench;
use crate::tool::{self, Figure};

/// A statement for one ticket.
const TICKET: &str = "REPLACE INTO tickets (stub) VALUES ('a')";

/// Ids of a segment, the step of Leaf's examples.
const STEP: u64 = 2_000;

/// Segments for each second of a run.
const SEGMENTS: u64 = 500;

/// Engine of the table, clients, and tickets for each second of a run: a multiple of twice the clients, because the
/// tool gives all clients as many. With more than one client InnoDB aborts some of these statements as deadlocks, and
/// the tool stops at the first.
const ENGINES: [(&str, u32, u64); 2] = [("MyISAM", 16, 16_000), ("InnoDB", 1, 1_000)];

/// A running server.
struct Server {
    peer: Peer,
    socket: String,
}

impl Server {
    /// Starts a server whose automatic numbers begin at `offset`, `increment` apart.
    async fn start(dir: &Path, increment: u32, offset: u32) -> anyhow::Result<Server> {
        let data = dir.join("data").to_string_lossy().into_owned();
        let owner = "--user=mysql";
        tool::output(&find("chown")?, &["mysql", &dir.to_string_lossy()]).await?;
        let install = [&format!("--datadir={data}"), owner, "--auth-root-authentication-method=normal"];
        tool::output(&find("mariadb-install-db")?, &install).await?;
        let (port, socket) = (free_port()?, dir.join("s").to_string_lossy().into_owned());
        let mut peer = Peer::new(dir);
        let args = [
            "--no-defaults".to_owned(),
            format!("--datadir={data}"),
            owner.to_owned(),
            format!("--port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--socket={socket}"),
            format!("--auto-increment-increment={increment}"),
            format!("--auto-increment-offset={offset}"),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        peer.start(&find("mariadbd")?, &args, &format!("127.0.0.1:{port}")).await?;
        Ok(Server { peer, socket })
    }

    async fn execute(&self, statements: &str) -> anyhow::Result<String> {
        let args = ["--no-defaults", "-u", "root", "-S", &self.socket, "-N", "-e", statements];
        tool::output(&find("mariadb")?, &args).await
    }

    /// Creates a table of tickets in a schema with the name of its engine.
    async fn create_tickets(&self, engine: &str) -> anyhow::Result<()> {
        let create = format!(
            "CREATE DATABASE {engine}; CREATE TABLE {engine}.tickets (id bigint unsigned NOT NULL \
             AUTO_INCREMENT PRIMARY KEY, stub char(1) NOT NULL UNIQUE) ENGINE={engine}"
        );
        self.execute(&create).await.map(drop)
    }

    /// Takes tickets, and compares the last one with their number. Both begin at 1.
    async fn tickets(&self, engine: &str, clients: u32, numbers: u64, increment: u64) -> anyhow::Result<Figure> {
        let figure = tool::slap(&self.socket, engine, TICKET, clients, numbers).await?;
        let last = self.execute(&format!("SELECT id FROM {engine}.tickets")).await?;
        let last: u64 = last.trim().parse()?;
        let taken = last.div_ceil(increment);
        ensure!(taken == figure.numbers, "{} were allocated, but the last one is {last}", figure.numbers);
        Ok(figure)
    }
}

/// Measures everything once, in turn.
pub(crate) async fn measure(bench: &mut Bench, dir: &Path) -> anyhow::Result<()> {
    let dirs = [dir.join("one"), dir.join("odd"), dir.join("even")];
    dirs.iter().try_for_each(std::fs::create_dir)?;
    let seconds = u64::from(bench.seconds);
    let server = Server::start(&dirs[0], 1, 1).await?;
    for (engine, clients, per_second) in ENGINES {
        server.create_tickets(engine).await?;
        let before = server.peer.cpu();
        let figure = server.tickets(engine, clients, per_second * seconds, 1).await?;
        let cpu_us = Some((server.peer.cpu() - before) * 1e6 / figure.numbers as f64);
        bench.add(format!("MariaDB REPLACE, {engine}"), Figure { cpu_us, ..figure });
    }
    bench.add(format!("MariaDB, Leaf's segments of {STEP} ids"), segments(&server, SEGMENTS * seconds).await?);
    server.peer.stop().await?;

    let servers = [Server::start(&dirs[1], 2, 1).await?, Server::start(&dirs[2], 2, 2).await?];
    for (engine, clients, per_second) in ENGINES {
        for server in &servers {
            server.create_tickets(engine).await?;
        }
        let cpu = || servers.iter().map(|server| server.peer.cpu()).sum::<f64>();
        let (before, numbers) = (cpu(), per_second * seconds / 2);
        let sides = servers.iter().map(|server| server.tickets(engine, clients, numbers, 2));
        let sides = try_join_all(sides).await?;
        let numbers = sides.iter().map(|side| side.numbers).sum();
        let per_second = sides.iter().map(|side| side.per_second).sum();
        let cpu_us = Some((cpu() - before) * 1e6 / numbers as f64);
        let figure = Figure { numbers, per_second, cpu_us, ..Figure::default() };
        bench.add(format!("MariaDB REPLACE, two servers, odd and even, {engine}"), figure);
    }
    for Server { peer, .. } in servers {
        peer.stop().await?;
    }
    Ok(())
}

/// Takes segments by the two statements of Leaf, one client. The figure counts their ids.
async fn segments(server: &Server, segments: u64) -> anyhow::Result<Figure> {
    let create = format!(
        "CREATE DATABASE leaf; CREATE TABLE leaf.leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, \
         step int NOT NULL) ENGINE=InnoDB; INSERT INTO leaf.leaf_alloc VALUES ('a', 1, {STEP})"
    );
    server.execute(&create).await?;
    let take = "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'a'; \
                SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = 'a'";
    let before = server.peer.cpu();
    let figure = tool::slap(&server.socket, "leaf", take, 1, segments).await?;
    let max_id: u64 = server.execute("SELECT max_id FROM leaf.leaf_alloc").await?.trim().parse()?;
    // The tool counts each of the two statements of a segment as a query.
    let taken = (max_id - 1) / STEP;
    let per_second = figure.per_second * taken as f64 / figure.numbers as f64 * STEP as f64;
    let numbers = taken * STEP;
    let cpu_us = Some((server.peer.cpu() - before) * 1e6 / numbers as f64);
    Ok(Figure { numbers, per_second, cpu_us, ..Figure::default() })
}
