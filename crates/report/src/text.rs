//! The format of numbers and texts on the page.

/// Text escaped for use between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // HTML allows no other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// OpenBLAS with its version, if it is known.
pub fn openblas(version: Option<&str>) -> String {
    version.map_or_else(|| "OpenBLAS".into(), |v| format!("OpenBLAS {v}"))
}

/// A coordinate: short, and 0 for a number that is not finite.
pub fn coordinate(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// About three significant digits: `0.42`, `4.2`, `42.0`, `421`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    match value.abs() {
        0.0 => "0".into(),
        v if !(0.001..100_000.0).contains(&v) => format!("{value:.1e}"),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A speed or a ratio, with four significant digits: no speed is measured more precisely than to one part in a thousand.
pub fn four(value: f64) -> String {
    significant(value, 4)
}

/// A number with `digits` significant digits; digits before the decimal point are never cut.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let behind = digits.saturating_sub(1);
    if value.abs() < 1e-4 {
        return format!("{value:.behind$e}");
    }
    let places = |value: f64| {
        let before = value.abs().log10().floor() as i64;
        usize::try_from(behind as i64 - before).unwrap_or(0)
    };
    let first = places(value);
    let rounded: f64 = format!("{value:.first$}").parse().unwrap_or(value);
    // Rounding may add a digit before the point: 9.9996 is 10.00.
    let places = places(rounded);
    format!("{value:.places$}")
}

/// A number for a place with room for four characters: `123`, `12`, `1.2`, `0.12`.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 9.95 => format!("{value:.0}"),
        v if v >= 0.995 => format!("{value:.1}"),
        v if v >= 0.0095 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

/// A number at an axis: as [`number`], without trailing zeros.
pub fn tick(value: f64) -> String {
    let text = number(value);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// The beginning of a text on one line, of at most `most` characters. Control characters are removed: a terminal must
/// not obey a model's output.
pub fn excerpt(text: &str, most: usize) -> String {
    // Marks that change the direction of writing would reverse the rest of the line as well.
    let turns = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ").replace(turns, "\u{fffd}");
    if line.chars().count() <= most {
        return line;
    }
    let mut short: String = line.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A share as per cent.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let p = 100.0 * share;
    if p > 0.0 && p < 0.01 {
        "below 0.01 %".into()
    } else if p != 0.0 && p.abs() < 0.095 {
        format!("{} %", number(p))
    } else if p != 0.0 && p.abs() < 9.95 {
        format!("{p:.1} %")
    } else {
        format!("{p:.0} %")
    }
}

/// A speed's share of a peak or a roof: per cent with one decimal, in the same format everywhere.
pub fn share(part: f64) -> String {
    let percent = 100.0 * part;
    if !percent.is_finite() {
        return "–".into();
    }
    if percent > 0.0 && percent < 0.05 {
        return "below 0.1 %".into();
    }
    format!("{percent:.1} %")
}

/// A short time with its unit.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", four(value))
}

/// Minutes and seconds, with hours if there are any.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".into();
    }
    // A bound that keeps the conversion in range, far beyond any run.
    let s = seconds.round().min(1e12) as u64;
    if s >= 3600 {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    } else {
        format!("{}:{:02}", s / 60, s % 60)
    }
}

/// Bytes in a fitting unit. The sizes of caches and memories are multiples of powers of two, as are the units.
pub fn bytes(count: u64) -> String {
    let units = [("GiB", 30u32), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, power)| count >> power > 0);
    let Some((name, power)) = unit else {
        return format!("{count} B");
    };
    let whole = 1u64 << power;
    if count.is_multiple_of(whole) {
        format!("{} {name}", count >> power)
    } else {
        format!("{} {name}", number(count as f64 / whole as f64))
    }
}

/// A count with thin gaps between thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// A number of things: `1 step`, `2 steps`.
pub fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", count(number))
}

/// A name from code as words: `left_running` → `left running`.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_fits() {
        for (seconds, shown) in [
            (4.123e-7, "412.3 ns"),
            (3.12e-5, "31.20 µs"),
            (0.001_203, "1.203 ms"),
            (2.1, "2.100 s"),
        ] {
            assert_eq!(time(seconds), shown);
        }
    }

    #[test]
    fn shares_of_a_peak_have_one_decimal() {
        for (part, shown) in [
            (0.9967, "99.7 %"),
            (1.0, "100.0 %"),
            (3.2, "320.0 %"),
            (0.0321, "3.2 %"),
            (0.000_3, "below 0.1 %"),
            (0.0, "0.0 %"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(share(part), shown);
        }
    }

    #[test]
    fn one_is_no_plural() {
        let said = [0, 1, 2, 1000].map(|n| counted(n, "step"));
        assert_eq!(said, ["0 steps", "1 step", "2 steps", "1\u{202f}000 steps"]);
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let shown: Vec<String> = [
            0.0,
            0.00001,
            0.0423,
            0.42,
            1.1,
            9.996,
            42.04,
            99.97,
            421.4,
            f64::NAN,
        ]
        .map(number)
        .to_vec();
        assert_eq!(
            shown,
            [
                "0", "1.0e-5", "0.0423", "0.42", "1.10", "10.0", "42.0", "100", "421", "–"
            ]
        );
    }

    #[test]
    fn numbers_have_as_many_digits_as_asked_for() {
        for (value, shown) in [
            (40.0, "40.00"),
            (117.9608, "118.0"),
            (9.99961, "10.00"),
            (0.421_34, "0.4213"),
            (0.000_421_34, "0.0004213"),
            (12_345.6, "12346"),
            (-3.217_49, "-3.217"),
            (0.000_012_3, "1.230e-5"),
            (0.0, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(four(value), shown, "{value}");
        }
    }

    #[test]
    fn ticks_have_no_empty_zeros() {
        assert_eq!(
            [0.02, 40.0, 100.0, 0.5, -0.5, 0.0].map(tick),
            ["0.02", "40", "100", "0.5", "-0.5", "0"]
        );
    }

    #[test]
    fn durations_and_counts() {
        assert_eq!(duration(59.6), "1:00");
        assert_eq!(duration(3671.0), "1:01:11");
        assert_eq!(duration(f64::INFINITY), "–");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.034), "3.4 %");
        assert_eq!(percent(0.917), "92 %");
        assert_eq!(percent(0.000_4), "0.0400 %");
        assert_eq!(percent(0.000_008_5), "below 0.01 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn bytes_are_shown_in_units_of_memory() {
        let shown = [
            0,
            512,
            32_768,
            48_000,
            2_097_152,
            1_480_000_000,
            16_777_216_000,
        ]
        .map(bytes);
        assert_eq!(
            shown,
            [
                "0 B", "512 B", "32 KiB", "46.9 KiB", "2 MiB", "1.38 GiB", "15.6 GiB"
            ]
        );
    }

    #[test]
    fn short_numbers_keep_what_is_small() {
        let shown = [0.0, 0.00042, 0.042, 0.42, 1.26, 9.97, 118.2, f64::NAN].map(short);
        assert_eq!(
            shown,
            ["0", "4e-4", "0.04", "0.42", "1.3", "10", "118", "–"]
        );
    }

    #[test]
    fn nothing_ends_a_tag_or_an_attribute() {
        assert_eq!(
            escape("<a href=\"x\" b='&'>\u{1}"),
            "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;\u{fffd}"
        );
    }
}
