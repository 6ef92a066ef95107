//! Bar charts as SVG.

use crate::number::number;
use cage::text::markup as escape;
use std::fmt::Write;

/// The rules of style for drawings, on pages and in pictures.
pub(crate) const STYLE: &str = include_str!("html/drawing.css");

/// Horizontal bars on a common scale that includes 0.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The bars' quantity, with the unit.
    pub title: String,
    /// A hint for reading the bars, such as which bars are better; may be empty.
    pub note: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar of a chart.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// The label of the bar.
    pub label: String,
    /// The length of the bar.
    pub value: f64,
    /// The ends of the line across the bar, such as a confidence interval.
    pub range: Option<(f64, f64)>,
    /// The colour of the bar.
    pub colour: Colour,
    /// Is the bar one of the best?
    pub best: bool,
}

/// The colour of a bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// The colour of results.
    #[default]
    Result,
    /// The colour of inputs, such as published figures.
    Input,
    /// The colour of the policy with this number, which is the same in the whole page.
    Policy(usize),
}

/// The number of colours of policies.
const POLICIES: usize = 6;

impl Colour {
    fn class(self) -> String {
        match self {
            Colour::Result => "bar".to_owned(),
            Colour::Input => "muted".to_owned(),
            Colour::Policy(number) => format!("p{}", number % POLICIES),
        }
    }
}

impl Chart {
    fn caption(&self) -> String {
        match self.note.is_empty() {
            true => self.title.clone(),
            false => format!("{}: {}", self.title, self.note),
        }
    }
}

/// The widths of a chart's labels and of its bars. The numbers are to the right of the bars.
struct Widths {
    label: f64,
    bars: f64,
}

/// The widths of the labels and of the numbers in a picture.
const PICTURE_LABEL: f64 = 200.0;
const PICTURE_NUMBER: f64 = 80.0;
/// The width of a chart on a page, which is just below that of the narrowest column in page.css (21rem), so that texts
/// do not shrink on a phone.
const PAGE: f64 = 334.0;
/// The mean width of a letter at 12 px in normal and in bold type, and the largest part of [`PAGE`] for labels.
const LETTER: f64 = 6.8;
const BOLD_LETTER: f64 = 7.8;
const MOST_LABEL: f64 = 190.0;

/// The widths of `chart` on a page, with as much room for labels as the longest label needs, up to [`MOST_LABEL`].
fn on_page(chart: &Chart) -> Widths {
    let letter = |bar: &Bar| if bar.best { BOLD_LETTER } else { LETTER };
    let width = |bar: &Bar| letter(bar) * bar.label.chars().count() as f64;
    let label = (chart.bars.iter().map(width).fold(0.0, f64::max) + 12.0).min(MOST_LABEL);
    let number = PICTURE_NUMBER - 24.0;
    Widths {
        label,
        bars: PAGE - label - number,
    }
}
const STEP: f64 = 20.0;
const TITLE: f64 = 28.0;

/// The charts as figures with SVG elements, in the page's colours. A note that all charts share is printed once, before
/// them.
pub(crate) fn figures(charts: &[Chart]) -> String {
    let shared = charts.first().map(|chart| &chart.note);
    let shared =
        shared.filter(|note| charts.len() > 1 && charts.iter().all(|chart| chart.note == **note));
    let mut out = String::new();
    if let Some(note) = shared.filter(|note| !note.is_empty()) {
        let mut letters = note.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let note: String = first.into_iter().chain(letters).collect();
        out += &format!("<p class=\"hint\">{}</p>\n", escape(&note));
    }
    for chart in charts {
        let title = match shared {
            Some(_) => escape(&chart.title),
            None => escape(&chart.caption()),
        };
        out += &svg(chart, &title);
    }
    out
}

fn svg(chart: &Chart, title: &str) -> String {
    let (width, height) = (PAGE, height(chart));
    format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}: {}\">\n{}</svg></figure>\n",
        escape(&words(chart)),
        bars(chart, &on_page(chart)),
    )
}

/// `chart` as the elements of a picture of this width, and their height, in px.
pub(crate) fn elements(chart: &Chart, width: f64) -> (String, f64) {
    let widths = Widths {
        label: PICTURE_LABEL,
        bars: width - PICTURE_LABEL - PICTURE_NUMBER,
    };
    let elements = format!(
        "<title>{}</title>\n<text class=\"title\" x=\"8\" y=\"18\">{}</text>\n\
         <g transform=\"translate(0 {TITLE:.0})\">\n{}</g>\n",
        escape(&words(chart)),
        escape(&chart.caption()),
        bars(chart, &widths),
    );
    (elements, height(chart) + TITLE)
}

fn height(chart: &Chart) -> f64 {
    STEP * chart.bars.len() as f64
}

fn bars(chart: &Chart, widths: &Widths) -> String {
    let ends = |bar: &Bar| {
        let (min, max) = bar.range.unwrap_or((bar.value, bar.value));
        (min.min(bar.value), max.max(bar.value))
    };
    let most = chart.bars.iter().map(|bar| ends(bar).1).fold(0.0, f64::max);
    let least = chart.bars.iter().map(|bar| ends(bar).0).fold(0.0, f64::min);
    let span = most - least;
    let scale = if span > 0.0 { widths.bars / span } else { 0.0 };
    let x = |value: f64| widths.label + (value - least) * scale;
    let mut out = String::new();
    for (index, bar) in chart.bars.iter().enumerate() {
        let top = STEP * index as f64;
        let base = top + 14.0;
        let (from, to) = (x(bar.value.min(0.0)), x(bar.value.max(0.0)));
        let (class, text) = (
            bar.colour.class(),
            if bar.best { " class=\"best\"" } else { "" },
        );
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<text{text} x=\"{:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"14\" class=\"{class}\"/>\
             <text{text} x=\"{:.1}\" y=\"{base:.0}\">{}{}</text>",
            widths.label - 8.0,
            escape(&bar.label),
            top + 3.0,
            to - from,
            to.max(x(ends(bar).1)) + 6.0,
            number(bar.value),
            if bar.best { " *" } else { "" },
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
    out
}

/// The chart in words, for screen readers.
fn words(chart: &Chart) -> String {
    let bars = chart.bars.iter();
    let words: Vec<String> = bars
        .map(|bar| {
            let best = if bar.best { " (best)" } else { "" };
            format!("{} {}{best}", bar.label, number(bar.value))
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_bars_extend_to_the_left() {
        let bar = |value| Bar {
            label: "slack".to_owned(),
            value,
            ..Bar::default()
        };
        let chart = Chart {
            title: "slack".to_owned(),
            note: String::new(),
            bars: vec![bar(-10.0), bar(30.0)],
        };
        let svg = figures(&[chart]);
        // A quarter of the width shows values below zero.
        assert!(
            svg.contains("<rect x=\"46.0\" y=\"3\" width=\"58.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("<rect x=\"104.0\" y=\"23\" width=\"174.0\""),
            "{svg}"
        );
    }

    #[test]
    fn a_note_that_all_charts_share_is_said_once() {
        let chart = |title: &str, note: &str| Chart {
            title: title.to_owned(),
            note: note.to_owned(),
            bars: vec![Bar::default()],
        };
        let alike = figures(&[
            chart("a, s", "less is better"),
            chart("b, s", "less is better"),
        ]);
        assert_eq!(alike.matches("ess is better").count(), 1, "{alike}");
        assert!(
            alike.starts_with("<p class=\"hint\">Less is better</p>"),
            "{alike}"
        );
        let unlike = figures(&[
            chart("a, s", "less is better"),
            chart("b, 1/s", "more is better"),
        ]);
        assert!(
            unlike.contains("<figcaption>b, 1/s: more is better<"),
            "{unlike}"
        );
        assert!(
            unlike.contains("<figcaption>a, s: less is better<"),
            "{unlike}"
        );
    }
}
