//! Frame times from the log of a game's overlay: the CSV of MangoHud, or of PresentMon and tools like it.

use machine::input::BadInput;
use std::io::Read;

/// The columns with frame times, of MangoHud and of PresentMon. [`to_ms`] finds their unit.
const COLUMNS: [&str; 4] = [
    "frametime",
    "MsBetweenPresents",
    "FrameTime",
    "frametime_ms",
];
/// The multiple of the median of all frame times above which a frame is jank.
const JANK: f64 = 2.0;
/// A time in ms that no frame takes. A median above a tenth of it is in us, and above ten times of it in ns.
const LONGEST_MS: f64 = 10_000.0;

/// The frame times in `text`, the content of `file`, in ms. MangoHud writes two lines about the computer before the
/// columns' names; comments begin with `//`. A missing value, for which PresentMon writes `NA`, is left out. It is an
/// error if no line names a column of frame times, if another value is not a positive number, or if a line has more
/// values than the columns' names: with decimal commas, `16,6` would be 16 and 6. A last line without a line feed is left out, because the game is still writing it, and half of a number is a number, too.
pub fn read(file: &str, mut text: impl Read) -> Result<Vec<f64>, Box<BadInput>> {
    let expected = "expected a log of MangoHud (output_folder, log_duration), or a CSV with a column frametime or MsBetweenPresents, in ms";
    let bad = |line: Option<u64>, message: String| {
        let place = line.map_or(file.to_owned(), |line| format!("{file}:{line}"));
        Box::new(BadInput::whole(format!("{place}: {message}"), expected))
    };
    let mut bytes = Vec::new();
    text.read_to_end(&mut bytes)
        .map_err(|error| bad(None, error.to_string()))?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    let whole = end.map_or(0, |it| it + 1);
    // The name of a program or a part of the computer need not be UTF-8.
    let whole = String::from_utf8_lossy(&bytes[..whole]);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(whole.as_bytes());
    let mut column = None;
    let mut frames = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| bad(None, error.to_string()))?;
        let line = record.position().map(csv::Position::line);
        let Some((index, names)) = column else {
            let named = |it: &str| COLUMNS.iter().any(|known| known.eq_ignore_ascii_case(it));
            column = record.iter().position(named).map(|it| (it, record.len()));
            continue;
        };
        if record.len() > names {
            let message = format!(
                "{} values for {names} columns; is a comma a decimal point?",
                record.len()
            );
            return Err(bad(line, message));
        }
        let value = record.get(index).unwrap_or_default();
        if value.is_empty() || value.eq_ignore_ascii_case("NA") {
            continue;
        }
        match value.parse::<f64>() {
            Ok(ms) if ms.is_finite() && ms > 0.0 => frames.push(ms),
            _ => return Err(bad(line, format!("`{value}` is not a frame time"))),
        }
    }
    match column {
        None => Err(bad(None, "no column with frame times".to_owned())),
        Some(_) => Ok(to_ms(frames)),
    }
}

/// Logs have ms, us or ns but do not say which, so choose the unit in which the median can be a frame time.
fn to_ms(frames: Vec<f64>) -> Vec<f64> {
    let median = lab::nearest_rank(&mut frames.clone(), 50.0).unwrap_or(0.0);
    let scale = match median {
        ns if ns > LONGEST_MS * 10.0 => 1e6,
        us if us > LONGEST_MS / 10.0 => 1e3,
        _ => 1.0,
    };
    frames.into_iter().map(|it| it / scale).collect()
}

/// The frame rate in 1/s of the slowest hundredth of the frames, from the mean of their times. `None` with fewer than
/// 100 frames.
pub fn one_percent_low(frames_ms: &[f64]) -> Option<f64> {
    let count = frames_ms.len() / 100;
    let mut sorted = frames_ms.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let slowest: f64 = sorted.iter().take(count).sum();
    (count > 0).then(|| 1e3 * count as f64 / slowest)
}

/// The share of frames that take more than [`JANK`] times the median, in %.
pub fn jank_pct(frames_ms: &[f64]) -> Option<f64> {
    let median = lab::nearest_rank(&mut frames_ms.to_vec(), 50.0)?;
    let late = frames_ms.iter().filter(|&&it| it > JANK * median).count();
    Some(100.0 * late as f64 / frames_ms.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangohuds_log_and_presentmons_are_read() {
        let mangohud = "os,cpu,gpu,ram,kernel,driver,cpuscheduler\nArch,X,Y,16,6.12,,\n\
                        fps,frametime,cpu_load\n60.0,16.6,20\n58.8,17.0,21\n";
        assert_eq!(read("m.csv", mangohud.as_bytes()).unwrap(), [16.6, 17.0]);
        let us = "fps,frametime,cpu_load\n60,16600,20\n59,17000,21\n";
        assert_eq!(read("m.csv", us.as_bytes()).unwrap(), [16.6, 17.0]);
        let ns = "fps,frametime,cpu_load\n60,16600000,20\n59,17000000,21\n";
        assert_eq!(read("m.csv", ns.as_bytes()).unwrap(), [16.6, 17.0]);
        let presentmon = "Application,ProcessID,MsBetweenPresents\ngame.exe,7,8.25\n";
        assert_eq!(read("p.csv", presentmon.as_bytes()).unwrap(), [8.25]);
        let latin1 = b"Application,ProcessID,MsBetweenPresents\nsph\xe8re.exe,7,8.25\n";
        assert_eq!(read("p.csv", &latin1[..]).unwrap(), [8.25]);
    }

    #[test]
    fn missing_values_are_left_out() {
        let presentmon = "Application,FrameType,FrameTime\r\ngame.exe,Application,8.25\r\n\
                          game.exe,Intel_XEFG,NA\r\ngame.exe,Application,\r\n";
        assert_eq!(read("p.csv", presentmon.as_bytes()).unwrap(), [8.25]);
        let with_mark = "\u{feff}FrameTime\r\n8.25\r\nNA\r\n\r\n";
        assert_eq!(read("p.csv", with_mark.as_bytes()).unwrap(), [8.25]);
    }

    #[test]
    fn a_wrong_log_is_one_message_with_its_line() {
        let message = |text: &str| read("f.csv", text.as_bytes()).unwrap_err().render(false);
        assert!(message("a,b\n1,2\n").contains("f.csv: no column with frame times"));
        let line = message("fps,frametime\n60,16\n60,fast\n");
        assert!(
            line.contains("f.csv:3: `fast` is not a frame time"),
            "{line}"
        );
        let commas = message("fps,frametime\n60,2,16,6\n");
        assert!(
            commas.contains("f.csv:2: 4 values for 2 columns"),
            "{commas}"
        );
        assert!(message("frametime\n-1\n").contains("`-1`"));
        assert!(message("frametime\ninf\n").contains("`inf`"));
    }

    #[test]
    fn an_incomplete_last_line_is_left_out() {
        for last in ["60", "60,", "60,1"] {
            let log = format!("fps,frametime\n60,16\n{last}");
            assert_eq!(read("m.csv", log.as_bytes()).unwrap(), [16.0], "{last}");
        }
    }

    #[test]
    fn the_slowest_hundredth_and_jank() {
        let mut frames = vec![10.0; 198];
        frames.extend([20.0, 30.0]);
        assert_eq!(one_percent_low(&frames), Some(40.0));
        assert_eq!(jank_pct(&frames), Some(0.5));
        assert_eq!(one_percent_low(&[10.0; 99]), None);
        assert_eq!(jank_pct(&[]), None);
    }
}
