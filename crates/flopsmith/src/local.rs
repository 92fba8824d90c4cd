//! Times as the clock on the wall shows them.
#![expect(unsafe_code, reason = "the C library knows the time zone")]

use std::mem::MaybeUninit;

/// Date and time of day in the zone of this machine or of `TZ`; a dash for a time that is not known.
pub fn time(unix_ms: u64) -> String {
    let seconds = libc::time_t::try_from(unix_ms / 1000).ok();
    let parts = seconds.filter(|s| *s > 0).and_then(broken_down);
    parts.map_or_else(
        || "–".into(),
        |t| {
            format!(
                "{:04}-{:02}-{:02} {:02}:{:02}",
                i64::from(t.tm_year) + 1900,
                t.tm_mon + 1,
                t.tm_mday,
                t.tm_hour,
                t.tm_min
            )
        },
    )
}

fn broken_down(seconds: libc::time_t) -> Option<libc::tm> {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to values of their types that live until the call has returned.
    let found = unsafe { libc::localtime_r(&seconds, parts.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: it is numbers and a pointer that nobody follows, for all of which zeros and what the call left are values.
    Some(unsafe { parts.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_and_a_time_of_day_or_a_dash() {
        let shown = time(1_750_000_000_000);
        // Wherever this is, it is the 15th or 16th of June.
        assert!(shown.starts_with("2025-06-1"), "{shown}");
        assert_eq!(shown.len(), "2025-06-15 15:06".len(), "{shown}");
        assert_eq!(time(0), "–");
    }
}
