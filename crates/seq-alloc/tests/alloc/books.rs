//! Metrics of an AllocSvr.

use std::sync::OnceLock;

use seq_api::metrics;
use seq_api::service::SequenceService;
use seq_core::Refusal;
use seq_kit::metrics::Recorder;

use crate::world::{SECTIONS, SIZE, World, ask, call};

/// Returns the recorder of the process' metrics. Metrics that were created before the first call are lost.
pub(crate) fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| metrics::install().unwrap())
}

/// Returns the sum of this set's series with the labels.
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    let of = |line: &str| {
        line.starts_with(name) && line.contains("books") && labels.iter().all(|label| line.contains(label))
    };
    let lines = text.lines().filter(|line| of(line));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// The test has its own set, because the metrics are of the process.
#[tokio::test]
async fn every_item_is_counted_once() {
    let recorder = recorder();
    let world = World::of("books");
    let one = world.start_owning("a1", 0..SECTIONS / 2).await;
    let two = world.start_owning("a2", SECTIONS / 2..SECTIONS).await;
    world.routed(&[&one, &two]).await;
    let theirs = SIZE * u64::from(SECTIONS) / 2;
    let bad = Refusal::CountOutOfRange { count: 0 };
    let far = SIZE * u64::from(SECTIONS);
    let asks = vec![Ok(ask(1, 700_000)), Ok(ask(theirs, 300_000)), Err(bad), Ok(ask(far, 1)), Err(bad)];
    one.allocator.next_many(call(), &asks).await;
    one.allocator.publish();
    two.allocator.publish();
    let text = recorder.render();
    let of = |name: &str, labels: &[&str]| value(&text, name, labels);
    assert_eq!(of("seqsvr_allocations_total", &["grpc", "\"OK\""]), 700_000.0, "{text}");
    assert_eq!(of("seqsvr_allocations_total", &["forwarded", "\"OK\""]), 300_000.0, "{text}");
    assert_eq!(of("seqsvr_allocations_total", &["INVALID_ARGUMENT"]), 2.0, "{text}");
    assert_eq!(of("seqsvr_allocations_total", &["OUT_OF_RANGE"]), 1.0, "{text}");
    // The early raise after each of the two may be complete already.
    assert!(of("seqsvr_ceiling_raises_total", &["committed"]) >= 2.0, "{text}");
    assert_eq!(of("seqsvr_forwarded_total", &["a1"]), 1.0, "{text}");
    assert_eq!(of("seqsvr_sections{", &["a2", "served"]), f64::from(SECTIONS / 2), "{text}");
    for name in ["seqsvr_ceiling_raise_seconds", "seqsvr_allocations_per_raise", "seqsvr_raise_batch_sections"] {
        assert!(of(&format!("{name}_count"), &[]) >= 2.0, "{name}: {text}");
    }
}
