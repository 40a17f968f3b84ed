//! Measures the speed of ids that are fetched ahead, on one thread. Run it with `cargo run --release -p seq-client
//! --example segments -- http://127.0.0.1:7100 [SERIES [SECONDS [RATE]]]`, for example against the cluster of `seqsvr
//! dev`. RATE is in ids a second; without it, ids are taken as fast as possible.

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use seq_client::Client;

/// Ids between two readings of the clock.
const BATCH: u64 = 1_000;

/// Ids after which the ranges have grown to their largest size.
const WARM: u64 = 5_000_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage: segments URL [SERIES [SECONDS [RATE]]]")?;
    let series = args.next().unwrap_or_else(|| "orders".to_owned());
    let time = Duration::from_secs_f64(args.next().map_or(Ok(3.0), |seconds| seconds.parse())?);
    let rate = args.next().map_or(Ok(f64::INFINITY), |rate| rate.parse::<f64>())?;
    let mut ids = Client::connect(&url).await?.series(&series).await?.segments().open();
    let (mut given, mut waits) = (0_u64, 0_u64);
    let mut began = Instant::now();
    let mut is_warm = false;
    while began.elapsed() < time {
        for _ in 0..BATCH {
            match ids.try_next() {
                Some(id) => {
                    black_box(id);
                    given += 1;
                }
                None => {
                    waits += 1;
                    spin_loop();
                }
            }
        }
        while given as f64 > rate * began.elapsed().as_secs_f64() {
            spin_loop();
        }
        if !is_warm && (given >= WARM || began.elapsed() > time / 2) {
            (given, waits, began, is_warm) = (0, 0, Instant::now(), true);
        }
    }
    let rate = given as f64 / began.elapsed().as_secs_f64();
    println!("{:.1} M ids/s of {series}, {waits} takes without an id, {} ids unused", rate / 1e6, ids.close());
    Ok(())
}
