//! The screen of `equipoise top`: its loop and its keys.

use super::LOOK;
use super::draw::draw;
use super::sample::{Interval, Watch};
use super::threads::{Thread, by_process};
use crate::error::Error;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// The number of intervals in a CPU's history.
const HISTORY: usize = 60;

const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);

/// The last interval, and the user's choices.
pub struct State {
    /// The last interval; `None` until the first interval has ended.
    pub interval: Option<Interval>,
    /// The busy part of each of the last intervals for each CPU, oldest first.
    pub history: BTreeMap<usize, VecDeque<f64>>,
    pub sort: Sort,
    pub is_reversed: bool,
    /// Only threads whose name or process contains this text are shown; case is ignored.
    pub filter: String,
    /// Whether the user is typing the filter, so that keys are its characters.
    pub types_filter: bool,
    pub by_process: bool,
    /// The first thread on the screen.
    pub first: usize,
    /// Whether the scheduler's activity is shown instead of the threads, where there is no room for
    /// both.
    pub shows_scheduler: bool,
    pub shows_help: bool,
    /// Whether the display is paused: new intervals are not shown.
    pub is_paused: bool,
    pub refresh: Duration,
}

/// The column by which threads are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By name, in alphabetical order.
    Name,
    /// By CPU time, largest first. All further orders also have the largest value first.
    Ran,
    Wait,
    WaitP99,
    Turns,
    Migrations,
}

impl Sort {
    /// Each order with its key and its column in [`super::page::OF_THREADS`].
    pub const ALL: [(Sort, char, usize); 6] = [
        (Sort::Name, 'n', 0),
        (Sort::Ran, 'c', 3),
        (Sort::Wait, 'w', 4),
        (Sort::WaitP99, 'p', 5),
        (Sort::Turns, 't', 6),
        (Sort::Migrations, 'm', 7),
    ];

    pub fn column(self) -> usize {
        let mut all = Sort::ALL.into_iter();
        let found = all.find(|&(sort, ..)| sort == self);
        found.map_or(0, |(.., column)| column)
    }

    fn compare(self, a: &Thread, b: &Thread) -> Ordering {
        let number = |of: fn(&Thread) -> Option<f64>| {
            let of = |thread| of(thread).unwrap_or(-1.0);
            of(b).total_cmp(&of(a))
        };
        match self {
            Sort::Name => a.name.cmp(&b.name),
            Sort::Ran => number(|thread| Some(thread.ran)),
            Sort::Wait => number(|thread| thread.wait_ns),
            Sort::WaitP99 => number(|thread| thread.wait_p99_ns),
            Sort::Turns => number(|thread| thread.turns),
            Sort::Migrations => number(|thread| thread.migrations),
        }
    }
}

impl State {
    pub fn new(refresh: Duration) -> State {
        State {
            interval: None,
            history: BTreeMap::new(),
            sort: Sort::Ran,
            is_reversed: false,
            filter: String::new(),
            types_filter: false,
            by_process: false,
            first: 0,
            shows_scheduler: false,
            shows_help: false,
            is_paused: false,
            refresh,
        }
    }

    pub fn show(&mut self, interval: Interval) {
        if self.is_paused {
            return;
        }
        self.history
            .retain(|cpu, _| interval.cpus.contains_key(cpu));
        for (&cpu, did) in &interval.cpus {
            let history = self.history.entry(cpu).or_default();
            history.push_back(did.busy);
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        self.interval = Some(interval);
    }

    /// The threads in their order, beginning with the first one on the screen.
    pub fn threads(&self) -> Vec<Thread> {
        let mut threads = self.shown();
        threads.sort_by(|a, b| self.sort.compare(a, b));
        if self.is_reversed {
            threads.reverse();
        }
        threads.split_off(self.first.min(threads.len()))
    }

    /// The threads that pass the filter or, if processes are shown, these threads summed by process.
    fn shown(&self) -> Vec<Thread> {
        let threads = self
            .interval
            .as_ref()
            .map_or(&[][..], |interval| &interval.threads);
        let wanted = self.filter.to_lowercase();
        let passes = |thread: &&Thread| thread.label().to_lowercase().contains(&wanted);
        let threads: Vec<Thread> = threads.iter().filter(passes).cloned().collect();
        match self.by_process {
            true => by_process(&threads),
            false => threads,
        }
    }

    /// Carries out `key` while the filter is typed.
    fn type_filter(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.types_filter = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.types_filter = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) => self.filter.push(typed),
            _ => {}
        }
        self.first = 0;
    }

    /// Carries out `key`. Returns false if the key ends the program.
    fn press(&mut self, key: KeyEvent) -> bool {
        let last = self.shown().len().saturating_sub(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            _ if self.types_filter => {
                self.type_filter(key);
                return true;
            }
            KeyCode::Char('/') => self.types_filter = true,
            KeyCode::Char('o') => (self.by_process, self.first) = (!self.by_process, 0),
            KeyCode::Esc | KeyCode::Char('q' | '?' | 'h') if self.shows_help => {
                self.shows_help = false;
            }
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Tab => self.shows_scheduler = !self.shows_scheduler,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('+') => self.refresh = (self.refresh * 2).min(SLOWEST),
            KeyCode::Char('-') => self.refresh = (self.refresh / 2).max(FASTEST),
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += 10,
            KeyCode::PageUp => self.first = self.first.saturating_sub(10),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = last,
            KeyCode::Char(pressed) => {
                let mut all = Sort::ALL.into_iter();
                if let Some((sort, ..)) = all.find(|&(_, key, _)| key == pressed) {
                    (self.sort, self.first) = (sort, 0);
                }
            }
            _ => {}
        }
        self.first = self.first.min(last);
        true
    }
}

/// Shows one interval after another until a key ends the program or an interval cannot be read. The
/// inner result is an error if the samples could not be read.
pub fn watch(watch: &mut Watch, refresh: Duration) -> io::Result<Result<(), Error>> {
    let mut terminal = ratatui::try_init()?;
    let watched = (|| {
        let mut state = State::new(refresh);
        // The first interval is short, so that the screen soon has content.
        let mut due = Instant::now() + refresh.min(Duration::from_millis(500));
        terminal.draw(|frame| draw(frame, &watch.computer, &state))?;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if event::poll(left.min(LOOK))? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        let before = state.refresh;
                        if !state.press(key) {
                            return Ok(Ok(()));
                        }
                        if state.refresh != before {
                            due = Instant::now() + state.refresh;
                        }
                    }
                    _ => {}
                }
                terminal.draw(|frame| draw(frame, &watch.computer, &state))?;
            }
            if Instant::now() < due {
                watch.look();
                continue;
            }
            due = Instant::now() + state.refresh;
            match watch.next() {
                Ok(interval) => state.show(interval),
                Err(error) => return Ok(Err(error)),
            }
            terminal.draw(|frame| draw(frame, &watch.computer, &state))?;
        }
    })();
    ratatui::try_restore()?;
    watched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_ctrl_c_end_it_and_q_closes_the_help_first() {
        let mut state = State::new(SLOWEST);
        let mut press = |code, modifiers| state.press(KeyEvent::new(code, modifiers));
        assert!(!press(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!press(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(press(KeyCode::Char('?'), KeyModifiers::NONE));
        assert!(press(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(!press(KeyCode::Char('q'), KeyModifiers::NONE));
    }

    #[test]
    fn keys_after_a_slash_are_a_filter() {
        let mut state = State::new(SLOWEST);
        let mut press = |code| state.press(KeyEvent::new(code, KeyModifiers::NONE));
        for code in ['/', 'q', 'x'].map(KeyCode::Char) {
            assert!(press(code));
        }
        assert!(press(KeyCode::Backspace) && press(KeyCode::Enter));
        assert_eq!((&*state.filter, state.types_filter), ("q", false));
        let mut press = |code| state.press(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(press(KeyCode::Char('/')) && press(KeyCode::Esc));
        assert_eq!((&*state.filter, state.types_filter), ("", false));
        assert!(!state.press(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)));
    }

    #[test]
    fn the_refresh_interval_stays_in_its_range() {
        let mut state = State::new(Duration::from_secs(1));
        let press = |state: &mut State, key| {
            state.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
        };
        press(&mut state, '+');
        assert_eq!(state.refresh, Duration::from_secs(2));
        for _ in 0..9 {
            press(&mut state, '-');
        }
        assert_eq!(state.refresh, FASTEST);
    }
}
