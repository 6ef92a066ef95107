//! The HTML page in a browser: Chromium without a window, at the widths of a phone and a desktop,
//! light and dark. Without Chromium the tests are skipped, with a message.

use crate::common::{file, run_badly, stdout, words};
use crate::foreign::Scheduler;
use serde_json::Value;
use std::process::Command;

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

/// axe-core's script, which tests/axe/install installs.
fn axe() -> Option<String> {
    let home = std::env::var_os("HOME")?;
    let place = ".cache/equipoise/axe/node_modules/axe-core/axe.min.js";
    let script = std::fs::read_to_string(std::path::Path::new(&home).join(place)).ok();
    if script.is_none() {
        eprintln!("skipped: no axe-core, which tests/axe/install installs");
    }
    script
}

fn probe(browser: &str, page: &str, width: u32, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let catch = "<head><script>window.errors = []; \
                 addEventListener('error', (event) => errors.push(event.message)); \
                 console.error = (...words) => errors.push(words.join(' '));</script>";
    let axe = axe().map_or_else(String::new, |axe| format!("<script>{axe}</script>"));
    let page = page.replacen("<head>", &format!("{catch}{axe}"), 1);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let probe = PROBE.replace("WIDTH", &width.to_string());
    let file = folder.path().join("probe.html");
    std::fs::write(&file, probe.replacen("PAGE", &page, 1)).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.args(["--virtual-time-budget=20000", "--window-size=1700,2200"]);
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
    assert!(page.len() < MOST_BYTES, "{}", page.len());
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
        assert!(found["least_px"].as_f64() >= Some(11.0), "{found}");
        assert_eq!(found["cut_why"], 0, "{found}");
        // At first, the timelines of the two policies to compare and the distribution are drawn; in the end, four
        // charts of each policy and the distribution.
        assert_eq!(
            (&found["drawn"], &found["all"]),
            (&3.into(), &13.into()),
            "{found}"
        );
        assert_eq!(found["axe"], expected_axe(), "{found}");
        assert_eq!((&found["cdf"], &found["threads"]), (&1.into(), &5.into()));
        assert!(found["colours"].as_u64() > Some(20), "{found}");
        let colours = found["colours_of"].as_object().unwrap();
        assert!(colours.len() >= 6, "{found}");
        assert!(colours.values().all(|colours| *colours == 1), "{found}");
        // The legend, the results, and each policy's table.
        assert!(found["places_of"].as_u64() >= Some(5), "{found}");
        let pixels = found["pixels_of_ui"].as_array().unwrap();
        assert_eq!(pixels.len(), 3, "{found}");
        assert!(
            pixels.iter().all(|count| count.as_u64() > Some(10)),
            "{found}"
        );
        assert_eq!(found["whole"], "0.000000 s to 5.000000 s");
        assert_eq!(found["zoomed"], "1.250000 s to 3.750000 s");
        assert_eq!(found["later"], "1.875000 s to 4.375000 s");
        assert_eq!(found["again"], found["whole"]);
        assert_eq!(found["keys"], found["later"]);
        let wheel = found["wheel"].as_str().unwrap().replace(" s", "");
        let wheel = wheel.split(" to ").map(|at| at.parse::<f64>().unwrap());
        let wheel: Vec<f64> = wheel.collect();
        let off = (wheel[0] - 0.25).abs().max((wheel[1] - 4.25).abs());
        assert!(off < 0.01, "{wheel:?}");
        assert_eq!(found["whole_again"], found["whole"]);
        // The selection is from a quarter to half of the run, as exactly as pixels allow.
        let (from, to) = (&found["dragged"][0], &found["dragged"][3]);
        let near = |at: &Value, s: f64| (at.as_f64().unwrap() - s).abs() < 0.05;
        assert!(near(from, 1.25) && near(to, 2.5), "{found}");
        assert_eq!(found["unnamed"], 0);
        let headings = found["headings"].as_array().unwrap();
        for heading in ["Machine: snb-laptop", "Energy"] {
            assert!(headings.contains(&heading.into()), "{found}");
        }
        backs.push(found["back"].clone());
    }
    assert_ne!(backs[0], backs[1]);
}

const MOST_BYTES: usize = 3_000_000;

/// No violations, if there is axe-core.
fn expected_axe() -> Value {
    match axe() {
        Some(_) => serde_json::json!([]),
        None => Value::Null,
    }
}

#[test]
fn an_explanation_has_the_timeline() {
    let args = words("explain -m tc2 -w mixed:duration=2 -p eevdf --format html");
    let page = stdout(&args);
    let title = page
        .split("<title>")
        .nth(1)
        .unwrap()
        .split("</title>")
        .next()
        .unwrap();
    for word in ["mixed:duration=2", "tc2", "eevdf", " missed its deadline "] {
        has!(title, word);
    }
    assert!(
        page.contains("data-part=\"timeline\"")
            && page.contains("\"kinds\":[\"fast\",\"fast\",\"slow\"")
    );
    let Some(browser) = browser() else {
        return;
    };
    for (width, dark) in [(390, true), (1280, false)] {
        let found = probe(browser, &page, width, dark);
        assert_eq!(found["errors"], serde_json::json!([]), "{found}");
        assert_eq!(found["axe"], expected_axe(), "{found}");
        assert!(found["wide"].as_u64() <= Some(width.into()), "{found}");
        assert!(found["least_px"].as_f64() >= Some(11.0), "{found}");
        assert_eq!(found["cut_why"], 0, "{found}");
    }
}

#[test]
fn a_published_table_has_no_empty_columns() {
    let args = words("reproduce many-caches --rows nothing-* --runs 1 --format html");
    run_badly(&args);
    let args = words("reproduce mixed-capacity --rows cyclictest --runs 1 --format html");
    let page = stdout(&args);
    let mut checked = 0;
    for table in page.split("<table>").skip(1) {
        let table = table.split("</table>").next().unwrap();
        let cells = |row: &str| -> Vec<String> {
            let cells = row
                .split("</t")
                .map(|cell| cell.rsplit('>').next().unwrap_or_default());
            let mut cells: Vec<String> = cells.map(str::to_owned).collect();
            // After the last cell comes the end of the row.
            cells.truncate(row.matches("</th>").count() + row.matches("</td>").count());
            cells
        };
        let rows: Vec<Vec<String>> = table.split("<tr>").skip(1).map(cells).collect();
        for column in 0..rows[0].len() {
            let any = rows[1..]
                .iter()
                .any(|row| !["", "-"].contains(&&*row[column]));
            assert!(any, "column {column}: {table}");
        }
        checked += 1;
    }
    assert!(checked > 0);
}

/// For the misses that a page does not explain it names a command, which explains the run that the page shows.
#[test]
fn the_command_for_other_misses_names_files_settings_and_the_kernel() {
    let scheduler = Scheduler::new(
        "const volatile u64 slice = 20000000;",
        "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice, enq_flags);",
    );
    let in_c = scheduler.file().to_str().unwrap();
    let (_folder, policy) = file(
        "policy.toml",
        "name = \"mine\"\ndescription = \"mine\"\nextends = \"cfs\"\n",
    );
    let common = words("compare -m tc2 -w mixed:duration=500ms --runs 1 --kernel 6.12");
    let own = ["--policy", &policy, "--scheduler", in_c];
    let more = words("--set faulty:slice=5000000 --format html");
    let page = stdout(&[&common[..], &own[..], &more[..]].concat());
    let explain = "equipoise explain --machine tc2 --workload mixed:duration=500ms";
    for scheduler in [
        format!("--policy {policy} --kernel 6.12"),
        format!("--scheduler {in_c} --set faulty:slice=5000000 --kernel 6.12"),
    ] {
        has!(page, &format!("{explain} {scheduler}\""));
    }
}

#[test]
fn a_missed_deadline_is_explained_where_it_is_drawn() {
    let mut args = vec!["compare", "--machine", "tc2", "--workload", "mixed"];
    args.extend([
        "--policy",
        "hperf",
        "--policy",
        "equipoise",
        "--policy",
        "eevdf",
    ]);
    args.extend(["--runs", "2", "--format", "html"]);
    let page = stdout(&args);
    assert!(page.len() < MOST_BYTES, "{}", page.len());
    assert!(
        page.contains("missed its deadline at "),
        "no miss is explained"
    );
    let Some(browser) = browser() else {
        return;
    };
    let found = probe(browser, &page, 1600, false);
    assert_eq!(found["errors"], serde_json::json!([]), "{found}");
    assert_eq!(found["axe"], expected_axe(), "{found}");
    assert_eq!(found["open"].as_array().unwrap().len(), 2, "{found}");
    assert_ne!(found["first"], found["whole"], "{found}");
    assert!(found["misses"].as_u64() > Some(0), "{found}");
    assert_eq!(found["band"], serde_json::json!([true, true]), "{found}");
    let (why, said) = (
        found["why"].as_str().unwrap(),
        found["said"].as_str().unwrap(),
    );
    assert!(
        why.contains(said) && said.contains(" missed its deadline at "),
        "{found}"
    );
}
