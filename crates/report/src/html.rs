//! A page as self-contained HTML, which fetches nothing. If there are figures, a script draws them
//! with uPlot (third_party/uplot), which the page includes.

use crate::chart::figures;
use crate::figures::{Energy, Figures, MachineFigure, PolicyFigure};
use crate::timeline;
use crate::{Cell, Page, Table, Tone};
use cage::text::markup as escape;
use std::fmt::Write;

const STYLE: &str = include_str!("html/page.css");
const DRAWING_STYLE: &str = crate::chart::STYLE;
const SCRIPT: &str = include_str!("html/page.js");
const UPLOT_STYLE: &str = include_str!("../third_party/uplot/uPlot.min.css");
const UPLOT: &str = include_str!("../third_party/uplot/uPlot.iife.min.js");

/// The pages, one below the other. Only the figures of the first page that has any are drawn.
pub fn html(title: &str, pages: &[Page]) -> String {
    let figures = pages.iter().find_map(|page| page.figures.as_ref());
    let uplot_style = figures.map_or("", |_| UPLOT_STYLE);
    let title = match pages.first().and_then(headline) {
        Some(headline) if pages.len() == 1 => format!("{}: {headline}", pages[0].title),
        _ => title.to_owned(),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{uplot_style}\n{STYLE}{DRAWING_STYLE}</style></head>\n<body>\n<main>\n",
        escape(&title)
    );
    for page in pages {
        write_page(&mut out, page);
    }
    out.push_str("</main>\n");
    if let Some(figures) = figures {
        // Only `<` could end a script element.
        let data = figures.data.replace('<', "\\u003c");
        for part in [
            "<script type=\"application/json\" id=\"data\">",
            &data,
            "</script>\n<script>",
            UPLOT,
            "</script>\n<script>",
            SCRIPT,
            "</script>\n",
        ] {
            out.push_str(part);
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// The verdict in a few words: the policies that are best for several goals or, if there are none, the first sentence.
fn headline(page: &Page) -> Option<&str> {
    let mut lines = page.verdict.iter();
    let whole = lines.find(|line| line.starts_with("Best for "));
    let line = whole.or(page.verdict.first())?;
    Some(
        line.split_once(". ")
            .map_or(line.as_str(), |(first, _)| first)
            .trim_end_matches('.'),
    )
}

/// The page's text and tables as a part of another page, such as a notebook. It has styles only for tones, for columns
/// of text and for headers.
pub fn fragment(page: &Page) -> String {
    let text = Page {
        charts: Vec::new(),
        timelines: Vec::new(),
        figures: None,
        ..page.clone()
    };
    let mut out = "<div class=\"equipoise\">\n<style>.equipoise .best { font-weight: bold } \
                   .equipoise .better { color: #17863a } .equipoise .worse { color: #c8382d } \
                   .equipoise .dim { opacity: .7 } .equipoise .text { text-align: left } \
                   .equipoise th { white-space: pre }</style>\n"
        .to_owned();
    write_page(&mut out, &text);
    out.push_str("</div>\n");
    out
}

fn write_page(out: &mut String, page: &Page) {
    line(out, "h1", &page.title);
    out.push_str("<div class=\"notes\">\n");
    page.notes.iter().for_each(|note| line(out, "p", note));
    if let Some(figures) = &page.figures {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<p><code>{}</code></p>", escape(&figures.made_by));
    }
    out.push_str("</div>\n");
    if !page.verdict.is_empty() {
        out.push_str("<div class=\"head\">\n<section class=\"verdict\"><h2>Verdict</h2>\n");
        page.verdict.iter().for_each(|said| line(out, "p", said));
        out.push_str("</section>\n");
        bars(out, page);
        out.push_str("</div>\n");
    } else {
        bars(out, page);
    }
    for shown in &page.timelines {
        out.push_str(&timeline::figure(shown));
    }
    if let Some(figures) = &page.figures {
        contents(out, figures);
        timelines(out, &figures.policies);
    }
    out.push_str("<section id=\"results\">\n");
    if page.figures.is_some() {
        line(out, "h2", "Results");
    }
    page.tables.iter().for_each(|shown| table(out, shown));
    page.remarks
        .iter()
        .for_each(|remark| line(out, "p", remark));
    out.push_str("</section>\n");
    if let Some(figures) = &page.figures {
        latencies(out, figures);
        if let Some(shown) = &figures.energy {
            energy(out, shown);
        }
        machine(out, &figures.machine);
    }
}

/// Writes the charts of bars, with the verdict that they show or, without a verdict, above the tables.
fn bars(out: &mut String, page: &Page) {
    if page.charts.is_empty() {
        return;
    }
    out.push_str("<section id=\"bars\">\n");
    out.push_str(&figures(&page.charts));
    out.push_str("</section>\n");
}

fn line(out: &mut String, element: &str, text: &str) {
    let _ = writeln!(out, "<{element}>{}</{element}>", escape(text));
}

fn contents(out: &mut String, figures: &Figures) {
    out.push_str("<nav aria-label=\"On this page\"><ul>\n");
    let parts = [
        ("timelines", "Timelines", true),
        ("misses", "Missed deadlines", figures.has_misses()),
        ("results", "Results", true),
        ("latencies", "Wakeup latencies", figures.has_latencies()),
        ("energy", "Energy", figures.energy.is_some()),
        ("machine", "Machine", true),
    ];
    for (id, name, _) in parts.iter().filter(|(.., is_there)| *is_there) {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{name}</a></li>");
    }
    out.push_str("</ul></nav>\n");
}

/// Writes each cluster as a box of its cores, each with its CPUs.
fn machine(out: &mut String, machine: &MachineFigure) {
    out.push_str("<section id=\"machine\">\n");
    line(out, "h2", &format!("Machine: {}", machine.name));
    line(out, "p", &machine.description);
    out.push_str("<ul class=\"clusters\">\n");
    for cluster in &machine.clusters {
        let _ = write!(
            out,
            "<li class=\"cluster\"><strong>{}</strong><br>{}<div class=\"cores\">",
            escape(&cluster.core),
            escape(&cluster.what)
        );
        for core in &cluster.cores {
            out.push_str("<div class=\"core\">");
            for cpu in core {
                let _ = write!(out, "<span>CPU {cpu}</span>");
            }
            out.push_str("</div>");
        }
        out.push_str("</div></li>\n");
    }
    out.push_str("</ul>\n</section>\n");
}

/// Writes, for each policy, which thread ran when on which CPU, the deadlines, and the CPUs' load, frequency and power.
fn timelines(out: &mut String, policies: &[PolicyFigure]) {
    out.push_str(
        "<section id=\"timelines\">\n<h2>Timelines: the first run of each policy</h2>\n\
         <div class=\"tools sticky\" role=\"group\" aria-label=\"Time shown\">\n",
    );
    for (action, name) in [
        ("in", "Zoom in"),
        ("out", "Zoom out"),
        ("left", "Earlier"),
        ("right", "Later"),
        ("all", "Whole run"),
    ] {
        let _ = writeln!(
            out,
            "<button type=\"button\" data-action=\"{action}\">{name}</button>"
        );
    }
    out.push_str(
        "<span id=\"view\" role=\"status\"></span>\n<ul class=\"legend\" id=\"threads\"></ul></div>\n\
         <p class=\"hint\">All charts show the same time. Drag over a chart to zoom in, or turn the wheel with Ctrl \
         to zoom at the pointer. If a chart has the focus, the keys W and S (or + and -) zoom, A and D (or left and \
         right) move in time, and Home shows the whole run. ",
    );
    if policies.iter().any(|policy| !policy.misses.is_empty()) {
        out.push_str(
            "Below the CPUs, each thread with deadlines, up to eight, has a row with its periods: a bar from the release \
             of its work until the work was done, and a mark at the deadline. Click on a missed period to see why.",
        );
    }
    out.push_str("</p>\n");
    for policy in policies {
        let (index, name) = (policy.index, escape(&policy.name));
        let open = if policy.open { " open" } else { "" };
        let _ = writeln!(
            out,
            "<details class=\"run\" data-run=\"{index}\"{open}><summary>{name}</summary>\n\
             <p class=\"notes\">{}</p>\n<p class=\"notes\">{}</p>",
            escape(&policy.description),
            escape(&policy.summary)
        );
        chart(
            out,
            "timeline",
            &format!(
                "Timeline of {}: which thread ran when on which CPU, and the periods of threads with \
                 deadlines; the table Running times by CPU has the shares, and the missed deadlines are below",
                policy.name
            ),
        );
        out.push_str("<div class=\"why\" data-part=\"why\" aria-live=\"polite\"></div>\n");
        more(out, policy);
        out.push_str("</details>\n");
    }
    misses(out, policies);
    out.push_str("</section>\n");
}

/// Writes a policy's other charts, and the table of the CPUs on which its threads ran.
fn more(out: &mut String, policy: &PolicyFigure) {
    out.push_str("<details class=\"more\"><summary>Load");
    let others = [(policy.frequency, ", frequency"), (policy.power, ", power")];
    for (_, name) in others.into_iter().filter(|(is_there, _)| *is_there) {
        out.push_str(name);
    }
    let _ = writeln!(
        out,
        " and running times under {}</summary>",
        escape(&policy.name)
    );
    for (part, is_there, title) in [
        ("busy", policy.busy, "Share of time busy"),
        (
            "frequency",
            policy.frequency,
            "Frequency, relative to the highest",
        ),
        ("power", policy.power, "Power over time by part"),
    ] {
        if is_there {
            line(out, "h3", title);
            chart(out, part, &format!("{title}, under {}", policy.name));
        }
    }
    table(out, &policy.threads);
    out.push_str("</details>\n");
}

/// Writes the missed periods that are explained, by policy.
fn misses(out: &mut String, policies: &[PolicyFigure]) {
    if policies.iter().all(|policy| policy.misses.is_empty()) {
        return;
    }
    out.push_str("<h3 id=\"misses\">Why deadlines were missed</h3>\n");
    out.push_str(
        "<p class=\"hint\">For each policy, the missed periods that lost most time, with the decisions in them.</p>\n",
    );
    for policy in policies {
        for miss in &policy.misses {
            let _ = writeln!(
                out,
                "<details class=\"miss\" data-of=\"{}\" data-thread=\"{}\" data-from=\"{:.3}\" data-due=\"{:.3}\" \
                 data-done=\"{:.3}\"><summary>{}: <span class=\"thread\">{}</span>, {:.2} ms after the deadline at \
                 {:.6} s</summary>",
                policy.index,
                escape(&miss.thread),
                miss.released,
                miss.due,
                miss.done,
                escape(&policy.name),
                escape(&miss.thread),
                miss.done - miss.due,
                miss.due / 1e3
            );
            miss.says.iter().for_each(|said| line(out, "p", said));
            miss.chains.iter().for_each(|chain| table(out, chain));
            out.push_str("</details>\n");
        }
    }
}

/// Writes a place for the script's drawing.
fn chart(out: &mut String, part: &str, label: &str) {
    let _ = writeln!(
        out,
        "<div class=\"chart\" data-part=\"{part}\" tabindex=\"0\" role=\"img\" aria-label=\"{}\"></div>\n\
         <div class=\"pointed\" aria-hidden=\"true\"></div>",
        escape(label)
    );
}

fn latencies(out: &mut String, figures: &Figures) {
    if !figures.has_latencies() {
        return;
    }
    out.push_str(
        "<section id=\"latencies\">\n<h2>Wakeup latencies: the first run of each policy</h2>\n\
         <div class=\"tools\"><label for=\"thread\">Thread</label> <select id=\"thread\">\n",
    );
    for (index, thread) in figures.latency_threads.iter().enumerate() {
        let _ = writeln!(out, "<option value=\"{index}\">{}</option>", escape(thread));
    }
    out.push_str(
        "</select> <span id=\"thread-swatch\"></span></div>\n<div class=\"chart\" id=\"cdf\" role=\"img\" aria-label=\"The share of the wakeups \
         that waited at most as long as a time, by policy; the table below has the percentiles\"></div>\n",
    );
    table(out, &figures.latencies);
    out.push_str("</section>\n");
}

/// Writes a bar for each policy, with its parts, and the corresponding table.
fn energy(out: &mut String, energy: &Energy) {
    out.push_str("<section id=\"energy\">\n<h2>Energy</h2>\n<ul class=\"legend\">\n");
    let colour = |kind: usize| format!("var(--e{})", kind % 6);
    for (index, kind) in energy.kinds.iter().enumerate() {
        let _ = writeln!(
            out,
            "<li><span class=\"swatch\" style=\"background:{}\"></span>{}</li>",
            colour(index),
            escape(kind)
        );
    }
    out.push_str("</ul>\n<div class=\"stacks\" aria-hidden=\"true\">\n");
    let most = energy
        .policies
        .iter()
        .map(|(_, joules)| joules.iter().sum::<f64>());
    let most = most.fold(0.0, f64::max);
    for (name, joules) in &energy.policies {
        let _ = write!(out, "<div>{}</div><div class=\"stack\">", escape(name));
        for (index, joules) in joules.iter().enumerate() {
            let _ = write!(
                out,
                "<span style=\"width:{:.2}%;background:{}\"></span>",
                100.0 * joules / if most > 0.0 { most } else { 1.0 },
                colour(index)
            );
        }
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n");
    table(out, &energy.table);
    out.push_str("</section>\n");
}

fn table(out: &mut String, table: &Table) {
    let align = |column: usize| {
        if column < table.text_columns {
            "text"
        } else {
            ""
        }
    };
    // Tables wider than the page scroll, also by keyboard.
    let label = match table.title.is_empty() {
        true => "Table",
        false => &table.title,
    };
    let _ = writeln!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{}\"><table>",
        escape(label)
    );
    if !table.title.is_empty() {
        line(out, "caption", &table.title);
    }
    out.push_str("<thead><tr>");
    let filled = filled(table);
    let is_shown = |column: usize| filled.get(column).copied().unwrap_or(true);
    let header = table.header.iter().enumerate();
    for (column, name) in header.filter(|&(column, _)| is_shown(column)) {
        let element = if name.is_empty() {
            "td"
        } else {
            "th scope=\"col\""
        };
        let end = &element[..2];
        let _ = write!(
            out,
            "<{element} class=\"{}\">{}</{end}>",
            align(column),
            escape(name.trim())
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let shown = table.rows.len() - table.folded;
    for (nr, row) in table.rows.iter().enumerate() {
        if nr == shown && nr > 0 {
            // The folded rows have a body of their own, which the script opens and closes.
            let _ = writeln!(out, "</tbody>\n<tbody data-folded=\"{}\">", table.folded);
        }
        out.push_str("<tr>");
        let cells = row.iter().enumerate();
        for (column, Cell { text, tone }) in cells.filter(|&(column, _)| is_shown(column)) {
            let (align, tone) = (align(column), class(*tone));
            let class = [align, tone].join(" ");
            let class = class.trim();
            let (open, end) = match column == 0 && table.text_columns > 0 && !text.is_empty() {
                true => ("th scope=\"row\"", "th"),
                false => ("td", "td"),
            };
            let _ = write!(out, "<{open} class=\"{class}\">{}</{end}>", escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// For each column, whether it is shown: the first column is, and others are unless all their cells are empty or `-`.
/// A table without rows shows all columns.
fn filled(table: &Table) -> Vec<bool> {
    let says = |cell: &Cell| !matches!(&*cell.text, "" | "-");
    let any = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.any(says)
    };
    (0..table.header.len())
        .map(|column| column == 0 || table.rows.is_empty() || any(column))
        .collect()
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
    fn a_fragment_is_no_whole_page() {
        let page = Page {
            title: "Title".to_owned(),
            verdict: vec!["a < b".to_owned()],
            charts: vec![Chart::default()],
            ..Page::default()
        };
        let part = fragment(&page);
        assert!(
            part.starts_with("<div") && part.ends_with("</div>\n"),
            "{part}"
        );
        assert!(part.contains("<p>a &lt; b</p>"), "{part}");
        assert!(!part.contains("<html") && !part.contains("<svg"), "{part}");
    }

    #[test]
    fn names_cannot_break_out() {
        let page = Page {
            title: "<script>".to_owned(),
            verdict: vec!["<v>".to_owned()],
            tables: vec![Table {
                title: "a & b".to_owned(),
                header: vec!["<h>".to_owned()],
                text_columns: 1,
                rows: vec![vec!["\"<td>\"".into()]],
                ..Table::default()
            }],
            charts: vec![Chart {
                title: "<c>".to_owned(),
                note: "<n>".to_owned(),
                bars: vec![Bar {
                    label: "<bar>".to_owned(),
                    value: 1.0,
                    ..Bar::default()
                }],
            }],
            ..Page::default()
        };
        let html = html("<title>", &[page]);
        for name in [
            "<script>", "<h>", "<v>", "\"<td>\"", "<c>", "<n>", "<bar>", "a & b",
        ] {
            assert!(!html.contains(name), "{name}");
        }
        assert!(!html.contains("http"));
    }

    #[test]
    fn data_cannot_end_the_script() {
        let page = Page {
            figures: Some(Figures {
                data: "{\"policy\":\"</script>\"}".to_owned(),
                ..Figures::default()
            }),
            ..Page::default()
        };
        let html = html("", &[page]);
        assert!(html.contains("\\u003c/script>"));
        assert!(!html.contains("\"</script>"));
    }
}
