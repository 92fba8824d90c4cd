//! The rules that end a stage, and the checks of a configuration.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_archive::*;
use flopsmith_protocol::*;
use flopsmith_test_support::Measured;

use crate::made::*;

#[test]
fn fixed_steps() {
    let steps = vec![2, 1, 1, 3];
    let mut s = sqd(Config {
        advance: Advance::FixedSteps { steps },
        ..Config::default()
    });
    let stages: Vec<u32> = (0..9)
        .map(|step| {
            end_step(&mut s, step);
            s.stage()
        })
        .collect();
    assert_eq!(stages, [0, 1, 2, 3, 3, 3, 4, 4, 4]);
    assert_eq!(s.on_step_end(8), vec![], "a step ends once");
    let mut evaluated = sqd(Config {
        advance: Advance::FixedSteps {
            steps: vec![1, 1, 1, 1],
        },
        ..Config::default()
    });
    evaluated.on_evaluation_end(0);
    assert_eq!(
        evaluated.stage(),
        0,
        "an evaluation is no step of the curriculum"
    );
    end_step(&mut evaluated, 1);
    assert_eq!(evaluated.stage(), 1);
    let evaluation = s.evaluation(3);
    assert_eq!(evaluation.len(), 3);
    assert!(
        evaluation
            .iter()
            .all(|p| p.stage == 4 && p.permitted == TechniqueSet::general())
    );
}

/// Ends a step with these shares of correct and faulty candidates of the current stage.
fn step(s: &mut Sqd, n: u64, right: u32, wrong: u32, ratio: f64) -> Vec<Effect> {
    let stage = s.stage();
    for i in 0..right {
        let from = From {
            stage,
            ..sample(n, i)
        };
        s.on_outcome(&good(from, &format!("int x{n};"), set("simd"), ratio, 0.01));
    }
    for i in 0..wrong {
        s.on_outcome(&bad(
            From {
                stage,
                ..sample(n, right + i)
            },
            CandidateFault::Crash,
        ));
    }
    s.on_step_end(n)
}

#[test]
fn success_rate_gate_and_demotion() {
    let mut s = sqd(Config {
        advance: Advance::SuccessRate {
            threshold: 0.75,
            window: 8,
            min_steps: 2,
            max_steps: 4,
        },
        demote: Some(Demote {
            below: 0.25,
            window: 8,
            at_most: 1,
        }),
        ..Config::default()
    });
    assert_eq!(
        step(&mut s, 0, 8, 0, 1.0),
        vec![],
        "the rate suffices, the steps do not"
    );
    let moved = step(&mut s, 1, 6, 2, 1.0);
    assert!(
        matches!(&moved[0], Effect::StageChanged { from: 0, to: 1, reason, .. } if reason.contains("0.75")),
        "{moved:?}"
    );
    assert_eq!(step(&mut s, 2, 5, 3, 1.0), vec![]);
    let moved = step(&mut s, 3, 1, 7, 1.0);
    assert!(
        matches!(moved[0], Effect::StageChanged { from: 1, to: 0, .. }),
        "{moved:?}"
    );
    // Windows start anew, and `max_steps` advances in any case.
    for n in 4..7 {
        assert_eq!(step(&mut s, n, 4, 4, 1.0), vec![]);
    }
    assert!(matches!(
        step(&mut s, 7, 4, 4, 1.0)[0],
        Effect::StageChanged { to: 1, .. }
    ));
    // The number of demotions is limited.
    assert_eq!(step(&mut s, 8, 0, 8, 1.0), vec![]);
    // Replayed samples, evaluations and exploration samples say nothing about this stage.
    let mut t = s.clone();
    for i in 20..60 {
        let mut exploration = bad(
            From {
                stage: 1,
                ..sample(11, i)
            },
            CandidateFault::Crash,
        );
        exploration.candidate.exploration = true;
        t.on_outcome(&exploration);
        t.on_outcome(&bad(
            From {
                stage: 0,
                ..sample(9, i)
            },
            CandidateFault::Crash,
        ));
        let purpose = Purpose::EvaluateEnd;
        t.on_outcome(&bad(
            From {
                stage: 1,
                purpose,
                ..sample(10, i)
            },
            CandidateFault::Crash,
        ));
    }
    assert_eq!(step(&mut s, 9, 8, 0, 1.0), step(&mut t, 9, 8, 0, 1.0));
    assert_eq!(s.stage(), 2);
}

#[test]
fn plateau_gate() {
    let mut s = sqd(Config {
        advance: Advance::Plateau {
            patience: 2,
            min_gain: 0.05,
            min_steps: 1,
            max_steps: 20,
        },
        ..Config::default()
    });
    for (n, ratio) in [1.0, 1.2, 1.21, 1.4, 1.42].into_iter().enumerate() {
        assert_eq!(step(&mut s, n as u64, 1, 0, ratio), vec![], "{ratio}");
    }
    assert!(matches!(
        step(&mut s, 5, 1, 0, 1.43)[0],
        Effect::StageChanged { from: 0, to: 1, .. }
    ));
}

/// After an impossible ratio, no later program would count as a gain.
#[test]
fn an_unconverged_ratio_does_not_bring_a_plateau() {
    let mut s = sqd(Config {
        advance: Advance::Plateau {
            patience: 1,
            min_gain: 0.05,
            min_steps: 1,
            max_steps: 20,
        },
        ..Config::default()
    });
    let unsure = Measured::at(300.0).se(3.0).unconverged().verdict();
    let set = Some(TechniqueSet::EMPTY);
    s.on_outcome(&outcome(sample(0, 9), "int unsure;", set, unsure));
    for (n, ratio) in [1.0, 1.2, 1.4].into_iter().enumerate() {
        step(&mut s, n as u64, 1, 1, ratio);
        assert_eq!(s.stage(), 0, "{ratio}");
    }
}

#[test]
fn no_rule_leaves_a_stage_in_which_nothing_is_correct() {
    let rules = [
        Advance::FixedSteps {
            steps: vec![1, 1, 1, 1],
        },
        Advance::SuccessRate {
            threshold: 0.5,
            window: 4,
            min_steps: 1,
            max_steps: 1,
        },
        Advance::Plateau {
            patience: 1,
            min_gain: 0.1,
            min_steps: 1,
            max_steps: 1,
        },
        Advance::BudgetShare {
            shares: vec![0.0, 0.0, 0.1, 0.2],
        },
    ];
    for advance in rules {
        let mut s = sqd(Config {
            advance: advance.clone(),
            ..Config::default()
        });
        for n in 0..20 {
            s.on_spent(n as f64 / 20.0);
            assert_eq!(step(&mut s, n, 0, 8, 1.0), vec![], "{advance:?}");
        }
        assert_eq!(s.stage(), 0, "{advance:?}");
        // A sample that the infrastructure failed is no correct program either.
        s.on_outcome(&outcome(sample(20, 0), "int x;", None, lost()));
        assert_eq!(s.on_step_end(20), vec![], "{advance:?}");
        assert_eq!(step(&mut s, 21, 1, 7, 1.0).len(), 1, "{advance:?}");
        assert!(s.stage() > 0, "{advance:?}");
        // Samples that counted in one stage do not count in the next.
        let stage = s.stage();
        assert_eq!(step(&mut s, 22, 0, 8, 1.0), vec![], "{advance:?}");
        assert_eq!(s.stage(), stage, "{advance:?}");
    }
}

/// A policy that still solves tasks of an earlier stage has not collapsed, so the run goes on. Only replays of this problem's
/// training count, and none that an exploration sample gave.
#[test]
fn a_correct_replay_of_an_earlier_stage_lets_a_run_leave_a_stage_in_which_nothing_is_correct() {
    let replay = |n: u64, stage: u32| {
        let from = From {
            stage,
            group: 3,
            ..sample(n, 0)
        };
        good(from, &format!("int r{n};"), TechniqueSet::EMPTY, 1.0, 0.01)
    };
    for advance in [
        Advance::FixedSteps {
            steps: vec![1, 1, 1, 1],
        },
        Advance::SuccessRate {
            threshold: 0.5,
            window: 4,
            min_steps: 1,
            max_steps: 1,
        },
        Advance::Plateau {
            patience: 1,
            min_gain: 0.1,
            min_steps: 1,
            max_steps: 1,
        },
        Advance::BudgetShare {
            shares: vec![0.0, 0.5, 0.7, 0.9],
        },
    ] {
        let mut s = sqd(Config {
            advance: advance.clone(),
            ..Config::default()
        });
        end_step(&mut s, 0);
        assert_eq!(s.stage(), 1, "{advance:?}");
        s.on_spent(0.6);
        for n in 1..4 {
            assert_eq!(step(&mut s, n, 0, 8, 1.0), vec![], "{advance:?}");
        }
        // Neither an exploration sample nor an answer of an evaluation says that the policy solves anything.
        let mut exploration = replay(4, 0);
        exploration.candidate.exploration = true;
        s.on_outcome(&exploration);
        let mut evaluated = replay(5, 0);
        evaluated.candidate.purpose = Purpose::EvaluateEnd;
        s.on_outcome(&evaluated);
        assert_eq!(step(&mut s, 6, 0, 8, 1.0), vec![], "{advance:?}");

        s.on_outcome(&replay(7, 0));
        let moved = step(&mut s, 7, 0, 8, 1.0);
        assert!(
            matches!(moved[..], [Effect::StageChanged { from: 1, to: 2, .. }]),
            "{advance:?}: {moved:?}"
        );
        // It let the run leave that stage alone.
        s.on_spent(0.8);
        assert_eq!(step(&mut s, 8, 0, 8, 1.0), vec![], "{advance:?}");
        assert_eq!(s.stage(), 2, "{advance:?}");
    }
}

#[test]
fn stages_go_by_the_share_of_the_budget_that_is_spent() {
    let shares = vec![0.02, 0.1, 0.2, 0.3];
    let stages = |spent: &[f64]| -> Vec<u32> {
        let mut s = sqd(Config {
            advance: Advance::BudgetShare {
                shares: shares.clone(),
            },
            ..Config::default()
        });
        (0u64..)
            .zip(spent)
            .map(|(n, spent)| {
                s.on_spent(*spent);
                step(&mut s, n, 1, 0, 1.0);
                s.stage()
            })
            .collect()
    };
    // A long budget has all stages, a short one only those that fit.
    let long = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.9];
    assert_eq!(stages(&long), [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    assert_eq!(stages(&[0.12, 0.24, 0.36]), [2, 3, 4]);
    assert_eq!(stages(&[0.4, 1.2]), [4, 4]);
}

#[test]
fn configuration_text_and_its_mistakes() {
    assert_eq!(Config::default().check(), Ok(()));
    let read = |text: &str| toml::from_str::<Config>(text);
    let c = read(
        "techniques = ['simd', 'unroll']\nreplay_share = 0.1\n\
         stages = [{ name = 'one', permitted = 'singles' }, { name = 'all', permitted = 'unrestricted' }]\n\
         [advance]\nrule = 'success_rate'\nthreshold = 0.6\nwindow = 64\nmin_steps = 2\nmax_steps = 6\n\
         [demote]\nbelow = 0.1\nwindow = 64\nat_most = 2",
    )
    .unwrap();
    assert_eq!(c.check(), Ok(()));
    assert_eq!(c.stage_sets(0), [set("unroll"), set("simd")]);
    assert_eq!(c.stage_sets(1), [set("simd+unroll")]);
    assert_eq!(c.stage_sets(2), []);
    assert_eq!(read(&toml::to_string(&c).unwrap()).unwrap(), c);
    assert_eq!(
        read(&toml::to_string(&Config::default()).unwrap()).unwrap(),
        Config::default()
    );
    for typo in [
        "replay = 0.1",
        "stages = [{ name = 'x', permited = 'pairs' }]",
        "advance = { rule = 'plateau', patients = 2 }",
    ] {
        assert!(read(typo).is_err(), "{typo}");
    }
    let d = Config::default;
    let stage = |name: &str, permitted| StageRule {
        name: name.to_owned(),
        permitted,
    };
    let success = |threshold, min_steps, max_steps| Advance::SuccessRate {
        threshold,
        window: 9,
        min_steps,
        max_steps,
    };
    let by_share = |shares: &[f64]| Advance::BudgetShare {
        shares: shares.to_vec(),
    };
    let wrong = [
        (
            Config {
                stages: vec![],
                ..d()
            },
            "`stages` is empty",
        ),
        (
            Config {
                stages: vec![stage("a", PermitRule::None), stage("a", PermitRule::Pairs)],
                ..d()
            },
            "twice",
        ),
        (
            Config {
                techniques: set("simd"),
                ..d()
            },
            "`pairs` permits sets of 2",
        ),
        (
            Config {
                replay_share: 1.5,
                ..d()
            },
            "`replay_share` is 1.5",
        ),
        (
            Config {
                guidance: f64::NAN,
                ..d()
            },
            "`guidance`",
        ),
        (
            Config {
                elites_per_cell: 0,
                ..d()
            },
            "`elites_per_cell` is 0",
        ),
        (
            Config {
                advance: Advance::FixedSteps { steps: vec![1, 2] },
                ..d()
            },
            "2 numbers for 5 stages",
        ),
        (
            Config {
                advance: by_share(&[0.1, 0.2, 0.3]),
                ..d()
            },
            "3 numbers for 5 stages",
        ),
        (
            Config {
                advance: by_share(&[0.1, 0.2, 0.3, 1.1]),
                ..d()
            },
            "`advance.shares` is 1.1",
        ),
        (
            Config {
                advance: by_share(&[0.1, 0.3, 0.2, 0.4]),
                ..d()
            },
            "falls from 0.3 to 0.2",
        ),
        (
            Config {
                advance: success(0.5, 9, 3),
                ..d()
            },
            "`advance.min_steps` is 9",
        ),
        (
            Config {
                advance: success(2.0, 1, 3),
                ..d()
            },
            "`advance.threshold`",
        ),
        (
            Config {
                advance: success(0.5, 1, 3),
                demote: Some(Demote {
                    below: 0.6,
                    window: 8,
                    at_most: 1,
                }),
                ..d()
            },
            "`demote.below` is 0.6",
        ),
    ];
    for (config, message) in wrong {
        let e = Sqd::new(config, run_id(), problem_id(), machine_class())
            .unwrap_err()
            .to_string();
        assert!(e.contains(message), "{e}");
    }
    assert_eq!(
        Config {
            stages: vec![],
            ..d()
        }
        .disabled()
        .check(),
        Ok(())
    );
}
