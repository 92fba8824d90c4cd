use flopsmith_protocol::{InfrastructureCause, Request, Verdict};
use flopsmith_reward::{Ladder, Reward, SuccessScale};
use flopsmith_test_support::{
    Measured, asked, candidate, infrastructure, outcome, rollout, unknown, wrong,
};

use super::*;
use crate::ledger::Sample;
use flopsmith_config::recipe::Returns;
use flopsmith_config::{FlatGroups, GrpoConfig, Loss, PpoConfig};

fn measured(gflops: f64, share_of_peak: f64) -> Verdict {
    let measured = Measured::at(gflops).share_of_peak(share_of_peak);
    measured.se(0.001).verdict()
}

fn group(step: u64, verdicts: Vec<Verdict>) -> Groups {
    let samples = verdicts.into_iter().zip(0..).map(|(verdict, number)| {
        let outcome = outcome(candidate(step, 0, number), verdict);
        Sample {
            rollout: outcome.verdict.counts().then(|| rollout(&outcome)),
            outcome,
        }
    });
    vec![samples.collect()]
}

fn relative_to_best() -> Settings {
    Settings {
        reward: Reward::Ladder(Ladder {
            success: SuccessScale::RelativeToStageBest { scale: 1.0 },
            ..Ladder::scaled()
        }),
        ..Settings::default()
    }
}

fn advantages(advantaged: &[Advantaged]) -> Vec<f64> {
    advantaged.iter().map(|c| c.advantage).collect()
}

#[test]
fn a_failure_of_the_infrastructure_leaves_its_group_as_if_it_had_not_been_there() {
    let settings = Settings::default();
    let peak = Some(50.0);
    let with = vec![
        measured(10.0, 0.2),
        infrastructure(InfrastructureCause::Jail),
        wrong(),
        unknown(),
    ];
    let without = vec![measured(10.0, 0.2), wrong()];
    let (advantaged, metrics) = with_advantages(
        group(1, with),
        &settings,
        peak,
        &mut StageBests::default(),
        &mut BestAnswers::default(),
    );
    let (expected, clean) = with_advantages(
        group(1, without),
        &settings,
        peak,
        &mut StageBests::default(),
        &mut BestAnswers::default(),
    );
    assert_eq!((metrics.samples, metrics.dropped), (2, 2));
    assert_eq!((clean.samples, clean.dropped), (2, 0));
    assert_eq!(advantages(&advantaged), advantages(&expected));
    assert_eq!(metrics.mean_reward, clean.mean_reward);
    assert!(advantaged[0].advantage > 0.0 && advantaged[1].advantage < 0.0);
}

#[test]
fn problems_of_a_run_share_neither_bests_nor_rewards_nor_answers() {
    let mut settings = relative_to_best();
    settings.advantage.sharing = 1.0;
    settings.advantage.self_imitation = 1.0;
    let of = |problem: &str, gflops: [f64; 2]| {
        let mut groups = group(1, gflops.map(|g| measured(g, g / 50.0)).into());
        for sample in groups.iter_mut().flatten() {
            sample.outcome.candidate.problem = ProblemId::new(problem).expect("a name");
            if let Some(rollout) = &mut sample.rollout {
                rollout.candidate = sample.outcome.candidate.clone();
            }
        }
        groups
    };
    // Each program of the fast problem is faster than all of the slow one, and both steps have the same programs.
    let steps = |problem: &str| match problem {
        "slow" => [[1.0, 4.0], [1.0, 2.0]],
        _ => [[10.0, 40.0], [40.0, 20.0]],
    };
    let run = |problems: &[&str]| {
        let (mut bests, mut answers) = (StageBests::default(), BestAnswers::default());
        let mut all: BTreeMap<ProblemId, Vec<f64>> = BTreeMap::new();
        for step in 0..2 {
            let groups = problems
                .iter()
                .flat_map(|p| of(p, steps(p)[step]))
                .collect();
            let (advantaged, _) =
                with_advantages(groups, &settings, Some(50.0), &mut bests, &mut answers);
            for sample in advantaged {
                let problem = sample.rollout.candidate.problem.clone();
                all.entry(problem).or_default().push(sample.advantage);
            }
        }
        all
    };
    let mut apart = run(&["slow"]);
    apart.extend(run(&["fast"]));
    assert_eq!(run(&["slow", "fast"]), apart);
}

#[test]
fn a_flat_group_counts_in_the_means_of_every_loss_but_dapo() {
    let trained = |learner: GrpoConfig| {
        let settings = Settings {
            learner,
            ..Settings::default()
        };
        let mut groups = group(1, vec![measured(10.0, 0.2), wrong()]);
        groups.extend(group(2, vec![wrong(), wrong()]));
        let bests = &mut StageBests::default();
        let best_answers = &mut BestAnswers::default();
        with_advantages(groups, &settings, Some(50.0), bests, best_answers)
            .0
            .len()
    };
    let dapo = GrpoConfig {
        loss: Loss::Dapo,
        ..GrpoConfig::default()
    };
    assert_eq!(trained(dapo.clone()), 2);
    assert_eq!(trained(GrpoConfig::default()), 4);
    let kl_beta = 0.01;
    assert_eq!(
        trained(GrpoConfig {
            kl_beta,
            ..dapo.clone()
        }),
        4
    );
    let entropy_bonus = 0.001;
    assert_eq!(
        trained(GrpoConfig {
            entropy_bonus,
            ..dapo
        }),
        4
    );
}

#[test]
fn a_turn_of_a_conversation_has_a_share_of_what_follows() {
    let mut settings = Settings {
        reward: Reward::Ladder(Ladder::scaled()),
        ppo: Some(PpoConfig::default()),
        ..Settings::default()
    };
    let scores = |settings: &Settings| {
        let mut groups = group(1, vec![wrong(), measured(10.0, 0.2)]);
        // The second answer of each conversation, in groups of their own.
        for (n, verdict) in [measured(40.0, 0.8), wrong()].into_iter().enumerate() {
            let mut next = group(1, vec![verdict]);
            let first = groups[0][n].outcome.candidate.id.clone();
            next[0][0].outcome.candidate.follows = Some(first);
            next[0][0].outcome.candidate.id = candidate(1, 1 + n as u32, 0).id;
            groups.extend(next);
        }
        let bests = &mut StageBests::default();
        let answers = &mut BestAnswers::default();
        let (advantaged, _) = with_advantages(groups, settings, Some(50.0), bests, answers);
        advantages(&advantaged)
    };
    let alone = scores(&settings);
    settings.turns.most = 2;
    settings.turns.discount = 0.5;
    let told = scores(&settings);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(
        near(told[0], alone[0] + 0.5 * alone[2]),
        "{told:?} {alone:?}"
    );
    assert!(
        near(told[1], alone[1] + 0.5 * alone[3]),
        "{told:?} {alone:?}"
    );
    assert_eq!(told[2..], alone[2..]);
    settings.turns.returns = Returns::FirstAndBest;
    settings.turns.first = 0.75;
    let whole = scores(&settings);
    assert!(
        near(whole[0], 0.75 * alone[0] + 0.25 * alone[2]),
        "{whole:?}"
    );
    assert_eq!(whole[0], whole[2]);
    assert!(near(whole[1], alone[1]), "{whole:?}");
}

#[test]
fn a_turn_that_asks_is_a_sample_with_the_share_of_what_follows() {
    let mut settings = Settings {
        reward: Reward::Ladder(Ladder::scaled()),
        ppo: Some(PpoConfig::default()),
        ..Settings::default()
    };
    settings.turns.most = 2;
    settings.turns.discount = 0.5;
    let told = |second: Verdict| {
        let find = Request::Find {
            techniques: TechniqueSet::EMPTY,
            text: "fma".to_owned(),
        };
        let first = asked(candidate(1, 0, 0), find);
        let mut next = group(1, vec![second]);
        next[0][0].outcome.candidate.follows = Some(first.candidate.id.clone());
        next[0][0].outcome.candidate.id = candidate(1, 1, 0).id;
        let sample = Sample {
            rollout: Some(rollout(&first)),
            outcome: first,
        };
        let groups = vec![vec![sample], next.remove(0)];
        let bests = &mut StageBests::default();
        let answers = &mut BestAnswers::default();
        with_advantages(groups, &settings, Some(50.0), bests, answers)
    };
    let (advantaged, metrics) = told(measured(40.0, 0.8));
    let found = advantages(&advantaged);
    assert!(found[1] > 0.1 && found[0] == 0.5 * found[1], "{found:?}");
    assert_eq!((metrics.samples, metrics.dropped), (2, 0));
    // The mean is that of the rewards, and the request has none.
    assert!(
        (metrics.mean_reward - found[1]).abs() < 1e-12,
        "{metrics:?}"
    );
    // Nothing is known of a request that no verdict follows.
    let (advantaged, metrics) = told(infrastructure(InfrastructureCause::Jail));
    assert!(advantaged.is_empty(), "{advantaged:?}");
    assert_eq!((metrics.samples, metrics.dropped), (0, 1));
}

#[test]
fn grpo_compares_a_turn_with_that_turn_of_other_conversations() {
    let mut settings = Settings {
        reward: Reward::Ladder(Ladder::scaled()),
        ..Settings::default()
    };
    settings.advantage.kind = flopsmith_reward::AdvantageKind::MeanStd;
    settings.advantage.scale = flopsmith_reward::Scale::None;
    settings.turns.most = 2;
    settings.turns.discount = 0.5;
    // Two conversations of a group that begin with the same failure, and each second answer in a group of its own.
    let told = |settings: &Settings, second: [Verdict; 2]| {
        let mut groups = group(1, vec![wrong(), wrong()]);
        for (n, verdict) in second.into_iter().enumerate() {
            let mut next = group(1, vec![verdict]);
            let first = groups[0][n].outcome.candidate.id.clone();
            next[0][0].outcome.candidate.follows = Some(first);
            next[0][0].outcome.candidate.id = candidate(1, 1 + n as u32, 0).id;
            groups.extend(next);
        }
        let bests = &mut StageBests::default();
        let answers = &mut BestAnswers::default();
        let (advantaged, metrics) = with_advantages(groups, settings, Some(50.0), bests, answers);
        (advantages(&advantaged), metrics.flat_groups)
    };
    let second = || [measured(40.0, 0.8), wrong()];
    let (found, flat) = told(&settings, second());
    // The first answers differ by half of what followed, and the second ones by all of it.
    let gap = found[2];
    assert!(gap > 0.1, "{found:?}");
    let wanted = [0.5 * gap, -0.5 * gap, gap, -gap];
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(found.iter().zip(&wanted).all(near), "{found:?}");
    assert_eq!(flat, 0.0);
    // No answer is left out for being alone in the group that its task names.
    settings.advantage.flat_groups = FlatGroups::LeaveOut;
    assert_eq!(told(&settings, second()).0, found);
    assert_eq!(told(&settings, [wrong(), wrong()]), (Vec::new(), 1.0));
}

#[test]
fn a_flat_group_that_is_left_out_is_in_no_mean_and_still_sets_the_best() {
    let mut settings = Settings::default();
    settings.advantage.imitation = 0.5;
    settings.advantage.scale = flopsmith_reward::Scale::Batch;
    let trained = |settings: &Settings, flat: bool| {
        let mut groups = group(1, vec![measured(10.0, 0.2), wrong()]);
        if flat {
            groups.extend(group(2, vec![measured(30.0, 0.6), measured(30.0, 0.6)]));
        }
        let mut bests = StageBests::default();
        let best_answers = &mut BestAnswers::default();
        let (advantaged, metrics) =
            with_advantages(groups, settings, Some(50.0), &mut bests, best_answers);
        (
            advantages(&advantaged),
            metrics,
            bests.get(&candidate(1, 0, 0)),
        )
    };
    let (without, clean, _) = trained(&settings, false);
    let (with, _, _) = trained(&settings, true);
    assert_eq!(with.len(), 4);
    assert_ne!(with[..2], without[..]);
    settings.advantage.flat_groups = FlatGroups::LeaveOut;
    let (left, metrics, best) = trained(&settings, true);
    assert_eq!(left, without);
    assert_eq!(metrics.samples, clean.samples);
    assert_eq!((metrics.flat_groups, metrics.dropped), (0.5, 0));
    assert_eq!(best, Some(30.0));
}

#[test]
fn a_sample_without_tokens_is_dropped_and_counted() {
    let mut groups = group(1, vec![measured(10.0, 0.2), wrong()]);
    groups[0][0].rollout = None;
    let settings = Settings::default();
    let (advantaged, metrics) = with_advantages(
        groups,
        &settings,
        Some(50.0),
        &mut StageBests::default(),
        &mut BestAnswers::default(),
    );
    assert_eq!((metrics.samples, metrics.dropped), (1, 1));
    assert_eq!(advantaged.len(), 1);
}

#[test]
fn rewards_are_relative_to_the_best_before_the_step() {
    let settings = relative_to_best();
    let mut bests = StageBests::default();
    let step = |number| group(number, vec![measured(10.0, 0.2), measured(20.0, 0.4)]);
    // There is no best yet: the peak stands for it.
    let (_, first) = with_advantages(
        step(1),
        &settings,
        Some(50.0),
        &mut bests,
        &mut BestAnswers::default(),
    );
    assert!((first.mean_reward - 0.3).abs() < 1e-12, "{first:?}");
    assert_eq!(bests.get(&candidate(1, 0, 0)), Some(20.0));
    let (_, second) = with_advantages(
        step(2),
        &settings,
        Some(50.0),
        &mut bests,
        &mut BestAnswers::default(),
    );
    assert!((second.mean_reward - 0.75).abs() < 1e-12, "{second:?}");
}

#[test]
fn nothing_is_kept_of_fresh_nests_which_never_occur_again() {
    let kept = |settings: &Settings, problem: &str| {
        let (mut bests, mut answers) = (StageBests::default(), BestAnswers::default());
        let mut step = group(1, vec![measured(10.0, 0.2), measured(20.0, 0.4)]);
        for sample in step.iter_mut().flatten() {
            sample.outcome.candidate.problem = ProblemId::new(problem).expect("an id");
        }
        let (samples, _) = with_advantages(step, settings, Some(50.0), &mut bests, &mut answers);
        assert_eq!(samples.len(), 2);
        (bests, answers)
    };
    let stream = Settings {
        problem: String::new(),
        suite: "random".into(),
        ..relative_to_best()
    };
    let mixed = Settings {
        random: 2,
        ..relative_to_best()
    };
    for settings in [&stream, &mixed] {
        assert_eq!(kept(settings, "random_7"), Default::default());
    }
    for (settings, problem) in [(&mixed, "dgemm"), (&relative_to_best(), "random_7")] {
        let (bests, answers) = kept(settings, problem);
        assert_ne!(bests, StageBests::default());
        assert_ne!(answers, BestAnswers::default());
    }
}

#[test]
fn a_number_that_is_hardly_known_is_no_best_but_its_lower_end() {
    let settings = relative_to_best();
    let wild = Measured::at(100.0).se(0.7).unconverged();
    let lower = 100.0 * (-1.96_f64 * 0.7).exp();
    let verdicts = vec![measured(10.0, 0.2), wild.verdict()];
    let mut trained = StageBests::default();
    let groups = group(1, verdicts.clone());
    with_advantages(
        groups,
        &settings,
        Some(50.0),
        &mut trained,
        &mut BestAnswers::default(),
    );
    let mut learned = StageBests::default();
    let outcomes = group(1, verdicts).into_iter().flatten().map(|s| s.outcome);
    learned.learn(outcomes.collect::<Vec<_>>().iter());
    for bests in [trained, learned] {
        let best = bests.get(&candidate(1, 0, 0)).expect("a best");
        assert!((best / lower - 1.0).abs() < 1e-9, "{best} and {lower}");
    }
}

#[test]
fn bests_that_were_saved_give_the_same_rewards() {
    let settings = relative_to_best();
    let mut bests = StageBests::default();
    with_advantages(
        group(1, vec![measured(10.1, 0.2), measured(0.3, 0.006)]),
        &settings,
        Some(50.0),
        &mut bests,
        &mut BestAnswers::default(),
    );
    let text = serde_json::json!({ "step": 1, (StageBests::KEY): bests }).to_string();
    let meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut resumed = StageBests::saved(&meta).expect("bests");
    assert_eq!(resumed, bests);
    let next = || group(2, vec![measured(7.0, 0.14), measured(15.0, 0.3), wrong()]);
    assert_eq!(
        with_advantages(
            next(),
            &settings,
            Some(50.0),
            &mut resumed,
            &mut BestAnswers::default()
        ),
        with_advantages(
            next(),
            &settings,
            Some(50.0),
            &mut bests,
            &mut BestAnswers::default()
        )
    );
    // Saved by a version that kept none.
    let old = StageBests::saved(&serde_json::json!({ "step": 1 })).expect("a default");
    assert_eq!(old, StageBests::default());
    assert!(StageBests::saved(&serde_json::json!({ (StageBests::KEY): "x" })).is_err());
}

#[test]
fn the_same_speed_is_worth_the_same_however_many_threads_reached_it() {
    // Both at 20 GFLOPS, one of them with two threads, whose peak is twice as high.
    let groups = group(1, vec![measured(20.0, 0.4), measured(20.0, 0.2)]);
    let (_, metrics) = with_advantages(
        groups,
        &Settings::default(),
        Some(100.0),
        &mut StageBests::default(),
        &mut BestAnswers::default(),
    );
    assert!((metrics.mean_reward - 0.2).abs() < 1e-12, "{metrics:?}");
    assert_eq!(metrics.flat_groups, 1.0);
}

#[test]
fn a_program_that_was_found_once_is_imitated_until_it_is_found_again() {
    let mut settings = Settings::default();
    let (mut bests, mut best_answers) = (StageBests::default(), BestAnswers::default());
    let step = |number, fast: bool, settings: &Settings, bests: &mut _, best_answers: &mut _| {
        let gflops = if fast { 40.0 } else { 10.0 };
        let verdicts = vec![measured(10.0, 0.2), measured(gflops, 0.8), wrong()];
        with_advantages(
            group(number, verdicts),
            settings,
            Some(50.0),
            bests,
            best_answers,
        )
        .0
    };
    step(1, true, &settings, &mut bests, &mut best_answers);
    let plain = step(2, false, &settings, &mut bests, &mut best_answers);
    assert!(plain.iter().all(|c| !c.rollout.logprobs.is_empty()));
    settings.advantage.self_imitation = 0.5;
    let lost = step(3, false, &settings, &mut bests, &mut best_answers);
    assert_eq!(lost.len(), plain.len() + 1);
    let imitated = lost.last().expect("a sample");
    assert!(imitated.rollout.logprobs.is_empty() && imitated.advantage > 0.5);
    assert_eq!(imitated.rollout.candidate.step, 1);
    let found = step(4, true, &settings, &mut bests, &mut best_answers);
    assert!(found.iter().all(|c| c.rollout.candidate.step == 4));
}

#[test]
fn programs_of_narrow_tasks_are_imitated_in_tasks_that_permit_more() {
    use flopsmith_protocol::Technique;
    let mut settings = Settings::default();
    settings.advantage.self_imitation = 0.5;
    let simd = TechniqueSet::EMPTY.with(Technique::Simd);
    let both = simd.with(Technique::RegisterBlocking);
    let unroll = TechniqueSet::EMPTY.with(Technique::Unroll);
    let mut best_answers = BestAnswers::default();
    let mut step = |number, permitted: TechniqueSet, techniques, gflops, prompt: u32| {
        let mut groups = group(number, vec![measured(gflops, gflops / 50.0), wrong()]);
        for sample in &mut groups[0] {
            sample.outcome.candidate.permitted = permitted;
            sample.outcome.techniques = Some(techniques);
            let rollout = sample.rollout.as_mut().expect("it counts");
            rollout.candidate.permitted = permitted;
            rollout.prompt_tokens = vec![prompt; 3];
        }
        let bests = &mut StageBests::default();
        let advantaged = with_advantages(groups, &settings, Some(50.0), bests, &mut best_answers).0;
        let imitated = advantaged.into_iter().map(|c| c.rollout);
        imitated
            .filter(|r| r.logprobs.is_empty())
            .map(|r| (r.candidate.step, r.prompt_tokens))
            .collect::<Vec<_>>()
    };
    assert!(step(1, both, both, 40.0, 7).is_empty());
    let all = TechniqueSet::all();
    assert_eq!(step(2, all, unroll, 10.0, 8), [(1, vec![8; 3])]);
    assert!(step(3, unroll, unroll, 10.0, 9).is_empty());
    assert!(step(4, simd, simd, 10.0, 9).is_empty());
    assert_eq!(step(5, both, simd, 10.0, 9), [(1, vec![7; 3])]);
    assert!(step(6, all, both, 40.0, 8).is_empty());
}

#[test]
fn exploration_samples_belong_to_no_group_and_self_imitation_uses_them() {
    let mut settings = Settings::default();
    settings.advantage.self_imitation = 0.5;
    let own = || vec![measured(10.0, 0.2), wrong()];
    let step = |number, exploration: Verdict, best_answers: &mut BestAnswers| {
        let mut verdicts = own();
        verdicts.push(exploration);
        let mut groups = group(number, verdicts);
        groups[0][2].outcome.candidate.exploration = true;
        let bests = &mut StageBests::default();
        with_advantages(groups, &settings, Some(50.0), bests, best_answers)
    };
    let mut best_answers = BestAnswers::default();
    let (with, metrics) = step(1, measured(40.0, 0.8), &mut best_answers);
    let (without, clean) = with_advantages(
        group(1, own()),
        &settings,
        Some(50.0),
        &mut StageBests::default(),
        &mut BestAnswers::default(),
    );
    assert_eq!(advantages(&with), advantages(&without));
    assert_eq!(metrics, clean);
    // One that fails changes nothing, and the next step learns from the one that did not.
    let (next, _) = step(2, wrong(), &mut best_answers);
    assert_eq!(next.len(), with.len() + 1);
    let taken_up = next.last().expect("a sample");
    assert_eq!(
        (
            taken_up.rollout.candidate.step,
            taken_up.rollout.candidate.sample
        ),
        (1, 2)
    );
}
