//! The plane of a roofline: both axes are logarithmic.

use super::{BOTTOM, LEFT, MEMORY, RIGHT, TOP};
use crate::axis::Scale;
use crate::text::{coordinate as c, escape, number, tick};

/// The coordinates of a roofline chart.
pub struct Plane {
    /// Logarithms of intensities.
    x: Scale,
    /// Logarithms of speeds.
    y: Scale,
    /// Least intensity and speed.
    low: (f64, f64),
    /// Largest intensity and speed.
    high: (f64, f64),
}

impl Plane {
    /// A plane of these intensities and speeds, from the least to the largest.
    pub fn new(intensities: (f64, f64), speeds: (f64, f64)) -> Self {
        let ((x0, x1), (y0, y1)) = (intensities, speeds);
        Self {
            x: Scale::new(x0.log10(), x1.log10(), LEFT, RIGHT),
            y: Scale::new(y0.log10(), y1.log10(), BOTTOM, TOP),
            low: (x0, y0),
            high: (x1, y1),
        }
    }

    /// The coordinate of an intensity.
    pub fn x(&self, intensity: f64) -> f64 {
        self.x.at(intensity.log10())
    }

    /// The coordinate of a speed.
    pub fn y(&self, gflops: f64) -> f64 {
        self.y.at(gflops.log10())
    }

    /// Draws the grid and the numbers at the axes.
    pub fn axes(&self, svg: &mut String) {
        for value in ticks(self.low.1, self.high.1) {
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                c(self.y(value) + 4.0),
                escape(&tick(value)),
                y = c(self.y(value))
            ));
        }
        for value in ticks(self.low.0, self.high.0) {
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
                 <text class=\"tick\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 15.0,
                escape(&tick(value)),
                x = c(self.x(value))
            ));
        }
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">FLOP/byte</text>",
            c((LEFT + RIGHT) / 2.0),
            BOTTOM + 30.0
        ));
    }

    /// Draws a rate of reading as a slope, up to the peak.
    pub fn slope(&self, svg: &mut String, name: &str, gb_s: f64, peak: f64) {
        let from = self.low.0.max(self.low.1 / gb_s);
        let to = self.high.0.min(peak / gb_s);
        if from >= to {
            return;
        }
        let (x1, y1) = (self.x(from), self.y(from * gb_s));
        let (x2, y2) = (self.x(to), self.y(to * gb_s));
        let class = if name == MEMORY { "roof" } else { "level" };
        svg.push_str(&format!(
            "<path class=\"{class}\" d=\"M{} {} L{} {}\"/>",
            c(x1),
            c(y1),
            c(x2),
            c(y2)
        ));
        // The name is written along the slope, just above it, near its lower end.
        let (dx, dy) = (x2 - x1, y2 - y1);
        let length = dx.hypot(dy).max(1.0);
        let (x, y) = (
            x1 + 0.04 * dx + 4.0 * dy / length,
            y1 + 0.04 * dy - 4.0 * dx / length,
        );
        svg.push_str(&format!(
            "<text class=\"tick\" x=\"{x}\" y=\"{y}\" transform=\"rotate({} {x} {y})\">{} {} GB/s</text>",
            c(dy.atan2(dx).to_degrees()),
            escape(name),
            number(gb_s),
            x = c(x),
            y = c(y)
        ));
    }

    /// Draws a rate of computing as a level, from this intensity on.
    pub fn level(&self, svg: &mut String, class: &str, from: f64, gflops: f64) {
        svg.push_str(&format!(
            "<line class=\"{class}\" x1=\"{}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>",
            c(self.x(from)),
            y = c(self.y(gflops))
        ));
    }
}

/// Round numbers between two others on a logarithmic scale: 1, 2 and 5 of each power of ten if there are few powers.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let powers = last.saturating_sub(first);
    let factors: &[f64] = if powers <= 3 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    // With many powers, at most a dozen of them.
    let step = usize::try_from(powers / 12 + 1).unwrap_or(1);
    (first..=last)
        .step_by(step)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|value| (low..=high).contains(value))
        .collect()
}
