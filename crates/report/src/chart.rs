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

/// The chart as an SVG element, in the page's colours.
pub(crate) fn svg(chart: &Chart) -> String {
    let ends = |bar: &Bar| {
        let (min, max) = bar.range.unwrap_or((bar.value, bar.value));
        (min.min(bar.value), max.max(bar.value))
    };
    let most = chart.bars.iter().map(|bar| ends(bar).1).fold(0.0, f64::max);
    let least = chart.bars.iter().map(|bar| ends(bar).0).fold(0.0, f64::min);
    let span = most - least;
    let scale = if span > 0.0 { WIDTH / span } else { 0.0 };
    let x = |value: f64| LABEL + (value - least) * scale;
    let height = STEP * chart.bars.len() as f64;
    let title = escape(&chart.title);
    let mut out = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {:.0} {height:.0}\" width=\"{:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}: {}\">\n",
        LABEL + WIDTH + NUMBER,
        LABEL + WIDTH + NUMBER,
        escape(&words(chart)),
    );
    for (index, bar) in chart.bars.iter().enumerate() {
        let top = STEP * index as f64;
        let base = top + 14.0;
        let (from, to) = (x(bar.value.min(0.0)), x(bar.value.max(0.0)));
        let class = if bar.muted { "muted" } else { "bar" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"14\" class=\"{class}\"/>\
             <text x=\"{:.1}\" y=\"{base:.0}\">{}</text>",
            LABEL - 8.0,
            escape(&bar.label),
            top + 3.0,
            to - from,
            to.max(x(ends(bar).1)) + 6.0,
            number(bar.value),
        );
        if let Some((min, max)) = bar.range {
            let middle = top + 10.0;
            let _ = writeln!(
                out,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.0}\" y2=\"{middle:.0}\"/>",
                x(min),
                x(max),
            );
        }
    }
    out.push_str("</svg></figure>\n");
    out
}

/// What the bars show, for those who cannot see them.
fn words(chart: &Chart) -> String {
    let bars = chart.bars.iter();
    let words: Vec<String> = bars
        .map(|bar| format!("{} {}", bar.label, number(bar.value)))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_zero_goes_to_the_left() {
        let bar = |value| Bar {
            label: "slack".to_owned(),
            value,
            ..Bar::default()
        };
        let chart = Chart {
            title: "slack".to_owned(),
            bars: vec![bar(-10.0), bar(30.0)],
        };
        let svg = svg(&chart);
        // A quarter of the width is below zero.
        assert!(
            svg.contains("<rect x=\"180.0\" y=\"3\" width=\"105.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("<rect x=\"285.0\" y=\"23\" width=\"315.0\""),
            "{svg}"
        );
    }
}
