//! The outcomes of the samples, step by step: shares stacked to the full height.

use std::collections::BTreeMap;

use flopsmith_protocol::{CandidateFault, FaultClass, UnknownCause};

use crate::axis::Scale;
use crate::curve;
use crate::model::StepMetrics;
use crate::text::{coordinate as c, count, escape, percent, words};

const WIDTH: f64 = 460.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 190.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = WIDTH - 12.0;

/// Kinds of outcomes that are shown together, in the order of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Correct,
    Wrong,
    Runtime,
    Timeout,
    Compile,
    Violation,
    Infrastructure,
}

impl Group {
    const ALL: [Group; 7] = [
        Group::Correct,
        Group::Wrong,
        Group::Runtime,
        Group::Timeout,
        Group::Compile,
        Group::Violation,
        Group::Infrastructure,
    ];

    /// The group of an outcome's kind, as [`flopsmith_protocol::Verdict::kind`] names it.
    pub fn of(kind: &str) -> Group {
        if kind == "measured" {
            return Group::Correct;
        }
        match CandidateFault::ALL
            .iter()
            .find(|f| f.name() == kind)
            .map(|f| f.class())
        {
            Some(FaultClass::Wrong) => Group::Wrong,
            Some(FaultClass::Runtime) => Group::Runtime,
            Some(FaultClass::Timeout) => Group::Timeout,
            Some(FaultClass::Compile) => Group::Compile,
            Some(FaultClass::Violation) => Group::Violation,
            None => Group::Infrastructure,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Group::Correct => "correct",
            Group::Wrong => "wrong result",
            Group::Runtime => "died",
            Group::Timeout => "too slow to end",
            Group::Compile => "does not build",
            Group::Violation => "against the rules",
            Group::Infrastructure => "not its fault",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Group::Correct => "o0",
            Group::Wrong => "o1",
            Group::Runtime => "o2",
            Group::Timeout => "o3",
            Group::Compile => "o4",
            Group::Violation => "o5",
            Group::Infrastructure => "o6",
        }
    }
}

/// A request is no program, and has no group.
fn grouped(outcomes: &BTreeMap<String, u64>) -> BTreeMap<Group, u64> {
    let mut sums = BTreeMap::new();
    let programs = outcomes.iter();
    for (kind, n) in programs.filter(|(kind, _)| **kind != UnknownCause::Asked.name()) {
        let sum: &mut u64 = sums.entry(Group::of(kind)).or_default();
        *sum = sum.saturating_add(*n);
    }
    sums
}

/// The chart; empty if no step had an outcome.
pub fn chart(steps: &[StepMetrics]) -> String {
    let steps: Vec<(&StepMetrics, BTreeMap<Group, u64>)> = steps
        .iter()
        .map(|s| (s, grouped(&s.outcomes)))
        .filter(|(_, g)| g.values().any(|n| *n > 0))
        .collect();
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return String::new();
    };
    let (x0, x1) = (first.0.step as f64, last.0.step as f64);
    let x = Scale::new(x0 - 0.5, x1 + 0.5, LEFT, RIGHT);
    let y = Scale::new(0.0, 1.0, BOTTOM, TOP);
    let mut svg = format!(
        "<figure class=\"chart\"><figcaption>Outcomes of the samples</figcaption><svg viewBox=\"0 0 {WIDTH} 220\" role=\"img\" \
         aria-label=\"Share of outcomes by step; the list beside it holds the totals\">"
    );
    for tick in y.ticks(4) {
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            c(y.at(tick) + 4.0),
            percent(tick)
        ));
    }
    for tick in x
        .ticks(6)
        .into_iter()
        .filter(|t| t.fract() == 0.0 && (x0..=x1).contains(t))
    {
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            c(x.at(tick)),
            BOTTOM + 15.0
        ));
    }
    svg.push_str(&format!(
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>",
        c((LEFT + RIGHT) / 2.0),
        BOTTOM + 28.0
    ));
    let mut notes = Vec::new();
    for (step, groups) in &steps {
        let (from, to) = (x.at(step.step as f64 - 0.5), x.at(step.step as f64 + 0.5));
        // Thin gaps separate the bars if there is room.
        let gap = if to - from > 5.0 { 1.0 } else { 0.0 };
        let sum: f64 = groups.values().map(|n| *n as f64).sum();
        let mut so_far = 0.0;
        for (group, n) in groups {
            let share = *n as f64 / sum;
            let (low, high) = (y.at(so_far), y.at(so_far + share));
            so_far += share;
            svg.push_str(&format!(
                "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                group.class(),
                c(from),
                c(high),
                c((to - from - gap).max(0.3)),
                c(low - high)
            ));
        }
        let kinds: Vec<String> = step
            .outcomes
            .iter()
            .map(|(kind, n)| format!("{} {}", words(kind), count(*n)))
            .collect();
        notes.push((
            step.step as f64,
            format!("step {}: {}", step.step, kinds.join(", ")),
        ));
    }
    curve::notes(&mut svg, &notes, &x, (LEFT, RIGHT));
    svg.push_str("</svg></figure>");
    svg
}

/// Totals by group and kind; the table is also the legend.
pub fn totals(outcomes: &BTreeMap<String, u64>) -> String {
    let sum: u64 = outcomes.values().fold(0, |a, b| a.saturating_add(*b));
    if sum == 0 {
        return String::new();
    }
    let groups = grouped(outcomes);
    let mut out = String::from(
        "<table class=\"mix\"><thead><tr><th>Outcome</th><th>Samples</th><th>Share</th></tr></thead><tbody>",
    );
    for group in Group::ALL {
        let Some(n) = groups.get(&group) else {
            continue;
        };
        let mut kinds: Vec<(&String, &u64)> = outcomes
            .iter()
            .filter(|(k, _)| Group::of(k) == group)
            .collect();
        kinds.sort_by(|a, b| b.1.cmp(a.1));
        // A single kind with the group's own name adds no information.
        let detail =
            if kinds.len() == 1 && words(kinds[0].0) == group.name() || group == Group::Correct {
                String::new()
            } else {
                let kinds: Vec<String> = kinds
                    .iter()
                    .map(|(k, n)| format!("{} {}", words(k), count(**n)))
                    .collect();
                format!("<small>{}</small>", escape(&kinds.join(", ")))
            };
        out.push_str(&format!(
            "<tr><th scope=\"row\"><i class=\"swatch {}\"></i>{}{detail}</th><td>{}</td><td>{}</td></tr>",
            group.class(),
            group.name(),
            count(*n),
            percent(*n as f64 / sum as f64)
        ));
    }
    out.push_str("</tbody></table>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::InfrastructureCause;

    #[test]
    fn every_kind_of_the_protocol_has_a_group() {
        for fault in CandidateFault::ALL {
            assert_ne!(Group::of(fault.name()), Group::Infrastructure, "{fault}");
            assert_ne!(Group::of(fault.name()), Group::Correct, "{fault}");
        }
        for cause in InfrastructureCause::ALL {
            assert_eq!(Group::of(cause.name()), Group::Infrastructure);
        }
        assert_eq!(Group::of("unknown"), Group::Infrastructure);
        assert_eq!(Group::of("measured"), Group::Correct);
    }

    #[test]
    fn bars_reach_from_bottom_to_top() {
        // Requests are no part of the programs.
        let outcomes = [("measured", 3_u64), ("crash", 1), ("asked", 9)];
        let step = StepMetrics {
            step: 1,
            outcomes: outcomes.map(|(kind, n)| (kind.to_owned(), n)).into(),
            ..StepMetrics::default()
        };
        let svg = chart(&[step]);
        // 168 is the height of the plot.
        assert!(
            svg.contains("class=\"o0\" x=\"42\" y=\"64\" width=\"405\" height=\"126\""),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"o2\" x=\"42\" y=\"22\" width=\"405\" height=\"42\""),
            "{svg}"
        );
    }
}
