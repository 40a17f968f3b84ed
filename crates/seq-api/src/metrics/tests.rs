use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;

use super::*;

/// The reference is generated from the catalogue, so it lists each metric once, with the same text.
#[test]
fn the_reference_lists_every_metric() {
    let mut text = String::from(
        "# Metrics\n\nServed as Prometheus text at `/metrics` of every role. No label carries a uid or a section. \
         The metrics of the process that Prometheus defines for all languages (`process_cpu_seconds_total`, \
         `process_resident_memory_bytes`, `process_open_fds`, `process_max_fds` and so on) are there as well.\n\n\
         | metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n",
    );
    for metric in CATALOGUE {
        let Metric { name, kind, unit, help, labels, .. } = metric;
        let (kind, unit) = (format!("{kind:?}").to_lowercase(), format!("{unit:?}").to_lowercase());
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" ");
        writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {help} |").unwrap();
    }
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md")].assert_eq(&text);
}

#[test]
fn names_are_unique_and_say_their_unit() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for metric in CATALOGUE {
        let name = metric.name;
        assert!(name.starts_with("seqsvr_"), "{name}");
        assert_eq!(
            metric.kind == Kind::Counter,
            name.ends_with("_total"),
            "{name}: counters and only they end in _total"
        );
        assert_eq!(metric.unit == Unit::Seconds, name.ends_with("_seconds"), "{name}");
        assert_eq!(metric.unit == Unit::Bytes, name.ends_with("_bytes"), "{name}");
        assert_eq!(metric.kind == Kind::Histogram, !metric.buckets.is_empty(), "{name}");
        assert!(metric.buckets.is_sorted(), "{name}");
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
    }
}
