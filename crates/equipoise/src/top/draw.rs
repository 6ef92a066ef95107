//! The picture on the screen of `equipoise top`.

use super::page::{self, OF_THREADS, of_thread};
use super::sample::{Computer, Cpu, Interval};
use super::screen::State;
use machine::CpuMask;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, Wrap};

/// The width in columns below which the screen shows either the threads or the scheduler's activity.
const WIDE: u16 = 130;

/// The minimum width of a CPU in columns: number, bar, percentage, frequency, history.
const CPU_WIDTH: usize = 38;

/// The column of [`OF_THREADS`] with a thread's CPU time. This column has the colours of CPUs; if NO_COLOR is set, the
/// terminal's library leaves all colours out.
const CPU_TIME: usize = 3;

/// The largest length of a bar. A longer bar would show nothing more.
const BAR: usize = 40;

const HELP: [&str; 17] = [
    "c w p t m n  sort by CPU %, wait, wait p99, runs/s, moves/s, name",
    "r            reverse the order",
    "/            show only threads whose name or process contains a text (Esc: all)",
    "o            one line for each process, or for each thread",
    "arrows       scroll the threads (also j, k, PageUp, PageDown, Home, End)",
    "Tab          threads or scheduler, where there is no room for both",
    "space        pause",
    "+ -          double or halve the refresh interval",
    "? h          open or close this help",
    "q Esc        end",
    "CPUs         share of time busy, frequency, history (a block per refresh)",
    "CPU %        CPU time, as a share of one CPU",
    "wait         mean time from runnable to running",
    "wait p99     99 % of the waits in the last 30 s were at most this long; waits",
    "             of the same 50 ms count as their mean; - outside the 64 busiest",
    "runs/s       times per second that the thread began to run",
    "moves/s      migrations to another CPU",
];

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub fn draw(frame: &mut Frame<'_>, computer: &Computer, state: &State) {
    let area = frame.area();
    let Some(interval) = &state.interval else {
        frame.render_widget(Line::styled("looking ...", bold()), area);
        return;
    };
    let width = usize::from(area.width);
    let cpus = cpus(
        computer,
        interval,
        state,
        width,
        usize::from(area.height) / 2,
    );
    let reasons = reasons(interval, width);
    let [head, top, body, why, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(cpus.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(reasons.len() as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    let every = match state.is_paused {
        true => "paused".to_owned(),
        false => format!("every {} s", state.refresh.as_secs_f64()),
    };
    frame.render_widget(Line::styled(page::title(interval), bold()), head);
    frame.render_widget(Line::styled(every, dim()).right_aligned(), head);
    frame.render_widget(Paragraph::new(cpus), top);
    frame.render_widget(Paragraph::new(reasons).style(dim()), why);
    frame.render_widget(Line::from(foot_of(state, width)), foot);
    if area.width >= WIDE {
        let halves = [Constraint::Fill(1), Constraint::Fill(1)];
        let [left, right] = Layout::horizontal(halves).spacing(3).areas(body);
        threads(frame, state, left);
        scheduler(frame, interval, right);
    } else if state.shows_scheduler {
        scheduler(frame, interval, body);
    } else {
        threads(frame, state, body);
    }
    if state.shows_help {
        help(frame, interval);
    }
}

/// The last line of the screen: the filter, if there is one, otherwise the keys.
fn foot_of(state: &State, width: usize) -> String {
    match (state.types_filter, state.filter.is_empty()) {
        (true, _) => format!(
            "/{}_  Enter keeps this filter, Esc removes it",
            state.filter
        ),
        (false, false) => format!(
            "/{}  only these threads; / changes the filter",
            state.filter
        ),
        (false, true) => keys(width),
    }
}

fn keys(width: usize) -> String {
    let all = "q end  ? help  / filter  sort: c CPU  w wait  p p99  t runs  m moves  n name";
    let more = "  r reverse  o processes  Tab scheduler  space pause  + - refresh";
    match width < all.len() + more.len() {
        true => all.to_owned(),
        false => format!("{all}{more}"),
    }
}

/// The missing columns and the reasons. The reasons are left out if they do not fit into two lines.
fn reasons(interval: &Interval, width: usize) -> Vec<Line<'static>> {
    let missing = &interval.missing;
    let mut lines: Vec<String> = Vec::new();
    for (what, why) in missing {
        let reason = format!("no {what}: {why}");
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + reason.chars().count() <= width => {
                line.push_str("; ");
                line.push_str(&reason);
            }
            _ => lines.push(reason),
        }
    }
    if lines.len() > 2 || lines.iter().any(|line| line.chars().count() > width) {
        let what: Vec<&str> = missing.iter().map(|&(what, _)| what).collect();
        lines = vec![format!(
            "? explains the missing columns: {}",
            what.join(", ")
        )];
    }
    lines.into_iter().map(Line::from).collect()
}

/// The CPUs by cluster, each with a bar and a history, in as few columns as fit into `height` lines. If they do not
/// fit, each CPU is one block.
fn cpus(
    computer: &Computer,
    interval: &Interval,
    state: &State,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let clusters = computer.machine.clusters();
    let most = (width / CPU_WIDTH).max(1);
    let lines = |columns: usize| -> usize {
        let of = |cluster: &CpuMask| cluster.count().div_ceil(columns) + 1;
        clusters.iter().map(of).sum()
    };
    match (1..=most).find(|&columns| lines(columns) <= height) {
        Some(columns) => in_columns(computer, interval, state, width, columns),
        None => as_blocks(computer, interval, width),
    }
}

fn in_columns(
    computer: &Computer,
    interval: &Interval,
    state: &State,
    width: usize,
    columns: usize,
) -> Vec<Line<'static>> {
    let has_khz = interval.cpus.values().any(|cpu| cpu.khz.is_some());
    let each = width / columns;
    let mut lines = Vec::new();
    for cluster in computer.machine.clusters() {
        lines.push(heading(computer, interval, cluster));
        let ids: Vec<usize> = cluster
            .iter()
            .filter(|id| interval.cpus.contains_key(id))
            .collect();
        let rows = ids.len().div_ceil(columns);
        for row in 0..rows {
            // Numbers run down a column.
            let ids = ids.iter().skip(row).step_by(rows.max(1));
            let mut spans = Vec::new();
            for &id in ids {
                spans.extend(cpu(id, interval.cpus[&id], state, each, has_khz));
            }
            lines.push(Line::from(spans));
        }
    }
    lines
}

/// The text of a CPU in `width` columns, such as ` 12 ████████░░░░  54 % 1.80 GHz ▁▂▃▄▅▆▇█ `.
fn cpu(id: usize, did: Cpu, state: &State, width: usize, has_khz: bool) -> Vec<Span<'static>> {
    let ghz = match (has_khz, did.khz) {
        (false, _) => String::new(),
        (true, None) => format!("{:>9}", "-"),
        (true, Some(khz)) => format!("{:>5.2} GHz", khz as f64 / 1e6),
    };
    let rest = width.saturating_sub(4 + 7 + ghz.len() + 2);
    let bar = (rest / 2).min(BAR);
    let filled = (did.busy * bar as f64).round() as usize;
    let history = state.history.get(&id).into_iter().flatten().copied();
    let history: Vec<f64> = history.collect();
    let shown = &history[history.len().saturating_sub(rest - bar)..];
    let trail: String = shown.iter().map(|&busy| block(busy)).collect();
    let colour = colour(did.busy);
    vec![
        Span::from(format!("{id:>3} ")),
        Span::styled("█".repeat(filled.min(bar)), colour),
        Span::styled("░".repeat(bar.saturating_sub(filled)), dim()),
        Span::from(format!("{:>4.0} % {ghz} ", did.busy * 100.0)),
        Span::styled(format!("{trail:<space$} ", space = rest - bar), colour),
    ]
}

fn as_blocks(computer: &Computer, interval: &Interval, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for cluster in computer.machine.clusters() {
        lines.push(heading(computer, interval, cluster));
        let cpus: Vec<Cpu> = cluster
            .iter()
            .filter_map(|id| interval.cpus.get(&id).copied())
            .collect();
        for cpus in cpus.chunks(width.saturating_sub(4).max(1)) {
            let blocks = cpus
                .iter()
                .map(|cpu| Span::styled(block(cpu.busy).to_string(), colour(cpu.busy)));
            lines.push(Line::from_iter(
                [Span::from("    ")].into_iter().chain(blocks),
            ));
        }
    }
    lines
}

/// The heading of a cluster, such as `cortex-a15 (capacity 1024), CPUs 0-3: 54 % busy, 1.2 waiting`.
fn heading(computer: &Computer, interval: &Interval, cluster: &CpuMask) -> Line<'static> {
    let machine = &computer.machine;
    let cpus: Vec<Cpu> = cluster
        .iter()
        .filter_map(|id| interval.cpus.get(&id).copied())
        .collect();
    let busy = cpus.iter().map(|cpu| cpu.busy).sum::<f64>() / cpus.len().max(1) as f64;
    let waiting: Option<f64> = cpus.iter().map(|cpu| cpu.waiting).sum();
    let kind = cluster.first().and_then(|first| machine.cpus.get(first));
    let name = kind.map_or("", |cpu| machine.core_types[cpu.core_type].name.as_str());
    let capacity = kind.map_or(0, |cpu| cpu.capacity);
    let waiting = waiting.map_or(String::new(), |tasks| format!(", {tasks:.1} waiting"));
    let text = format!(
        "{name} (capacity {capacity}), {} {cluster}: {:.0} % busy{waiting}",
        if cluster.count() == 1 { "CPU" } else { "CPUs" },
        busy * 100.0,
    );
    Line::styled(text, bold())
}

/// The block character whose height is the part `part` of a line's height, from 0 to 1.
fn block(part: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BLOCKS[((part * 8.0) as usize).min(7)]
}

fn colour(busy: f64) -> Style {
    Style::new().fg(match busy {
        busy if busy < 0.6 => Color::Green,
        busy if busy < 0.9 => Color::Yellow,
        _ => Color::Red,
    })
}

fn threads(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let sorted = state.sort.column();
    let mark = if state.is_reversed { '▲' } else { '▼' };
    let header = OF_THREADS.iter().enumerate().map(|(column, name)| {
        let text = match column == sorted {
            true => format!("{name}{mark}"),
            false => (*name).to_owned(),
        };
        aligned(column, text)
    });
    let rows = state.threads().into_iter().take(usize::from(area.height));
    let rows = rows.map(|thread| {
        let cells = of_thread(&thread).into_iter().enumerate();
        let ran = colour(thread.ran);
        Row::new(cells.map(|(column, text)| match column {
            CPU_TIME => aligned(column, text).style(ran),
            _ => aligned(column, text),
        }))
    });
    let widths = [0, 7, 4, 6, 8, 9, 7, 8].map(|width| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let table = Table::new(rows, widths)
        .header(Row::new(header).style(bold()))
        .column_spacing(2);
    frame.render_widget(table, area);
}

fn aligned(column: usize, text: String) -> Cell<'static> {
    let line = Line::from(text);
    Cell::from(match column {
        0 => line.left_aligned(),
        _ => line.right_aligned(),
    })
}

/// The scheduler's activity, the costs of its callbacks, and power, as far as they are known.
fn scheduler(frame: &mut Frame<'_>, interval: &Interval, area: Rect) {
    let mut rows: Vec<[String; 2]> = Vec::new();
    for rate in page::decisions(interval) {
        rows.push([rate.what, format!("{:.1}", rate.a_second)]);
    }
    for callback in page::costs(interval) {
        let percent = callback.calls * callback.ns / 1e7;
        rows.push([
            format!(
                "{}(), {:.0} ns per call, {percent:.2} % of a CPU",
                callback.name, callback.ns
            ),
            format!("{:.1}", callback.calls),
        ]);
    }
    for (domain, watts) in page::power(interval) {
        rows.push([format!("Power of {domain}"), format!("{watts:.2} W")]);
    }
    let why = interval.missing.iter();
    let why = why.filter(|(what, _)| *what == "decisions");
    if rows.is_empty() {
        rows.extend(why.map(|(_, why)| [(*why).to_owned(), String::new()]));
    }
    let row = |[what, rate]: [String; 2]| Row::new([aligned(0, what), aligned(1, rate)]);
    let header = Row::new([
        aligned(0, "Scheduler activity".to_owned()),
        aligned(1, "a second".to_owned()),
    ]);
    let widths = [Constraint::Fill(1), Constraint::Length(10)];
    let table = Table::new(rows.into_iter().map(row), widths)
        .header(header.style(bold()))
        .column_spacing(2);
    frame.render_widget(table, area);
}

fn help(frame: &mut Frame<'_>, interval: &Interval) {
    let missing = interval.missing.iter();
    let missing = missing.map(|(what, why)| Line::from(format!("no {what}: {why}")));
    let lines: Vec<Line<'_>> = HELP.into_iter().map(Line::from).chain(missing).collect();
    let all = frame.area();
    let height = (lines.len() as u16 + 2).min(all.height);
    let area = all.centered(
        Constraint::Length(86.min(all.width)),
        Constraint::Length(height),
    );
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" Keys and columns ");
    let text = Paragraph::new(lines)
        .block(block)
        .wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}
