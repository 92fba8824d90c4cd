//! The mean over workloads against a direct computation.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::*;
use proptest::prelude::*;

/// A measurement at a workload: ratio, its error, the distances to both ends of its interval, seconds, and calls.
type Drawn = (f64, f64, (f64, f64), f64, u32);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let one = (
        0.01f64..1e4,
        0.0f64..0.5,
        (0.0f64..1.0, 0.0f64..1.0),
        1e-7f64..10.0,
        1u32..1000,
    );
    prop::collection::vec(one, 1..7)
}

fn certificate(ratio: f64) -> Certificate {
    Certificate {
        layout_ratios: vec![0.99 * ratio, ratio, 1.02 * ratio],
        layout_spread: 1.02 / 0.99 - 1.0,
        cold_seconds_per_call: Some(0.5 * ratio),
        cold_ratio: Some(0.25 * ratio),
        cold_interval: Some(Interval {
            low: 0.2 * ratio,
            high: 0.3 * ratio,
            confidence: 0.95,
        }),
        cold_stop: Some(StopReason::Budget),
    }
}

fn part(number: usize, (ratio, se, (below, above), seconds, calls): Drawn) -> AtWorkload {
    let stops = [
        StopReason::Precise,
        StopReason::Decided,
        StopReason::Budget,
        StopReason::Unconverged,
    ];
    AtWorkload {
        name: format!("n={number}"),
        measurement: Measurement {
            gflops: 2.0 * ratio,
            seconds_per_call: seconds,
            minimum_seconds: Some(0.9 * seconds),
            median_seconds: Some(1.1 * seconds),
            ratio,
            interval: Interval {
                low: ratio * (-below).exp(),
                high: ratio * above.exp(),
                confidence: 0.95,
            },
            log_ratio_se: se,
            calls,
            blocks: 2 * calls,
            mdape: se / 2.0,
            stop: stops[calls as usize % stops.len()],
            samples: None,
            attestation: Digest::of(b"machine"),
            share_of_peak: ratio / 1e4,
            reused: false,
            certificate: Some(certificate(ratio)),
            rounds: 3 * calls,
            outlying: calls / 2,
            sizes: None,
            workloads: Vec::new(),
        },
        gb_per_second: (number == 1).then_some(seconds),
    }
}

fn parts(drawn: &[Drawn]) -> Vec<AtWorkload> {
    let parts = drawn.iter().enumerate();
    parts.map(|(n, drawn)| part(n, *drawn)).collect()
}

/// The geometric mean as the root of a product.
fn root(numbers: impl Iterator<Item = f64>) -> f64 {
    let numbers: Vec<f64> = numbers.collect();
    let exponent = 1.0 / numbers.len() as f64;
    numbers.iter().map(|x| x.powf(exponent)).product()
}

fn close(x: f64, y: f64) -> bool {
    (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-12)
}

proptest! {
    #[test]
    fn the_mean_is_what_a_direct_computation_gives(drawn in drawn()) {
        let parts = parts(&drawn);
        let found = Measurement::over_workloads(parts.clone()).unwrap();
        if let [only] = &parts[..] {
            prop_assert_eq!(&found, &only.measurement);
            return Ok(());
        }
        let k = parts.len() as f64;
        let all = || parts.iter().map(|p| &p.measurement);
        prop_assert!(close(found.ratio, root(all().map(|m| m.ratio))));
        prop_assert!(close(found.gflops, root(all().map(|m| m.gflops))));
        prop_assert!(close(found.seconds_per_call, root(all().map(|m| m.seconds_per_call))));
        prop_assert!(close(found.share_of_peak, root(all().map(|m| m.share_of_peak))));
        prop_assert!(close(found.minimum_seconds.unwrap(), root(all().filter_map(|m| m.minimum_seconds))));
        prop_assert!(close(found.median_seconds.unwrap(), root(all().filter_map(|m| m.median_seconds))));
        let variance: f64 = all().map(|m| m.log_ratio_se.powi(2)).sum();
        prop_assert!(close(found.log_ratio_se, (variance / (k * k)).sqrt()));
        // The half-widths of the logarithms add as standard errors do.
        let below: f64 = drawn.iter().map(|d| d.2.0.powi(2)).sum();
        let above: f64 = drawn.iter().map(|d| d.2.1.powi(2)).sum();
        prop_assert!(close((found.ratio / found.interval.low).ln(), below.sqrt() / k) || below < 1e-9);
        prop_assert!(close((found.interval.high / found.ratio).ln(), above.sqrt() / k) || above < 1e-9);
        prop_assert_eq!(found.interval.confidence, 0.95);
        prop_assert_eq!(found.calls, all().map(|m| m.calls).sum::<u32>());
        prop_assert_eq!(found.blocks, all().map(|m| m.blocks).sum::<u32>());
        prop_assert_eq!(found.rounds, all().map(|m| m.rounds).sum::<u32>());
        prop_assert_eq!(found.outlying, all().map(|m| m.outlying).sum::<u32>());
        prop_assert_eq!(found.mdape, all().map(|m| m.mdape).fold(0.0, f64::max));
        prop_assert_eq!(Some(found.stop), all().map(|m| m.stop).max());
        let least = all().map(|m| m.ratio).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(found.worst().unwrap().ratio, least);
        for (workload, part) in found.workloads.iter().zip(&parts) {
            prop_assert_eq!(&workload.name, &part.name);
            prop_assert_eq!(workload.gflops, part.measurement.gflops);
            prop_assert_eq!(workload.interval, part.measurement.interval);
            prop_assert_eq!(workload.gb_per_second, part.gb_per_second);
            prop_assert_eq!(&workload.certificate, &part.measurement.certificate);
        }
        prop_assert_eq!(found.workloads.len(), parts.len());
    }

    #[test]
    fn the_mean_lies_in_its_interval_and_between_the_workloads(drawn in drawn()) {
        let found = Measurement::over_workloads(parts(&drawn)).unwrap();
        let ratios = || drawn.iter().map(|d| d.0);
        prop_assert!(found.interval.low <= found.ratio * 1.000_001 && found.ratio <= found.interval.high * 1.000_001);
        prop_assert!(found.ratio >= ratios().fold(f64::INFINITY, f64::min) * 0.999_999);
        prop_assert!(found.ratio <= ratios().fold(0.0, f64::max) * 1.000_001);
    }

    #[test]
    fn the_certificate_is_a_mean_as_well(drawn in drawn()) {
        let found = Measurement::over_workloads(parts(&drawn)).unwrap();
        let certified = found.certificate.unwrap();
        let ratio = root(drawn.iter().map(|d| d.0));
        let expected = certificate(ratio);
        for (found, expected) in certified.layout_ratios.iter().zip(&expected.layout_ratios) {
            prop_assert!(close(*found, *expected));
        }
        prop_assert!(close(certified.layout_spread, expected.layout_spread));
        prop_assert!(close(certified.cold_seconds_per_call.unwrap(), 0.5 * ratio));
        prop_assert!(close(certified.cold_ratio.unwrap(), 0.25 * ratio));
        let interval = certified.cold_interval.unwrap();
        let below = (0.25f64 / 0.2).ln() / (drawn.len() as f64).sqrt();
        prop_assert!(close((0.25 * ratio / interval.low).ln(), below));
        prop_assert_eq!(certified.cold_stop, Some(StopReason::Budget));
    }
}

#[test]
fn numbers_that_one_workload_lacks_have_no_mean() {
    let of = |change: &dyn Fn(&mut Measurement)| {
        let drawn = (2.0, 0.01, (0.02, 0.02), 1e-3, 8);
        let mut parts = parts(&[drawn, drawn]);
        change(&mut parts[1].measurement);
        Measurement::over_workloads(parts).unwrap()
    };
    assert!(of(&|_| {}).median_seconds.is_some());
    assert_eq!(of(&|m| m.minimum_seconds = None).minimum_seconds, None);
    assert_eq!(of(&|m| m.median_seconds = None).median_seconds, None);
    assert_eq!(of(&|m| m.certificate = None).certificate, None);
    let fewer = of(&|m| {
        if let Some(certificate) = &mut m.certificate {
            certificate.layout_ratios.pop();
        }
    });
    assert_eq!(fewer.certificate, None);
    let warm = of(&|m| {
        if let Some(certificate) = &mut m.certificate {
            (certificate.cold_ratio, certificate.cold_interval) = (None, None);
        }
    });
    let warm = warm.certificate.unwrap();
    assert_eq!((warm.cold_ratio, warm.cold_interval), (None, None));
    assert!(warm.cold_seconds_per_call.is_some());
    assert_eq!(Measurement::over_workloads(Vec::new()), None);
    assert_eq!(geometric(std::iter::empty::<f64>()), None);
}
