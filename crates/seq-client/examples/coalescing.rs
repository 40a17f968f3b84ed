//! Measures the gain of coalescing: the same callers with and without it, in turn, on one thread. Run it with `cargo
//! run --release -p seq-client --example coalescing -- http://127.0.0.1:7100 [CALLERS [SECONDS]]`, for example against
//! the cluster of `seqsvr dev`.

use std::error::Error;
use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_client::Client;

/// Requested uids, from 0: the range of `seqsvr dev`.
const UIDS: u64 = 1_000_000;

/// Rounds of each variant, of which the median counts.
const ROUNDS: usize = 3;

struct Round {
    numbers_per_second: f64,
    p50_us: f64,
    p99_us: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage: coalescing URL [CALLERS [SECONDS]]")?;
    let callers = args.next().map_or(Ok(256), |callers| callers.parse())?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(3.0), |seconds| seconds.parse())?);

    let coalesced = Client::connect(&url).await?;
    let unary = Client::builder().seed(&url).coalesce(false).connect().await?;
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (rounds, client) in rounds.iter_mut().zip([&unary, &coalesced]) {
            rounds.push(round(client, callers, time).await);
        }
    }
    let [unary, coalesced] = rounds.map(median);
    for (name, round) in [("unary", &unary), ("coalesced", &coalesced)] {
        println!(
            "{name:9} {:10.0} numbers/s   p50 {:6.0} us   p99 {:6.0} us",
            round.numbers_per_second, round.p50_us, round.p99_us
        );
    }
    println!("ratio     {:10.1}", coalesced.numbers_per_second / unary.numbers_per_second);
    Ok(())
}

/// Runs closed-loop callers: each sends its next request on the response to the previous request.
async fn round(client: &Client, callers: usize, time: Duration) -> Round {
    let began = Instant::now();
    let caller = |_| async move {
        let mut random = fastrand::Rng::new();
        let mut took = Vec::new();
        let mut sent = Instant::now();
        while sent - began < time {
            client.next(random.u64(0..UIDS)).await.expect("a healthy cluster");
            let now = Instant::now();
            took.push((now - sent).as_nanos() as u32);
            sent = now;
        }
        took
    };
    let mut took = join_all((0..callers).map(caller)).await.concat();
    let numbers_per_second = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |quantile: f64| f64::from(took[(took.len() as f64 * quantile) as usize]) / 1e3;
    Round { numbers_per_second, p50_us: at(0.5), p99_us: at(0.99) }
}

/// Returns the median round by throughput.
fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.numbers_per_second.total_cmp(&b.numbers_per_second));
    rounds.swap_remove(rounds.len() / 2)
}
