use flopsmith_agent::results::{Roof, Scale};
use flopsmith_archive::Config;
use flopsmith_config::{Settings, TurnPrompt};
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, CandidateRef, Request, Requests, TechniqueSet};
use flopsmith_test_support::{
    Measured, again, asked, candidate, first, machine_class, measured, outcome, problem_id,
    rejected, run_id, task, wrong,
};

use super::*;
use proptest::prelude::*;

/// The state of an archive from which it answers requests.
#[derive(Default)]
struct Held {
    stages: BTreeMap<ProblemId, Sqd>,
    documents: BTreeMap<String, String>,
}

impl Held {
    fn telling(&self, prompt: TurnPrompt, scale: Option<Scale>) -> Telling<'_> {
        let problems = scale.map(|scale| (problem_id(), (scale, Language::C)));
        Telling {
            prompt,
            last: 2,
            problems: problems.into_iter().collect(),
            stages: &self.stages,
            documents: &self.documents,
        }
    }
}

fn scale(roofs: Vec<Roof>) -> Scale {
    Scale {
        compared_with: "the plain reference",
        roofs,
    }
}

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
    let held = Held::default();
    let telling = held.telling(TurnPrompt::Brief, None);
    let second = next_turns(outcomes.iter(), &tasks, round, &telling);
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
    let third = next_turns(all.iter(), &tasks, round, &telling);
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
    let held = Held::default();
    let telling = held.telling(TurnPrompt::Agent, Some(scale(vec![roof])));
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
        tasks.extend(next_turns(outcomes.iter(), &tasks, round, &telling));
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

/// An archive with an elite of `simd` and a faster one of `unroll`, and with a document.
fn held() -> Held {
    let config = Config::default();
    let sqd = Sqd::new(config, run_id(), problem_id(), machine_class());
    let mut sqd = sqd.expect("the defaults");
    for (sample, source, techniques, gflops) in [
        (0, "int slow;\n", "simd", 20.0),
        (1, "int fast;\n", "unroll", 30.0),
    ] {
        let program = first(sample, source, techniques, measured(gflops));
        sqd.on_outcome(&program);
        sqd.on_outcome(&again(&program, program.verdict.clone()));
    }
    let document = ("gemm.md".to_owned(), "Pack the panels.".to_owned());
    Held {
        stages: BTreeMap::from([(problem_id(), sqd)]),
        documents: BTreeMap::from([document]),
    }
}

#[test]
fn a_task_offers_the_requests_that_have_a_result() {
    let held = held();
    let mut settings = Settings::default();
    settings.turns.most = 2;
    let offered = |settings: &Settings, purpose, permitted: &str| {
        let permitted = permitted.parse().expect("techniques");
        let sqd = held.stages.get(&problem_id());
        requests(settings, purpose, sqd, permitted, &held.documents)
    };
    assert_eq!(offered(&settings, Purpose::Train, "simd"), None, "brief");
    settings.turns.prompt = TurnPrompt::Agent;
    let of = |finds: Option<TechniqueSet>| {
        let documents = vec!["gemm.md".to_owned()];
        Some(Requests { finds, documents })
    };
    for (permitted, finds) in [
        ("simd", Some("simd")),
        ("simd+unroll+packing", Some("simd+unroll")),
        // No elite does without techniques.
        ("none", None),
    ] {
        let finds = finds.map(|finds| finds.parse().expect("techniques"));
        assert_eq!(offered(&settings, Purpose::Train, permitted), of(finds));
    }
    assert_eq!(offered(&settings, Purpose::EvaluateEnd, "simd"), None);
    settings.turns.most = 1;
    assert_eq!(offered(&settings, Purpose::Train, "simd"), None, "one turn");
    settings.turns.most = 2;
    let nothing = Held::default();
    let permitted = TechniqueSet::all();
    let none = requests(
        &settings,
        Purpose::Train,
        None,
        permitted,
        &nothing.documents,
    );
    assert_eq!(none, None);
}

#[test]
fn the_next_prompt_shows_the_result_of_a_request() {
    let held = held();
    let telling = held.telling(TurnPrompt::Agent, Some(scale(Vec::new())));
    let permitted = "simd".parse().expect("a technique");
    let begun = Task {
        group_size: 1,
        permitted,
        requests: Some(Requests {
            finds: Some(permitted),
            documents: vec!["gemm.md".to_owned()],
        }),
        ..task(1, 0)
    };
    let find = Request::Find {
        techniques: TechniqueSet::EMPTY,
        text: "int".to_owned(),
    };
    let read = Request::Read {
        document: "gemm.md".to_owned(),
    };
    let mut tasks = vec![begun.clone()];
    let mut outcomes = Vec::new();
    for (number, request) in (0u32..).zip([find.clone(), read.clone()]) {
        let last = tasks[number as usize].clone();
        let answer = CandidateRef {
            task: last.id.clone(),
            id: CandidateId::of(&last.id, 0),
            ..candidate(1, number, 0)
        };
        outcomes.push(asked(answer, request));
        let round = Round {
            number: number + 1,
            from: number + 1,
            to: number + 2,
        };
        tasks.extend(next_turns(outcomes.iter(), &tasks, round, &telling));
    }
    let last = &tasks[2];
    let requests: Vec<_> = last.history.iter().map(|s| s.request.clone()).collect();
    assert_eq!(requests, [Some(find), Some(read)]);
    let found = &last.history[0].result;
    // The faster elite has a technique that the task does not permit.
    assert!(
        found.contains("int slow;") && found.contains("20.000 GFLOPS, by a second"),
        "{found}"
    );
    assert!(!found.contains("int fast;"), "{found}");
    assert_eq!(last.history[1].result, "Pack the panels.");
    assert_eq!((&last.elite, last.history[0].answer.as_str()), (&None, ""));
    // The last turn may not ask: nobody would be told.
    assert_eq!(tasks[1].requests, begun.requests);
    assert_eq!(last.requests, None);
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
