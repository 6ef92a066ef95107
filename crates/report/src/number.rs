//! Formatting of numbers with about four digits.

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

/// [`number`], or a dash if there is no value.
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

#[cfg(test)]
mod tests {
    use super::*;

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
