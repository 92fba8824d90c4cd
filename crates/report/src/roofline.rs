//! The roofline: the speed that the machine permits at each arithmetic intensity, and the speeds of programs below it.
//!
//! Both axes are logarithmic: a bandwidth is a line of slope one, and a rate of multiply-adds is level. All programs of
//! a run solve one problem and have the same intensity; of several workloads that is the mean, and the best program has a
//! point at each of them as well.

mod plane;
mod table;

use crate::axis::{range, spread};
use crate::model::{Roofline, RunReport};
use crate::text::{coordinate as c, escape, number, share};
use plane::Plane;
pub(crate) use plane::ticks;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 262.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = WIDTH - 104.0;
/// The name of the slope that sets the roof.
const MEMORY: &str = "memory";
/// Distance between the names of programs: a line of text plus the space that keeps adjacent names apart.
const NAME_HEIGHT: f64 = 19.0;
/// Factor by which the axis of intensities exceeds the shown intensities on both sides.
const MARGIN: f64 = 4.0;

/// The speed that the intensity permits and the share of it that is reached, in sentences.
pub fn lead(report: &RunReport) -> String {
    let Some(roofline) = &report.roofline else {
        return String::new();
    };
    let mut text = match roofline.intensity.and_then(drawable) {
        Some(intensity) => format!(
            "The problem takes {} operations for each byte that a call must move at least{}. ",
            number(intensity),
            if roofline.workloads.is_empty() {
                ""
            } else {
                ", as a geometric mean over its workloads"
            }
        ),
        None => {
            "The number of bytes that a call must move is not known here, so only the ceilings are shown. "
                .to_owned()
        }
    };
    text.push_str(&format!(
        "So this machine permits at most {} GFLOPS, and {} binds.",
        number(roofline.roof_gflops),
        escape(&roofline.bound)
    ));
    if let Some(best) = &report.best {
        text.push_str(&format!(
            " The best program reaches {} of that.",
            escape(&share(best.gflops / roofline.roof_gflops))
        ));
    }
    if let Some(cache) = &roofline.cached_in {
        text.push_str(&format!(
            " All of these bytes fit the {} cache, where calls may find them: a program can be faster than the slope of memory allows.",
            escape(cache)
        ));
    }
    text.push_str(
        " Slopes are measured read bandwidths, levels are measured rates of multiply-adds by width of vectors.",
    );
    text
}

/// The chart, if the intensity is known, and a table of the numbers.
pub fn html(report: &RunReport) -> String {
    let Some(roofline) = &report.roofline else {
        return String::new();
    };
    let table = table::html(roofline);
    let chart = Chart::of(report, roofline).map(|chart| chart.html(roofline));
    match chart {
        Some(chart) => format!("{chart}<div>{table}</div>"),
        None => table,
    }
}

/// A value that fits on a logarithmic scale, far enough from the ends of the floating-point range to avoid overflow.
fn drawable(value: f64) -> Option<f64> {
    (1e-9..1e12).contains(&value).then_some(value)
}

/// A program in the chart.
struct Spot {
    name: &'static str,
    class: &'static str,
    gflops: f64,
}

/// The contents of the chart; every number in it is [`drawable`].
struct Chart {
    intensity: f64,
    peak: f64,
    ceilings: Vec<(String, f64)>,
    slopes: Vec<(String, f64)>,
    memory: Option<f64>,
    spots: Vec<Spot>,
    elites: Vec<f64>,
    /// The best program at each of several workloads: name, intensity and speed.
    workloads: Vec<(String, f64, f64)>,
}

impl Chart {
    /// `None` if there is no intensity or no ceiling.
    fn of(report: &RunReport, roofline: &Roofline) -> Option<Self> {
        let intensity = drawable(roofline.intensity?)?;
        let ceilings: Vec<(String, f64)> = roofline
            .ceilings
            .iter()
            .filter(|ceiling| ceiling.threads == roofline.threads)
            .filter_map(|ceiling| Some((ceiling.name.clone(), drawable(ceiling.gflops)?)))
            .collect();
        let slopes: Vec<(String, f64)> = roofline
            .bandwidths
            .iter()
            .filter(|slope| slope.threads == roofline.threads)
            .filter_map(|slope| Some((slope.name.clone(), drawable(slope.gb_s)?)))
            .collect();
        let openblas = report.openblas.as_ref().map(|o| o.gflops);
        let spots = [
            ("best", "s1", report.best.as_ref().map(|b| b.gflops)),
            ("OpenBLAS", "s2", openblas),
            ("reference", "s3", report.reference_gflops),
        ];
        Some(Self {
            intensity,
            peak: ceilings.iter().map(|ceiling| ceiling.1).reduce(f64::max)?,
            memory: slopes
                .iter()
                .find(|slope| slope.0 == MEMORY)
                .map(|slope| slope.1),
            ceilings,
            slopes,
            spots: spots
                .into_iter()
                .filter_map(|(name, class, gflops)| {
                    let gflops = drawable(gflops?)?;
                    Some(Spot {
                        name,
                        class,
                        gflops,
                    })
                })
                .collect(),
            elites: report
                .cells
                .iter()
                .filter_map(|cell| drawable(cell.best_gflops?))
                .collect(),
            workloads: roofline
                .workloads
                .iter()
                .filter_map(|workload| {
                    let intensity = drawable(workload.intensity?)?;
                    let gflops = drawable(workload.best_gflops?)?;
                    Some((workload.name.clone(), intensity, gflops))
                })
                .collect(),
        })
    }

    /// The speeds of all programs.
    fn speeds(&self) -> impl Iterator<Item = f64> {
        let spots = self.spots.iter().map(|spot| spot.gflops);
        let workloads = self.workloads.iter().map(|workload| workload.2);
        spots.chain(self.elites.iter().copied()).chain(workloads)
    }

    fn html(&self, roofline: &Roofline) -> String {
        // The intensities at which slopes meet the peak.
        let ridges = self.slopes.iter().map(|slope| self.peak / slope.1);
        let intensities = || self.workloads.iter().map(|workload| workload.1);
        let least = ridges.chain(intensities()).fold(self.intensity, f64::min);
        let most = intensities().fold(self.intensity, f64::max);
        let ridge = self
            .memory
            .map_or(self.intensity, |memory| self.peak / memory);
        let x = (least / MARGIN, most.max(ridge) * MARGIN);
        let permitted = self
            .memory
            .map_or(self.peak, |memory| self.peak.min(memory * self.intensity));
        let shown = self
            .speeds()
            .chain(self.ceilings.iter().map(|ceiling| ceiling.1))
            .chain([permitted]);
        let (low, high) = range(shown).unwrap_or((self.peak, self.peak));
        let plane = Plane::new(x, (low / 2.0, high * 2.0));
        let description = format!(
            "Roofline with {} thread{}: {} operations for each byte permit {} GFLOPS",
            roofline.threads,
            if roofline.threads == 1 { "" } else { "s" },
            number(self.intensity),
            number(permitted)
        );
        let mut svg = format!(
            "<figure class=\"chart\"><figcaption>Roofline with {} thread{}: GFLOPS by operations for each byte</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            roofline.threads,
            if roofline.threads == 1 { "" } else { "s" },
            escape(&description)
        );
        plane.axes(&mut svg);
        self.roofs(&mut svg, &plane);
        self.programs(&mut svg, &plane, permitted);
        svg.push_str("</svg></figure>");
        svg
    }

    fn roofs(&self, svg: &mut String, plane: &Plane) {
        for (name, gb_s) in &self.slopes {
            plane.slope(svg, name, *gb_s, self.peak);
        }
        for (_, gflops) in &self.ceilings {
            // Left of the memory slope no program can reach the ceiling.
            let from = self.memory.map_or(0.0, |memory| gflops / memory);
            let class = if *gflops < self.peak { "level" } else { "roof" };
            plane.level(svg, class, from, *gflops);
        }
        let heights: Vec<f64> = self
            .ceilings
            .iter()
            .map(|ceiling| plane.y(ceiling.1))
            .collect();
        let places = spread(&heights, 14.0, TOP, BOTTOM);
        for ((name, gflops), (height, place)) in
            self.ceilings.iter().zip(heights.iter().zip(places))
        {
            svg.push_str(&format!(
                "<path class=\"leader level\" d=\"M{} {} L{} {}\"/><text class=\"name level\" x=\"{}\" y=\"{}\">{} {}</text>",
                c(RIGHT + 1.0),
                c(*height),
                c(RIGHT + 8.0),
                c(place),
                c(RIGHT + 11.0),
                c(place + 4.0),
                escape(name),
                number(*gflops)
            ));
        }
    }

    fn programs(&self, svg: &mut String, plane: &Plane, permitted: f64) {
        let x = plane.x(self.intensity);
        svg.push_str(&format!(
            "<line class=\"at\" x1=\"{x}\" x2=\"{x}\" y1=\"{BOTTOM}\" y2=\"{}\"/>",
            c(plane.y(permitted)),
            x = c(x)
        ));
        for (name, intensity, gflops) in &self.workloads {
            let (x, y) = (plane.x(*intensity), plane.y(*gflops));
            svg.push_str(&format!(
                "<circle class=\"dot s1\" cx=\"{x}\" cy=\"{y}\" r=\"3\"><title>best at {name}: {} GFLOPS</title></circle>\
                 <text class=\"tick\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
                number(*gflops),
                c(y + 14.0),
                x = c(x),
                y = c(y),
                name = escape(name)
            ));
        }
        for gflops in &self.elites {
            svg.push_str(&format!(
                "<circle class=\"elite\" cx=\"{}\" cy=\"{}\" r=\"2\"><title>best of a set of techniques: {} GFLOPS</title></circle>",
                c(x),
                c(plane.y(*gflops)),
                number(*gflops)
            ));
        }
        // The names of ceilings are written on the right.
        let left = x > (LEFT + RIGHT) / 2.0;
        let (beside, anchor) = if left {
            (x - 9.0, "end")
        } else {
            (x + 9.0, "start")
        };
        let heights: Vec<f64> = self.spots.iter().map(|spot| plane.y(spot.gflops)).collect();
        let places = spread(&heights, NAME_HEIGHT, TOP, BOTTOM - 4.0);
        for (spot, (height, place)) in self.spots.iter().zip(heights.iter().zip(places)) {
            svg.push_str(&format!(
                "<circle class=\"dot {class}\" cx=\"{}\" cy=\"{}\" r=\"4\"/>\
                 <text class=\"name spot {class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{} {}</text>",
                c(x),
                c(*height),
                c(beside),
                c(place + 4.0),
                escape(spot.name),
                number(spot.gflops),
                class = spot.class
            ));
        }
    }
}

#[cfg(test)]
mod tests;
