//! Timelines of a few periods, as SVG: which thread ran on which CPU, and when one thread's work was released,
//! due and done.

use cage::text::markup as escape;
use machine::Machine;
use policy::time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The width of a picture, in px, which is that of a page of text.
pub(crate) const WIDTH: f64 = 860.0;

/// The number of threads with a colour of their own.
const COLOURS: usize = 8;
/// The height in px of a row, and of a line of text.
const ROW: f64 = 18.0;
const LINE: f64 = 17.0;
/// The space for the names of rows, in px.
const NAMES: f64 = 96.0;
/// The margin at the right in px.
const MARGIN: f64 = 12.0;
/// The length of a line of text in letters.
const LETTERS: usize = 110;
/// The approximate number of marks on the time axis.
const MARKS: f64 = 8.0;

/// Runs of the same load, one below the other, over the same time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The title.
    pub title: String,
    /// The beginning of the shown time, in ns.
    pub from: u64,
    /// The end of the shown time, in ns.
    pub to: u64,
    /// The runs, from top to bottom.
    pub runs: Vec<Run>,
}

/// A run's part of a timeline.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The scheduler's name.
    pub name: String,
    /// The CPUs' names, from top to bottom, each with its slices.
    pub cpus: Vec<(String, Vec<Slice>)>,
    /// The thread whose periods are shown.
    pub thread: String,
    /// The thread's periods.
    pub periods: Vec<workload::Period>,
    /// Sentences below the rows.
    pub says: Vec<String>,
}

/// A thread's turn on a CPU; times are in ns.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The thread's name.
    pub thread: String,
    /// The beginning of the turn.
    pub from: u64,
    /// The end of the turn.
    pub to: u64,
}

/// `timeline` as the elements of an SVG picture that is [`WIDTH`] wide, and their height, in px.
pub(crate) fn elements(timeline: &Timeline) -> (String, f64) {
    let mut drawing = Drawing {
        timeline,
        colours: colours(timeline),
        out: String::new(),
        y: 0.0,
    };
    drawing.title();
    drawing.legend();
    for run in &timeline.runs {
        drawing.run(run);
    }
    (drawing.out, drawing.y + 6.0)
}

/// `timeline` as a figure of a page.
pub(crate) fn figure(timeline: &Timeline) -> String {
    let (elements, height) = elements(timeline);
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\" \
         aria-label=\"{}\">\n{elements}</svg></figure>\n",
        escape(&timeline.title),
    )
}

/// The threads' colours. The threads with the shown periods come first, then the threads that ran longest.
fn colours(timeline: &Timeline) -> Vec<(String, usize)> {
    let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &timeline.runs {
        ran.insert(&run.thread, u64::MAX);
        for slice in run.cpus.iter().flat_map(|(_, slices)| slices) {
            let ns = ran.entry(&slice.thread).or_default();
            *ns = ns.saturating_add(slice.to - slice.from);
        }
    }
    let mut order: Vec<(&str, u64)> = ran.into_iter().collect();
    order.sort_by_key(|&(name, ns)| (std::cmp::Reverse(ns), name));
    let order = order.into_iter().map(|(name, _)| name.to_owned());
    order.zip(0..COLOURS).collect()
}

struct Drawing<'a> {
    timeline: &'a Timeline,
    colours: Vec<(String, usize)>,
    out: String,
    /// The place where the next row begins, in px.
    y: f64,
}

impl Drawing<'_> {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(element);
        self.out.push('\n');
    }

    /// The place of a time in px.
    fn x(&self, ns: u64) -> f64 {
        let Timeline { from, to, .. } = *self.timeline;
        let share = (ns.clamp(from, to) - from) as f64 / (to - from).max(1) as f64;
        NAMES + share * (WIDTH - NAMES - MARGIN)
    }

    fn class(&self, thread: &str) -> String {
        let found = self.colours.iter().find(|(name, _)| name == thread);
        found.map_or("other".to_owned(), |(_, colour)| format!("c{colour}"))
    }

    fn text(&mut self, class: &str, indent: f64, text: &str) {
        for line in textwrap::wrap(text, LETTERS) {
            let y = self.y + 13.0;
            let line = escape(&line);
            self.put(format_args!(
                "<text class=\"{class}\" x=\"{indent:.0}\" y=\"{y:.0}\">{line}</text>"
            ));
            self.y += LINE;
        }
    }

    fn title(&mut self) {
        self.y = 6.0;
        let title = &self.timeline.title;
        self.text("title", 8.0, title);
    }

    fn legend(&mut self) {
        let (mut x, y) = (NAMES, self.y + 5.0);
        let entries: Vec<(String, String)> = self
            .colours
            .iter()
            .map(|(name, colour)| (name.clone(), format!("c{colour}")))
            .chain([("after the deadline".to_owned(), "missed".to_owned())])
            .collect();
        for (name, class) in entries {
            self.put(format_args!(
                "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"10\" height=\"10\" class=\"{class}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                x + 14.0,
                y + 9.0,
                escape(&name)
            ));
            x += 30.0 + 6.6 * name.chars().count() as f64;
        }
        self.y += ROW + 4.0;
    }

    fn run(&mut self, run: &Run) {
        self.text("title", 8.0, &format!("under {}", run.name));
        let top = self.y;
        for (name, slices) in &run.cpus {
            self.name(name);
            for slice in slices {
                let (from, to) = (self.x(slice.from), self.x(slice.to));
                if to > from {
                    let class = self.class(&slice.thread);
                    self.bar(from, to, (2.0, ROW - 4.0), &class);
                }
            }
            self.y += ROW;
        }
        self.periods(run);
        self.axis(top);
        for said in &run.says {
            self.text("said", 8.0, said);
        }
        self.y += 10.0;
    }

    fn name(&mut self, name: &str) {
        let (x, y) = (NAMES - 8.0, self.y + 13.0);
        let name = escape(name);
        self.put(format_args!(
            "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"end\">{name}</text>"
        ));
    }

    fn bar(&mut self, from: f64, to: f64, (below, height): (f64, f64), class: &str) {
        let (y, width) = (self.y + below, (to - from).max(0.5));
        self.put(format_args!(
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        ));
    }

    /// Draws the thread's periods: the work from its release until it was done, with a mark at the deadline.
    fn periods(&mut self, run: &Run) {
        if run.periods.is_empty() {
            return;
        }
        self.name(&run.thread);
        let class = self.class(&run.thread);
        for period in &run.periods {
            let (released, done) = (self.x(period.released), self.x(period.done));
            self.bar(released, done, (6.0, ROW - 12.0), &class);
        }
        for period in &run.periods {
            let (due, done) = (self.x(period.due), self.x(period.done));
            if period.due <= self.timeline.to {
                self.bar(due - 0.75, due + 0.75, (1.0, ROW - 2.0), "mark");
            }
            let late = period.done.saturating_sub(period.due);
            if late > 0 && done > due {
                self.bar(due, done, (2.0, ROW - 4.0), "missed");
                let said = format!("missed by {}", time(late.min(i64::MAX as u64) as i64));
                self.put(format_args!(
                    "<text class=\"late\" x=\"{:.0}\" y=\"{:.0}\">{said}</text>",
                    done + 6.0,
                    self.y + 13.0
                ));
            }
        }
        self.y += ROW;
    }

    /// Draws the time axis of the rows since `top`.
    fn axis(&mut self, top: f64) {
        let Timeline { from, to, .. } = *self.timeline;
        let step = step((to - from) as f64 / MARKS);
        let mut at = from.div_ceil(step) * step;
        while at <= to {
            let x = self.x(at);
            let ms = at as f64 / 1e6;
            self.put(format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.0}\" y2=\"{:.0}\"/>\
                 <text class=\"dim\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{ms} ms</text>",
                self.y + 2.0,
                self.y + 15.0
            ));
            at += step;
        }
        self.y += ROW + 2.0;
    }
}

/// The shortest round time that is not below `ns`: 1, 2 or 5 times a power of ten.
fn step(ns: f64) -> u64 {
    let power = 10f64.powf(ns.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let found = steps.into_iter().find(|step| *step >= ns);
    found.unwrap_or(10.0 * power) as u64
}

/// For each CPU `fast`, `slow` or, if there are three kinds or more, `middle`, by its speed; empty if all CPUs have one
/// speed.
pub(crate) fn kinds(machine: &Machine) -> Vec<&'static str> {
    let speed = |cpu: usize| machine.core_types[machine.cpus[cpu].core_type].speed;
    let speeds: BTreeSet<u32> = (0..machine.cpus.len()).map(speed).collect();
    let (slowest, fastest) = (speeds.first(), speeds.last());
    if speeds.len() < 2 {
        return Vec::new();
    }
    let kind = |cpu: usize| match Some(&speed(cpu)) {
        speed if speed == fastest => "fast",
        speed if speed == slowest => "slow",
        _ => "middle",
    };
    (0..machine.cpus.len()).map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let slice = |thread: &str, from, to| Slice {
            thread: thread.to_owned(),
            from,
            to,
        };
        let period = workload::Period {
            released: 1_000_000,
            due: 5_000_000,
            done: 7_000_000,
            missed: true,
        };
        Timeline {
            title: "ui & others".to_owned(),
            from: 0,
            to: 10_000_000,
            runs: vec![Run {
                name: "eevdf".to_owned(),
                cpus: vec![(
                    "CPU 0".to_owned(),
                    vec![
                        slice("hog", 0, 4_000_000),
                        slice("ui", 4_000_000, 7_000_000),
                    ],
                )],
                thread: "ui".to_owned(),
                periods: vec![period],
                says: vec!["ui waited.".to_owned()],
            }],
        }
    }

    #[test]
    fn the_time_after_a_deadline_is_marked_and_given() {
        let (elements, _) = elements(&timeline());
        // The positions are half and seven tenths of 752 px, after the names.
        assert!(
            elements.contains(
                "<rect x=\"472.0\" y=\"82.0\" width=\"150.4\" height=\"14.0\" class=\"missed\"/>"
            ),
            "{elements}"
        );
        assert!(elements.contains(">missed by 2.00 ms<"), "{elements}");
    }

    #[test]
    fn the_explained_thread_has_the_first_colour_and_names_are_escaped() {
        let (elements, _) = elements(&timeline());
        assert_eq!(colours(&timeline())[0], ("ui".to_owned(), 0));
        assert!(elements.contains(">ui &amp; others<"), "{elements}");
    }

    #[test]
    fn times_outside_of_the_picture_are_cut() {
        let mut timeline = timeline();
        (timeline.from, timeline.to) = (4_500_000, 6_000_000);
        let (elements, _) = elements(&timeline);
        assert!(!elements.contains("class=\"c1\"/>\n<rect"), "{elements}");
        for x in elements.split("<rect x=\"").skip(1) {
            let x: f64 = x.split('"').next().unwrap().parse().unwrap();
            assert!((NAMES - 1.0..=WIDTH).contains(&x), "{elements}");
        }
    }

    #[test]
    fn marks_are_at_round_times() {
        assert_eq!(
            [1.0, 3.0, 70.0, 1_500_000.0].map(step),
            [1, 5, 100, 2_000_000]
        );
    }
}
