use std::collections::{BTreeMap, BTreeSet};

use flopsmith_test_support::shipped;
use rand::SeedableRng;

use super::super::sizes::shipped;
use super::*;

const CANDIDATES: u64 = 64;

/// The cases of a fresh candidate: the steps with their sizes. Each seed has a pool of its own.
fn met(problem: &Problem, seed: u64) -> Vec<(Step, Params)> {
    met_in(Thoroughness::Screening, problem, seed)
}

fn met_in(thoroughness: Thoroughness, problem: &Problem, seed: u64) -> Vec<(Step, Params)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pool = Group::ALL.map(|group| {
        let draw = |n| group.draw(n, problem, &mut rng).0;
        (0..group.count(problem)).map(draw).collect::<Vec<_>>()
    });
    let sizes = Group::ALL.map(|group| pool[group as usize].iter().collect::<Vec<_>>());
    choose(problem, &sizes, thoroughness, &mut rng)
        .into_iter()
        .map(|step| (step, pool[step.group as usize][step.number].clone()))
        .collect()
}

fn dgemm() -> &'static Problem {
    let found = shipped().iter().find(|p| p.id.as_str() == "dgemm");
    found.expect("dgemm is shipped")
}

#[test]
fn cases_come_in_the_order_of_their_work_and_the_timed_size_is_always_there() {
    for problem in shipped() {
        for seed in 0..CANDIDATES {
            let steps = met(problem, seed);
            let work: Vec<f64> = steps.iter().map(|(_, p)| problem.work_flops(p)).collect();
            assert!(work.is_sorted(), "{}: {work:?}", problem.id);
            let first = steps[0].0;
            assert_eq!(first.placing, Placing::Between, "{}: {first:?}", problem.id);
            let timed = |n: &dyn Fn(usize) -> bool| {
                let mut found = steps
                    .iter()
                    .filter(|(step, _)| step.group == Group::Timed && n(step.number));
                let step = found.next().expect("it is there").0;
                assert!(found.next().is_none(), "{}: twice", problem.id);
                step
            };
            let Some(Again::Moved(place)) = timed(&|n| n == 0).again else {
                unreachable!("{}: the timed size is not called again", problem.id);
            };
            assert_ne!(place, timed(&|n| n == 0).placing, "{}", problem.id);
            assert_eq!(timed(&|n| n > 0).placing, Placing::Fixed, "{}", problem.id);
        }
    }
}

/// The placings of calls in buffers like those of timed calls, in the order of the calls.
fn as_timed(steps: &[(Step, Params)], problem: &Problem) -> Vec<Placing> {
    let mut placings = Vec::new();
    for (step, params) in steps {
        if step.buffers != Buffers::Guarded {
            assert_eq!(
                step.buffers,
                Buffers::AsTimed(0),
                "{}: {step:?}",
                problem.id
            );
            // Nothing else fits, and timed calls have uniform inputs.
            assert_eq!(*params, problem.timed, "{}: {step:?}", problem.id);
            assert!(step.group == Group::Timed && step.number > 0, "{step:?}");
            placings.push(step.placing);
        }
    }
    placings
}

#[test]
fn every_candidate_is_called_with_hard_inputs_where_timed_calls_find_theirs() {
    for problem in shipped() {
        let mut comes_first = BTreeSet::new();
        for seed in 0..CANDIDATES {
            let steps = met(problem, seed);
            assert_eq!(
                as_timed(&steps, problem),
                [Placing::Fixed],
                "{}",
                problem.id
            );
            let mut timed = steps.iter().filter(|(s, _)| s.group == Group::Timed);
            comes_first.extend(timed.next().map(|(s, _)| s.buffers != Buffers::Guarded));
            let mut full = as_timed(&met_in(Thoroughness::Full, problem, seed), problem);
            full.sort_by_key(|placing| *placing == Placing::OtherLines);
            let both = [Placing::Fixed, Placing::OtherLines];
            assert_eq!(full, both, "{}", problem.id);
        }
        assert_eq!(comes_first.len(), 2, "{}: always in this order", problem.id);
    }
}

/// A program that tells timed calls by the places of its arrays, and is right for one kind of inputs there, passes no full
/// verification.
#[test]
fn full_verification_meets_two_kinds_of_uneven_inputs_where_timed_calls_find_theirs() {
    for problem in shipped() {
        let known = problem.verify.distributions.iter();
        if known.filter(|d| d.is_uneven()).count() < 2 {
            continue;
        }
        for seed in 0..CANDIDATES {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let kinds: Vec<Distribution> = (0..Group::Timed.count(problem))
                .map(|n| Group::Timed.draw(n, problem, &mut rng).1)
                .collect();
            let steps = met_in(Thoroughness::Full, problem, seed);
            let met: BTreeSet<String> = steps
                .iter()
                .filter(|(step, _)| step.buffers == Buffers::AsTimed(0))
                .map(|(step, _)| format!("{:?}", kinds[step.number]))
                .collect();
            assert_eq!(met.len(), 2, "{}: {met:?}", problem.id);
        }
    }
}

#[test]
fn visible_cases_of_other_sizes_never_lie_where_timed_calls_find_their_arrays() {
    let mut problem = dgemm().clone();
    for params in &mut problem.verify.visible {
        params.insert("n".to_owned(), 384);
    }
    for seed in 0..CANDIDATES {
        for thoroughness in [Thoroughness::Screening, Thoroughness::Full] {
            let steps = met_in(thoroughness, &problem, seed);
            assert!(!as_timed(&steps, &problem).is_empty());
            let mut visible = steps
                .iter()
                .filter(|(s, p)| s.group == Group::Timed && p["n"] == 384);
            assert!(visible.any(|(s, _)| s.buffers == Buffers::Guarded));
        }
    }
}

/// A program that is right only on one side of any one size meets a size on the other side.
#[test]
fn the_ends_of_every_range_of_sizes_are_met() {
    for problem in shipped() {
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        for seed in 0..CANDIDATES {
            let steps = met(problem, seed);
            for hidden in &problem.verify.hidden {
                let sizes: BTreeSet<i64> = steps.iter().map(|(_, p)| p[&hidden.param]).collect();
                assert_eq!(sizes.first(), Some(&hidden.min), "{}", problem.id);
                assert!(sizes.len() >= 2, "{}: {sizes:?}", problem.id);
                let timed = problem.timed[&hidden.param];
                assert!(sizes.contains(&timed), "{}: {sizes:?}", problem.id);
                assert!(
                    timed == hidden.max || sizes.last() > Some(&timed),
                    "{}: {sizes:?}",
                    problem.id
                );
                *most.entry(&hidden.param).or_default() +=
                    u64::from(sizes.last() == Some(&hidden.max));
            }
        }
        // A sixth of the candidates, give or take some; all of them if there is only one size above the timed one.
        assert_eq!(most.len(), problem.verify.hidden.len());
        for (param, count) in most {
            assert!(count >= CANDIDATES / 16, "{} {param}: {count}", problem.id);
        }
    }
}

#[test]
fn full_verification_always_includes_the_largest_size() {
    for problem in shipped() {
        for seed in 0..CANDIDATES {
            let steps = met_in(Thoroughness::Full, problem, seed);
            let of = |group| steps.iter().filter(|(s, _)| s.group == group).count();
            assert_eq!(of(Group::Largest), 1, "{}", problem.id);
            assert_eq!(of(Group::Large), 1, "{}", problem.id);
            for hidden in &problem.verify.hidden {
                let sizes = steps.iter().map(|(_, p)| p[&hidden.param]);
                assert_eq!(sizes.max(), Some(hidden.max), "{}", problem.id);
            }
        }
    }
}

#[test]
fn one_candidate_of_dgemm_meets_every_cheap_size_and_many_meet_all() {
    let problem = dgemm();
    let mut all = BTreeSet::new();
    let mut work = 0.0;
    let mut denormal = 0;
    for seed in 0..CANDIDATES {
        let steps = met(problem, seed);
        let sizes: BTreeSet<i64> = steps.iter().map(|(_, p)| p["n"]).collect();
        assert!(
            [64, 128, 192, 256].iter().all(|n| sizes.contains(n)),
            "{sizes:?}"
        );
        all.extend(sizes);
        for (step, params) in &steps {
            let calls = if step.again.is_some() { 2.0 } else { 1.0 };
            work += calls * problem.work_flops(params);
            denormal += u64::from(step.group == Group::Denormal);
        }
    }
    let expected: BTreeSet<i64> = (1..=8).map(|n| n * 64).collect();
    assert_eq!(all, expected);
    // The cost of a verification is that of eight calls of the timed size.
    let timed = problem.work_flops(&problem.timed);
    let each = work / CANDIDATES as f64 / timed;
    assert!((6.0..9.0).contains(&each), "{each} timed calls");
    assert!(
        (CANDIDATES / 8..CANDIDATES * 5 / 8).contains(&denormal),
        "{denormal}"
    );
}

#[test]
fn every_combination_of_sides_is_met_where_several_parameters_vary() {
    for problem in shipped().iter().filter(|p| p.verify.hidden.len() == 2) {
        let mut sides = BTreeSet::new();
        for seed in 0..CANDIDATES {
            for (_, params) in met(problem, seed) {
                let side = |h: &flopsmith_problem::HiddenSizes| {
                    params[&h.param].cmp(&problem.timed[&h.param])
                };
                let hidden = problem.verify.hidden.iter();
                sides.insert(hidden.map(side).collect::<Vec<_>>());
            }
        }
        use std::cmp::Ordering::{Greater, Less};
        for wanted in [
            [Less, Less],
            [Less, Greater],
            [Greater, Less],
            [Greater, Greater],
        ] {
            assert!(
                sides.contains(&wanted[..]),
                "{}: never {wanted:?}",
                problem.id
            );
        }
    }
}

#[test]
fn denormal_inputs_are_met_by_all_where_they_are_cheap_and_never_at_large_sizes() {
    for problem in shipped() {
        let has = problem
            .verify
            .distributions
            .contains(&Distribution::Denormal);
        for seed in 0..CANDIDATES {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for group in Group::ALL {
                for n in 0..group.count(problem) {
                    let (params, content) = group.draw(n, problem, &mut rng);
                    let denormal = content == Distribution::Denormal;
                    assert_eq!(denormal, group == Group::Denormal, "{}", problem.id);
                    let work = problem.work_flops(&params);
                    assert!(!denormal || work <= 1e6, "{}: {work}", problem.id);
                }
            }
            let meets = met(problem, seed)
                .iter()
                .any(|(s, _)| s.group == Group::Denormal);
            if ["sgemm", "dgemv", "dot", "walsh_hadamard"].contains(&problem.id.as_str()) {
                assert!(has && meets, "{}", problem.id);
            }
        }
    }
}

/// dgemm with all of its workloads.
fn all_workloads() -> Problem {
    Problem::load(&shipped::at("dgemm")).expect("it is shipped")
}

#[test]
fn every_candidate_meets_the_size_of_every_workload_in_both_kinds_of_buffers() {
    let problem = all_workloads();
    let sizes = problem.timed_sizes();
    assert_eq!(sizes.len(), 3);
    let full = [Placing::Fixed, Placing::OtherLines];
    for seed in 0..CANDIDATES {
        for (thoroughness, placings) in [
            (Thoroughness::Screening, &full[..1]),
            (Thoroughness::Full, &full[..]),
            (Thoroughness::OtherLayout, &full[..]),
        ] {
            let steps = met_in(thoroughness, &problem, seed);
            let work = steps.iter().map(|(_, p)| problem.work_flops(p));
            assert!(work.is_sorted(), "{steps:?}");
            for (number, size) in sizes.iter().enumerate() {
                let uniform = |step: &Step| match step.group {
                    Group::Timed => step.number == 0,
                    Group::Workloads => step.number.is_multiple_of(OF_WORKLOAD),
                    _ => false,
                };
                let here = || steps.iter().filter(|(_, p)| p == *size).map(|(s, _)| s);
                let even: Vec<&Step> = here().filter(|s| uniform(s)).collect();
                assert_eq!(even.len(), 1, "{size:?}: {steps:?}");
                assert_eq!(even[0].buffers, Buffers::Guarded);
                assert!(
                    matches!(even[0].again, Some(Again::Moved(place)) if place != even[0].placing)
                );
                let mut uneven: Vec<Placing> = here()
                    .filter(|s| s.buffers == Buffers::AsTimed(number))
                    .map(|s| s.placing)
                    .collect();
                uneven.sort_by_key(|placing| *placing == Placing::OtherLines);
                assert_eq!(uneven, placings, "{size:?}: {steps:?}");
            }
            let misplaced = steps.iter().find(|(step, params)| match step.buffers {
                Buffers::AsTimed(number) => params != sizes[number],
                Buffers::Guarded => false,
            });
            assert_eq!(misplaced, None);
        }
    }
}

#[test]
fn cases_of_further_workloads_are_even_and_uneven() {
    let problem = all_workloads();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    assert_eq!(Group::Workloads.count(&problem), 4);
    assert_eq!(Group::Workloads.count(dgemm()), 0);
    let drawn: Vec<(i64, bool)> = (0..4)
        .map(|n| Group::Workloads.draw(n, &problem, &mut rng))
        .map(|(params, content)| (params["n"], content.is_uneven()))
        .collect();
    assert_eq!(
        drawn,
        [(512, false), (512, true), (1024, false), (1024, true)]
    );
}

/// One workload of several is verified as the only workload of a problem is.
#[test]
fn a_selection_of_one_workload_costs_what_it_always_did() {
    let whole = all_workloads();
    let one = whole.select(&["n=256"]).expect("it is there");
    for seed in 0..CANDIDATES {
        for thoroughness in [Thoroughness::Screening, Thoroughness::Full] {
            let steps = met_in(thoroughness, &one, seed);
            assert!(steps.iter().all(|(s, _)| s.group != Group::Workloads));
            assert!(steps.iter().all(|(_, p)| p["n"] <= 512));
        }
    }
    // The other sizes lie relative to the first workload.
    let steps = met(&whole, 1);
    let of = |group| steps.iter().filter(move |(s, _)| s.group == group);
    assert!(of(Group::Small).all(|(_, p)| p["n"] < 256));
    assert!(of(Group::Large).all(|(_, p)| (257..512).contains(&p["n"])));
}
