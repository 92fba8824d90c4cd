//! The time, and times as people read them: in the local time zone, and in that of the world.

use chrono::{DateTime, Local, Utc};
pub use flopsmith_actors::node::unix_ms;

/// Date and time of day in the zone of this machine or of `TZ`; a dash for an unknown time.
pub fn time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().filter(|ms| *ms >= 1000);
    let time = time.and_then(DateTime::<Utc>::from_timestamp_millis);
    time.map_or_else(
        || "–".into(),
        |time| {
            time.with_timezone(&Local)
                .format("%Y-%m-%d %H:%M")
                .to_string()
        },
    )
}

/// Date and time of day in Greenwich, in ISO 8601; the begin of 1970 for a time that no calendar has.
pub fn utc(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).unwrap_or_default();
    let time = DateTime::<Utc>::from_timestamp(time, 0).unwrap_or_default();
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::Command;

    use super::*;

    /// The expected text; set in a child process whose time zone is known.
    const EXPECTED: &str = "FLOPSMITH_TEST_EXPECTED_TIME";

    #[test]
    fn a_time_is_a_date_and_a_time_of_day_in_the_zone_or_a_dash() {
        let shown = time(1_750_000_000_000);
        if let Ok(expected) = std::env::var(EXPECTED) {
            assert_eq!(shown, expected);
            return;
        }
        assert_eq!(time(0), "–");
        assert_eq!(utc(1_750_000_000), "2025-06-15T15:06:40Z");
        // The zone is set for a child process: changing it in this process would affect its other threads. East of
        // Greenwich the offset in `TZ` is negative.
        for (zone, expected) in [
            ("UTC0", "2025-06-15 15:06"),
            ("EAST-5:30", "2025-06-15 20:36"),
            ("FAR-12", "2025-06-16 03:06"),
            ("WEST8", "2025-06-15 07:06"),
        ] {
            let name = "local::tests::a_time_is_a_date_and_a_time_of_day_in_the_zone_or_a_dash";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env("TZ", zone)
                .env(EXPECTED, expected)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            let passed = child.status.success() && said.contains("1 passed");
            assert!(passed, "{zone}: {said}");
        }
    }
}
