#![expect(clippy::unwrap_used, reason = "tests")]

use super::plane::ticks;
use super::*;
use crate::model::{Bandwidth, Ceiling, OpenBlas, WorkloadRoof};
use proptest::prelude::*;

fn ceiling(name: &str, threads: u32, gflops: f64) -> Ceiling {
    Ceiling {
        name: name.into(),
        threads,
        gflops,
    }
}

fn bandwidth(name: &str, threads: u32, gb_s: f64) -> Bandwidth {
    Bandwidth {
        name: name.into(),
        threads,
        gb_s,
    }
}

fn report(intensity: Option<f64>) -> RunReport {
    RunReport {
        reference_gflops: Some(2.0),
        openblas: Some(OpenBlas {
            gflops: 50.0,
            core: None,
            version: None,
        }),
        roofline: Some(Roofline {
            threads: 2,
            intensity,
            roof_gflops: 40.0,
            bound: "memory".into(),
            cached_in: Some("L3".into()),
            ceilings: vec![
                ceiling("scalar", 1, 10.0),
                ceiling("scalar", 2, 20.0),
                ceiling("512 bits", 2, 160.0),
            ],
            bandwidths: vec![bandwidth("L3", 2, 80.0), bandwidth("memory", 2, 20.0)],
            workloads: Vec::new(),
        }),
        ..RunReport::default()
    }
}

/// The ends of the first line of this class.
fn ends(svg: &str, class: &str) -> Vec<f64> {
    let path = svg
        .split(&format!("class=\"{class}\" d=\"M"))
        .nth(1)
        .unwrap();
    let path = path.split('"').next().unwrap().replace('L', "");
    path.split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}

#[test]
fn the_slope_of_memory_meets_the_peak_where_it_should() {
    let page = html(&report(Some(2.0)));
    // From 2/4 to 8·4 operations a byte, and from 1 to 320 GFLOPS: 10 GFLOPS at the left edge, 160 at 8.
    let x = |v: f64| LEFT + (v / 0.5).log10() / 64f64.log10() * (RIGHT - LEFT);
    let y = |v: f64| BOTTOM + v.log10() / 320f64.log10() * (TOP - BOTTOM);
    let found = ends(&page, "roof");
    for (found, expected) in found.iter().zip([x(0.5), y(10.0), x(8.0), y(160.0)]) {
        assert!((found - expected).abs() < 0.06, "{found} {expected}");
    }
    assert_eq!(found.len(), 4);
    for part in [
        "L3 80.0 GB/s",
        "memory 20.0 GB/s",
        ">512 bits 160<",
        ">OpenBLAS 50.0<",
        ">reference 2.00<",
        "<th>1 thread</th><th>2 threads</th>",
        "<td>10.0</td><td>20.0</td>",
        "<td>–</td><td>160</td>",
    ] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    assert!(!page.contains(">scalar 10.0<"), "that is one thread's");
}

#[test]
fn each_of_several_workloads_is_a_point() {
    let mut report = report(Some(2.0));
    assert!(!html(&report).contains("best at"));
    if let Some(roofline) = &mut report.roofline {
        roofline.workloads = [("n=8", 0.25, 4.0), ("n<16", 16.0, 100.0)]
            .into_iter()
            .map(|(name, intensity, gflops)| WorkloadRoof {
                name: name.into(),
                intensity: Some(intensity),
                roof_gflops: 160.0,
                bound: "compute".into(),
                best_gflops: Some(gflops),
            })
            .collect();
    }
    let page = html(&report);
    for part in [
        "<title>best at n=8: 4.00 GFLOPS</title>",
        "<title>best at n&lt;16: 100 GFLOPS</title>",
    ] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    assert!(lead(&report).contains("a geometric mean over its workloads"));
}

#[test]
fn the_lead_says_what_binds_and_that_caches_may_help() {
    let text = lead(&report(Some(2.0)));
    for part in [
        "2.00 operations",
        "at most 40.0 GFLOPS",
        "memory",
        "the L3 cache",
    ] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
}

#[test]
fn without_an_intensity_only_the_ceilings_are_shown() {
    let unknown = report(None);
    let page = html(&unknown);
    assert!(
        !page.contains("<svg") && page.contains("512 bits"),
        "{page}"
    );
    assert!(lead(&unknown).contains("only the ceilings"));
    assert_eq!(html(&RunReport::default()), "");
    assert_eq!(lead(&RunReport::default()), "");
}

/// The size of text in the charts, and the width of a program name's outline, as in the style sheet.
fn text_and_outline() -> (f64, f64) {
    let style = include_str!("../style.css");
    let pixels = |from: &str| -> f64 {
        let rest = style.split(from).nth(1).unwrap();
        rest.split("px").next().unwrap().parse().unwrap()
    };
    (
        pixels("svg text{fill:var(--ink);font-size:"),
        pixels("text.spot{paint-order:stroke;stroke:var(--card);stroke-width:"),
    )
}

#[test]
fn names_of_programs_that_are_equally_fast_do_not_cover_each_other() {
    let mut report = report(Some(2.0));
    report.reference_gflops = Some(49.5);
    let page = html(&report);
    let mut heights: Vec<f64> = page
        .split("<text class=\"name spot ")
        .skip(1)
        .map(|name| {
            let y = name.split(" y=\"").nth(1).unwrap();
            y.split('"').next().unwrap().parse().unwrap()
        })
        .collect();
    heights.sort_by(f64::total_cmp);
    assert_eq!(heights.len(), 2, "{page}");
    let (size, outline) = text_and_outline();
    for pair in heights.windows(2) {
        // The height of a line of text exceeds the letters' size by at most a third.
        assert!(
            pair[1] - pair[0] > size * 4.0 / 3.0 + outline,
            "{heights:?}"
        );
    }
}

#[test]
fn ticks_are_round_and_few() {
    assert_eq!(ticks(0.9, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    assert_eq!(ticks(0.5, 20_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
}

proptest! {
    #[test]
    fn no_numbers_draw_outside_the_frame(
        intensity in prop::num::f64::ANY,
        rates in prop::collection::vec(prop::num::f64::ANY, 4),
        small in prop::collection::vec(1e-3..1e4f64, 4),
    ) {
        for (intensity, rates) in [(intensity, &rates), (small[0], &small)] {
            let mut report = report(Some(intensity));
            report.reference_gflops = Some(rates[0]);
            if let Some(roofline) = &mut report.roofline {
                roofline.ceilings = vec![ceiling("256 bits", 2, rates[1])];
                roofline.bandwidths = vec![bandwidth("L2", 2, rates[2]), bandwidth("memory", 2, rates[3])];
            }
            let page = html(&report);
            prop_assert!(!page.contains("=\"NaN") && !page.contains("=\"inf"));
            if page.contains("class=\"roof\" d=") {
                let found = ends(&page, "roof");
                prop_assert!(found[0] <= found[2] && found[1] >= found[3], "{found:?}");
                prop_assert!(found.iter().all(|v| (-1.0..=WIDTH).contains(v)), "{found:?}");
            }
        }
    }

    #[test]
    fn ticks_lie_between_their_ends(low in 1e-9..1e9f64, factor in 1.01..1e9f64) {
        let found = ticks(low, low * factor);
        prop_assert!(found.len() <= 16, "{found:?}");
        prop_assert!(found.iter().all(|t| (low..=low * factor).contains(t)), "{found:?}");
    }
}
