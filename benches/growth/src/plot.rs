//! Line plots as SVG: a logarithmic x axis, a linear or logarithmic y axis, a legend.

use std::io;

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use crate::report::short;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (760, 420);
/// The font of everything but the title; plotters takes its height with line spacing.
const FONT: (&str, i32) = ("sans-serif", 15);
/// A palette for colour-blind readers, too.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(85, 85, 85)];

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

type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

impl Plot {
    /// The plot as SVG.
    pub(crate) fn svg(&self) -> io::Result<String> {
        let mut svg = String::new();
        self.draw(SVGBackend::with_string(&mut svg, SIZE)).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(svg)
    }

    fn draw<'a>(&self, backend: SVGBackend<'a>) -> Result<(), DrawError<'a>> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let (xs, ys) = (decades(points().map(|(x, _)| *x)), decades(points().map(|(_, y)| *y)));
        let root = backend.into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root);
        chart.caption(self.title, ("sans-serif", 20)).margin(16).x_label_area_size(44).y_label_area_size(64);
        if self.log_y {
            self.draw_lines(chart.build_cartesian_2d(xs.log_scale(), ys.log_scale())?)?;
        } else {
            let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
            self.draw_lines(chart.build_cartesian_2d(xs.log_scale(), 0.0..highest.max(f64::EPSILON) * 1.05)?)?;
        }
        root.present()
    }

    fn draw_lines<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    ) -> Result<(), DrawError<'a>>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let format = |value: &f64| short(*value);
        let mut mesh = chart.configure_mesh();
        mesh.label_style(FONT).axis_desc_style(FONT).x_desc(self.x).y_desc(self.y);
        mesh.x_label_formatter(&format).y_label_formatter(&format).draw()?;
        for ((name, points), colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
            let mark = |(x, y)| Rectangle::new([(x, y - 1), (x + 14, y + 2)], colour.filled());
            chart.draw_series(line)?.label(*name).legend(mark);
        }
        let mut legend = chart.configure_series_labels();
        legend.label_font(FONT).position(SeriesLabelPosition::LowerLeft).background_style(WHITE.mix(0.8)).draw()
    }
}

/// The powers of ten around the values above 0.
fn decades(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .map(f64::log10)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { 1.0..10.0 } else { 10_f64.powf(low.floor())..10_f64.powf(high.ceil().max(low.floor() + 1.0)) }
}
