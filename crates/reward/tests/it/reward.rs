//! Rules that every reward keeps, with any settings.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::{CandidateFault, FaultClass, InfrastructureCause, Verdict};
use flopsmith_reward::{Context, Error, Ladder, Logistic, Reward, SuccessScale};
use flopsmith_test_support::{Measured, infrastructure, rejected, unknown};
use proptest::prelude::*;

fn measured(gflops: f64, ratio: f64, se: f64) -> Verdict {
    Measured::at(gflops).ratio(ratio).se(se).verdict()
}

fn scale() -> impl Strategy<Value = SuccessScale> {
    let s = 1e-3..1e3;
    prop_oneof![
        Just(SuccessScale::Gflops),
        s.clone()
            .prop_map(|scale| SuccessScale::ShareOfPeak { scale }),
        s.clone().prop_map(|scale| SuccessScale::Log1p { scale }),
        s.prop_map(|scale| SuccessScale::RelativeToStageBest { scale }),
    ]
}

fn reward() -> impl Strategy<Value = Reward> {
    prop_oneof![
        (scale(), proptest::collection::vec(-200.0..-1e-6, 5)).prop_map(|(success, mut rungs)| {
            rungs.sort_by(f64::total_cmp);
            Reward::Ladder(Ladder {
                violation: rungs[0],
                compile: rungs[1],
                timeout: rungs[2],
                runtime: rungs[3],
                wrong: rungs[4],
                success,
            })
        }),
        Just(Reward::RuntimeRatio),
        (0.01..8.0).prop_map(|a| Reward::Logistic(Logistic { a })),
    ]
}

fn context() -> impl Strategy<Value = Context> {
    (
        proptest::option::of(1.0..1e4),
        proptest::option::of(1e-3..1e4),
    )
        .prop_map(|(peak_gflops, stage_best_gflops)| Context {
            peak_gflops,
            stage_best_gflops,
        })
}

/// Positive numbers over many powers of ten.
fn speed() -> impl Strategy<Value = f64> {
    (-9.0..6.0_f64).prop_map(|e| 10f64.powf(e))
}

fn fault() -> impl Strategy<Value = CandidateFault> {
    proptest::sample::select(CandidateFault::ALL)
}

proptest! {
    #[test]
    fn valid_outranks_invalid(r in reward(), ctx in context(), g in speed(), s in speed(), fault in fault()) {
        prop_assert_eq!(r.check(), Ok(()));
        let valid = r.reward(&measured(g, s, 0.01), &ctx).unwrap();
        let invalid = r.reward(&rejected(fault), &ctx).unwrap();
        prop_assert!(valid > invalid, "{} is not above {}", valid, invalid);
    }

    #[test]
    fn faster_is_never_worth_less(r in reward(), ctx in context(), g in speed(), s in speed(), factor in 1.0..1e3) {
        let slow = r.reward(&measured(g, s, 0.01), &ctx).unwrap();
        let fast = r.reward(&measured(g * factor, s * factor, 0.01), &ctx).unwrap();
        prop_assert!(fast >= slow);
    }

    #[test]
    fn every_reward_is_finite(r in reward(), ctx in context(), g in any::<f64>(), s in any::<f64>(), se in any::<f64>(), peak in any::<Option<f64>>()) {
        let ctx = Context { peak_gflops: peak, ..ctx };
        let verdict = measured(g, s, se);
        let value = r.reward(&verdict, &ctx);
        let broken = !(g.is_finite() && g > 0.0 && s.is_finite() && s > 0.0);
        prop_assert_eq!(value.is_none(), broken);
        if let Some(value) = value {
            // A context without a peak falls back on the timer's own share, which is finite for a usable measurement.
            prop_assert!(value.is_finite());
            prop_assert!(r.reward_se(&verdict, &ctx).unwrap().is_finite());
        }
    }

    #[test]
    fn infrastructure_has_no_reward(r in reward(), ctx in context(), cause in proptest::sample::select(InfrastructureCause::ALL)) {
        let verdict = infrastructure(cause);
        prop_assert_eq!(r.reward(&verdict, &ctx), None);
        prop_assert_eq!(r.reward_se(&verdict, &ctx), None);
        prop_assert_eq!(r.reward(&unknown(), &ctx), None);
    }

    #[test]
    fn standard_error_is_the_slope_times_the_noise(r in reward(), ctx in context(), g in 0.1..100.0, s in 0.05..50.0, se in 1e-3..0.1) {
        // The delta method against a finite difference in the logarithm of the speed.
        let at = |d: f64| r.reward(&measured(g * f64::exp(d), s * f64::exp(d), se), &ctx).unwrap();
        let h = 1e-5;
        let numeric = (at(h) - at(-h)) / (2.0 * h) * se;
        let got = r.reward_se(&measured(g, s, se), &ctx).unwrap();
        prop_assert!((got - numeric).abs() <= 1e-4 * got.max(1e-3), "{} against {}", got, numeric);
    }

    /// 1 / (1 + exp(−a ln S)): symmetric around the speed of the reference, between 0 and 1, and strictly rising where numbers
    /// can tell it.
    #[test]
    fn the_logistic_reward_is_symmetric_in_the_logarithm_of_the_speed(a in 0.1..4.0, ln in -4.0..4.0_f64, more in 0.01..1.0, fault in fault()) {
        let r = Reward::Logistic(Logistic { a });
        let at = |ln: f64| r.reward(&measured(1.0, ln.exp(), 0.01), &CTX).unwrap();
        prop_assert!((at(ln) - 1.0 / (1.0 + (-a * ln).exp())).abs() < 1e-12);
        prop_assert!((at(ln) + at(-ln) - 1.0).abs() < 1e-12);
        prop_assert!((at(0.0) - 0.5).abs() < 1e-12);
        prop_assert!(0.0 < at(ln) && at(ln) < at(ln + more) && at(ln + more) < 1.0);
        prop_assert_eq!(r.reward(&rejected(fault), &CTX), Some(0.0));
    }

    #[test]
    fn a_failure_has_no_measurement_error(r in reward(), ctx in context(), fault in fault()) {
        prop_assert_eq!(r.reward_se(&rejected(fault), &ctx), Some(0.0));
    }
}

const CTX: Context = Context {
    peak_gflops: Some(50.0),
    stage_best_gflops: Some(20.0),
};

#[test]
fn published_rungs() {
    let r = Reward::Ladder(Ladder::default());
    for (fault, expected) in [
        (CandidateFault::ForbiddenTechnique, -100.0),
        (CandidateFault::Format, -100.0),
        (CandidateFault::CompileError, -40.0),
        (CandidateFault::Timeout, -30.0),
        (CandidateFault::Crash, -20.0),
        (CandidateFault::WrongResult, -10.0),
    ] {
        assert_eq!(r.reward(&rejected(fault), &CTX), Some(expected), "{fault}");
    }
    assert_eq!(r.reward(&measured(30.0, 12.0, 0.01), &CTX), Some(30.0));
}

#[test]
fn scaled_ladder_lies_between_minus_one_and_one() {
    let ladder = Ladder::scaled();
    let r = Reward::Ladder(ladder);
    assert_eq!(r.check(), Ok(()));
    for class in [
        FaultClass::Violation,
        FaultClass::Compile,
        FaultClass::Timeout,
        FaultClass::Runtime,
        FaultClass::Wrong,
    ] {
        assert!((-1.0..0.0).contains(&ladder.rung(class)));
    }
    assert_eq!(r.reward(&measured(50.0, 20.0, 0.0), &CTX), Some(1.0));
    assert_eq!(r.reward(&measured(25.0, 10.0, 0.0), &CTX), Some(0.5));
}

#[test]
fn success_scales() {
    let of = |success| {
        let ladder = Ladder {
            success,
            ..Ladder::default()
        };
        Reward::Ladder(ladder)
            .reward(&measured(10.0, 4.0, 0.01), &CTX)
            .unwrap()
    };
    assert_eq!(of(SuccessScale::Gflops), 10.0);
    assert_eq!(of(SuccessScale::ShareOfPeak { scale: 5.0 }), 1.0);
    assert_eq!(of(SuccessScale::Log1p { scale: 2.0 }), 2.0 * 11f64.ln());
    assert_eq!(of(SuccessScale::RelativeToStageBest { scale: 3.0 }), 1.5);
}

#[test]
fn stage_without_a_best_is_measured_by_the_peak() {
    let ladder = Ladder {
        success: SuccessScale::RelativeToStageBest { scale: 1.0 },
        ..Ladder::scaled()
    };
    let ctx = Context {
        stage_best_gflops: None,
        ..CTX
    };
    let value = Reward::Ladder(ladder).reward(&measured(10.0, 4.0, 0.01), &ctx);
    assert_eq!(value, Some(0.2));
}

#[test]
fn anchors_of_ratio_and_logistic() {
    let as_fast = measured(2.0, 1.0, 0.01);
    assert_eq!(Reward::RuntimeRatio.reward(&as_fast, &CTX), Some(0.0));
    for a in [0.5, 1.0, 3.0] {
        let r = Reward::Logistic(Logistic { a });
        assert_eq!(r.reward(&as_fast, &CTX), Some(0.5));
    }
}

#[test]
fn settings_that_would_break_the_order_are_refused() {
    let ladder = Ladder::default();
    let upside_down = Ladder {
        compile: -5.0,
        ..ladder
    };
    assert_eq!(
        Reward::Ladder(upside_down).check(),
        Err(Error::Order {
            worse: "compile",
            better: "timeout"
        })
    );
    let kind = Ladder {
        wrong: 0.0,
        ..ladder
    };
    assert!(matches!(
        Reward::Ladder(kind).check(),
        Err(Error::Rung { name: "wrong", .. })
    ));
    let success = SuccessScale::Log1p { scale: -1.0 };
    assert_eq!(
        Reward::Ladder(Ladder { success, ..ladder }).check(),
        Err(Error::Scale(-1.0))
    );
    assert_eq!(
        Reward::Logistic(Logistic { a: 0.0 }).check(),
        Err(Error::Exponent(0.0))
    );
}

#[test]
fn configuration_text() {
    let read = |text: &str| toml::from_str::<Reward>(text);
    assert_eq!(
        read("type = 'ladder'").unwrap(),
        Reward::Ladder(Ladder::default())
    );
    assert_eq!(
        read("type = 'runtime_ratio'").unwrap(),
        Reward::RuntimeRatio
    );
    assert_eq!(
        read("type = 'logistic'\na = 2.0").unwrap(),
        Reward::Logistic(Logistic { a: 2.0 })
    );
    let ladder = read("type = 'ladder'\nwrong = -1.0\nsuccess = { type = 'log1p', scale = 0.5 }");
    assert_eq!(
        ladder.unwrap(),
        Reward::Ladder(Ladder {
            wrong: -1.0,
            success: SuccessScale::Log1p { scale: 0.5 },
            ..Ladder::default()
        })
    );
    for typo in [
        "type = 'runtime_ratio'\na = 1.0",
        "type = 'logistic'\nb = 1.0",
        "type = 'ladder'\nwrogn = -1.0",
        "type = 'ladder'\nsuccess = { type = 'gflops', scale = 1.0 }",
        "type = 'ladder'\nsuccess = { type = 'log1p', scael = 1.0 }",
    ] {
        assert!(read(typo).is_err(), "{typo}");
    }
    for r in [
        Reward::default(),
        Reward::RuntimeRatio,
        Reward::Logistic(Logistic::default()),
    ] {
        assert_eq!(read(&toml::to_string(&r).unwrap()).unwrap(), r);
    }
}
