//! The problems of a run over many: a small chart for each, all with the same scales, and a table.

use crate::axis::Scale;
use crate::heat;
use crate::model::{OfProblem, RunReport};
use crate::text::{coordinate as c, count, escape, number, percent};

const WIDTH: f64 = 230.0;
const HEIGHT: f64 = 140.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = WIDTH - 8.0;
/// The upper plot has the share of correct programs, the lower one the best ratio so far.
const CORRECT: (f64, f64) = (60.0, 12.0);
const BEST: (f64, f64) = (128.0, 80.0);

/// The scales that all charts share.
struct Scales {
    step: Scale,
    correct: Scale,
    /// Of the decimal logarithm of a ratio.
    ratio: Scale,
    least: f64,
    greatest: f64,
}

impl Scales {
    fn of(problems: &[OfProblem]) -> Self {
        let steps = || problems.iter().flat_map(|of| &of.steps);
        let mut numbers = steps().map(|step| step.step as f64);
        let numbers = bounds(&mut numbers, (f64::INFINITY, f64::NEG_INFINITY));
        let ratios = steps().filter_map(|step| step.best_ratio);
        // The speed of the reference is always in sight.
        let (least, greatest) = bounds(&mut ratios.filter(|r| *r > 0.0), (1.0, 2.0));
        Self {
            step: Scale::new(numbers.0, numbers.1, LEFT, RIGHT),
            correct: Scale::new(0.0, 1.0, CORRECT.0, CORRECT.1),
            ratio: Scale::new(least.log10(), greatest.log10(), BEST.0, BEST.1),
            least,
            greatest,
        }
    }
}

/// The least and the greatest of some values and two others.
fn bounds(values: &mut dyn Iterator<Item = f64>, others: (f64, f64)) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold(others, |(low, high), value| {
            (f64::min(low, value), f64::max(high, value))
        })
}

/// The charts, next to each other, and the table; empty for a run with one problem.
pub fn html(report: &RunReport) -> String {
    let problems = &report.problems;
    if problems.is_empty() {
        return String::new();
    }
    let scales = Scales::of(problems);
    let charts: String = problems.iter().map(|of| chart(of, &scales)).collect();
    format!("<div class=\"multiples\">{charts}</div>{}", table(problems))
}

/// The numbers of a problem in a few words, or the reason why it has none.
fn words(of: &OfProblem) -> String {
    match &of.best {
        Some(best) => format!(
            "{}× the plain reference; {} of {} correct",
            number(best.ratio),
            count(of.correct),
            count(of.judged)
        ),
        None => of.lacks.clone(),
    }
}

fn chart(of: &OfProblem, scales: &Scales) -> String {
    let name = escape(&of.problem);
    let words = escape(&words(of));
    let mut svg = format!(
        "<figure class=\"chart\"><figcaption>{name}<small>{words}</small></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}: {words}\">"
    );
    let ratio = |value: f64| format!("{}×", number(value));
    for (y, label) in [
        (CORRECT.0, percent(0.0)),
        (CORRECT.1, percent(1.0)),
        (BEST.0, ratio(scales.least)),
        (BEST.1, ratio(scales.greatest)),
    ] {
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 4.0,
            y + 4.0,
            escape(&label)
        ));
    }
    for (y, class, name) in [(CORRECT.1, "s1", "correct"), (BEST.1, "s2", "best so far")] {
        svg.push_str(&format!(
            "<text class=\"name {class}\" x=\"{}\" y=\"{}\">{name}</text>",
            LEFT + 3.0,
            y - 3.0
        ));
    }
    let at = |step: u64| scales.step.at(step as f64);
    let correct = of.steps.iter().map(|step| {
        let share = step.correct_rate;
        share
            .is_finite()
            .then(|| (at(step.step), scales.correct.at(share)))
    });
    line(&mut svg, "s1", correct);
    let mut best = None;
    let so_far = of.steps.iter().map(|step| {
        let ratio = step
            .best_ratio
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        best = match (best, ratio) {
            (Some(best), Some(ratio)) => Some(f64::max(best, ratio)),
            (known, new) => known.or(new),
        };
        best.map(|best| (at(step.step), scales.ratio.at(best.log10())))
    });
    line(&mut svg, "s2", so_far);
    svg.push_str("</svg></figure>");
    svg
}

/// A line through the points that there are, each also as a dot: a problem may have tasks in one step only.
fn line(svg: &mut String, class: &str, points: impl Iterator<Item = Option<(f64, f64)>>) {
    let points: Vec<(f64, f64)> = points.flatten().collect();
    if points.len() > 1 {
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{} {}", c(*x), c(*y)))
            .collect();
        svg.push_str(&format!(
            "<path class=\"line {class}\" d=\"M{}\"/>",
            path.join("L")
        ));
    }
    for (x, y) in points {
        svg.push_str(&format!(
            "<circle class=\"dot {class}\" cx=\"{}\" cy=\"{}\" r=\"1.8\"/>",
            c(x),
            c(y)
        ));
    }
}

fn table(problems: &[OfProblem]) -> String {
    let mut out = String::from(
        "<div class=\"scroll numbers\"><table><thead><tr><th>problem</th><th>correct</th><th>judged</th><th>best ratio</th>\
         <th>interval</th><th>GFLOPS</th><th>technique sets</th><th class=\"words\">its best program, or why there is none</th>\
         <th class=\"words\">its page</th></tr></thead><tbody>",
    );
    for of in problems {
        let dash = || "–".to_owned();
        let best = of.best.as_ref();
        let cells = [
            escape(&of.problem),
            count(of.correct),
            count(of.judged),
            best.map_or_else(dash, |best| format!("{}×", number(best.ratio))),
            best.map_or_else(dash, |best| {
                format!(
                    "{} to {}",
                    number(best.interval.low),
                    number(best.interval.high)
                )
            }),
            best.map_or_else(dash, |best| number(best.gflops)),
            count(of.coverage),
        ];
        out.push_str("<tr>");
        for cell in cells {
            out.push_str(&format!("<td>{cell}</td>"));
        }
        let last = best.map_or_else(|| of.lacks.clone(), |best| heat::name(best.techniques));
        out.push_str(&format!(
            "<td class=\"words\">{}</td><td class=\"words\"><code>{}</code></td></tr>",
            escape(&last),
            escape(&of.page)
        ));
    }
    out + "</tbody></table></div>"
}
