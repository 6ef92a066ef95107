//! Bar charts as SVG.

use crate::escape::escape;
use crate::number::number;
use std::fmt::Write;

/// Horizontal bars on a common scale that begins at 0.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// What the bars are of, with the unit.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar of a chart.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// From the smallest to the largest of what the value is the mean of.
    pub range: Option<(f64, f64)>,
    /// Drawn as a given, not as a result.
    pub muted: bool,
}

const LABEL: f64 = 180.0;
const WIDTH: f64 = 420.0;
const NUMBER: f64 = 70.0;
const STEP: f64 = 20.0;

/// The chart as an SVG element that needs no style from elsewhere.
pub(crate) fn svg(chart: &Chart) -> String {
    let longest = chart
        .bars
        .iter()
        .map(|bar| bar.range.map_or(bar.value, |(_, max)| max.max(bar.value)))
        .fold(0.0, f64::max);
    let scale = if longest > 0.0 { WIDTH / longest } else { 0.0 };
    let height = STEP * chart.bars.len() as f64;
    let mut out = format!(
        "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {:.0} {height:.0}\" \
         width=\"{:.0}\" height=\"{height:.0}\" role=\"img\">\n",
        escape(&chart.title),
        LABEL + WIDTH + NUMBER,
        LABEL + WIDTH + NUMBER,
    );
    for (index, bar) in chart.bars.iter().enumerate() {
        let top = STEP * index as f64;
        let (length, base) = (bar.value.max(0.0) * scale, top + 14.0);
        let fill = if bar.muted { "#b8bec6" } else { "#3b78b5" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABEL:.0}\" y=\"{:.0}\" width=\"{length:.1}\" height=\"14\" fill=\"{fill}\"/>\
             <text x=\"{:.1}\" y=\"{base:.0}\">{}</text>",
            LABEL - 8.0,
            escape(&bar.label),
            top + 3.0,
            LABEL + bar.range.map_or(length, |(_, max)| length.max(max * scale)) + 6.0,
            number(bar.value),
        );
        if let Some((min, max)) = bar.range {
            let middle = top + 10.0;
            let _ = writeln!(
                out,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.0}\" y2=\"{middle:.0}\" \
                 stroke=\"#222\"/>",
                LABEL + min.max(0.0) * scale,
                LABEL + max.max(0.0) * scale,
            );
        }
    }
    out.push_str("</svg></figure>\n");
    out
}
