//! The date in a chat template, as Python writes it.

use std::fmt::Write;

use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use chrono::{Local, NaiveDateTime, Timelike};
use minijinja::{Error, ErrorKind};

/// The current time, in the machine's time zone.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    strftime(Local::now().naive_local(), format)
}

/// `datetime.strftime` of a time without a time zone.
fn strftime(at: NaiveDateTime, format: &str) -> Result<String, Error> {
    let unknown = || {
        let text = format!("the date format `{format}` is not supported");
        Error::new(ErrorKind::InvalidOperation, text)
    };
    let mut text = String::new();
    for item in StrftimeItems::new(format) {
        match item {
            Item::Error => return Err(unknown()),
            Item::Literal(text_of) | Item::Space(text_of) => text.push_str(text_of),
            // Python's `%f` prints microseconds.
            Item::Numeric(Numeric::Nanosecond, _) => {
                let micros = at.nanosecond() / 1000 % 1_000_000;
                write!(text, "{micros:06}").map_err(|_| unknown())?;
            }
            Item::Fixed(
                Fixed::TimezoneName
                | Fixed::TimezoneOffset
                | Fixed::TimezoneOffsetColon
                | Fixed::TimezoneOffsetDoubleColon
                | Fixed::TimezoneOffsetTripleColon
                | Fixed::TimezoneOffsetColonZ
                | Fixed::TimezoneOffsetZ,
            ) => {}
            item => {
                let shown = at.format_with_items(std::iter::once(item));
                write!(text, "{shown}").map_err(|_| unknown())?;
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    #[test]
    fn dates_are_those_of_python() {
        let at = NaiveDate::from_ymd_opt(2024, 7, 6).unwrap();
        let at = at.and_hms_micro_opt(9, 5, 3, 7).unwrap();
        // The expected texts come from `datetime(2024, 7, 6, 9, 5, 3, 7).strftime(…)`.
        for (format, wanted) in [
            ("%d %b %Y", "06 Jul 2024"),
            ("%Y-%m-%d %H:%M:%S.%f", "2024-07-06 09:05:03.000007"),
            ("%A, %B %-d, %y", "Saturday, July 6, 24"),
            ("%a %e %I:%M %p %j", "Sat  6 09:05 AM 188"),
            ("%c|%x|%X", "Sat Jul  6 09:05:03 2024|07/06/24|09:05:03"),
            ("%F %T %D %R", "2024-07-06 09:05:03 07/06/24 09:05"),
            ("%U %W %V %G %u %w", "26 27 27 2024 6 6"),
            ("[%z%Z] 100%% ü", "[] 100% ü"),
            ("", ""),
        ] {
            assert_eq!(strftime(at, format).unwrap(), wanted, "{format}");
        }
        let error = strftime(at, "%Y %Q").unwrap_err().to_string();
        assert!(error.contains("`%Y %Q`"), "{error}");
    }
}
