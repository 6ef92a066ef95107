//! Units of metrics and parameters.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// A share, of 100.
    Percent,
    /// Another one, such as `1/s`.
    Other(&'static str),
}

impl Unit {
    /// Its usual symbol.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::S => "s",
            Unit::Ms => "ms",
            Unit::Us => "us",
            Unit::Percent => "%",
            Unit::Other(name) => name,
        }
    }

    /// The nanoseconds in one, if it is a unit of time.
    pub const fn ns(self) -> Option<f64> {
        match self {
            Unit::S => Some(1e9),
            Unit::Ms => Some(1e6),
            Unit::Us => Some(1e3),
            Unit::Count | Unit::Percent | Unit::Other(_) => None,
        }
    }
}
