//! Cost of encoding and decoding a request and its response: one number, a hundred, and a message of a stream.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::{
    NextManyRequest, NextManyResponse, NextRequest, NextResponse, NextStreamRequest, NextStreamResponse,
};

/// Uids of a batch.
const BATCH: u64 = 100;

fn ask() -> NextManyRequest {
    NextManyRequest { uids: (0..BATCH).map(|uid| uid * 31_337_777).collect(), ..NextManyRequest::default() }
}

fn answer() -> NextManyResponse {
    NextManyResponse {
        values: (0..BATCH).map(|value| 1_000_000 + value).collect(),
        prevs: (0..BATCH).map(|value| 999_999 + value).collect(),
        epochs: vec![3; BATCH as usize],
        ..NextManyResponse::default()
    }
}

fn both<M: Message + Default>(c: &mut Criterion, name: &str, numbers: u64, message: &M) {
    let mut group = c.benchmark_group("encoding");
    group.throughput(Throughput::Elements(numbers));
    let mut bytes = Vec::with_capacity(message.encoded_len());
    group.bench_function(BenchmarkId::new("encode", name), |b| {
        b.iter(|| {
            bytes.clear();
            black_box(message).encode(&mut bytes).expect("a vector grows");
            bytes.len()
        });
    });
    let bytes = message.encode_to_vec();
    group.bench_function(BenchmarkId::new("decode", name), |b| {
        b.iter(|| M::decode(black_box(bytes.as_slice())).expect("just encoded"));
    });
    group.finish();
}

fn encoding(c: &mut Criterion) {
    both(c, "NextRequest", 1, &NextRequest { uid: Some(123_456_789), count: 1, ..NextRequest::default() });
    both(
        c,
        "NextResponse",
        1,
        &NextResponse { value: 1_000_001, prev: 1_000_000, epoch: 3, ..NextResponse::default() },
    );
    both(c, "NextManyRequest of 100", BATCH, &ask());
    both(c, "NextManyResponse of 100", BATCH, &answer());
    both(
        c,
        "NextStreamRequest of 100",
        BATCH,
        &NextStreamRequest { tag: 7, request: Some(ask()), ..NextStreamRequest::default() },
    );
    let outcome = Some(Outcome::Response(answer()));
    both(c, "NextStreamResponse of 100", BATCH, &NextStreamResponse { tag: 7, outcome });
}

criterion_group!(benches, encoding);
criterion_main!(benches);
