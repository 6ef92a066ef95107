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
    /// Percent.
    Percent,
    /// Another unit, such as `1/s`.
    Other(&'static str),
}

impl Unit {
    /// The usual symbol of the unit.
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

    /// The number of nanoseconds in the unit, if it is a unit of time.
    pub const fn ns(self) -> Option<f64> {
        match self {
            Unit::S => Some(1e9),
            Unit::Ms => Some(1e6),
            Unit::Us => Some(1e3),
            Unit::Count | Unit::Percent | Unit::Other(_) => None,
        }
    }
}
