//! The HTML page in a browser: Chromium without a window, at the widths of a phone and a desktop,
//! light and dark. Without Chromium the tests are skipped, with a message.

use crate::common::stdout;
use serde_json::Value;
use std::process::Command;

/// A script that measures and uses the page in a frame of `width` pixels.
const PROBE: &str = include_str!("page_probe.html");

fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = names.into_iter().find(|name| runs(name));
    if found.is_none() {
        eprintln!("skipped: no chromium");
    }
    found
}

/// The measurements of [`PROBE`].
fn probe(browser: &str, page: &str, width: u32, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let catch = "<head><script>window.errors = []; \
                 addEventListener('error', (event) => errors.push(event.message)); \
                 console.error = (...words) => errors.push(words.join(' '));</script>";
    let page = page.replacen("<head>", catch, 1);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let probe = PROBE.replace("WIDTH", &width.to_string());
    let file = folder.path().join("probe.html");
    std::fs::write(&file, probe.replacen("PAGE", &page, 1)).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.args(["--virtual-time-budget=5000", "--window-size=1700,2200"]);
    command.arg(format!("--user-data-dir={}", folder.path().display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let found = dom
        .split_once("<pre id=\"probe\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| {
        panic!("no page: {}", String::from_utf8_lossy(&output.stderr));
    });
    serde_json::from_str(&found.replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

#[test]
fn the_page_works_in_a_browser() {
    let mut args = vec!["compare", "--machine", "snb-laptop", "--workload", "mixed"];
    for policy in ["eevdf", "equipoise", "schedutil"] {
        args.extend(["--policy", policy]);
    }
    args.extend(["--runs", "2", "--format", "html"]);
    let page = stdout(&args);
    // 5 s on 8 CPUs.
    assert!(page.len() < 5_000_000 / 3, "{}", page.len());
    for fetches in ["<link", " src=", "@import", "url("] {
        assert!(!page.contains(fetches), "{fetches}");
    }
    assert!(
        page.contains("equipoise compare --machine snb-laptop --workload mixed --policy eevdf")
    );
    assert!(page.contains(&format!("(version {})", env!("EQUIPOISE_VERSION"))));
    let Some(browser) = browser() else {
        return;
    };
    let mut backs = Vec::new();
    for (width, dark) in [(390, false), (1600, true)] {
        let found = probe(browser, &page, width, dark);
        assert_eq!(found["errors"], serde_json::json!([]), "{found}");
        assert_eq!(found["fetched"], 0);
        // Only elements that scroll by themselves are wider than the page.
        assert_eq!(found["inner"], width);
        assert!(found["wide"].as_u64() <= Some(width.into()), "{found}");
        // Each open policy has a timeline, lanes and frequencies; the distribution is there as
        // well.
        assert_eq!(
            (&found["drawn"], &found["all"]),
            (&7.into(), &10.into()),
            "{found}"
        );
        assert_eq!((&found["cdf"], &found["threads"]), (&1.into(), &5.into()));
        assert!(found["colours"].as_u64() > Some(20), "{found}");
        // A thread has one colour under all policies.
        let legends = found["legends"].as_array().unwrap();
        assert_eq!(legends.len(), 3, "{found}");
        assert!(
            legends[0].as_str().unwrap().contains("uivar(--c"),
            "{found}"
        );
        assert!(legends.iter().all(|it| it == &legends[0]), "{found}");
        assert_eq!(found["whole"], "0.000 ms to 5000.0 ms");
        assert_eq!(found["zoomed"], "1250.0 ms to 3750.0 ms");
        assert_eq!(found["later"], "1875.0 ms to 4375.0 ms");
        assert_eq!(found["again"], found["whole"]);
        assert_eq!(found["whole_again"], found["whole"]);
        // The selection is from a quarter to half of the run, as exactly as pixels allow.
        let (from, to) = (&found["dragged"][0], &found["dragged"][3]);
        let near = |at: &Value, ms: f64| (at.as_f64().unwrap() - ms).abs() < 50.0;
        assert!(near(from, 1250.0) && near(to, 2500.0), "{found}");
        assert_eq!(found["unnamed"], 0);
        let headings = found["headings"].as_array().unwrap();
        for heading in ["Machine: snb-laptop", "Energy"] {
            assert!(headings.contains(&heading.into()), "{found}");
        }
        backs.push(found["back"].clone());
    }
    assert_ne!(backs[0], backs[1]);
}
