//! The subset of etcd's API that the comparison needs: puts, and the compare-and-increment of a counter.
//!
//! Field numbers are those of etcd's `rpc.proto` (API version 3).

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::join_all;
use hdrhistogram::Histogram;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::tool::Figure;

/// Upper bound of the histogram, in microseconds.
const LONGEST_US: u64 = 60_000_000;

/// The operation on each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Put,
    Increment,
}

/// Loads the members for `time`, with `clients` requests in flight, on one million keys.
pub(crate) async fn measure(addrs: &[String], work: Work, clients: usize, time: Duration) -> anyhow::Result<Figure> {
    let mut channels = Vec::new();
    for addr in addrs {
        channels.push(Endpoint::from_shared(format!("http://{addr}"))?.connect().await.context("etcd")?);
    }
    let until = Instant::now() + time;
    let done = Cell::new(0_u64);
    let took = RefCell::new(Histogram::<u64>::new_with_bounds(1, LONGEST_US, 3)?);
    let clients = (0..clients).map(|client| {
        let (done, took) = (&done, &took);
        let etcd = Etcd(Grpc::new(channels[client % channels.len()].clone()));
        async move {
            let mut rng = fastrand::Rng::with_seed(client as u64);
            while Instant::now() < until {
                let key = format!("seq:{:012}", rng.u32(..1_000_000)).into_bytes();
                let began = Instant::now();
                match work {
                    Work::Put => etcd.put(key).await?,
                    Work::Increment => etcd.increment(&key).await?,
                }
                took.borrow_mut().saturating_record(began.elapsed().as_micros() as u64);
                done.set(done.get() + 1);
            }
            Ok::<(), Status>(())
        }
    });
    join_all(clients).await.into_iter().collect::<Result<(), _>>().context("etcd")?;
    let took = took.into_inner();
    Ok(Figure {
        numbers: done.get(),
        per_second: done.get() as f64 / time.as_secs_f64(),
        p50_us: Some(took.value_at_quantile(0.5)),
        p99_us: Some(took.value_at_quantile(0.99)),
        ..Figure::default()
    })
}

struct Etcd(Grpc<Channel>);

impl Etcd {
    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.0.clone();
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner())
    }

    async fn put(&self, key: Vec<u8>) -> Result<(), Status> {
        self.call::<_, Ignored>("/etcdserverpb.KV/Put", Put { key, value: vec![b'7'; 8] }).await.map(|_| ())
    }

    /// Allocates one number: increments the value with a compare on its version; retries on a conflict.
    async fn increment(&self, key: &[u8]) -> Result<(), Status> {
        // A missing key has version 0, which the first attempt assumes: most of the million keys are new.
        let mut seen = 0;
        let mut value = 0_u64;
        loop {
            let put = Put { key: key.to_vec(), value: (value + 1).to_string().into_bytes() };
            let transaction = Txn {
                compare: vec![Compare { result: 0, target: 0, key: key.to_vec(), version: seen }],
                success: vec![Op { put: Some(put), range: None }],
                failure: vec![Op { range: Some(Range { key: key.to_vec() }), put: None }],
            };
            let response: TxnResponse = self.call("/etcdserverpb.KV/Txn", transaction).await?;
            if response.succeeded {
                return Ok(());
            }
            let found =
                response.responses.into_iter().find_map(|op| op.range).and_then(|range| range.kvs.into_iter().next());
            let found = found.ok_or_else(|| Status::unknown("neither put nor found"))?;
            seen = found.version;
            value = std::str::from_utf8(&found.value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Range {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Op {
    #[prost(message, optional, tag = "1")]
    range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, tag = "4")]
    version: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
    #[prost(message, repeated, tag = "3")]
    failure: Vec<Op>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Ignored {}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(bool, tag = "2")]
    succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    responses: Vec<OpResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OpResponse {
    #[prost(message, optional, tag = "1")]
    range: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}
