//! A page as text for a terminal.

use crate::{Cell, Page, Table, Tone};
use cage::text::lines;
use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

/// The spaces around a column.
const PADDING: usize = 2;

/// The terminal's capabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Can the terminal show colours and bold type?
    pub colour: bool,
    /// The terminal's width in columns, at which lines are broken; `None` never breaks.
    pub width: Option<u16>,
}

/// The page as text that ends in a line feed.
pub fn terminal(page: &Page, style: Style) -> String {
    let page = &safe(page);
    let mut out = String::new();
    out.push_str(&bold(&filled(&page.title, style), style));
    paragraphs(&mut out, &page.notes, style);
    if !page.verdict.is_empty() {
        out.push('\n');
    }
    for said in &page.verdict {
        out.push_str(&with_label(&filled(said, style), style));
    }
    for shown in &page.tables {
        out.push('\n');
        if !shown.title.is_empty() {
            out.push_str(&bold(&filled(&shown.title, style), style));
        }
        let parts = fold(shown, style);
        for (index, columns) in parts.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            out.push_str(&trimmed(&table(shown, columns, style).to_string()));
            out.push('\n');
        }
    }
    if !page.remarks.is_empty() {
        out.push('\n');
    }
    paragraphs(&mut out, &page.remarks, style);
    out
}

/// The page, where everything in texts that a terminal would execute is escaped.
fn safe(page: &Page) -> Page {
    let one = |text: &String| lines(text).into_owned();
    let all = |texts: &[String]| texts.iter().map(one).collect();
    let row = |row: &Vec<Cell>| {
        let cells = row.iter().map(|cell| Cell {
            text: one(&cell.text),
            ..cell.clone()
        });
        cells.collect()
    };
    let mut safe = page.clone();
    safe.title = one(&page.title);
    for texts in [&mut safe.notes, &mut safe.verdict, &mut safe.remarks] {
        *texts = all(texts);
    }
    for table in &mut safe.tables {
        table.title = one(&table.title);
        table.header = all(&table.header);
        table.rows = table.rows.iter().map(row).collect();
    }
    safe
}

fn paragraphs(out: &mut String, texts: &[String], style: Style) {
    for text in texts {
        out.push_str(&filled(text, style));
    }
}

/// `text` in bold type, if the terminal has it.
fn bold(text: &str, style: Style) -> String {
    match style.colour {
        true => format!("\u{1b}[1m{}\u{1b}[0m\n", text.trim_end()),
        false => text.to_owned(),
    }
}

/// `said` with the words before the first colon, which name the goal, in bold type.
fn with_label(said: &str, style: Style) -> String {
    match said.split_once(": ") {
        Some((label, rest)) if style.colour && !label.contains('\n') => {
            format!("\u{1b}[1m{label}:\u{1b}[0m {rest}")
        }
        _ => said.to_owned(),
    }
}

/// `text`, broken to the width. All lines but the first are indented, which shows where the next paragraph begins.
fn filled(text: &str, style: Style) -> String {
    let filled = match style.width.map(usize::from) {
        Some(width) if display_width(text) > width => {
            // Names of policies and threads contain hyphens, so do not break there.
            let options = Options::new(width).subsequent_indent("  ");
            textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation))
        }
        _ => text.to_owned(),
    };
    filled + "\n"
}

/// The columns of each part of `table`: a single part if the table fits, otherwise as many parts as
/// are needed. Every part begins with the columns of text, which identify a row.
fn fold(table: &Table, style: Style) -> Vec<Vec<usize>> {
    let all = 0..table.header.len();
    let text: Vec<usize> = all.clone().take(table.text_columns).collect();
    let numbers: Vec<usize> = all.clone().skip(table.text_columns).collect();
    let Some(width) = style.width.map(usize::from) else {
        return vec![all.collect()];
    };
    let needed = |columns: &[usize]| -> usize {
        let of = |&column: &usize| column_width(table, column, style) + PADDING;
        columns.iter().map(of).sum()
    };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut left = 0;
    for group in numbers.chunks(table.together.max(1)) {
        let group_width = needed(group);
        match parts.last_mut() {
            Some(part) if group_width <= left => {
                part.extend(group);
                left -= group_width;
            }
            _ => {
                parts.push([&text, group].concat());
                left = width.saturating_sub(needed(&text) + group_width);
            }
        }
    }
    if parts.is_empty() {
        parts.push(text);
    }
    parts
}

fn column_width(table: &Table, column: usize, style: Style) -> usize {
    let header = table.header[column].lines().map(display_width);
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    let cells = cells.map(|cell| display_width(&cell.text) + mark(cell, style).len());
    header.chain(cells).max().unwrap_or(0)
}

/// A table with `columns` of `table`. If this table is still too wide, its text is broken.
fn table(table: &Table, columns: &[usize], style: Style) -> comfy_table::Table {
    let mut shown = comfy_table::Table::new();
    let header = columns.iter().map(|&column| &table.header[column]);
    shown.load_style(presets::NOTHING).set_header(header);
    match style.width {
        Some(width) => shown
            .set_width(width)
            .set_content_arrangement(ContentArrangement::Dynamic),
        None => shown.set_content_arrangement(ContentArrangement::Disabled),
    };
    for row in &table.rows {
        shown.add_row(columns.iter().map(|&column| cell(&row[column], style)));
    }
    for (shown, &column) in shown.column_iter_mut().zip(columns) {
        if column >= table.text_columns {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    if style.colour {
        shown.enforce_styling();
    } else {
        shown.force_no_tty();
    }
    shown
}

/// The mark of a cell. Bold type marks the best values; without colours, a star does.
fn mark(cell: &Cell, style: Style) -> &'static str {
    match cell.tone == Tone::Best && !style.colour {
        true => "*",
        false => "",
    }
}

fn cell(cell: &Cell, style: Style) -> comfy_table::Cell {
    let shown = comfy_table::Cell::new(format!("{}{}", cell.text, mark(cell, style)));
    match cell.tone {
        Tone::Plain => shown,
        Tone::Dim => shown.add_attribute(Attribute::Dim),
        Tone::Best => shown.add_attribute(Attribute::Bold),
        Tone::Better => shown.fg(Color::Green),
        Tone::Worse => shown.fg(Color::Red),
    }
}

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
                ..Table::default()
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

    fn lines(width: u16) -> Vec<String> {
        let wide = Table {
            title: "Wide".to_owned(),
            header: ["name", "a\nfirst", "\nsecond", "b\nfirst", "\nsecond"]
                .map(str::to_owned)
                .to_vec(),
            text_columns: 1,
            together: 2,
            rows: vec![["row", "1", "22", "333", "4444"].map(Cell::from).to_vec()],
            ..Table::default()
        };
        let page = Page {
            tables: vec![wide],
            remarks: vec!["one two three four five six seven eight".to_owned()],
            ..page()
        };
        let style = Style {
            colour: false,
            width: Some(width),
        };
        let text = terminal(&page, style);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_wide_table_folds_between_groups_of_columns() {
        let folded = lines(30);
        assert!(folded.iter().all(|line| line.len() <= 30), "{folded:?}");
        let of = |word: &str| folded.iter().filter(|line| line.contains(word)).count();
        assert_eq!(of("Wide"), 1, "{folded:?}");
        assert_eq!(of("name"), 2, "{folded:?}");
        let rows: Vec<Vec<&str>> = folded
            .iter()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(rows.contains(&vec!["row", "1", "22"]), "{folded:?}");
        assert!(rows.contains(&vec!["row", "333", "4444"]), "{folded:?}");
    }

    #[test]
    fn prose_wraps_and_its_continuation_is_indented() {
        let wrapped = lines(30);
        let end = &wrapped[wrapped.len() - 2..];
        assert_eq!(end, ["one two three four five six", "  seven eight"]);
        assert!(lines(100).contains(&"one two three four five six seven eight".to_owned()));
    }
}
