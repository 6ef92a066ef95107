//! Pages' drawings as one SVG file, which requires neither the pages nor their script.

use crate::Page;
use crate::chart::{self, STYLE};
use crate::timeline::{self, WIDTH};
use std::fmt::Write;

/// The page's style sheet, which begins with its colours.
const PAGE_STYLE: &str = include_str!("html/page.css");
/// The charts and timelines of `pages`, one below the other, as an SVG file. `None` if there are none.
pub fn picture(pages: &[&Page]) -> Option<String> {
    let charts = pages.iter().flat_map(|page| &page.charts);
    let charts = charts.map(|chart| chart::elements(chart, WIDTH));
    let timelines = pages.iter().flat_map(|page| &page.timelines);
    let drawings: Vec<(String, f64)> = charts.chain(timelines.map(timeline::elements)).collect();
    if drawings.is_empty() {
        return None;
    }
    let height: f64 = drawings.iter().map(|(_, height)| height).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{height:.0}\">\n<style>\n{}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
        style()
    );
    let mut top = 0.0;
    for (elements, height) in &drawings {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<g transform=\"translate(0 {top:.0})\">\n{elements}</g>\n"
        );
        top += height;
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// The rules of style in the page's colours, for light and dark backgrounds, without variables, which many readers of
/// SVG do not support.
fn style() -> String {
    let rules = format!(
        "svg text {{ font: 12px sans-serif; fill: var(--text); }}\nsvg .back {{ fill: var(--back); }}\n{STYLE}"
    );
    let mut blocks = PAGE_STYLE.split(":root {").skip(1);
    let with = |colours: Option<&str>| {
        let block = colours
            .and_then(|text| text.split_once('}'))
            .map_or("", |(block, _)| block);
        let pairs = block
            .split(';')
            .filter_map(|pair| pair.trim().split_once(": "));
        pairs.fold(rules.clone(), |rules, (name, colour)| {
            rules.replace(&format!("var({name})"), colour)
        })
    };
    let (light, dark) = (with(blocks.next()), with(blocks.next()));
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bar, Chart};

    #[test]
    fn drawings_stand_one_below_the_other() {
        let chart = |title: &str| Chart {
            title: title.to_owned(),
            bars: vec![Bar::default(), Bar::default()],
            ..Chart::default()
        };
        let page = Page {
            charts: vec![chart("time, s"), chart("a < b")],
            ..Page::default()
        };
        let picture = picture(&[&page]).unwrap();
        let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 136\"";
        assert!(picture.starts_with(head), "{picture}");
        assert!(picture.contains("translate(0 0)") && picture.contains("translate(0 68)"));
        assert!(picture.contains(">a &lt; b<"), "{picture}");
    }

    #[test]
    fn a_page_without_drawings_has_no_picture() {
        assert_eq!(picture(&[&Page::default()]), None);
    }

    #[test]
    fn every_colour_is_known_in_light_and_dark() {
        let style = style();
        assert!(!style.contains("var("), "{style}");
        assert!(
            style.contains("fill: #1c2024") && style.contains("fill: #e6e9ec"),
            "{style}"
        );
    }
}
