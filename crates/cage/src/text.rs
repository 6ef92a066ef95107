//! Text from outside - names, descriptions, paths, messages - in a form that is safe for the place where it is written,
//! the target. Each writer passes all of its text through the function for its target, so that safety does not depend
//! on where the text came from.
//!
//! A terminal executes control characters, a reader of a trace takes a line feed for the end of an event, and a
//! spreadsheet executes cells that begin like a formula. Everywhere, bidirectional controls (CVE-2021-42574) and
//! invisible characters make a text look like another text.

use std::borrow::Cow;

/// Does `c` do something other than show itself? Such characters are control characters, separators of lines or
/// paragraphs, controls of the direction (UAX #9, table 4), tags, and invisible characters
/// (Default_Ignorable_Code_Point of UAX #44), except joiners and the selectors of an emoji's looks.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes each character of `text` for which `acts` is true as `\u{...}`, or in a shorter form.
fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match acts(c) {
            // escape_default() escapes every character that is not ASCII as a number.
            true if c.is_ascii() => shown.extend(c.escape_default()),
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes a name, a cell or another text of one line, in a trace or anywhere else.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// Escapes a text of several lines, such as a message, but keeps line feeds and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && !matches!(c, '\n' | '\t'))
}

/// Puts the text on one line.
pub fn one_line(text: &str) -> String {
    plain(&text.trim_end().replace('\t', " ")).into_owned()
}

/// Is `text` a text of one line that needs no escapes?
pub fn is_plain(text: &str) -> bool {
    !text.contains(acts)
}

/// Does a text of several lines need no further escapes? Line feeds and tabs are allowed.
pub fn is_safe(text: &str) -> bool {
    text.split(['\n', '\t']).all(is_plain)
}

/// Escapes character data and attributes of HTML and SVG.
pub fn markup(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in lines(text).chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            c => shown.push(c),
        }
    }
    shown
}

/// Escapes, in a whole document in JSON, the control and invisible characters that JSON does not escape. Apart from
/// line feeds and tabs, such characters can only be in strings.
pub fn json(document: String) -> String {
    let acts = |c: char| c >= '\u{7f}' && acts(c);
    if !document.contains(acts) {
        return document;
    }
    let mut shown = String::with_capacity(document.len() + 64);
    for c in document.chars() {
        match acts(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => shown.push(c),
        }
    }
    shown
}

/// Escapes a cell of a table that a spreadsheet may read. Puts an apostrophe before a text that would be a formula, but
/// not before a number.
pub fn cell(text: &str) -> Cow<'_, str> {
    let text = plain(text);
    // A number has digits, perhaps a unit, and no operators.
    let is_number = |rest: &str| {
        rest.is_empty()
            || rest.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == ' ')
                && !rest.contains(['(', ')', '!', '|', '=', '+', '*', '/', '\'', '"', '@', ','])
    };
    // Some programs drop blanks, and treat the wide forms of the signs as the signs.
    let shown = text.trim_start();
    let is_formula = match shown.chars().next() {
        Some('=' | '@' | '\u{ff1d}' | '\u{ff20}' | '\u{ff0b}' | '\u{ff0d}') => true,
        Some('+' | '-') => !is_number(&shown[1..]),
        _ => false,
    };
    match is_formula {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

/// The text, quoted so that a shell takes it as one word. A command must keep the text, so nothing in it is escaped.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+=:,/@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// The text as a string of TOML or JSON, with quotation marks.
pub fn quoted(text: &str) -> String {
    let mut shown = String::from('"');
    for c in text.chars() {
        match c {
            '"' => shown.push_str("\\\""),
            '\\' => shown.push_str("\\\\"),
            c if acts(c) && u32::from(c) > 0xffff => shown.push('\u{fffd}'),
            c if acts(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}[31m\r\u{7}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{2028}\u{feff}\0a\u{ad}\u{3164}\u{e0100}";

    #[test]
    fn nothing_that_acts_gets_through() {
        for shown in [
            plain(HOSTILE).into_owned(),
            lines(HOSTILE).into_owned(),
            one_line(HOSTILE),
            markup(HOSTILE),
            cell(HOSTILE).into_owned(),
            quoted(HOSTILE),
        ] {
            assert!(is_plain(&shown) && is_safe(&shown), "{shown:?}");
        }
        assert!(is_safe("a\n\tb") && !is_safe("a\n\u{202e}") && !is_safe("\r\n"));
        assert_eq!(plain("a\u{202e}b\n\u{1b}"), "a\\u{202e}b\\n\\u{1b}");
        assert_eq!(lines("a\n\tb\r"), "a\n\tb\\r");
        assert!(matches!(plain("größer, 大 🙂"), Cow::Borrowed(_)));
    }

    #[test]
    fn markup_ends_no_element_and_no_attribute() {
        assert_eq!(
            markup("</script>\"'&\u{202e}"),
            "&lt;/script&gt;&quot;&#39;&amp;\\u{202e}"
        );
    }

    #[test]
    fn a_document_in_json_keeps_its_value() {
        let document = json("{\"a\": \"\u{7f}x\u{202e}\u{e0001}\u{feff}ä\"}\n".to_owned());
        assert_eq!(
            document,
            "{\"a\": \"\\u007fx\\u202e\\udb40\\udc01\\ufeffä\"}\n"
        );
    }

    #[test]
    fn a_cell_is_no_formula() {
        for formula in [
            "=1+1",
            "@SUM(A1)",
            "+cmd|' /C calc'!A0",
            "-2+3",
            "-A1",
            "+1*2",
            "-1,cmd",
            "  =1+1",
            "\u{3000}@SUM(A1)",
            "\u{ff1d}1+1",
        ] {
            assert_eq!(cell(formula), format!("'{formula}"));
        }
        for number in ["-1.5", "+3", "-0.2 %", "-", "1-2", "a=b", "", "-1.5 ± 0.2"] {
            assert_eq!(cell(number), number);
        }
    }

    #[test]
    fn a_shell_takes_a_text_as_one_word() {
        for (text, shown) in [
            ("ui-0", "ui-0"),
            ("Web Content", "'Web Content'"),
            ("a'b;c", "'a'\\''b;c'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), shown);
        }
    }

    #[test]
    fn a_quoted_text_is_one_string() {
        assert_eq!(quoted("a\"\\\n\u{202e}"), "\"a\\\"\\\\\\u000a\\u202e\"");
    }
}
