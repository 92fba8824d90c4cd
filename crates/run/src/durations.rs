//! Durations as users write them: `90s`, `10m`, `1h30m`.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::console::{say, usage};

/// Reads a duration such as `10m`, `1h30m`, `2d`, `90s` or `600`, which must not be 0.
pub fn duration(text: &str) -> Result<f64> {
    let seconds = seconds(text)?;
    if seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(usage(format!(
            "`{text}` is zero; write a duration such as 90s, 10m or 1h30m"
        )))
    }
}

/// Seconds of a duration, which may be 0 in any unit.
fn seconds(text: &str) -> Result<f64> {
    let wrong = || usage(format!("`{text}` is no duration: write 90s, 10m or 1h30m"));
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.trim().chars() {
        if c.is_ascii_digit() || c == '.' {
            number.push(c);
            continue;
        }
        let value: f64 = number.parse().map_err(|_| wrong())?;
        number.clear();
        seconds += value
            * match c {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3600.0,
                'd' => 86_400.0,
                _ => return Err(wrong()),
            };
    }
    if !number.is_empty() {
        seconds += number.parse::<f64>().map_err(|_| wrong())?;
    } else if text.trim().is_empty() {
        return Err(wrong());
    }
    Ok(seconds)
}

/// Reads a time that may be 0: `0`, `0s` and `0h0m` are the same.
pub fn time(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds(text)?).unwrap_or(Duration::MAX))
}

/// Reads the duration of `--budget`. If another unit may have been meant, prints how the value was understood.
pub fn budget(text: &str) -> Result<f64> {
    let seconds = duration(text).context("--budget (or FLOPSMITH_BUDGET) cannot be read")?;
    if let Some(note) = bare_seconds(text) {
        say(&note);
    }
    Ok(seconds)
}

/// A note on how a bare number is understood, if it is small: few users want so short a run.
fn bare_seconds(text: &str) -> Option<String> {
    let bare = text.trim();
    let number: f64 = bare.parse().ok()?;
    (number < 60.0).then(|| {
        let plural = |n: f64| if n == 1.0 { "" } else { "s" };
        format!(
            "note: --budget {bare} is {bare} second{s}; {bare}m is {bare} minute{s}",
            s = plural(number)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("10m", 600.0),
            ("1h30m", 5400.0),
            ("45", 45.0),
            ("1.5m", 90.0),
        ] {
            assert!(
                (duration(text).expect("a duration") - seconds).abs() < 1e-9,
                "{text}"
            );
        }
        for text in ["", "m", "10x", "-3s", "0", "0s", "0h0m"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_time_is_a_duration_or_nothing() {
        let of = |text: &str| time(text).ok();
        assert_eq!(of("60s"), Some(Duration::from_secs(60)));
        for nothing in ["0", " 0 ", "0s", "0m", "0h0m0s", "0.0", "00d"] {
            assert_eq!(of(nothing), Some(Duration::ZERO), "{nothing:?}");
        }
        for wrong in ["soon", "", " ", "s", "0x", "-0", "-1s"] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_short_budget_without_a_unit_is_said_to_be_seconds() {
        let note = bare_seconds("10").expect("a note");
        assert!(
            note.contains("10 seconds") && note.contains("10m is 10 minutes"),
            "{note}"
        );
        for clear in ["10s", "10m", "1m30", "60", "600"] {
            assert_eq!(bare_seconds(clear), None, "{clear}");
        }
    }
}
