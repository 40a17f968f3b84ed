//! The load generators, and their output.

use std::ops::Range;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::process::Command;

/// The results of one run of a load generator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figure {
    pub(crate) numbers: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    /// CPU time of the server for each number, in microseconds.
    pub(crate) cpu_us: Option<f64>,
    /// Instructions of the server for each number, where they were counted; no time was measured then.
    pub(crate) instructions: Option<f64>,
}

/// Runs a program to its end; returns its standard output.
pub(crate) async fn output(program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let run = Command::new(program).args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = run.await.with_context(|| format!("cannot run {}", program.display()))?;
    if !ended.status.success() {
        let output = [ended.stdout, ended.stderr].concat();
        bail!("{} {}: {}\n{}", program.display(), args.join(" "), ended.status, String::from_utf8_lossy(&output));
    }
    Ok(String::from_utf8(ended.stdout)?)
}

/// `seqsvr bench` of these uids, with these flags. The CPU time is the one that the server reports.
pub(crate) async fn bench(
    seqsvr: &Path,
    addr: &str,
    seconds: u32,
    uids: Range<u64>,
    flags: &str,
) -> anyhow::Result<Figure> {
    let report = report(seqsvr, addr, &["--duration-s", &seconds.to_string()], uids, flags).await?;
    Ok(Figure {
        numbers: number(&report["numbers"], "numbers")? as u64,
        per_second: number(&report["numbers_per_second"], "numbers_per_second")?,
        p50_us: report["latency"]["p50_us"].as_u64(),
        p99_us: report["latency"]["p99_us"].as_u64(),
        cpu_us: report["cpu_us_per_number"].as_f64(),
        instructions: None,
    })
}

/// `seqsvr bench` with these flags and a number of calls. Returns the numbers that were allocated.
pub(crate) async fn bench_calls(
    seqsvr: &Path,
    addr: &str,
    calls: u64,
    uids: Range<u64>,
    flags: &str,
) -> anyhow::Result<u64> {
    let report = report(seqsvr, addr, &["--calls", &calls.to_string()], uids, flags).await?;
    Ok(number(&report["numbers"], "numbers")? as u64)
}

async fn report(seqsvr: &Path, addr: &str, end: &[&str], uids: Range<u64>, flags: &str) -> anyhow::Result<Value> {
    let addr = if addr.contains("://") { addr.to_owned() } else { format!("http://{addr}") };
    let (first, uids) = (uids.start.to_string(), (uids.end - uids.start).to_string());
    let mut args = vec!["bench", "--addr", &addr, "--first-uid", &first, "--uids", &uids, "-o", "json"];
    args.extend(end);
    args.extend(flags.split_whitespace());
    let report: Value = serde_json::from_str(&output(seqsvr, &args).await?)?;
    if report["failed"] != 0 {
        bail!("{flags}: calls failed: {}", report["failed_items"]);
    }
    Ok(report)
}

fn number(value: &Value, name: &str) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("the report has no {name}"))
}

/// The instructions of the files that callgrind wrote into a directory: of the one between its zeroing and its dump.
pub(crate) fn instructions(dir: &Path) -> anyhow::Result<u64> {
    let mut most = None;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind")) {
            continue;
        }
        // Lines of names are in the encoding of the program's symbols.
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok());
        most = most.max(total);
    }
    most.with_context(|| format!("callgrind wrote no totals into {}", dir.display()))
}

/// `redis-benchmark` of a command, where `__rand_int__` is one of a million. Returns also its result line.
pub(crate) async fn redis(
    port: &str,
    flags: &[&str],
    command: &[&str],
    pipeline: u32,
    threads: u32,
    numbers: u64,
) -> anyhow::Result<(Figure, String)> {
    let (pipeline, threads, count) = (pipeline.to_string(), threads.to_string(), numbers.to_string());
    let mut args = vec!["-p", port, "-c", "50", "-P", &pipeline, "-n", &count, "-r", "1000000", "--csv"];
    // One thread is the tool's own loop; with `--threads 1` it starts another one.
    if threads != "1" {
        args.extend(["--threads", &threads]);
    }
    args.extend(flags);
    args.extend(command);
    let text = output(&crate::peer::find("redis-benchmark")?, &args).await?;
    // test, rps, and milliseconds of latency: avg, min, p50, p95, p99, max; each in quotes.
    let name = command.first().context("no command")?;
    let row =
        text.lines().find(|line| line.contains(name)).context("redis-benchmark printed no line of the command")?;
    let fields: Vec<f64> = row.split(',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let micros = |at: usize| fields.get(at).map(|millis| (millis * 1e3) as u64);
    let per_second = *fields.first().context("redis-benchmark printed no rate")?;
    Ok((Figure { numbers, per_second, p50_us: micros(3), p99_us: micros(5), ..Figure::default() }, row.to_owned()))
}

/// `pgbench` with a script of one statement.
pub(crate) async fn pgbench(
    port: &str,
    script: &Path,
    flags: &[&str],
    clients: u32,
    seconds: u32,
) -> anyhow::Result<Figure> {
    let (clients, seconds) = (clients.to_string(), seconds.to_string());
    let script = script.to_string_lossy();
    let args = ["-h", "127.0.0.1", "-p", port, "-U", "postgres", "-n", "-M", "prepared", "-c", &clients, "-j", "1"];
    let args = [&args[..], flags, &["-T", &seconds, "-f", &script, "postgres"]].concat();
    let text = output(&crate::peer::find("pgbench")?, &args).await?;
    let after = |words: &str| text.split_once(words)?.1.split_whitespace().next()?.parse::<f64>().ok();
    let per_second = after("tps = ").context("pgbench printed no rate")?;
    let numbers = after("number of transactions actually processed: ").context("pgbench printed no count")? as u64;
    let mean = after("latency average = ").map(|millis| (millis * 1e3) as u64);
    Ok(Figure { numbers, per_second, p50_us: mean, ..Figure::default() })
}

/// `mariadb-slap` with one statement, or with several, separated by `;`, which count once; the rate is computed from
/// its mean time. It exits with 0 even if it could not connect, so the caller must check the effect.
pub(crate) async fn slap(
    socket: &str,
    schema: &str,
    query: &str,
    clients: u32,
    numbers: u64,
) -> anyhow::Result<Figure> {
    let (socket, schema) = (format!("--socket={socket}"), format!("--create-schema={schema}"));
    let query = format!("--query={query}");
    let (clients, count) = (format!("--concurrency={clients}"), format!("--number-of-queries={numbers}"));
    let args = ["-u", "root", &socket, &schema, "--no-drop", "--delimiter=;", &query, &clients, &count, "--csv"];
    let text = output(&crate::peer::find("mariadb-slap")?, &args).await?;
    // label, type, mean, min and max seconds, clients, queries of each.
    let mean = text.trim().split(',').nth(2).and_then(|mean| mean.parse::<f64>().ok());
    let mean = mean.with_context(|| format!("mariadb-slap printed no time: {text:?}"))?;
    Ok(Figure { numbers, per_second: numbers as f64 / mean, ..Figure::default() })
}
