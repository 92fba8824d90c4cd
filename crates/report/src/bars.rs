//! Bar charts with intervals, as parts of a page and as files of their own.
//!
//! Each group has a bar for each series, in the order of the legend. A whisker is the interval, and a tooltip has the
//! numbers. Bars begin at 0, so lengths can be compared.

use crate::axis::Scale;
use crate::text::{coordinate as c, escape, number, percent, short, tick};

/// A number with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bar {
    /// The number.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

/// The bars that stand together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarGroup {
    /// Their name below the axis.
    pub name: String,
    /// A bar for each series; none where a number is not defined.
    pub bars: Vec<Option<Bar>>,
}

/// The numbers of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Shares from 0 to 1, shown as per cent.
    #[default]
    Share,
    /// How many times as fast as something, which is 1.
    Times,
}

/// A bar chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarChart {
    /// Heading.
    pub title: String,
    /// Names of the series, such as models.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<BarGroup>,
    /// Meaning of the numbers.
    pub quantity: Quantity,
}

/// Most groups in a chart whose names can be read below it.
pub const MOST_GROUPS: usize = 6;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 8.0;
/// Height of the plot.
const PLOT: f64 = 200.0;
/// Height of a row of the legend.
const ROW: f64 = 18.0;
/// Height of the names of groups with what is around them.
const BELOW: f64 = 30.0;
/// Width of a letter, at most.
const LETTER: f64 = 6.6;
/// Letters of a series' name in the legend.
const NAME_LETTERS: usize = 28;
/// A narrower bar has no number above it.
const NUMBERED: f64 = 24.0;
/// Colours in the style sheet.
const COLOURS: usize = 8;

/// Colours of a file of its own, which has no style sheet of a page.
const STYLE: &str = "svg{--card:#fff;--ink:#1b1d21;--soft:#5a5f68;--grid:#e8e8e3;--level:#6b7078;--s1:#0a5ab8;--s2:#a84b00;--s3:#1c7045;--s4:#8a3ea0;\
--s5:#0b6e78;--s6:#b3263e;--s7:#7a5c00;--s8:#4b5563;font-family:system-ui,sans-serif}\
@media (prefers-color-scheme:dark){svg{--card:#191c20;--ink:#e7e9ec;--soft:#a2a9b3;--grid:#2a2f36;--level:#9aa1ab;--s1:#74b4ff;--s2:#ffab5c;--s3:#6bd19b;\
--s4:#d2a8ff;--s5:#6fd3dc;--s6:#ff8fa0;--s7:#e3c778;--s8:#b6bec9}}\
text{fill:var(--ink);font-size:11.5px}.tick{fill:var(--soft)}.grid{stroke:var(--grid)}.level{stroke:var(--level);stroke-width:1.2;stroke-dasharray:5 4}\
.whisker{stroke:var(--ink);stroke-width:1.4}.paper{fill:var(--card)}.title{font-size:14px;font-weight:600}\
.f1{fill:var(--s1)}.f2{fill:var(--s2)}.f3{fill:var(--s3)}.f4{fill:var(--s4)}.f5{fill:var(--s5)}.f6{fill:var(--s6)}.f7{fill:var(--s7)}.f8{fill:var(--s8)}";

/// The chart as a `figure` of a page; empty if it has no number.
pub fn figure(chart: &BarChart) -> String {
    let Some(Drawing { svg, height }) = draw(chart, 0.0) else {
        return String::new();
    };
    let title = escape(&chart.title);
    format!(
        "<figure class=\"chart bars\"><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">{svg}</svg></figure>"
    )
}

/// The chart as an SVG file without references to other files; none if it has no number.
pub fn file(chart: &BarChart) -> Option<String> {
    const HEADING: f64 = 26.0;
    let Drawing { svg, height } = draw(chart, HEADING)?;
    let title = escape(&chart.title);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\
         <style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/><text class=\"title\" x=\"8\" y=\"18\">{title}</text>{svg}</svg>\n"
    ))
}

/// The inside of a drawing, and its height.
struct Drawing {
    svg: String,
    height: f64,
}

impl Bar {
    /// The ends of the interval, if they are numbers that belong to the value.
    fn interval(&self) -> Option<(f64, f64)> {
        let is_known = self.low.is_finite() && self.high.is_finite() && self.low <= self.high;
        is_known.then_some((self.low.max(0.0), self.high.max(0.0)))
    }

    /// True if the number can be drawn as a length.
    fn is_drawable(&self) -> bool {
        (0.0..1e12).contains(&self.value)
    }
}

/// Draws a chart that begins at the height `top`; none without a number.
fn draw(chart: &BarChart, top: f64) -> Option<Drawing> {
    let drawable = |bar: &&Bar| bar.is_drawable();
    let bars = chart.groups.iter().flat_map(|g| g.bars.iter().flatten());
    let greatest = bars
        .filter(drawable)
        .flat_map(|bar| [bar.value, bar.interval().map_or(0.0, |(_, high)| high)])
        .filter(|value| *value < 1e12)
        .fold(None, |most: Option<f64>, value| {
            Some(most.map_or(value, |most| most.max(value)))
        })?;
    let mut svg = String::new();
    let first = legend(&mut svg, &chart.series, top) + 14.0;
    let bottom = first + PLOT;
    let ceiling = match chart.quantity {
        Quantity::Share => 1.0,
        // The reference is always in sight.
        Quantity::Times => greatest.max(1.0) * 1.05,
    };
    let scale = Scale::new(0.0, ceiling, bottom, first);
    for value in scale.ticks(5) {
        let y = c(scale.at(value));
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            c(scale.at(value) + 4.0),
            escape(&label(chart.quantity, value))
        ));
    }
    let width = (RIGHT - LEFT) / chart.groups.len().max(1) as f64;
    for (place, group) in chart.groups.iter().enumerate() {
        let from = LEFT + place as f64 * width;
        bars_of(&mut svg, chart, group, (from, width), &scale);
        let letters = ((width - 6.0) / LETTER).max(1.0) as usize;
        svg.push_str(&format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}<title>{}</title></text>",
            c(from + 0.5 * width),
            c(bottom + 17.0),
            escape(&end_of(&group.name, letters)),
            escape(&group.name)
        ));
    }
    if chart.quantity == Quantity::Times {
        let y = c(scale.at(1.0));
        svg.push_str(&format!(
            "<line class=\"level\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"><title>the reference</title></line>"
        ));
    }
    Some(Drawing {
        svg,
        height: bottom + BELOW,
    })
}

/// The names of the series in rows, and the height below them.
fn legend(svg: &mut String, series: &[String], top: f64) -> f64 {
    let (mut x, mut y) = (LEFT, top + 12.0);
    for (place, name) in series.iter().enumerate() {
        let shown = end_of(name, NAME_LETTERS);
        let width = 22.0 + LETTER * shown.chars().count() as f64 + 14.0;
        if x > LEFT && x + width > RIGHT {
            (x, y) = (LEFT, y + ROW);
        }
        svg.push_str(&format!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"{}\" y=\"{}\">{}<title>{}</title></text>",
            colour(place),
            c(x),
            c(y - 10.0),
            c(x + 18.0),
            c(y),
            escape(&shown),
            escape(name)
        ));
        x += width;
    }
    y
}

/// The bars of a group, which has this place and width.
fn bars_of(
    svg: &mut String,
    chart: &BarChart,
    group: &BarGroup,
    (from, width): (f64, f64),
    scale: &Scale,
) {
    let count = chart.series.len().max(1) as f64;
    let bar_width = (0.84 * width / count).min(46.0);
    let begin = from + 0.5 * (width - count * bar_width);
    let zero = scale.at(0.0);
    for (place, (name, bar)) in chart.series.iter().zip(&group.bars).enumerate() {
        let Some(bar) = bar.as_ref().filter(|bar| bar.is_drawable()) else {
            continue;
        };
        let x = begin + place as f64 * bar_width;
        let y = scale.at(bar.value);
        let shown = label(chart.quantity, bar.value);
        let interval = bar.interval().map_or_else(String::new, |(low, high)| {
            let of = |value| label(chart.quantity, value);
            format!(", 95 % interval {} to {}", of(low), of(high))
        });
        svg.push_str(&format!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            colour(place),
            c(x + 1.0),
            c(y),
            c((bar_width - 2.0).max(0.5)),
            c(zero - y),
            escape(&format!("{name}, {}: {shown}{interval}", group.name))
        ));
        let middle = c(x + 0.5 * bar_width);
        let mut above = y;
        if let Some((low, high)) = bar.interval() {
            svg.push_str(&format!(
                "<line class=\"whisker\" x1=\"{middle}\" x2=\"{middle}\" y1=\"{}\" y2=\"{}\"/>",
                c(scale.at(low)),
                c(scale.at(high))
            ));
            above = above.min(scale.at(high));
        }
        if bar_width >= NUMBERED {
            svg.push_str(&format!(
                "<text class=\"tick\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                c(above - 4.0),
                escape(&brief(chart.quantity, bar.value))
            ));
        }
    }
}

/// The class of a series' colour.
fn colour(place: usize) -> String {
    format!("f{}", place % COLOURS + 1)
}

/// A number at an axis or in a tooltip.
fn label(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Share => percent(value),
        Quantity::Times if value == value.trunc() => format!("{}×", tick(value)),
        Quantity::Times => format!("{}×", number(value)),
    }
}

/// A number above a bar.
fn brief(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Share => format!("{:.0}", 100.0 * value),
        Quantity::Times => short(value),
    }
}

/// The end of a name that is too long: names of a suite and paths differ at their ends.
fn end_of(name: &str, letters: usize) -> String {
    let all = name.chars().count();
    if all <= letters {
        return name.to_owned();
    }
    let end: String = name.chars().skip(all - letters + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn bar(value: f64) -> Option<Bar> {
        Some(Bar {
            value,
            low: 0.5 * value,
            high: 1.5 * value,
        })
    }

    fn chart(quantity: Quantity, bars: Vec<Option<Bar>>) -> BarChart {
        BarChart {
            title: "speedup <1>".into(),
            series: vec!["base".into(), "rlpf & more".into()],
            groups: vec![BarGroup {
                name: "polybench_jacobi_2d".into(),
                bars,
            }],
            quantity,
        }
    }

    #[test]
    fn bars_have_lengths_whiskers_and_numbers() {
        let svg = figure(&chart(Quantity::Times, vec![bar(2.0), bar(4.0)]));
        // The axis ends at 6.3, 200 pixels above 0: the bars are 63.5 and 127 high.
        for part in [
            "height=\"63.5\"><title>base, polybench_jacobi_2d: 2×, 95 % interval 1× to 3×</title>",
            "height=\"127\"><title>rlpf &amp; more, polybench_jacobi_2d: 4×, 95 % interval 2× to 6×</title>",
            "<figcaption>speedup &lt;1&gt;</figcaption>",
            "<title>the reference</title>",
            ">4.0</text>",
        ] {
            assert!(svg.contains(part), "`{part}` is missing in {svg}");
        }
        assert_eq!(svg.matches("class=\"whisker\"").count(), 2);
        assert_eq!(svg.matches("class=\"f1\"").count(), 2);
    }

    #[test]
    fn shares_end_at_all_and_missing_numbers_have_no_bar() {
        let svg = figure(&chart(Quantity::Share, vec![None, bar(0.5)]));
        assert!(
            svg.contains("100 %") && !svg.contains("the reference"),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1);
        assert!(svg.contains("height=\"100\"><title>rlpf"), "{svg}");
        let nan = Bar {
            value: f64::NAN,
            low: 0.0,
            high: 1.0,
        };
        for none in [vec![], vec![None, None], vec![Some(nan)]] {
            let empty = chart(Quantity::Share, none);
            assert_eq!((figure(&empty), file(&empty)), (String::new(), None));
        }
    }

    #[test]
    fn a_file_stands_alone() {
        let svg = file(&chart(Quantity::Times, vec![bar(2.0), bar(4.0)])).unwrap();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert_eq!(svg.matches("http").count(), 1, "{svg}");
        for class in [
            "f1", "f2", "whisker", "grid", "level", "tick", "paper", "title",
        ] {
            assert!(svg.contains(&format!(".{class}{{")), "{class}");
        }
    }

    #[test]
    fn long_names_keep_their_ends_and_many_series_have_several_rows() {
        assert_eq!(end_of("polybench_jacobi_2d", 9), "…acobi_2d");
        assert_eq!(end_of("dot", 9), "dot");
        let mut rows = String::new();
        let names: Vec<String> = (0..20).map(|n| format!("a model of number {n}")).collect();
        assert!(legend(&mut rows, &names, 0.0) > 12.0 + ROW);
        assert_eq!(legend(&mut String::new(), &[], 0.0), 12.0);
    }
}
