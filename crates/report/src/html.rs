//! A page as HTML that stands alone: no scripts, nothing fetched from elsewhere.

use crate::chart::svg;
use crate::escape::escape;
use crate::{Cell, Page, Table, Tone};
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}\
h1{font-size:1.4em}h2{font-size:1.15em;margin-top:2em}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #e3e3e3;white-space:nowrap}\
th{white-space:pre-line;vertical-align:bottom;border-bottom:2px solid #999}.text{text-align:left}\
.dim{color:#888}.best{font-weight:bold}.better{color:#17703b}.worse{color:#a8281d}\
figure{margin:1.5em 0}svg text{font-size:12px}";

/// The pages, one below the other.
pub fn html(title: &str, pages: &[Page]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>\n",
        escape(title)
    );
    for page in pages {
        line(&mut out, "h1", &page.title);
        page.notes.iter().for_each(|note| line(&mut out, "p", note));
        page.verdict
            .iter()
            .for_each(|said| line(&mut out, "p", said));
        page.tables.iter().for_each(|shown| table(&mut out, shown));
        page.remarks
            .iter()
            .for_each(|remark| line(&mut out, "p", remark));
        page.charts
            .iter()
            .for_each(|chart| out.push_str(&svg(chart)));
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn line(out: &mut String, element: &str, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<{element}>{}</{element}>", escape(text));
}

fn table(out: &mut String, table: &Table) {
    if !table.title.is_empty() {
        line(out, "h2", &table.title);
    }
    let align = |column: usize| {
        if column < table.text_columns {
            "text"
        } else {
            ""
        }
    };
    out.push_str("<table>\n<tr>");
    for (column, name) in table.header.iter().enumerate() {
        let _ = write!(out, "<th class=\"{}\">{}</th>", align(column), escape(name));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, Cell { text, tone }) in row.iter().enumerate() {
            let (align, tone) = (align(column), class(*tone));
            let _ = write!(out, "<td class=\"{align} {tone}\">{}</td>", escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Dim => "dim",
        Tone::Best => "best",
        Tone::Better => "better",
        Tone::Worse => "worse",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bar, Chart};

    #[test]
    fn names_cannot_break_out() {
        let page = Page {
            title: "<script>".to_owned(),
            tables: vec![Table {
                title: "a & b".to_owned(),
                header: vec!["<h>".to_owned()],
                text_columns: 1,
                rows: vec![vec!["\"<td>\"".into()]],
            }],
            charts: vec![Chart {
                title: "<c>".to_owned(),
                bars: vec![Bar {
                    label: "<bar>".to_owned(),
                    value: 1.0,
                    ..Bar::default()
                }],
            }],
            ..Page::default()
        };
        let html = html("<title>", &[page]);
        for name in ["<script>", "<h>", "\"<td>\"", "<c>", "<bar>", "a & b"] {
            assert!(!html.contains(name), "{name}");
        }
        assert!(!html.contains("http"));
    }
}
