//! The speed of a program at one of several workloads, and over all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Certificate, Interval, Measurement, StopReason};

/// The name that stands for each problem's first workload where workloads are chosen. No workload has it.
pub const FIRST_WORKLOAD: &str = "first";

/// The speed of a verified program at one workload of a problem that has several: the fields of a [`Measurement`] for the
/// calls of this workload alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadMeasurement {
    /// Name of the workload.
    pub name: String,
    /// Useful floating-point operations per second, in 10⁹/s.
    pub gflops: f64,
    /// Seconds of an undisturbed call, by `gflops`.
    pub seconds_per_call: f64,
    /// Seconds of the fastest timed call; none if no call counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_seconds: Option<f64>,
    /// Median of the seconds of the timed calls, disturbances included; none if no call counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The plain reference's time divided by the candidate's. The reference of a module is its fastest baseline.
    pub ratio: f64,
    /// Interval of `ratio`.
    pub interval: Interval,
    /// Standard error of ln(ratio) without the error of the plain reference.
    pub log_ratio_se: f64,
    /// Share of the machine's measured peak.
    pub share_of_peak: f64,
    /// Bytes that calls move at least, in 10⁹/s, where the bandwidth of memory limits a program and not the arithmetic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_second: Option<f64>,
    /// Why the calls of this workload ended.
    pub stop: StopReason,
    /// Timed calls of the candidate.
    pub calls: u32,
    /// Median absolute deviation of the call times from their median, as a share of it.
    pub mdape: f64,
    /// How far the number holds in other layouts and without caches, for certified measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

impl WorkloadMeasurement {
    /// Are these calls about as sure as was aimed at?
    pub fn converged(&self) -> bool {
        self.stop != StopReason::Unconverged
    }
}

impl Measurement {
    /// The workload at which the program is the least faster than the plain reference; none where there is one workload only.
    /// Ratios compare workloads of different sizes, which speeds do not: each has a reference of its own.
    pub fn worst(&self) -> Option<&WorkloadMeasurement> {
        let workloads = self.workloads.iter();
        workloads.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }

    /// Restates the speeds in other measurements of the plain reference and of the peak, 10⁹ operations a second: over several
    /// workloads `reference_gflops` is the mean, and `references` has that of each. Ratios stay, and all numbers that are
    /// computed from them are updated.
    pub fn tell_in(&mut self, reference_gflops: f64, references: &[f64], peak_gflops: f64) {
        let gflops = self.ratio * reference_gflops;
        if let Some(times) = factor(gflops, self.gflops) {
            self.gflops = gflops;
            self.seconds_per_call /= times;
            divide_cold(&mut self.certificate, times);
        }
        self.share_of_peak = self.gflops / peak_gflops;
        for (workload, reference) in self.workloads.iter_mut().zip(references) {
            let gflops = workload.ratio * reference;
            let Some(times) = factor(gflops, workload.gflops) else {
                continue;
            };
            workload.gflops = gflops;
            workload.seconds_per_call /= times;
            workload.share_of_peak = gflops / peak_gflops;
            if let Some(moved) = &mut workload.gb_per_second {
                *moved *= times;
            }
            divide_cold(&mut workload.certificate, times);
        }
    }
}

/// How many times `before` a speed is; none if no speed is meant.
fn factor(gflops: f64, before: f64) -> Option<f64> {
    let times = gflops / before;
    (times.is_finite() && times > 0.0).then_some(times)
}

/// Divides the time of calls without caches by `times`.
fn divide_cold(certificate: &mut Option<Certificate>, times: f64) {
    let certificate = certificate.as_mut();
    if let Some(cold) = certificate.and_then(|c| c.cold_seconds_per_call.as_mut()) {
        *cold /= times;
    }
}

/// A measurement at one workload, for a mean over several.
#[derive(Debug, Clone, PartialEq)]
pub struct AtWorkload {
    /// Name of the workload.
    pub name: String,
    /// The measurement there.
    pub measurement: Measurement,
    /// See [`WorkloadMeasurement::gb_per_second`].
    pub gb_per_second: Option<f64>,
}

impl Measurement {
    /// The measurement over several workloads, each of which was measured in processes of its own, so that their errors are
    /// independent. The mean is geometric: it does not depend on the unit of any workload, and a program that is twice as fast
    /// at one of them gains as much whichever that is. One workload stays as it is; none has no measurement.
    pub fn over_workloads(parts: Vec<AtWorkload>) -> Option<Measurement> {
        let (first, rest) = parts.split_first()?;
        if rest.is_empty() {
            return parts.into_iter().next().map(|part| part.measurement);
        }
        let all = || parts.iter().map(|part| &part.measurement);
        let mean = |value: fn(&Measurement) -> f64| geometric(all().map(value)).unwrap_or(f64::NAN);
        let minima: Option<Vec<f64>> = all().map(|m| m.minimum_seconds).collect();
        let medians: Option<Vec<f64>> = all().map(|m| m.median_seconds).collect();
        let certificates: Option<Vec<&Certificate>> =
            all().map(|m| m.certificate.as_ref()).collect();
        let squares: f64 = all().map(|m| m.log_ratio_se.powi(2)).sum();
        Some(Measurement {
            gflops: mean(|m| m.gflops),
            seconds_per_call: mean(|m| m.seconds_per_call),
            minimum_seconds: minima.and_then(|all| geometric(all.into_iter())),
            median_seconds: medians.and_then(|all| geometric(all.into_iter())),
            ratio: mean(|m| m.ratio),
            interval: interval(all().map(|m| (m.ratio, m.interval))),
            log_ratio_se: squares.sqrt() / parts.len() as f64,
            calls: all().map(|m| m.calls).fold(0, u32::saturating_add),
            blocks: all().map(|m| m.blocks).fold(0, u32::saturating_add),
            mdape: all().map(|m| m.mdape).fold(0.0, f64::max),
            stop: all().fold(first.measurement.stop, |stop, m| stop.max(m.stop)),
            samples: None,
            share_of_peak: mean(|m| m.share_of_peak),
            certificate: certificates.and_then(|all| certificate(&all)),
            rounds: all().map(|m| m.rounds).fold(0, u32::saturating_add),
            outlying: all().map(|m| m.outlying).fold(0, u32::saturating_add),
            workloads: parts.iter().map(WorkloadMeasurement::of).collect(),
            ..first.measurement.clone()
        })
    }
}

impl WorkloadMeasurement {
    fn of(part: &AtWorkload) -> Self {
        let m = &part.measurement;
        Self {
            name: part.name.clone(),
            gflops: m.gflops,
            seconds_per_call: m.seconds_per_call,
            minimum_seconds: m.minimum_seconds,
            median_seconds: m.median_seconds,
            ratio: m.ratio,
            interval: m.interval,
            log_ratio_se: m.log_ratio_se,
            share_of_peak: m.share_of_peak,
            gb_per_second: part.gb_per_second,
            stop: m.stop,
            calls: m.calls,
            mdape: m.mdape,
            certificate: m.certificate.clone(),
        }
    }
}

/// The geometric mean; none of no numbers. One number stays as it is, to the last bit.
pub fn geometric(numbers: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = numbers.len();
    let mut numbers = numbers;
    match count {
        0 => None,
        1 => numbers.next(),
        _ => Some((numbers.map(f64::ln).sum::<f64>() / count as f64).exp()),
    }
}

/// The interval of the geometric mean of ratios with these intervals, whose errors are independent.
fn interval(of: impl ExactSizeIterator<Item = (f64, Interval)>) -> Interval {
    let count = of.len().max(1) as f64;
    let (mut sum, mut below, mut above, mut confidence) = (0.0, 0.0, 0.0, 1.0f64);
    for (ratio, interval) in of {
        let middle = ratio.ln();
        sum += middle;
        below += (middle - interval.low.ln()).powi(2);
        above += (interval.high.ln() - middle).powi(2);
        confidence = confidence.min(interval.confidence);
    }
    let middle = sum / count;
    Interval {
        low: (middle - below.sqrt() / count).exp(),
        high: (middle + above.sqrt() / count).exp(),
        confidence,
    }
}

/// The certificate over all workloads; none if the workloads were certified in different numbers of layouts.
fn certificate(all: &[&Certificate]) -> Option<Certificate> {
    let layouts = all.first()?.layout_ratios.len();
    if all.iter().any(|c| c.layout_ratios.len() != layouts) {
        return None;
    }
    let layout_ratios: Option<Vec<f64>> = (0..layouts)
        .map(|n| geometric(all.iter().map(|c| c.layout_ratios[n])))
        .collect();
    let layout_ratios = layout_ratios?;
    let largest = layout_ratios.iter().copied().fold(f64::MIN, f64::max);
    let smallest = layout_ratios.iter().copied().fold(f64::MAX, f64::min);
    let cold: Option<Vec<f64>> = all.iter().map(|c| c.cold_seconds_per_call).collect();
    let ratios: Option<Vec<(f64, Interval)>> = all
        .iter()
        .map(|c| c.cold_ratio.zip(c.cold_interval))
        .collect();
    Some(Certificate {
        layout_spread: largest / smallest - 1.0,
        layout_ratios,
        cold_seconds_per_call: cold.and_then(|all| geometric(all.into_iter())),
        cold_ratio: ratios
            .as_ref()
            .and_then(|all| geometric(all.iter().map(|r| r.0))),
        cold_interval: ratios.map(|all| interval(all.into_iter())),
        cold_stop: all.iter().filter_map(|c| c.cold_stop).max(),
    })
}
