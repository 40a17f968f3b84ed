//! Line plots as SVG: a logarithmic x axis, a linear or logarithmic y axis, a legend. Configuring a plotting library
//! would take as much code.

use std::fmt::Write;

use crate::report::short;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Left, right, top, bottom.
const MARGINS: (f64, f64, f64, f64) = (84.0, 24.0, 44.0, 56.0);
/// A palette for colour-blind readers, too.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#555555"];

/// A plot.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    /// Whether y is logarithmic; otherwise it begins at 0.
    pub(crate) log_y: bool,
    /// Name and points, x ascending and above 0.
    pub(crate) lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// Maps values to a length.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    fn log(values: impl Iterator<Item = f64>) -> Axis {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if low > high {
            Axis { low: 0.0, high: 1.0, log: true }
        } else {
            Axis { low, high: high.max(low + 1.0), log: true }
        }
    }

    fn linear(values: impl Iterator<Item = f64>) -> Axis {
        let high = values.fold(0.0, f64::max);
        let unit = 10_f64.powf(high.max(1e-9).log10().floor());
        Axis { low: 0.0, high: (high * 1.05 / unit).ceil() * unit, log: false }
    }

    /// The position of a value on the axis, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = if self.log { value.log10().max(self.low) } else { value };
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power)).collect()
        } else {
            (0..=5).map(|part| self.high * f64::from(part) / 5.0).collect()
        }
    }
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let (left, right, top, bottom) = MARGINS;
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let xs = Axis::log(points().map(|(x, _)| *x));
        let values = points().map(|(_, y)| *y);
        let ys = if self.log_y { Axis::log(values) } else { Axis::linear(values) };
        let at_x = |x: f64| left + xs.share(x) * (WIDTH - left - right);
        let at_y = |y: f64| HEIGHT - bottom - ys.share(y) * (HEIGHT - top - bottom);
        let (edge, floor) = (WIDTH - right, HEIGHT - bottom);

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\" fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
        );
        // Writing to a String cannot fail.
        let mut put = |line: String| {
            let _ = writeln!(svg, "{line}");
        };
        put(text(left, 22.0, "start", 15, self.title));
        put(text((left + edge) / 2.0, HEIGHT - 14.0, "middle", 12, self.x));
        put(text(left, 38.0, "start", 12, self.y));
        for tick in xs.ticks() {
            put(rule(at_x(tick), top, at_x(tick), floor));
            put(text(at_x(tick), floor + 18.0, "middle", 11, &short(tick)));
        }
        for tick in ys.ticks() {
            put(rule(left, at_y(tick), edge, at_y(tick)));
            put(text(left - 8.0, at_y(tick) + 4.0, "end", 11, &short(tick)));
        }
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y))).collect();
            put(format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            ));
            for (x, y) in points {
                put(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", at_x(*x), at_y(*y)));
            }
            let row = floor - 10.0 - 16.0 * (self.lines.len() - 1 - number) as f64;
            put(format!(
                "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"3\" fill=\"{colour}\"/>",
                left + 10.0,
                row - 5.0
            ));
            put(text(left + 30.0, row, "start", 12, name));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn text(x: f64, y: f64, anchor: &str, size: u32, what: &str) -> String {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{what}</text>")
}

fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>")
}
