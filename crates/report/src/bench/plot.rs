//! The chart of speeds over sizes.
//!
//! Sizes that span a factor of four or more have a logarithmic axis, and so have speeds that span a factor of eight:
//! otherwise slow programs would lie on the axis.

use super::{SpeedLine, SpeedPlot, SpeedPoint};
use crate::axis::{Scale, range, spread};
use crate::roofline::ticks;
use crate::text::{coordinate as c, escape, number, tick};

/// Most programs with a line of their own: more lines cannot be told apart.
pub const MOST_LINES: usize = 8;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 318.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = WIDTH - 190.0;
/// Sizes whose numbers would stand closer than this have none.
const BETWEEN_NUMBERS: f64 = 34.0;
/// Height of a line's name with the space to the next one.
const NAME_HEIGHT: f64 = 15.0;
/// Letters of a name that fit beside the chart.
const NAME_LETTERS: usize = 24;

/// An axis.
struct Axis {
    scale: Scale,
    logarithmic: bool,
    low: f64,
    high: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        if self.logarithmic {
            self.scale.at(value.log2())
        } else {
            self.scale.at(value)
        }
    }

    fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            scale: Scale::new(low.log2(), high.log2(), from, to),
            logarithmic: true,
            low,
            high,
        }
    }

    fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            scale: Scale::new(low, high, from, to),
            logarithmic: false,
            low,
            high,
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            ticks(self.low, self.high)
        } else {
            self.scale.ticks(5)
        }
    }
}

/// A number that an axis of either kind can show.
fn drawable(value: f64) -> bool {
    (1e-9..1e12).contains(&value)
}

/// The chart as a `figure`; empty if there are no two sizes to draw.
pub fn html(plot: &SpeedPlot) -> String {
    let lines: Vec<(&SpeedLine, Vec<&SpeedPoint>)> = plot
        .lines
        .iter()
        .take(MOST_LINES)
        .map(|line| {
            let points = line.points.iter();
            let drawn = points.filter(|p| drawable(p.size) && drawable(p.speed));
            (line, drawn.collect())
        })
        .collect();
    let roof: Vec<(f64, f64)> = plot
        .roof
        .iter()
        .copied()
        .filter(|(size, roof)| drawable(*size) && drawable(*roof))
        .collect();
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let mut sizes: Vec<f64> = points().map(|p| p.size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let speeds = points().map(|p| p.speed).chain(roof.iter().map(|r| r.1));
    let (Some(&first), Some(&last), Some((slowest, fastest))) =
        (sizes.first(), sizes.last(), range(speeds))
    else {
        return String::new();
    };
    if first >= last {
        return String::new();
    }
    let x = if last / first >= 4.0 {
        Axis::logarithmic(first, last, LEFT + 8.0, RIGHT - 8.0)
    } else {
        Axis::linear(first, last, LEFT + 8.0, RIGHT - 8.0)
    };
    let y = if fastest / slowest >= 8.0 {
        Axis::logarithmic(slowest / 1.3, fastest * 1.3, BOTTOM, TOP)
    } else {
        Axis::linear(0.0, fastest * 1.08, BOTTOM, TOP)
    };
    let names: Vec<&str> = lines.iter().map(|(line, _)| line.name.as_str()).collect();
    let description = format!(
        "{} over {} from {} to {} of {}",
        plot.unit,
        plot.axis,
        number(first),
        number(last),
        names.join(", ")
    );
    let mut svg = format!(
        "<figure class=\"chart\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&plot.title),
        escape(&description)
    );
    axes(&mut svg, plot, &x, &y, &sizes);
    if !roof.is_empty() {
        svg.push_str(&format!(
            "<path class=\"roof\" d=\"{}\"/>",
            path(roof.iter().copied(), &x, &y)
        ));
    }
    for (n, (line, points)) in lines.iter().enumerate() {
        programs_line(&mut svg, plot, (n, *line), points, &x, &y);
    }
    labels(&mut svg, &lines, roof.last().map(|roof| roof.1), &y);
    svg.push_str("</svg>");
    let left_out = plot.lines.len().saturating_sub(MOST_LINES);
    if left_out > 0 {
        let plural = if left_out == 1 { "" } else { "s" };
        svg.push_str(&format!(
            "<small>{left_out} more program{plural} in the tables below</small>"
        ));
    }
    svg.push_str("</figure>");
    svg
}

fn axes(svg: &mut String, plot: &SpeedPlot, x: &Axis, y: &Axis, sizes: &[f64]) {
    for value in y.ticks() {
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/><text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            c(y.at(value) + 4.0),
            escape(&tick(value)),
            y = c(y.at(value)),
        ));
    }
    let mut free = f64::NEG_INFINITY;
    for size in sizes {
        let at = x.at(*size);
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"{BOTTOM}\" y2=\"{}\"/>",
            BOTTOM + 4.0,
            at = c(at),
        ));
        if at >= free {
            free = at + BETWEEN_NUMBERS;
            svg.push_str(&format!(
                "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{size}</text>",
                c(at),
                BOTTOM + 17.0,
            ));
        }
    }
    svg.push_str(&format!(
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text class=\"tick\" x=\"4\" y=\"{}\">{}</text>",
        c((LEFT + RIGHT) / 2.0),
        BOTTOM + 34.0,
        escape(&plot.axis),
        TOP - 5.0,
        escape(&plot.unit),
    ));
}

/// The class of a program's colour.
fn class(number: usize) -> String {
    format!("s{}", number % MOST_LINES + 1)
}

fn path(points: impl Iterator<Item = (f64, f64)>, x: &Axis, y: &Axis) -> String {
    let steps = points.enumerate().map(|(n, (size, value))| {
        let begin = if n == 0 { 'M' } else { 'L' };
        format!("{begin}{} {}", c(x.at(size)), c(y.at(value)))
    });
    steps.collect::<Vec<_>>().join(" ")
}

fn programs_line(
    svg: &mut String,
    plot: &SpeedPlot,
    (number_of_line, line): (usize, &SpeedLine),
    points: &[&SpeedPoint],
    x: &Axis,
    y: &Axis,
) {
    let class = class(number_of_line);
    svg.push_str(&format!(
        "<path class=\"line {class}\" d=\"{}\"/>",
        path(points.iter().map(|p| (p.size, p.speed)), x, y)
    ));
    for point in points {
        let at = c(x.at(point.size));
        // A measurement of too few rounds has no interval.
        let interval = if drawable(point.low) && drawable(point.high) {
            svg.push_str(&format!(
                "<line class=\"whisker {class}\" x1=\"{at}\" x2=\"{at}\" y1=\"{}\" y2=\"{}\"/>",
                c(y.at(point.low)),
                c(y.at(point.high)),
            ));
            format!(
                ", 95 % interval {} to {}",
                number(point.low),
                number(point.high)
            )
        } else {
            String::new()
        };
        let note = format!(
            "{} at {} = {}: {} {}{interval}",
            line.name,
            plot.axis,
            point.size,
            number(point.speed),
            plot.unit
        );
        svg.push_str(&format!(
            "<circle class=\"dot {class}\" cx=\"{at}\" cy=\"{}\" r=\"3.4\"><title>{}</title></circle>",
            c(y.at(point.speed)),
            escape(&note)
        ));
    }
}

/// Names each line at its right end.
fn labels(svg: &mut String, lines: &[(&SpeedLine, Vec<&SpeedPoint>)], roof: Option<f64>, y: &Axis) {
    let mut labels: Vec<(f64, String, String)> = Vec::new();
    for (n, (line, points)) in lines.iter().enumerate() {
        if let Some(last) = points.last() {
            labels.push((y.at(last.speed), short(&line.name), class(n)));
        }
    }
    if let Some(roof) = roof {
        labels.push((y.at(roof), "roof".into(), "of-roof".into()));
    }
    let heights: Vec<f64> = labels.iter().map(|label| label.0).collect();
    let places = spread(&heights, NAME_HEIGHT, TOP, BOTTOM);
    for ((height, name, class), place) in labels.iter().zip(places) {
        svg.push_str(&format!(
            "<path class=\"leader {class}\" d=\"M{} {} L{} {}\"/><text class=\"name {class}\" x=\"{}\" y=\"{}\">{}</text>",
            c(RIGHT + 1.0),
            c(*height),
            c(RIGHT + 10.0),
            c(place),
            c(RIGHT + 13.0),
            c(place + 4.0),
            escape(name)
        ));
    }
}

/// The end of a name that is too long: paths differ at their ends.
fn short(name: &str) -> String {
    let letters = name.chars().count();
    if letters <= NAME_LETTERS {
        return name.to_owned();
    }
    let end: String = name.chars().skip(letters - NAME_LETTERS + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, speeds: &[(f64, f64)]) -> SpeedLine {
        let point = |&(size, speed): &(f64, f64)| SpeedPoint {
            size,
            speed,
            low: 0.9 * speed,
            high: 1.1 * speed,
        };
        SpeedLine {
            name: name.into(),
            points: speeds.iter().map(point).collect(),
        }
    }

    fn plot(lines: Vec<SpeedLine>) -> SpeedPlot {
        SpeedPlot {
            title: "GFLOPS on 1 thread".into(),
            unit: "GFLOPS".into(),
            axis: "n".into(),
            lines,
            roof: vec![(64.0, 50.0), (256.0, 50.0)],
        }
    }

    #[test]
    fn sizes_are_spread_by_their_ratios_and_the_roof_is_drawn() {
        let speeds = [(64.0, 20.0), (128.0, 40.0), (256.0, 30.0)];
        let svg = html(&plot(vec![line("a.c", &speeds)]));
        // 56 to 562 are the sizes, in equal steps by their logarithm; 318 is 0 and 16 is 54 GFLOPS.
        assert!(
            svg.contains("class=\"line s1\" d=\"M56 206.1 L309 94.3 L562 150.2\""),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"roof\" d=\"M56 38.4 L562 38.4\""),
            "{svg}"
        );
        assert!(
            svg.contains("<title>a.c at n = 128: 40.0 GFLOPS, 95 % interval 36.0 to 44.0</title>"),
            "{svg}"
        );
        assert!(
            svg.contains(">roof</text>") && svg.contains(">a.c</text>"),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"whisker s1\"").count(), 3);
        assert_eq!(svg.matches("text-anchor=\"middle\">128</text>").count(), 1);
    }

    #[test]
    fn slow_programs_stay_visible_beside_fast_ones() {
        let svg = html(&plot(vec![line("slow.c", &[(64.0, 1.0), (256.0, 1.0)])]));
        let height: f64 = svg
            .split("class=\"line s1\" d=\"M56 ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .and_then(|height| height.parse().ok())
            .unwrap_or_default();
        assert!((BOTTOM - height) > 10.0, "{svg}");
    }

    #[test]
    fn non_finite_points_are_left_out_and_excess_programs_are_counted() {
        assert_eq!(html(&plot(vec![])), "");
        assert_eq!(html(&plot(vec![line("a.c", &[(64.0, 1.0)])])), "");
        let mut odd = line("a.c", &[(64.0, 1.0), (128.0, f64::NAN), (256.0, 2.0)]);
        odd.points[0].low = f64::NAN;
        let svg = html(&plot(vec![odd]));
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("class=\"whisker s1\"").count(), 1);
        assert!(!svg.contains("NaN"), "{svg}");
        let many = (0..10).map(|n| line(&format!("{n}.c"), &[(64.0, 1.0), (256.0, 2.0)]));
        let svg = html(&plot(many.collect()));
        assert_eq!(svg.matches("class=\"line s").count(), MOST_LINES);
        assert!(svg.contains("2 more programs in the tables"), "{svg}");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(short("a.c"), "a.c");
        let long = short("a/folder/far/away/blocked.c");
        assert_eq!(long, "…lder/far/away/blocked.c");
        assert_eq!(long.chars().count(), NAME_LETTERS);
    }
}
