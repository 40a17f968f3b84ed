//! The dashboard as its reader sees it: a set under load and faults is scraped by a real Prometheus, and each panel is
//! drawn from its data.
//!
//! `just dashboard-picture` writes `docs/dashboard.svg`. A panel whose queries have no data, or are refused, fails the
//! test.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::alerts::{Scene, Setup, wait};
use crate::cluster::seqsvr;

/// Length of each phase of the scene.
const PHASE: Duration = Duration::from_secs(40);

/// Points per line.
const POINTS: u64 = 120;

/// Panels without data while no tenant and no collector of traces is configured, and no item is refused.
const MAY_BE_EMPTY: [&str; 4] =
    ["Tenants: numbers", "Items refused", "Raises that failed or were refused", "Spans lost"];

/// Size of a panel and its plot, in pixels.
const PANEL: (f64, f64) = (420.0, 210.0);
const PLOT: (f64, f64, f64, f64) = (58.0, 30.0, 346.0, 118.0);
const ROW: f64 = 34.0;
/// Lines with their own label; the others are only counted.
const LABELS: usize = 6;
const COLOURS: [&str; 8] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"];

/// The result of one query: its label, and its points as seconds and values.
struct Line {
    label: String,
    points: Vec<(f64, f64)>,
}

/// Runs the queries of a panel over a time range; an error names the query.
fn lines(scene: &Scene, panel: &Value, (start, end): (f64, f64)) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for target in panel["targets"].as_array().into_iter().flatten() {
        // The variables match all sets and nodes.
        let expr = target["expr"].as_str().unwrap().replace("$set", ".*").replace("$node", ".*");
        let step = ((end - start) / POINTS as f64).max(1.0);
        let output = Command::new("curl")
            .args(["-s", "--max-time", "20", &format!("{}/api/v1/query_range", scene.url)])
            .args(["--data-urlencode", &format!("query={expr}")])
            .args(["-d", &format!("start={start}&end={end}&step={step}")])
            .output()
            .unwrap();
        let response: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{expr}: {error}"))?;
        if response["status"] != "success" {
            return Err(format!("{expr}: {response}"));
        }
        for series in response["data"]["result"].as_array().unwrap() {
            let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_str()?.parse().ok()?));
            let points: Vec<(f64, f64)> = series["values"].as_array().unwrap().iter().filter_map(point).collect();
            let points: Vec<_> = points.into_iter().filter(|(_, value)| value.is_finite()).collect();
            let label = label(target["legendFormat"].as_str().unwrap_or(""), &series["metric"]);
            if !points.is_empty() {
                lines.push(Line { label, points });
            }
        }
    }
    Ok(lines)
}

/// Replaces the names of labels in a legend by their values.
fn label(format: &str, metric: &Value) -> String {
    let labels = metric.as_object().unwrap().iter();
    labels.fold(format.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{{name}}}}}"), value.as_str().unwrap_or_default())
    })
}

/// Formats a value in a unit of the dashboard.
fn shown(value: f64, unit: &str) -> String {
    let (value, suffix) = match unit {
        "bytes" if value >= 1e9 => (value / f64::from(1 << 30), " GiB"),
        "bytes" => (value / f64::from(1 << 20), " MiB"),
        "s" if value < 0.1 && value > 0.0 => (value * 1e3, " ms"),
        "s" => (value, " s"),
        _ if value >= 1e9 => return format!("{value:.1e}"),
        _ if value >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if value.fract() == 0.0 || value >= 100.0 { 0 } else { 2 };
    format!("{value:.digits$}{suffix}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws one panel with its left upper corner at `x`, `y`.
fn draw(svg: &mut String, (x, y): (f64, f64), panel: &Value, lines: &[Line], (start, end): (f64, f64)) {
    let (left, top, width, height) = PLOT;
    let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or("short");
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let max = values().fold(0.0, f64::max);
    // A flat line far from zero is not squeezed at the top.
    let max = if max > 0.0 { max * 1.1 } else { 1.0 };
    writeln!(svg, "<g transform=\"translate({x},{y})\">").unwrap();
    let title = escaped(panel["title"].as_str().unwrap());
    writeln!(
        svg,
        "<rect width=\"{}\" height=\"{}\" class=\"p\"/><text x=\"10\" y=\"19\" class=\"t\">{title}</text>",
        PANEL.0 - 10.0,
        PANEL.1 - 10.0
    )
    .unwrap();
    for part in [0.0, 0.5, 1.0] {
        let at = top + height * (1.0 - part);
        let value = shown(max * part, unit);
        writeln!(
            svg,
            "<path d=\"M{left} {at}h{width}\" class=\"g\"/><text x=\"{}\" y=\"{}\" class=\"a e\">{value}</text>",
            left - 5.0,
            at + 3.0
        )
        .unwrap();
    }
    for part in [0.0, 0.5, 1.0] {
        let seconds = (end - start) * part;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"a m\">{seconds:.0} s</text>",
            left + width * part,
            top + height + 13.0
        )
        .unwrap();
    }
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let place = |(time, value): &(f64, f64)| {
            let (right, up) = ((time - start) / (end - start), value / max);
            format!("{:.1} {:.1}", left + width * right, top + height * (1.0 - up))
        };
        // A gap between the points is a gap in the line.
        let gap = 3.0 * (end - start) / POINTS as f64;
        let mut path = String::new();
        for (index, point) in line.points.iter().enumerate() {
            let begins = index == 0 || point.0 - line.points[index - 1].0 > gap;
            write!(path, "{}{}", if begins { "M" } else { "L" }, place(point)).unwrap();
        }
        writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" class=\"l\"/>").unwrap();
        if number < LABELS {
            let (column, row) = ((number % 3) as f64, (number / 3) as f64);
            let (at, down) = (left + column * 118.0, top + height + 30.0 + row * 13.0);
            let text = escaped(&line.label);
            writeln!(svg, "<path d=\"M{at} {}h10\" stroke=\"{colour}\" class=\"l\"/><text x=\"{}\" y=\"{down}\" class=\"a\">{text}</text>", down - 3.0, at + 13.0).unwrap();
        }
    }
    if lines.is_empty() {
        writeln!(svg, "<text x=\"{}\" y=\"{}\" class=\"a m\">none</text>", left + width / 2.0, top + height / 2.0)
            .unwrap();
    }
    svg.push_str("</g>\n");
}

fn now() -> f64 {
    let output = Command::new("date").arg("+%s.%N").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Sends load for many users, for few users, and over other endpoints; then drains a node, changes the leader and kills
/// nodes.
fn play(scene: &mut Scene) {
    let many = scene.load("many", &["--rate", "500", "--uids", "10000000"]);
    let json = scene.load_at("json", 7400, &["--endpoint", "json", "--rate", "100", "--uids", "100000"]);
    wait(PHASE);
    let few = scene.load("few", &["--endpoint", "many", "--batch", "100", "--uids", "200", "--rate", "300"]);
    wait(PHASE);
    let set = scene.set.clone();
    let operate = |args: &[&str]| {
        let output = seqsvr(&[args, &["--set", &set]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    operate(&["node", "drain", "a1", "--yes"]);
    wait(PHASE / 2);
    operate(&["node", "undrain", "a1"]);
    operate(&["store", "lead", "--to", "2"]);
    wait(PHASE);
    scene.restart_alloc(0, PHASE / 4);
    wait(PHASE / 2);
    scene.restart_store(3, PHASE / 4);
    wait(PHASE / 2);
    drop((many, json, few));
    wait(PHASE / 4);
}

#[test]
#[ignore = "four minutes, with Prometheus; `just dashboard-picture`"]
fn every_panel_has_data_and_is_drawn() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("deploy/grafana/seqsvr.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut scene = Scene::start(&Setup::default());
    let start = now();
    play(&mut scene);
    let range = (start, now());

    let (mut body, mut empty, mut failed) = (String::new(), Vec::new(), Vec::new());
    let (mut top, mut column) = (0.0, 0);
    for panel in dashboard["panels"].as_array().unwrap() {
        if panel["type"] == "row" {
            top += if column > 0 { PANEL.1 } else { 0.0 };
            column = 0;
            let title = escaped(panel["title"].as_str().unwrap());
            writeln!(body, "<text x=\"4\" y=\"{}\" class=\"h\">{title}</text>", top + 23.0).unwrap();
            top += ROW;
            continue;
        }
        if column == 3 {
            (top, column) = (top + PANEL.1, 0);
        }
        match lines(&scene, panel, range) {
            Ok(lines) => {
                if lines.is_empty() {
                    empty.push(panel["title"].as_str().unwrap());
                }
                draw(&mut body, (f64::from(column) * PANEL.0, top), panel, &lines, range);
            }
            Err(error) => failed.push(error),
        }
        column += 1;
    }
    assert!(failed.is_empty(), "{failed:#?}");
    println!("empty: {empty:?}");
    empty.retain(|title| !MAY_BE_EMPTY.contains(title));
    assert!(empty.is_empty(), "without data: {empty:?}");
    let (width, height) = (PANEL.0 * 3.0, top + PANEL.1);
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-8 0 {} {height}\" font-family=\"sans-serif\">\n<style>\
         rect.p{{fill:#fff;stroke:#ccc}}.t{{font-size:13px;font-weight:600}}.h{{font-size:17px;font-weight:600}}\
         .a{{font-size:10px;fill:#444}}.e{{text-anchor:end}}.m{{text-anchor:middle}}.g{{stroke:#e4e4e4}}\
         .l{{fill:none;stroke-width:1.4}}</style>\n<rect x=\"-8\" width=\"{}\" height=\"{height}\" fill=\"#f6f6f6\"/>\n{body}</svg>\n",
        width + 8.0,
        width + 8.0
    );
    fs::write(root.join("docs/dashboard.svg"), svg).unwrap();
}
