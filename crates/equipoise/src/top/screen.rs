//! The screen of `equipoise top`.

use crate::error::Error;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use report::Page;
use std::io;
use std::time::{Duration, Instant};

/// With fewer columns, tables stand one under the other.
const WIDE: u16 = 110;

/// Shows the page that `next` returns every `interval`, until a key ends it or `next` fails. The
/// inner result is `next`'s.
pub fn watch(
    interval: Duration,
    mut next: impl FnMut() -> Result<Page, Error>,
) -> io::Result<Result<(), Error>> {
    let mut terminal = ratatui::try_init()?;
    let watched = (|| {
        let mut page = Page {
            title: "looking ...".to_owned(),
            ..Page::default()
        };
        let (mut first, mut due) = (0, Instant::now() + interval.min(Duration::from_millis(500)));
        loop {
            terminal.draw(|frame| draw(frame, &page, first))?;
            if event::poll(due.saturating_duration_since(Instant::now()))? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        let Some(moved) = moved(key, first) else {
                            return Ok(Ok(()));
                        };
                        first = moved.min(longest(&page).saturating_sub(1));
                    }
                    _ => {}
                }
            }
            if Instant::now() >= due {
                due = Instant::now() + interval;
                match next() {
                    Ok(new) => page = new,
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
    })();
    ratatui::try_restore()?;
    watched
}

/// The first visible row after `key`; `None` if the key ends the program.
fn moved(key: KeyEvent, first: usize) -> Option<usize> {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => None,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Down | KeyCode::Char('j') => Some(first + 1),
        KeyCode::Up | KeyCode::Char('k') => Some(first.saturating_sub(1)),
        KeyCode::PageDown => Some(first + 10),
        KeyCode::PageUp => Some(first.saturating_sub(10)),
        KeyCode::Home => Some(0),
        _ => Some(first),
    }
}

fn longest(page: &Page) -> usize {
    page.tables
        .iter()
        .map(|table| table.rows.len())
        .max()
        .unwrap_or(0)
}

/// Draws CPUs on the left and the rest on the right, or below.
fn draw(frame: &mut Frame<'_>, page: &Page, first: usize) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::styled(page.title.as_str(), bold), head);
    frame.render_widget(Line::from("q ends, arrows scroll"), foot);
    let is_about_cpus = |table: &&report::Table| table.header.iter().any(|name| name == "busy %");
    let (cpus, rest): (Vec<_>, Vec<_>) = page.tables.iter().partition(is_about_cpus);
    let (left, right) = if rest.is_empty() {
        (body, Rect::default())
    } else if body.width >= WIDE {
        let [left, right] = Layout::horizontal([Constraint::Length(58), Constraint::Fill(1)])
            .spacing(2)
            .areas(body);
        (left, right)
    } else {
        let [above, below] = Layout::vertical([Constraint::Fill(1); 2]).areas(body);
        (above, below)
    };
    column(frame, &cpus, left, first);
    column(frame, &rest, right, 0);
}

/// Draws one table under the other, each at its full height, or the last ones shortened if there is
/// no room. The longest table starts at row `first`.
fn column(frame: &mut Frame<'_>, tables: &[&report::Table], area: Rect, first: usize) {
    let heights = tables.iter().map(|table| {
        Constraint::Max(
            u16::try_from(table.rows.len())
                .unwrap_or(u16::MAX)
                .saturating_add(3),
        )
    });
    let most = tables.iter().map(|table| table.rows.len()).max();
    let areas = Layout::vertical(heights).split(area);
    for (table, &area) in tables.iter().zip(areas.iter()) {
        let skip = if Some(table.rows.len()) == most {
            first
        } else {
            0
        };
        draw_table(frame, table, area, skip);
    }
}

fn draw_table(frame: &mut Frame<'_>, table: &report::Table, area: Rect, skip: usize) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::styled(table.title.as_str(), bold), title);
    let aligned = |column: usize, text: &str| {
        let line = Line::from(text.to_owned());
        Cell::from(match column < table.text_columns {
            true => line.left_aligned(),
            false => line.right_aligned(),
        })
    };
    let width = |column: usize| {
        let cells = table
            .rows
            .iter()
            .map(|row| row[column].text.chars().count());
        let widest = cells.chain([table.header[column].chars().count()]).max();
        Constraint::Length(widest.unwrap_or(0) as u16)
    };
    let header = table.header.iter().enumerate();
    let header = Row::new(header.map(|(column, name)| aligned(column, name)));
    let rows = table.rows.iter().skip(skip).map(|row| {
        let cells = row.iter().enumerate();
        Row::new(cells.map(|(column, cell)| aligned(column, &cell.text)))
    });
    let widths = (0..table.header.len()).map(width);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let table = Table::new(rows, widths)
        .header(header.style(dim))
        .column_spacing(2);
    frame.render_widget(table, body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn page() -> Page {
        let table = |title: &str, header: [&str; 2], rows: Vec<[&str; 2]>| report::Table {
            title: title.to_owned(),
            header: header.map(str::to_owned).into(),
            text_columns: 1,
            rows: rows
                .into_iter()
                .map(|row| row.map(report::Cell::from).into())
                .collect(),
            ..report::Table::default()
        };
        Page {
            title: "scx_equipoise".to_owned(),
            tables: vec![
                table(
                    "CPUs",
                    ["CPU", "busy %"],
                    vec![["0", "100"], ["1", "7"], ["2", "50"]],
                ),
                table("Energy", ["domain", "W"], vec![["package-0", "3.50"]]),
            ],
            ..Page::default()
        }
    }

    fn lines(width: u16, height: u16, first: usize) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &page(), first)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = cells
            .chunks(usize::from(width))
            .map(|line| line.concat().trim_end().to_owned());
        lines.collect()
    }

    #[test]
    fn a_wide_terminal_has_the_cpus_beside_the_rest() {
        let lines = lines(120, 8, 0);
        assert_eq!(lines[0], "scx_equipoise");
        assert!(
            lines[1].starts_with("CPUs") && lines[1].ends_with("Energy"),
            "{lines:?}"
        );
        assert!(
            lines[3].starts_with("0       100") && lines[3].ends_with("package-0  3.50"),
            "{lines:?}"
        );
        assert_eq!(lines[7], "q ends, arrows scroll");
    }

    #[test]
    fn a_narrow_one_has_them_above_and_rows_scroll() {
        let lines = lines(40, 14, 1);
        let at = |text: &str| lines.iter().position(|line| line.starts_with(text));
        assert!(at("CPUs") < at("Energy"), "{lines:?}");
        assert_eq!(at("0 "), None);
        assert!(at("1 ").is_some() && at("package-0").is_some(), "{lines:?}");
    }

    #[test]
    fn q_and_ctrl_c_end_it() {
        let key = |code, modifiers| moved(KeyEvent::new(code, modifiers), 3);
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(3));
        assert_eq!(key(KeyCode::Up, KeyModifiers::NONE), Some(2));
    }
}
