use flopsmith_agent::results::Roof;
use flopsmith_protocol::{CandidateFault, CandidateRef};
use flopsmith_test_support::{Measured, candidate, measured, outcome, rejected, task, wrong};

use super::*;
use proptest::prelude::*;

#[test]
fn a_mean_score_counts_what_the_policy_wrote_for_each_problem() {
    let other = ProblemId::new("other").expect("an id");
    let of = |problem: &ProblemId, sample: u32, exploration: bool, verdict| {
        let candidate = CandidateRef {
            problem: problem.clone(),
            exploration,
            ..candidate(1, 0, sample)
        };
        outcome(candidate, verdict)
    };
    let first = candidate(1, 0, 0).problem;
    let outcomes = [
        of(&first, 0, false, wrong()),
        of(&first, 1, false, measured(10.0)),
        of(&first, 2, true, measured(90.0)),
        of(&other, 3, true, measured(90.0)),
    ];
    let means = mean_scores(outcomes.iter());
    let half = score(&measured(10.0)).map(|score| score / 2.0);
    assert_eq!(means.get(&first).copied(), half);
    assert_eq!(means.len(), 1, "{means:?}");
}

#[test]
fn a_conversation_goes_on_with_all_that_was_said() {
    let first = Task {
        group_size: 2,
        exploration_samples: 1,
        ..task(1, 0)
    };
    let of = |task: &Task, sample: u32| CandidateRef {
        task: task.id.clone(),
        id: CandidateId::of(&task.id, sample),
        ..candidate(1, 0, sample)
    };
    let unsure = Measured::at(10.0).se(0.5).unconverged();
    let outcomes = [
        outcome(of(&first, 1), wrong()),
        outcome(of(&first, 0), unsure.verdict()),
    ];
    let round = Round {
        number: 1,
        from: 1,
        to: 3,
    };
    let mut tasks = vec![first];
    let none = BTreeMap::new();
    let second = next_turns(outcomes.iter(), &tasks, round, TurnPrompt::Brief, &none);
    assert_eq!(second.len(), 2);
    let follows: Vec<_> = second.iter().map(|t| t.follows.clone()).collect();
    let ids = [&outcomes[1], &outcomes[0]].map(|o| Some(o.candidate.id.clone()));
    assert_eq!(follows, ids);
    for task in &second {
        assert_eq!(
            (
                task.group_size,
                task.exploration_samples,
                task.tasks_in_step
            ),
            (1, 0, 3)
        );
        assert_eq!(task.history.len(), 1);
    }
    assert_ne!(second[0].seed, second[1].seed);
    let least = unsure.measurement().known_seconds_per_call();
    let said = follow_up(Feedback::Timed(least.unwrap_or(f64::NAN)));
    assert!(said.contains("s a call"), "{said}");
    assert_eq!(second[0].history[0].result, said);
    assert!(
        second[1].history[0].result.contains("does not pass"),
        "{second:?}"
    );

    tasks.extend(second.clone());
    let mut all = outcomes.to_vec();
    all.push(outcome(of(&second[0], 0), wrong()));
    let round = Round {
        number: 2,
        from: 3,
        to: 4,
    };
    let third = next_turns(all.iter(), &tasks, round, TurnPrompt::Brief, &none);
    assert_eq!(third.len(), 1);
    assert_eq!(third[0].history.len(), 2);
    assert_eq!(third[0].history[0], second[0].history[0]);
}

#[test]
fn an_agents_conversation_is_about_its_fastest_program() {
    let first = Task {
        group_size: 1,
        elite: None,
        ..task(1, 0)
    };
    let roof = Roof {
        workload: "n=256".into(),
        gflops: 40.0,
        by_memory: true,
        cached_in: None,
    };
    let scale = Scale {
        compared_with: "the plain reference",
        roofs: vec![roof],
    };
    let scales = BTreeMap::from([(first.problem.clone(), scale)]);
    let mut tasks = vec![first];
    let mut outcomes = Vec::new();
    let programs = [
        ("int a;\nint b;\n", measured(10.0)),
        ("int a;\nint wrong;\n", wrong()),
        ("", rejected(CandidateFault::Format)),
        ("int slow;\n", measured(5.0)),
        ("int a;\nint fast;\n", measured(20.0)),
    ];
    for (number, (source, verdict)) in (0u32..).zip(programs) {
        let last = tasks[number as usize].clone();
        let answer = CandidateRef {
            task: last.id.clone(),
            id: CandidateId::of(&last.id, 0),
            ..candidate(1, number, 0)
        };
        let mut said = outcome(answer, verdict);
        said.source = source.to_owned();
        outcomes.push(said);
        let round = Round {
            number: number + 1,
            from: number + 1,
            to: number + 2,
        };
        tasks.extend(next_turns(
            outcomes.iter(),
            &tasks,
            round,
            TurnPrompt::Agent,
            &scales,
        ));
    }
    let shown: Vec<(&str, f64)> = tasks[1..]
        .iter()
        .filter_map(|task| task.elite.as_ref())
        .map(|elite| (elite.source.as_str(), elite.gflops))
        .collect();
    let (begun, fast) = ("int a;\nint b;\n", "int a;\nint fast;\n");
    let earlier = [(begun, 10.0); 4];
    assert_eq!(shown, [&earlier[..], &[(fast, 20.0)]].concat());
    let results: Vec<&str> = tasks[5]
        .history
        .iter()
        .map(|said| said.result.as_str())
        .collect();
    assert!(
        results[0].contains("25.0 % of the roof of 40.000 GFLOPS, which memory sets")
            && !results[0].contains("differs"),
        "{results:?}"
    );
    assert!(
        results[1].contains("refused (wrong_result)")
            && results[1].contains("-int b;\n+int wrong;"),
        "{results:?}"
    );
    assert!(!results[2].contains("differs"), "{results:?}");
    assert!(results[4].contains("-int b;\n+int fast;"), "{results:?}");
}

proptest! {
    /// Over a number of steps every problem has as many tasks as every other one, give or take one.
    #[test]
    fn problems_take_turns(problems in 1usize..9, tasks in 1u32..9, steps in 1u64..30) {
        let mut counts = vec![0u64; problems];
        for step in 0..steps {
            for turn in turns(problems, step * u64::from(tasks), 0..tasks) {
                counts[turn] += 1;
            }
        }
        let (least, most) = (counts.iter().min(), counts.iter().max());
        prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
    }
}
