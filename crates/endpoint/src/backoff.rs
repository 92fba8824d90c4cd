//! Waits between the repetitions of a request.

use std::time::Duration;

use chrono::{DateTime, Utc};
use flopsmith_config::endpoint::{Retries, seconds};

/// The wait before repetition `number`, from 1; none if the server asks for a longer wait than permitted.
///
/// The wait doubles each time up to the longest one. `drawn`, between 0 and 1, takes away up to half of it, so that requests
/// that failed together do not come back together. A server's own wish (`asked`) is a lower bound.
pub fn wait(
    retries: &Retries,
    number: u32,
    asked: Option<Duration>,
    drawn: f64,
) -> Option<Duration> {
    let longest = seconds(retries.longest_wait_seconds);
    let doubled = 2f64.powi(i32::try_from(number.saturating_sub(1)).unwrap_or(i32::MAX));
    let full = (retries.first_wait_seconds * doubled).min(retries.longest_wait_seconds);
    let own = seconds(full * (1.0 - drawn.clamp(0.0, 1.0) / 2.0));
    match asked {
        Some(asked) if asked > longest => None,
        Some(asked) => Some(asked.max(own)),
        None => Some(own),
    }
}

/// The wait that the header `Retry-After` asks for: seconds, or a date.
pub fn retry_after(header: &str, now: DateTime<Utc>) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(header).ok()?;
    // A date in the past asks for no wait.
    Some((date.to_utc() - now).to_std().unwrap_or_default())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retries = Retries::default();
        let whole = |number| wait(&retries, number, None, 0.0).unwrap().as_secs_f64();
        assert_eq!(
            [1, 2, 3, 7, 8, 100].map(whole),
            [1.0, 2.0, 4.0, 64.0, 120.0, 120.0]
        );
        assert_eq!(wait(&retries, 3, None, 1.0), Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_wish_of_the_server_is_a_lower_bound_and_has_a_limit() {
        let retries = Retries::default();
        let asked = |seconds| wait(&retries, 3, Some(Duration::from_secs(seconds)), 0.0);
        assert_eq!(asked(1), Some(Duration::from_secs(4)));
        assert_eq!(asked(60), Some(Duration::from_secs(60)));
        assert_eq!(asked(121), None);
    }

    #[test]
    fn the_header_has_seconds_or_a_date() {
        let now: DateTime<Utc> = "2026-11-27T22:00:00Z".parse().unwrap();
        for (header, seconds) in [
            ("0", Some(0)),
            (" 30 ", Some(30)),
            ("Fri, 27 Nov 2026 22:00:45 GMT", Some(45)),
            ("Fri, 27 Nov 2026 21:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let found = retry_after(header, now);
            assert_eq!(found, seconds.map(Duration::from_secs), "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_permitted(number in 0u32..2000, drawn in -1f64..2.0, asked in prop::option::of(0u64..1000)) {
            let retries = Retries::default();
            if let Some(found) = wait(&retries, number, asked.map(Duration::from_secs), drawn) {
                prop_assert!(found <= seconds(retries.longest_wait_seconds));
                prop_assert!(asked.is_none_or(|asked| found >= Duration::from_secs(asked)));
            }
        }
    }
}
