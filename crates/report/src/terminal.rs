//! A page as text for a terminal.

use crate::{Cell, Page, Table, Tone};
use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};
use std::fmt::Write;

/// The terminal's capabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Colours and bold type.
    pub colour: bool,
    /// Its width in columns for breaking lines; `None` never breaks.
    pub width: Option<u16>,
}

/// The page as text that ends in a line feed.
pub fn terminal(page: &Page, style: Style) -> String {
    let mut out = format!("{}\n", page.title);
    for note in &page.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{note}");
    }
    if !page.verdict.is_empty() {
        out.push('\n');
    }
    for line in &page.verdict {
        let line = match style.width {
            Some(width) => textwrap::fill(line, usize::from(width)),
            None => line.clone(),
        };
        let _ = writeln!(out, "{line}");
    }
    for shown in &page.tables {
        out.push('\n');
        if !shown.title.is_empty() {
            let _ = writeln!(out, "{}", shown.title);
        }
        let _ = writeln!(out, "{}", trimmed(&table(shown, style).to_string()));
    }
    if !page.remarks.is_empty() {
        out.push('\n');
    }
    for remark in &page.remarks {
        let _ = writeln!(out, "{remark}");
    }
    out
}

fn table(table: &Table, style: Style) -> comfy_table::Table {
    let mut shown = comfy_table::Table::new();
    shown.load_style(presets::NOTHING).set_header(&table.header);
    match style.width {
        Some(width) => shown
            .set_width(width)
            .set_content_arrangement(ContentArrangement::Dynamic),
        None => shown.set_content_arrangement(ContentArrangement::Disabled),
    };
    for row in &table.rows {
        shown.add_row(row.iter().map(|shown| cell(shown, style)));
    }
    for (index, column) in shown.column_iter_mut().enumerate() {
        if index >= table.text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if style.colour {
        shown.enforce_styling();
    } else {
        shown.force_no_tty();
    }
    shown
}

fn cell(cell: &Cell, style: Style) -> comfy_table::Cell {
    // With colours, bold type marks the best; without, a star does.
    let mark = if cell.tone == Tone::Best && !style.colour {
        "*"
    } else {
        ""
    };
    let shown = comfy_table::Cell::new(format!("{}{mark}", cell.text));
    match cell.tone {
        Tone::Plain => shown,
        Tone::Dim => shown.add_attribute(Attribute::Dim),
        Tone::Best => shown.add_attribute(Attribute::Bold),
        Tone::Better => shown.fg(Color::Green),
        Tone::Worse => shown.fg(Color::Red),
    }
}

/// `text` without trailing blanks.
fn trimmed(text: &str) -> String {
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page {
            title: "Title".to_owned(),
            notes: vec!["note".to_owned()],
            verdict: vec!["One is best.".to_owned()],
            tables: vec![Table {
                title: "Part".to_owned(),
                header: vec!["name".to_owned(), "time\n[s]".to_owned()],
                text_columns: 1,
                rows: vec![
                    vec!["a".into(), Cell::new("1.000", Tone::Best)],
                    vec!["b".into(), Cell::new("20.00", Tone::Worse)],
                ],
            }],
            remarks: vec!["remark".to_owned()],
            ..Page::default()
        }
    }

    #[test]
    fn plain_text_aligns_numbers_and_marks_the_best() {
        insta::assert_snapshot!(terminal(&page(), Style::default()));
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let escape = '\u{1b}';
        assert!(!terminal(&page(), Style::default()).contains(escape));
        let colour = Style {
            colour: true,
            width: None,
        };
        assert!(terminal(&page(), colour).contains(escape));
    }
}
