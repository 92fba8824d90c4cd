//! Curves of several runs in one drawing, as SVG. A legend below names them, because names of runs are long.
//!
//! The width of the page stretches the curves alone: words have places in percent of the width and keep their size, so they
//! can be read on a phone, too.

use flopsmith_report::axis::{Scale, range};
use flopsmith_report::text::{coordinate as c, escape};

/// Width of the plot in the coordinates of its curves; 100 % of the page's column.
const WIDTH: f64 = 1000.0;
/// Height of the plot in the coordinates of its curves, and in pixels (`.plot>svg` in the style sheet).
const HEIGHT: f64 = 214.0;

/// Points of a curve that are drawn; the others are between two of these.
const MOST_POINTS: usize = 300;

/// Number of curves with a colour and a stroke of their own.
pub const MOST_CURVES: usize = 8;

/// A curve.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Step and value, in the order of the steps.
    pub points: Vec<(f64, f64)>,
    /// Step, lowest and highest value of the runs that the curve is the mean of; empty for a single run.
    pub band: Vec<(f64, f64, f64)>,
}

/// A drawing.
pub struct Chart<'a> {
    /// Its heading.
    pub title: &'a str,
    /// The smallest value shown, if fixed.
    pub floor: Option<f64>,
    /// The largest value shown, if fixed.
    pub ceiling: Option<f64>,
    /// The format of values at the axis.
    pub format: fn(f64) -> String,
    /// The curves.
    pub curves: &'a [Curve],
}

impl Chart<'_> {
    /// The drawing as a `figure`; empty without a point.
    pub fn html(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let finite = || points().filter(|point| point.1.is_finite());
        let bands = || self.curves.iter().flat_map(|curve| &curve.band);
        let values = finite().map(|point| point.1);
        let values = values.chain(bands().flat_map(|band| [band.1, band.2]));
        let (Some((x0, x1)), Some((low, high))) =
            (range(finite().map(|point| point.0)), range(values))
        else {
            return String::new();
        };
        let beyond = match high > low {
            true => 0.05 * (high - low),
            false => 0.5 * high.abs().max(1e-9),
        };
        let x = Scale::new(x0, x1, 0.0, WIDTH);
        let low = self.floor.unwrap_or(low - beyond);
        let y = Scale::new(low, self.ceiling.unwrap_or(high + beyond), HEIGHT, 0.0);
        let names: Vec<&str> = self
            .curves
            .iter()
            .map(|curve| curve.name.as_str())
            .collect();
        let title = escape(self.title);
        let mut svg = format!(
            "<figure class=\"chart\"><figcaption>{title}</figcaption><div class=\"plot\"><svg role=\"img\" aria-label=\"{title} by step: {}\">",
            escape(&names.join(", "))
        );
        for tick in y.ticks(5) {
            let at = y.at(tick);
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/><text class=\"tick\" x=\"-6\" y=\"{}\" text-anchor=\"end\">{}</text>",
                c(at + 4.0),
                escape(&(self.format)(tick)),
                y = c(at),
            ));
        }
        // More of them would touch each other on a phone.
        for tick in x.ticks(4).into_iter().filter(|tick| tick.fract() == 0.0) {
            svg.push_str(&format!(
                "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
                across(&x, tick),
                c(HEIGHT + 17.0)
            ));
        }
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"50%\" y=\"{}\" text-anchor=\"middle\">step</text><svg class=\"lines\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"{HEIGHT}\">",
            c(HEIGHT + 33.0)
        ));
        for (number, curve) in self.curves.iter().enumerate() {
            let class = class(number);
            svg.push_str(&area(&curve.band, &x, &y, class));
            svg.push_str(&line(&curve.points, &x, &y, class));
        }
        svg.push_str("</svg>");
        for (number, curve) in self.curves.iter().enumerate() {
            svg.push_str(&dot(&curve.points, &x, &y, class(number)));
        }
        svg.push_str("</svg></div>");
        if names.iter().any(|name| !name.is_empty()) {
            svg.push_str("<ul class=\"legend curves\">");
            for (number, name) in names.iter().enumerate() {
                let (class, name) = (class(number), escape(name));
                svg.push_str(&format!(
                    "<li><svg class=\"key\" viewBox=\"0 0 28 8\" aria-hidden=\"true\"><path class=\"line {class}\" d=\"M1 4 L27 4\"/></svg>{name}</li>"
                ));
            }
            svg.push_str("</ul>");
        }
        svg.push_str("</figure>");
        svg
    }
}

/// The class of a curve in the style sheet of reports.
fn class(number: usize) -> &'static str {
    const CLASSES: [&str; MOST_CURVES] = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
    CLASSES[number % MOST_CURVES]
}

/// At most [`MOST_POINTS`] of these, with the first and the last one.
fn thinned<T: Copy>(points: &[T]) -> Vec<T> {
    let stride = points.len().div_ceil(MOST_POINTS).max(1);
    let mut kept: Vec<T> = points.iter().copied().step_by(stride).collect();
    if !points.is_empty() && !(points.len() - 1).is_multiple_of(stride) {
        kept.extend(points.last());
    }
    kept
}

/// The place of a step in percent of the width.
fn across(x: &Scale, step: f64) -> String {
    format!("{}%", c(100.0 * x.at(step) / WIDTH))
}

fn finite(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let points = points.iter().copied();
    points.filter(|point| point.1.is_finite()).collect()
}

fn line(points: &[(f64, f64)], x: &Scale, y: &Scale, class: &str) -> String {
    let finite = finite(points);
    if finite.len() < 2 {
        return String::new();
    }
    let mut path = String::new();
    for (px, py) in thinned(&finite) {
        let letter = if path.is_empty() { 'M' } else { 'L' };
        path.push_str(&format!("{letter}{} {} ", c(x.at(px)), c(y.at(py))));
    }
    format!("<path class=\"line {class}\" d=\"{}\"/>", path.trim_end())
}

/// A circle for a curve of one point: a path of one point is invisible, and the stretched lines would distort a circle.
fn dot(points: &[(f64, f64)], x: &Scale, y: &Scale, class: &str) -> String {
    match finite(points)[..] {
        [(px, py)] => format!(
            "<circle class=\"dot {class}\" cx=\"{}\" cy=\"{}\" r=\"4\"/>",
            across(x, px),
            c(y.at(py))
        ),
        _ => String::new(),
    }
}

fn area(band: &[(f64, f64, f64)], x: &Scale, y: &Scale, class: &str) -> String {
    if band.len() < 2 {
        return String::new();
    }
    let band = thinned(band);
    let upper = band.iter().map(|(px, _, high)| (*px, *high));
    let lower = band.iter().rev().map(|(px, low, _)| (*px, *low));
    let corners = upper.chain(lower);
    let corners = corners.map(|(px, py)| format!("{},{}", c(x.at(px)), c(y.at(py))));
    let corners = corners.collect::<Vec<_>>().join(" ");
    format!("<polygon class=\"band {class}\" points=\"{corners}\"/>")
}

/// The mean of several curves with the range of their values, at the steps that all of them have.
pub fn mean(name: String, curves: &[Vec<(f64, f64)>]) -> Curve {
    let mut curve = Curve {
        name,
        points: Vec::new(),
        band: Vec::new(),
    };
    let Some((one, others)) = curves.split_first() else {
        return curve;
    };
    for (step, value) in one {
        let at = |other: &Vec<(f64, f64)>| {
            let place = other.binary_search_by(|point| point.0.total_cmp(step));
            place.ok().map(|place| other[place].1)
        };
        let values: Option<Vec<f64>> = others.iter().map(at).collect();
        let Some(mut values) = values else {
            continue;
        };
        values.push(*value);
        if let Some((low, high)) = range(values.iter().copied())
            && values.iter().all(|value| value.is_finite())
        {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            curve.points.push((*step, mean));
            curve.band.push((*step, low, high));
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use flopsmith_report::text::number;

    use super::*;

    fn html(points: Vec<(f64, f64)>) -> String {
        let curve = Curve {
            name: "<b>".into(),
            points,
            band: vec![(0.0, 0.0, 1.0), (1.0, 1.0, f64::NAN)],
        };
        Chart {
            title: "a & b",
            floor: Some(0.0),
            ceiling: None,
            format: number,
            curves: &[curve],
        }
        .html()
    }

    #[test]
    fn any_points_are_drawn_within_bounds_and_names_are_escaped() {
        let many = html((0..100_000).map(|n| (f64::from(n), 1.0)).collect());
        assert!(many.len() < 20_000 && many.contains("&lt;b&gt;") && !many.contains("<b>"));
        assert!(html(vec![(0.0, f64::NAN), (1.0, 2.0)]).contains("<circle"));
        assert_eq!(html(vec![]), "");
        assert_eq!(html(vec![(1.0, f64::INFINITY)]), "");
    }

    #[test]
    fn words_and_circles_are_outside_of_the_stretched_curves() {
        let html = html(vec![(0.0, 1.0), (40.0, 2.0), (100.0, 3.0)]);
        let (frame, rest) = html.split_once("<svg class=\"lines\" ").unwrap_or_default();
        let (lines, _) = rest.split_once("</svg>").unwrap_or_default();
        assert!(frame.contains(">step</text>") && !frame.contains("viewBox"));
        assert!(
            frame.contains("x=\"100%\"") && frame.contains(">100</text>"),
            "{frame}"
        );
        assert!(lines.contains("preserveAspectRatio=\"none\""), "{lines}");
        assert!(
            lines.contains("<path") && !lines.contains("<text"),
            "{lines}"
        );
        let single = self::html(vec![(7.0, 2.0)]);
        let (_, rest) = single
            .split_once("<svg class=\"lines\" ")
            .unwrap_or_default();
        let (lines, after) = rest.split_once("</svg>").unwrap_or_default();
        assert!(
            !lines.contains("<circle") && after.contains("<circle"),
            "{single}"
        );
        assert!(after.contains("cx=\"0%\""), "{after}");
    }

    #[test]
    fn the_last_point_is_always_kept() {
        for length in [0, 1, 2, 299, 300, 301, 601, 5000] {
            let points: Vec<usize> = (0..length).collect();
            let kept = thinned(&points);
            assert!(kept.len() <= MOST_POINTS + 1);
            assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        }
    }

    #[test]
    fn a_mean_has_the_steps_that_all_runs_have() {
        let curves = [
            vec![(0.0, 1.0), (1.0, 3.0), (2.0, 9.0)],
            vec![(1.0, 5.0), (2.0, 1.0), (3.0, 1.0)],
        ];
        let curve = mean("two".into(), &curves);
        assert_eq!(curve.points, [(1.0, 4.0), (2.0, 5.0)]);
        assert_eq!(curve.band, [(1.0, 3.0, 5.0), (2.0, 1.0, 9.0)]);
    }
}
