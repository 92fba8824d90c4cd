//! The contents of inputs, encoded for a harness that fills inputs.

/// Largest number of words of a content's parameters.
pub(crate) const WORDS: usize = 4;

/// The content of an input array.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Content {
    /// Floats uniform in [-0.5, 0.5), integers in -8..=7.
    #[default]
    Uniform,
    /// Floats uniform in [low, high), integers in low..=high.
    Range {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// Square matrices, uniform in [-0.5, 0.5), with the length of a row added on the diagonal.
    Dominant {
        /// Length of a row.
        columns: usize,
    },
    /// Ascending integers from 0 to `total`.
    Offsets {
        /// The last one.
        total: u64,
    },
    /// Uniform in [-0.5, 0.5), with a power of two for each row as its factor. Methods that mix rows, such as products
    /// with fewer multiplications, lose the digits of the small rows.
    Graded {
        /// Length of a row.
        columns: usize,
        /// The smallest power is 2 to the minus this.
        binades: u32,
    },
    /// Floats uniform in [low, high), plus a shift for each row, uniform in [-by, by).
    Shifted {
        /// Length of a row.
        columns: usize,
        /// Least value before the shift.
        low: f64,
        /// Greatest value before the shift.
        high: f64,
        /// Largest shift.
        by: f64,
    },
    /// Floats of either sign, with uniform logarithms of their sizes from that of `low` to that of `high`, powers of
    /// two.
    Magnitudes {
        /// Least size.
        low: f64,
        /// Upper bound of the sizes, exclusive.
        high: f64,
    },
    /// Integers whose running sums are uniform in low..=high.
    Steps {
        /// Least running sum.
        low: f64,
        /// Greatest running sum.
        high: f64,
    },
    /// Integers in low..=high; one in four repeats one of the previous three.
    Repeating {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// Rough distances between random points: integers in 1..=high, floats in [0, high).
    Distances {
        /// Length of a row.
        columns: usize,
        /// Greatest value.
        high: f64,
    },
}

impl Content {
    /// The number of its kind, and its parameters.
    pub(crate) fn words(self) -> (u64, [u64; WORDS]) {
        match self {
            Content::Uniform => (0, [0; 4]),
            Content::Range { low, high } => (1, [low.to_bits(), high.to_bits(), 0, 0]),
            Content::Dominant { columns } => (2, [columns as u64, 0, 0, 0]),
            Content::Offsets { total } => (3, [total, 0, 0, 0]),
            Content::Graded { columns, binades } => (4, [columns as u64, binades.into(), 0, 0]),
            Content::Shifted {
                columns,
                low,
                high,
                by,
            } => (
                5,
                [columns as u64, low.to_bits(), high.to_bits(), by.to_bits()],
            ),
            Content::Magnitudes { low, high } => (6, [low.to_bits(), high.to_bits(), 0, 0]),
            Content::Steps { low, high } => (7, [low.to_bits(), high.to_bits(), 0, 0]),
            Content::Repeating { low, high } => (8, [low.to_bits(), high.to_bits(), 0, 0]),
            Content::Distances { columns, high } => (9, [columns as u64, high.to_bits(), 0, 0]),
        }
    }

    /// The content that these words encode.
    pub(crate) fn of(kind: u64, [a, b, c, d]: [u64; WORDS]) -> Option<Content> {
        let (low, high) = (f64::from_bits(a), f64::from_bits(b));
        Some(match kind {
            0 => Content::Uniform,
            1 => Content::Range { low, high },
            2 => Content::Dominant {
                columns: usize::try_from(a).ok()?,
            },
            3 => Content::Offsets { total: a },
            4 => Content::Graded {
                columns: usize::try_from(a).ok()?,
                binades: u32::try_from(b).ok()?,
            },
            5 => Content::Shifted {
                columns: usize::try_from(a).ok()?,
                low: f64::from_bits(b),
                high: f64::from_bits(c),
                by: f64::from_bits(d),
            },
            6 => Content::Magnitudes { low, high },
            7 => Content::Steps { low, high },
            8 => Content::Repeating { low, high },
            9 => Content::Distances {
                columns: usize::try_from(a).ok()?,
                high: f64::from_bits(b),
            },
            _ => return None,
        })
    }
}
