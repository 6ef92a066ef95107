//! Formatting of numbers with about four digits, and of changes in per cent.

use lab::Change;

/// Margins below this number of per cent would be printed as 0, so they are left out.
pub(crate) const LEAST_MARGIN_PCT: f64 = 0.05;
/// The margin of an insignificant change, in per cent, above which its size is not printed. Two blocks of a trial, or two
/// runs that differ widely, have margins of thousands of per cent, which say no more than that.
const MOST_MARGIN_PCT: f64 = 100.0;

/// `value` with four digits, the first of which may be 0 before the point, or with its whole integer part if that is
/// longer; in scientific notation only for very large or very small magnitudes.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude >= 1e9 || (magnitude > 0.0 && magnitude < 1e-4) {
        return format!("{value:.3e}");
    }
    // Removes the sign of a negative zero.
    let value = value + 0.0;
    let digits_before_point = if magnitude < 1.0 {
        1
    } else {
        magnitude.log10() as usize + 1
    };
    format!("{value:.*}", 4usize.saturating_sub(digits_before_point))
}

pub(crate) fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// A signed percentage with one decimal; it has no sign if it rounds to zero.
pub(crate) fn percent(value: f64) -> String {
    let text = format!("{value:+.1} %");
    match text.as_str() {
        "-0.0 %" | "+0.0 %" => "0.0 %".to_owned(),
        _ => text,
    }
}

/// A signed change with its margin, in per cent.
pub(crate) fn signed(change: &Change) -> String {
    match digits(change) {
        1 => percent(change.mean_pct).replace(" %", &format!("{} %", margin(change))),
        digits => format!("{:+.digits$}{} %", change.mean_pct, margin(change)),
    }
}

/// The number of decimals of a change and its margin. The margin of a significant change must not look as large as the
/// change.
pub(crate) fn digits(change: &Change) -> usize {
    let alike = |digits: &usize| {
        let text = |value: f64| format!("{:.*}", *digits, value.abs());
        let printed = change.margin_pct.filter(|&it| it >= LEAST_MARGIN_PCT);
        change.is_significant() && Some(text(change.mean_pct)) == printed.map(text)
    };
    (1..4).find(|digits| !alike(digits)).unwrap_or(4)
}

/// The margin of a change, to be printed before the unit: ` ± 3.1`, ` ± > 100`, or nothing if it is unknown or would be
/// printed as 0. An interval of zero, of runs that are all the same, would look like certainty.
pub(crate) fn margin(change: &Change) -> String {
    match change.margin_pct {
        Some(margin) if margin > MOST_MARGIN_PCT && !change.is_significant() => {
            format!(" ± > {MOST_MARGIN_PCT}")
        }
        Some(margin) if margin >= LEAST_MARGIN_PCT => format!(" ± {margin:.*}", digits(change)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_that_hides_its_change_has_no_size() {
        for (mean_pct, margin_pct, text) in [
            (12.0, Some(3.24), " ± 3.2"),
            (0.4, Some(0.04), ""),
            (0.4, None, ""),
            (37.1, Some(100.0), " ± 100.0"),
            (37.1, Some(15646.4), " ± > 100"),
            (-75.0, Some(15646.4), " ± > 100"),
            // The size shows that the change is significant.
            (450.0, Some(120.0), " ± 120.0"),
            (2.31, Some(2.28), " ± 2.28"),
            (-2.28, Some(2.31), " ± 2.3"),
        ] {
            let change = Change {
                mean_pct,
                margin_pct,
            };
            assert_eq!(margin(&change), text);
        }
    }

    #[test]
    fn a_significant_change_is_larger_than_its_margin() {
        let of = |mean_pct, margin| Change {
            mean_pct,
            margin_pct: Some(margin),
        };
        assert_eq!(signed(&of(2.31, 2.28)), "+2.31 ± 2.28 %");
        assert_eq!(signed(&of(-2.3104, 2.3096)), "-2.3104 ± 2.3096 %");
        assert_eq!(signed(&of(2.28, 2.31)), "+2.3 ± 2.3 %");
        assert_eq!(signed(&of(-0.04, 0.01)), "0.0 %");
    }

    #[test]
    fn four_digits() {
        for (value, text) in [
            (16.474, "16.47"),
            (2.1, "2.100"),
            (135.04, "135.0"),
            (12345.6, "12346"),
            (0.0, "0.000"),
            (0.01234, "0.012"),
            (-75.75, "-75.75"),
            (1e12, "1.000e12"),
            (f64::NAN, "-"),
            (-0.0, "0.000"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(percent(-0.04), "0.0 %");
        assert_eq!(percent(0.04), "0.0 %");
        assert_eq!(percent(-0.05), "-0.1 %");
        assert_eq!(percent(12.34), "+12.3 %");
    }
}
