//! The stages over time, and the shares of time, as bars over the full width.

use std::collections::BTreeMap;

use crate::curve::Band;
use crate::model::{StageChange, StepMetrics};
use crate::text::{counted, duration, escape, percent, words};

/// Consecutive steps of the same stage, as bands.
pub fn bands(steps: &[StepMetrics]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for step in steps {
        match bands.last_mut() {
            Some(band) if band.name == step.stage_name => band.to = step.step as f64,
            _ => bands.push(Band {
                from: step.step as f64,
                to: step.step as f64,
                name: step.stage_name.clone(),
            }),
        }
    }
    // A run without stages would have one band without a name, a mere shadow.
    if bands.iter().all(|b| b.name.is_empty()) {
        Vec::new()
    } else {
        bands
    }
}

/// The stages as a bar whose lengths are times, or numbers of steps if no times are known.
pub fn stages(steps: &[StepMetrics]) -> String {
    let bands = bands(steps);
    if bands.is_empty() {
        return String::new();
    }
    let timed = steps
        .iter()
        .all(|s| s.seconds.is_finite() && s.seconds >= 0.0)
        && steps.last().is_some_and(|s| s.seconds > 0.0);
    let mut before = 0.0;
    let parts: Vec<(String, f64, String)> = bands
        .iter()
        .map(|band| {
            let of_band = || {
                steps
                    .iter()
                    .filter(|s| (band.from..=band.to).contains(&(s.step as f64)))
            };
            let (n, end) = (
                of_band().count(),
                of_band().map(|s| s.seconds).fold(before, f64::max),
            );
            let (from, length) = (before, end - before);
            before = end;
            let steps = counted(n as u64, "step");
            let title = if timed {
                format!(
                    "{}: {steps}, {} to {}",
                    band.name,
                    duration(from),
                    duration(end)
                )
            } else {
                format!("{}: {steps}", band.name)
            };
            (
                band.name.clone(),
                if timed { length } else { n as f64 },
                title,
            )
        })
        .collect();
    let ends = if timed {
        ("0:00".to_owned(), duration(before))
    } else {
        let number =
            |s: Option<&StepMetrics>| s.map_or_else(String::new, |s| format!("step {}", s.step));
        (number(steps.first()), number(steps.last()))
    };
    format!(
        "{}<div class=\"ends\"><span>{}</span><span>{}</span></div>",
        bar(&parts, "g"),
        ends.0,
        ends.1
    )
}

/// The shares of time by role.
pub fn shares(share_of_time: &BTreeMap<String, f64>) -> String {
    let mut shares: Vec<(&String, f64)> = share_of_time
        .iter()
        .map(|(role, s)| (role, *s))
        .filter(|(_, s)| s.is_finite() && *s > 0.0)
        .collect();
    if shares.is_empty() {
        return String::new();
    }
    // Idle time comes last, the rest is sorted by size.
    shares.sort_by(|a, b| {
        (a.0 == "idle")
            .cmp(&(b.0 == "idle"))
            .then(b.1.total_cmp(&a.1))
    });
    let parts: Vec<(String, f64, String)> = shares
        .iter()
        .map(|(role, s)| (words(role), *s, format!("{}: {}", words(role), percent(*s))))
        .collect();
    let mut out = bar(&parts, "r");
    out.push_str("<ul class=\"legend\">");
    for (i, (role, share)) in shares.iter().enumerate() {
        out.push_str(&format!(
            "<li><i class=\"swatch r{}\"></i>{} {}</li>",
            i % 8,
            escape(&words(role)),
            percent(*share)
        ));
    }
    out.push_str("</ul>");
    out
}

/// A bar of the parts of a whole: name, size and tooltip of each part.
fn bar(parts: &[(String, f64, String)], class: &str) -> String {
    let sum: f64 = parts.iter().map(|p| p.1).sum();
    let mut out = String::from("<div class=\"bar\">");
    for (i, (name, size, title)) in parts.iter().enumerate() {
        let share = if sum > 0.0 && sum.is_finite() {
            100.0 * (size / sum)
        } else {
            0.0
        };
        out.push_str(&format!(
            "<div class=\"{class}{}\" style=\"width:{share:.2}%\" title=\"{}\"><span>{}</span></div>",
            i % 8,
            escape(title),
            // A name that does not fit is left out; the tooltip and the list still show it.
            if share > 7.0 { escape(name) } else { String::new() }
        ));
    }
    out.push_str("</div>");
    out
}

/// The reasons for the changes of stage.
pub fn changes(changes: &[StageChange]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<div class=\"scroll\"><table class=\"text\"><thead><tr><th>After step</th><th>From</th><th>To</th><th>Why</th></tr></thead><tbody>",
    );
    for change in changes {
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            change.step,
            escape(&change.from),
            escape(&change.to),
            escape(&change.reason)
        ));
    }
    out.push_str("</tbody></table></div>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, name: &str, seconds: f64) -> StepMetrics {
        StepMetrics {
            step,
            stage_name: name.into(),
            seconds,
            ..StepMetrics::default()
        }
    }

    #[test]
    fn stages_are_as_long_as_they_lasted() {
        let page = stages(&[
            step(0, "none", 10.0),
            step(1, "none", 25.0),
            step(2, "singles", 100.0),
        ]);
        assert!(
            page.contains("width:25.00%") && page.contains("width:75.00%"),
            "{page}"
        );
        assert!(page.contains("none: 2 steps, 0:00 to 0:25"), "{page}");
    }

    #[test]
    fn a_stage_that_comes_again_is_a_band_of_its_own() {
        let bands = bands(&[step(0, "a", 0.0), step(1, "b", 0.0), step(2, "a", 0.0)]);
        assert_eq!(bands.len(), 3);
    }

    #[test]
    fn idle_time_comes_last() {
        let page = shares(
            &[
                ("idle".to_owned(), 0.6),
                ("timer".to_owned(), 0.3),
                ("learner".to_owned(), 0.1),
            ]
            .into(),
        );
        let place = |name: &str| page.find(&format!("</i>{name}"));
        assert!(
            place("timer") < place("learner") && place("learner") < place("idle"),
            "{page}"
        );
    }
}
