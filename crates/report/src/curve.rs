//! Line charts over steps, as SVG.
//!
//! Lines are named at their right ends, without a separate legend. A tooltip shows the numbers of each step.

use crate::axis::{Scale, range, spread};
use crate::text::{coordinate as c, escape};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 190.0;
const LEFT: f64 = 42.0;

/// A line.
pub struct Series {
    /// The line's name; no label if empty.
    pub name: &'static str,
    /// The line's class in the style sheet: `s1` to `s3`.
    pub class: &'static str,
    /// Step and value; values that are not finite leave a gap.
    pub points: Vec<(f64, f64)>,
    /// True if the points are drawn one by one, without a line.
    pub dots: bool,
}

/// A reference level.
pub struct Level {
    /// The level's name.
    pub name: String,
    /// The level's value.
    pub value: f64,
}

/// Steps that belong together: a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// First step.
    pub from: f64,
    /// Last step.
    pub to: f64,
    /// Name of the stage.
    pub name: String,
}

/// A chart.
pub struct Chart<'a> {
    /// Heading.
    pub title: &'a str,
    /// A description of the drawing, for readers who cannot see it.
    pub description: String,
    /// Lines.
    pub series: Vec<Series>,
    /// Levels.
    pub levels: Vec<Level>,
    /// Stages.
    pub bands: &'a [Band],
    /// The smallest value shown, if fixed.
    pub floor: Option<f64>,
    /// The largest value shown, if fixed.
    pub ceiling: Option<f64>,
    /// The format of values at the axis.
    pub format: fn(f64) -> String,
    /// The tooltip of each step.
    pub notes: Vec<(f64, String)>,
}

impl Chart<'_> {
    /// The chart as a `figure`; empty if there is no point to draw.
    pub fn html(&self) -> String {
        let points = || self.series.iter().flat_map(|s| s.points.iter());
        let Some((x0, x1)) = range(points().filter(|p| p.1.is_finite()).map(|p| p.0)) else {
            return String::new();
        };
        let values = points()
            .map(|p| p.1)
            .chain(self.levels.iter().map(|l| l.value));
        let Some((low, high)) = range(values) else {
            return String::new();
        };
        // Equal values are drawn in the middle; a line on the axis would be invisible.
        let beyond = match high.abs() {
            _ if high > low => 0.05 * (high - low),
            0.0 => 1.0,
            height => 0.5 * height,
        };
        let low = self.floor.unwrap_or(low - beyond);
        let high = self.ceiling.unwrap_or(high + beyond);
        let alone = x0 == x1;
        let (x0, x1) = if alone {
            (x0 - 0.5, x1 + 0.5)
        } else {
            (x0, x1)
        };
        let labelled = self.series.iter().any(|s| !s.name.is_empty()) || !self.levels.is_empty();
        let right = if labelled { WIDTH - 98.0 } else { WIDTH - 12.0 };
        let x = Scale::new(x0, x1, LEFT, right);
        let y = Scale::new(low, high, BOTTOM, TOP);

        let mut svg = format!(
            "<figure class=\"chart\"><figcaption>{}{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.title),
            if alone {
                "<small>one step only</small>"
            } else {
                ""
            },
            escape(&self.description)
        );
        bands(&mut svg, self.bands, &x, (x0, x1));
        for tick in y.ticks(5) {
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/><text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                c(right),
                LEFT - 6.0,
                c(y.at(tick) + 4.0),
                escape(&(self.format)(tick)),
                y = c(y.at(tick)),
            ));
        }
        for tick in x.ticks(6).into_iter().filter(|t| t.fract() == 0.0) {
            svg.push_str(&format!(
                "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
                c(x.at(tick)),
                BOTTOM + 15.0
            ));
        }
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>",
            c((LEFT + right) / 2.0),
            BOTTOM + 28.0
        ));
        for level in self.levels.iter().filter(|l| l.value.is_finite()) {
            svg.push_str(&format!(
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
                c(right),
                y = c(y.at(level.value))
            ));
        }
        for series in &self.series {
            line(&mut svg, series, &x, &y, if alone { 4.0 } else { 2.2 });
        }
        self.labels(&mut svg, right, &y);
        notes(&mut svg, &self.notes, &x, (LEFT, right));
        svg.push_str("</svg></figure>");
        svg
    }

    fn labels(&self, svg: &mut String, right: f64, y: &Scale) {
        let mut labels: Vec<(f64, &str, &str)> = Vec::new();
        for series in self.series.iter().filter(|s| !s.name.is_empty()) {
            if let Some(end) = series.points.iter().rev().find(|p| p.1.is_finite()) {
                labels.push((y.at(end.1), series.name, series.class));
            }
        }
        for level in self.levels.iter().filter(|l| l.value.is_finite()) {
            labels.push((y.at(level.value), &level.name, "level"));
        }
        let positions: Vec<f64> = labels.iter().map(|l| l.0).collect();
        for ((at, name, class), place) in labels.iter().zip(spread(&positions, 14.0, TOP, BOTTOM)) {
            svg.push_str(&format!(
                "<path class=\"leader {class}\" d=\"M{} {} L{} {}\"/><text class=\"name {class}\" x=\"{}\" y=\"{}\">{}</text>",
                c(right + 1.0),
                c(*at),
                c(right + 8.0),
                c(place),
                c(right + 11.0),
                c(place + 4.0),
                escape(name)
            ));
        }
    }
}

fn bands(svg: &mut String, bands: &[Band], x: &Scale, (x0, x1): (f64, f64)) {
    // Adjacent stages meet halfway between their steps.
    let edge = |v: f64| x.at(v.clamp(x0, x1));
    for (i, band) in bands.iter().enumerate() {
        let (from, to) = (edge(band.from - 0.5), edge(band.to + 0.5));
        if to - from < 0.05 {
            continue;
        }
        svg.push_str(&format!(
            "<rect class=\"band b{}\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            i % 2,
            c(from),
            c(to - from),
            c(BOTTOM - TOP)
        ));
        // A small letter is about 6 units wide.
        if to - from > 6.0 * band.name.chars().count() as f64 {
            svg.push_str(&format!(
                "<text class=\"stage\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                c((from + to) / 2.0),
                TOP - 6.0,
                escape(&band.name)
            ));
        }
    }
}

fn line(svg: &mut String, series: &Series, x: &Scale, y: &Scale, radius: f64) {
    let (mut path, mut open, mut marks) = (String::new(), false, String::new());
    for (i, (px, py)) in series.points.iter().enumerate() {
        if !(px.is_finite() && py.is_finite()) {
            open = false;
            continue;
        }
        let alone = !open && !series.points.get(i + 1).is_some_and(|p| p.1.is_finite());
        if series.dots || alone {
            marks.push_str(&format!(
                "<circle class=\"dot {}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>",
                series.class,
                c(x.at(*px)),
                c(y.at(*py))
            ));
        }
        path.push_str(&format!(
            "{}{} {} ",
            if open { 'L' } else { 'M' },
            c(x.at(*px)),
            c(y.at(*py))
        ));
        open = true;
    }
    if !series.dots {
        svg.push_str(&format!(
            "<path class=\"line {}\" d=\"{}\"/>",
            series.class,
            path.trim_end()
        ));
    }
    svg.push_str(&marks);
}

/// Invisible columns with a tooltip that shows their step's numbers.
pub fn notes(svg: &mut String, notes: &[(f64, String)], x: &Scale, (left, right): (f64, f64)) {
    let width = ((right - left) / notes.len().max(1) as f64).max(2.0);
    for (step, note) in notes {
        svg.push_str(&format!(
            "<rect class=\"note\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            c(x.at(*step) - width / 2.0),
            c(width),
            c(BOTTOM - TOP),
            escape(note)
        ));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::text::number;

    fn chart(points: Vec<(f64, f64)>) -> String {
        Chart {
            title: "Speed",
            description: String::new(),
            series: vec![Series {
                name: "mean",
                class: "s1",
                points,
                dots: false,
            }],
            levels: vec![Level {
                name: "peak".into(),
                value: 50.0,
            }],
            bands: &[],
            floor: Some(0.0),
            ceiling: None,
            format: number,
            notes: vec![],
        }
        .html()
    }

    #[test]
    fn a_line_goes_from_its_first_to_its_last_point() {
        let svg = chart(vec![(0.0, 0.0), (5.0, 25.0), (10.0, 50.0)]);
        let path = svg
            .split("class=\"line s1\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        // The range is 0 to 52.5; 190 is the bottom and 22 the top.
        assert_eq!(path, "M42 190 L202 110 L362 30");
    }

    #[test]
    fn non_finite_values_leave_a_gap_and_a_lone_point_stays_visible() {
        let svg = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 3.0)]);
        let path = svg
            .split("class=\"line s1\" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(
            (path.matches('M').count(), path.matches('L').count()),
            (2, 1),
            "{path}"
        );
        assert_eq!(svg.matches("<circle").count(), 1);
    }

    #[test]
    fn a_single_step_is_a_dot_in_the_middle_and_says_so() {
        let svg = chart(vec![(7.0, 25.0)]);
        // 42 to 362 is the width, 22 to 190 the height, and 0 to 51.25 the range.
        assert!(
            svg.contains("<circle class=\"dot s1\" cx=\"202\" cy=\"108\" r=\"4\"/>"),
            "{svg}"
        );
        assert!(svg.contains("one step only"), "{svg}");
        assert!(!chart(vec![(0.0, 1.0), (1.0, 2.0)]).contains("one step only"));
    }

    #[test]
    fn a_constant_series_lies_off_the_axis() {
        let flat = Chart {
            title: "Reward",
            description: String::new(),
            series: vec![Series {
                name: "",
                class: "s1",
                points: vec![(0.0, -0.4), (1.0, -0.4)],
                dots: false,
            }],
            levels: vec![],
            bands: &[],
            floor: None,
            ceiling: None,
            format: number,
            notes: vec![],
        }
        .html();
        assert!(flat.contains("d=\"M42 106 L448 106\""), "{flat}");
    }

    #[test]
    fn nothing_to_draw_gives_nothing() {
        assert_eq!(chart(vec![]), "");
        assert_eq!(chart(vec![(0.0, f64::INFINITY)]), "");
    }
}
