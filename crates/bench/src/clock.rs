//! The seconds of calls by the clock, which every format leaves out alike where they contradict the speed.

pub use flopsmith_report::clock::Clock;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use flopsmith_protocol::Verdict;
    use flopsmith_report::clock::LEFT_OUT;
    use serde_json::Value;

    use crate::rows::Row;
    use crate::rows::tests::{fast, unsure};
    use crate::stream::End;
    use crate::workloads::tests::over_two;
    use crate::{lines, stream, table, workloads};

    /// A program whose fastest call and median call took so many times as long as an undisturbed call.
    pub fn disturbed(file: &str, fastest: f64, median: f64) -> Row {
        let mut row = fast(file, 1, 40.0);
        if let Verdict::Measured { measurement: m } = &mut row.done.verdict {
            m.minimum_seconds = Some(fastest * m.seconds_per_call);
            m.median_seconds = Some(median * m.seconds_per_call);
        }
        row
    }

    /// Whether the fastest call and the median call of a row have a number in JSON, in the last line of a stream, in
    /// CSV and in the table.
    fn shown(row: Row) -> [[bool; 2]; 4] {
        let keys = ["minimum_seconds", "median_seconds"];
        let object = lines::object("dgemm", &row);
        let header = lines::csv_header();
        let csv = lines::csv("dgemm", &row);
        let cell = |name: &str| {
            let mut cells = header.split(',').zip(csv.split(','));
            cells.find(|(column, _)| *column == name).unwrap().1
        };
        let rows = [row];
        let end = End {
            programs: 1,
            interrupted: false,
            code: 0,
        };
        let last = stream::tests::stream().end(&rows, &end);
        let grid = table::grid(&rows, None);
        let of_column = |name: &str| {
            let place = grid.columns.iter().position(|(column, _)| *column == name);
            &grid.rows[0][place.unwrap()]
        };
        [
            keys.map(|key| object[key].is_f64()),
            keys.map(|key| last["ranks"][0][key].is_f64()),
            keys.map(|key| !cell(key).is_empty()),
            ["min", "median"].map(|name| of_column(name) != LEFT_OUT),
        ]
    }

    #[test]
    fn seconds_of_the_clock_that_contradict_the_speed_are_left_out_of_every_format() {
        for (row, expected) in [
            (disturbed("a.c", 0.96, 1.04), [true, true]),
            (disturbed("a.c", 0.99, 1.06), [true, false]),
            (disturbed("a.c", 1.06, 1.3), [false, false]),
            (disturbed("a.c", 0.94, 0.96), [false, true]),
            (unsure("a.c", 40.0), [false, false]),
        ] {
            assert_eq!(shown(row), [expected; 4]);
        }
    }

    #[test]
    fn seconds_of_a_workload_are_left_out_by_its_own_speed() {
        let mut row = over_two("a.c");
        if let Verdict::Measured { measurement: m } = &mut row.done.verdict {
            m.workloads[0].median_seconds = Some(1.1 * m.workloads[0].seconds_per_call);
        }
        let objects = workloads::objects(&row);
        let known = |n: usize, key: &str| objects[n][key] != Value::Null;
        let keys = ["minimum_seconds", "median_seconds"];
        assert_eq!(keys.map(|key| known(0, key)), [true, false]);
        assert_eq!(keys.map(|key| known(1, key)), [true, true]);
        let grid = workloads::grid(&[row]).unwrap();
        let median = grid.columns.iter().position(|(name, _)| *name == "median");
        let cells = [0, 1].map(|n| grid.rows[n][median.unwrap()] == LEFT_OUT);
        assert_eq!(cells, [true, false]);
    }
}
