//! The rate that limits a program: operations a second where compute binds, bytes a second where memory does.

use std::fmt;

use flopsmith_machine::roofline::Bound;
use flopsmith_protocol::Interval;

use crate::rows::Row;

/// The unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// 10⁹ operations a second.
    Gflops,
    /// 10⁹ bytes a second, of the bytes that a call must move at least.
    GbPerSecond,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Gflops => "GFLOPS",
            Unit::GbPerSecond => "GB/s",
        })
    }
}

impl Row {
    /// The unit of what binds the program by its place under the roofline; GFLOPS where the place is unknown.
    pub fn unit(&self) -> Unit {
        let by_memory = self
            .place
            .as_ref()
            .is_some_and(|p| p.bound == Bound::Memory);
        match self.bytes_per_operation {
            Some(_) if by_memory => Unit::GbPerSecond,
            _ => Unit::Gflops,
        }
    }

    /// A speed in this unit instead of 10⁹ operations a second. None if the problem defines no bytes.
    pub fn told_in(&self, unit: Unit, gflops: f64) -> Option<f64> {
        match unit {
            Unit::Gflops => Some(gflops),
            Unit::GbPerSecond => Some(gflops * self.bytes_per_operation?),
        }
    }

    /// The program's speed in this unit, if it was measured.
    pub fn rate_in(&self, unit: Unit) -> Option<f64> {
        self.told_in(unit, self.done.verdict.measurement()?.gflops)
    }

    /// The program's speed in its [`Row::unit`].
    pub fn rate(&self) -> Option<f64> {
        self.rate_in(self.unit())
    }

    /// The 95 % interval of [`Row::rate_in`], which contains the error of the reference.
    pub fn rate_interval_in(&self, unit: Unit) -> Option<Interval> {
        let interval = self.done.verdict.measurement()?.interval;
        let rate = |ratio: f64| self.told_in(unit, ratio * self.reference_gflops?);
        Some(Interval {
            low: rate(interval.low)?,
            high: rate(interval.high)?,
            ..interval
        })
    }

    /// The roof that the program lies under, in this unit.
    pub fn roof_in(&self, unit: Unit) -> Option<f64> {
        self.told_in(unit, self.place.as_ref()?.roof_gflops)
    }

    /// The roof in the program's [`Row::unit`].
    pub fn roof(&self) -> Option<f64> {
        self.roof_in(self.unit())
    }

    /// Share of the roof that the program reaches.
    pub fn share_of_roof(&self) -> Option<f64> {
        self.place.as_ref().map(|place| place.share)
    }
}

/// The one unit of all measured rows; none if they differ, or if the place of a row is unknown.
pub fn common_unit<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Unit> {
    let mut common = None;
    for row in rows.filter(|row| row.done.verdict.measurement().is_some()) {
        row.place.as_ref()?;
        let unit = row.unit();
        if *common.get_or_insert(unit) != unit {
            return None;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::wrong;

    use super::*;
    use crate::rows::tests::{by_compute, by_memory, fast, row};

    #[test]
    fn the_unit_is_that_of_what_binds() {
        let mut row = fast("a.c", 1, 1.25);
        assert_eq!(
            (row.unit(), row.rate(), row.roof()),
            (Unit::Gflops, Some(1.25), None)
        );
        row.place = Some(by_memory());
        // An eighth of a byte an operation.
        assert_eq!(row.unit(), Unit::GbPerSecond);
        assert_eq!(row.rate(), Some(0.156_25));
        assert_eq!(row.roof(), Some(0.3125));
        assert_eq!(row.share_of_roof(), Some(0.5));
        let interval = row.rate_interval_in(Unit::GbPerSecond);
        assert!(interval.is_some_and(|i| i.low < 0.156_25 && 0.156_25 < i.high));
        row.bytes_per_operation = None;
        assert_eq!((row.unit(), row.rate()), (Unit::Gflops, Some(1.25)));
        assert_eq!(row.rate_in(Unit::GbPerSecond), None);
    }

    #[test]
    fn rows_have_a_common_unit_if_the_same_roof_binds_all_that_were_measured() {
        let unit = |rows: &[Row]| common_unit(rows.iter());
        let mut rows = [
            fast("a.c", 1, 40.0),
            fast("b.c", 1, 20.0),
            row("c.c", 1, wrong()),
        ];
        assert_eq!(unit(&rows), None);
        rows[0].place = Some(by_compute());
        assert_eq!(unit(&rows), None);
        rows[1].place = Some(by_compute());
        assert_eq!(unit(&rows), Some(Unit::Gflops));
        rows[1].place = Some(by_memory());
        assert_eq!(unit(&rows), None);
        rows[0].place = Some(by_memory());
        assert_eq!(unit(&rows), Some(Unit::GbPerSecond));
        assert_eq!(unit(&rows[2..]), None);
    }
}
