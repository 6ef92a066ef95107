//! A case with a known cause, and the first sentence of `equipoise explain` about it.

use crate::common::{json, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Case {
    folder: TempDir,
    pub machine: String,
    workload: String,
    scheduler: Vec<String>,
    thread: &'static str,
    /// Without noise, where a cause depends on the place at which a thread happens to begin.
    exact: bool,
}

impl Case {
    pub fn new(machine: &str, workload: &str, policy: &str, thread: &'static str) -> Case {
        Case {
            folder: tempfile::tempdir().unwrap(),
            machine: machine.to_owned(),
            workload: workload.to_owned(),
            scheduler: vec!["--policy".to_owned(), policy.to_owned()],
            thread,
            exact: false,
        }
    }

    pub fn exact(mut self) -> Case {
        self.exact = true;
        self
    }

    pub fn of_load(machine: &str, load: &str, policy: &str, thread: &'static str) -> Case {
        let mut case = Case::new(machine, "", policy, thread);
        case.workload = path(&case.file("load.json", load));
        case
    }

    pub fn under(mut self, source: &str) -> Case {
        let file = path(&self.file("scheduler.bpf.c", source));
        self.scheduler = vec!["--scheduler".to_owned(), file];
        self
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    pub fn args(&self) -> Vec<&str> {
        let mut args = vec!["explain", "--machine", &self.machine];
        args.extend(["--workload", &self.workload, "--task", self.thread]);
        args.extend(self.scheduler.iter().map(String::as_str));
        args.extend(self.exact.then_some("--exact"));
        args
    }

    pub fn is_one_of(&self, kinds: &[&str], words: &[&str]) {
        let args = [&self.args()[..], &["--format", "json"]].concat();
        let kind = json(&args)["causes"][0]["kind"].clone();
        let kind = kind.as_str().unwrap_or_default();
        assert!(
            kinds.contains(&kind),
            "{kind}: {}",
            first_sentence(&stdout(&self.args()))
        );
        self.is(kind, None, words);
    }

    /// The first sentence of the page contains `words`; the first cause in JSON is of this kind,
    /// with this decision if the scheduler reports any. Returns that cause.
    pub fn is(&self, kind: &str, decision: Option<&str>, words: &[&str]) -> Value {
        let said = stdout(&self.args());
        let sentence = first_sentence(&said);
        assert!(sentence.starts_with(self.thread), "{sentence}");
        for word in words {
            assert!(sentence.contains(word), "{word}: {sentence}");
        }
        let mut args = self.args();
        args.extend(["--format", "json"]);
        let cause = json(&args)["causes"][0].clone();
        assert_eq!(cause["kind"], kind, "{cause:#}");
        assert_eq!(cause["says"], sentence, "{cause:#}");
        if let Some(decision) = decision {
            assert_eq!(cause["decision"], decision, "{cause:#}");
        }
        cause
    }
}

pub fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub fn first_sentence(page: &str) -> String {
    let verdict = page.split("\n\n").nth(1).unwrap_or_default();
    let line = verdict.lines().next().unwrap_or_default();
    let ends = |at: usize| line[at..].starts_with(". ");
    let end = (0..line.len()).find(|&at| line.is_char_boundary(at) && ends(at));
    match end {
        Some(end) => line[..=end].to_owned(),
        None => line.to_owned(),
    }
}
