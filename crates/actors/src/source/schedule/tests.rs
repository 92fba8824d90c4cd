use std::path::Path;

use flopsmith_generator::schedule::Space;
use flopsmith_protocol::{Purpose, TechniqueSet};
use flopsmith_test_support::shipped;

use super::*;

fn task(number: u32) -> Task {
    let step = u64::from(number);
    Task {
        group_size: 8,
        permitted: TechniqueSet::all(),
        purpose: Purpose::Search,
        seed: step + 100,
        ..flopsmith_test_support::task(step, 0)
    }
}

/// The space of a matrix product, that of another loop nest, and that of a template.
#[tokio::test]
async fn a_source_that_is_made_anew_goes_on_from_the_outcomes() {
    for name in ["dgemm", "dsyrk", "histogram"] {
        let problem = Problem::load(&shipped::at(name)).expect("a problem");
        let task = |number: u32| Task {
            problem: problem.id.clone(),
            ..task(number)
        };
        let made = || {
            let searching = Searching::of(&problem, 1).expect("it has schedules");
            ScheduleSource::new([(problem.id.clone(), searching)])
        };
        let mut source = made();
        let mut log: Vec<(String, Option<f64>)> = Vec::new();
        for number in 0..5 {
            let groups = source.answer(&[&problem], &[task(number)]).await;
            for answer in groups.expect("answers").into_iter().flatten() {
                // Any landscape will do, with some programs that fail.
                let length = answer.source.len();
                let gflops = (length % 5 > 0).then_some(length as f64);
                source.outcome_seen(&problem.id, &answer.source, gflops);
                log.push((answer.source, gflops));
            }
        }
        let mut again = made();
        for (program, gflops) in &log {
            again.outcome_seen(&problem.id, program, *gflops);
        }
        again.outcome_seen(&problem.id, "int other;", Some(1e9));
        let next = again
            .answer(&[&problem], &[task(5)])
            .await
            .expect("answers");
        let known = |answer: &Answer| log.iter().any(|(program, _)| *program == answer.source);
        assert!(!next.iter().flatten().any(known), "nothing is tried again");
        let other = source
            .answer(&[&problem], &[task(5)])
            .await
            .expect("answers");
        assert_eq!(next, other, "as if it had never ended");
    }
}

#[test]
fn every_shipped_problem_by_itself_has_a_search() {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let mut seen = 0;
    for entry in std::fs::read_dir(problems).expect("the problems") {
        let folder = entry.expect("an entry").path();
        if !folder.join("problem.toml").is_file() {
            continue;
        }
        let problem = Problem::load(&folder).expect("a problem");
        let searching = Searching::of(&problem, 1);
        assert!(searching.is_ok(), "{}: {:?}", problem.id, searching.err());
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn a_problem_that_is_not_affine_learns_the_line_and_what_would_work() {
    let mut problem = Problem::load(&shipped::at("sort64")).expect("a problem");
    problem.template = None;
    let why = Searching::of(&problem, 1).err().expect("it sorts");
    for part in ["(line ", "`template`", "--start mine.c"] {
        assert!(why.contains(part), "{why}");
    }
}

/// The rows of a page's table of problems without schedules.
fn rows_of_refused(page: &str) -> Vec<&str> {
    let (_, table) = page
        .split_once("| problem | why its `reference.c` is no affine loop nest |\n|---|---|\n")
        .expect("the page has the table");
    table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .collect()
}

#[test]
fn at_least_45_shipped_problems_are_searched_and_the_page_has_the_others_with_their_reasons() {
    let folders = flopsmith_test_support::shipped::problems();
    let refused = folders.iter().filter_map(|folder| {
        let problem = Problem::load(folder).expect("a problem");
        let why = Searching::of(&problem, 1).err()?;
        Some((problem.id, why))
    });
    let refused: Vec<(ProblemId, String)> = refused.collect();
    let searched = folders.len() - refused.len();
    assert!(
        searched >= 45,
        "{searched} of {}: {refused:#?}",
        folders.len()
    );
    let mut rows = Vec::new();
    for (id, why) in &refused {
        for part in ["no affine loop nest (", "`template`", "--start mine.c"] {
            assert!(why.contains(part), "{id}: {why}");
        }
        let reason = why.split_once("no affine loop nest (");
        let reason = reason.and_then(|(_, rest)| rest.split_once("): give "));
        let (reason, _) = reason.expect("the reason stands in parentheses");
        rows.push(format!("| `{id}` | {reason} |"));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/search.md");
    let page = std::fs::read_to_string(page).expect("the page about searches");
    assert_eq!(rows_of_refused(&page), rows, "in docs/how-to/search.md");
}

#[test]
fn a_problem_whose_dependences_forbid_other_orders_learns_what_would_work() {
    let mut problem = Problem::load(&shipped::at("prefix_sum")).expect("a problem");
    problem.template = None;
    problem.reference_source = "void prefix_sum(int n, const int *in, int *out) {
        for (int i = 1; i < n; i++) out[i] = 3 * out[i - 1] + in[i];
    }"
    .into();
    let lack = |problem: &Problem| Searching::of(problem, 1).expect("it is affine").lack();
    let words = lack(&problem).expect("it is a recurrence");
    for part in ["forbid every other order", "`template`", "--start mine.c"] {
        assert!(words.contains(part), "{words}");
    }
    let other = Problem::load(&shipped::at("dsyrk")).expect("a problem");
    assert_eq!(lack(&other), None);
}

#[tokio::test]
async fn an_answer_is_the_same_whoever_gives_it_beside_what_else() {
    let problem = Problem::load(&shipped::at("dgemm")).expect("a problem");
    let made = || ScheduleSource::new([(problem.id.clone(), Search::new(Space::dgemm(), 1))]);
    let step: Vec<Task> = (0..4)
        .map(|number| Task {
            group_size: 16,
            tasks_in_step: 4,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: 7,
            ..flopsmith_test_support::task(0, number)
        })
        .collect();
    let together = made().answer(&[&problem], &step).await.expect("answers");
    let mut programs: Vec<&str> = Vec::new();
    for (task, answers) in step.into_iter().zip(&together).rev() {
        let alone = made().answer(&[&problem], &[task]).await.expect("answers");
        assert_eq!(alone[0], *answers);
        programs.extend(answers.iter().map(|a| a.source.as_str()));
    }
    programs.sort_unstable();
    let count = programs.len();
    programs.dedup();
    assert_eq!(programs.len(), count, "no two tasks of a step try the same");
}

/// The first step of a search that knows programs of an earlier one tries their schedules, each once.
#[tokio::test]
async fn a_warm_search_begins_with_the_schedules_of_earlier_ones() {
    let load = |name: &str| Problem::load(&shipped::at(name)).expect("a problem");
    for name in ["dgemm", "dsyrk", "histogram"] {
        let problem = load(name);
        let step = |size: u32| -> Vec<Task> {
            let tasks = (0..2).map(|number| Task {
                problem: problem.id.clone(),
                group_size: size,
                tasks_in_step: 2,
                permitted: TechniqueSet::all(),
                purpose: Purpose::Search,
                seed: 11,
                ..flopsmith_test_support::task(0, number)
            });
            tasks.collect()
        };
        let made = || {
            let searching = Searching::of(&problem, 1).expect("it has schedules");
            ScheduleSource::new([(problem.id.clone(), searching)])
        };
        let found = made().answer(&[&problem], &step(8)).await;
        let found: Vec<String> = found
            .expect("answers")
            .into_iter()
            .flatten()
            .map(|answer| answer.source)
            .collect();
        let known: Vec<String> = found[1..4]
            .iter()
            .cloned()
            .chain(["int other;".to_owned()])
            .collect();
        let mut source = made().warmed_by(known.clone());
        let answers = source.answer(&[&problem], &step(6)).await;
        let answers: Vec<String> = answers
            .expect("answers")
            .into_iter()
            .flatten()
            .map(|answer| answer.source)
            .collect();
        assert_eq!(answers.len(), 12, "{name}");
        for program in &known[..3] {
            let times = answers.iter().filter(|a| *a == program).count();
            assert_eq!(times, 1, "{name}: {program}");
        }
        assert_eq!(answers[..3], known[..3], "{name}: they come first");
    }
}

/// Settings of a search that varies a program of the user's, for a third of its answers.
fn varying(source: &str) -> Settings {
    let mut settings = flopsmith_config::search::defaults("dsyrk", 60.0);
    settings.start = Some(flopsmith_config::Start {
        source: source.into(),
        ..flopsmith_config::Start::default()
    });
    settings.generator.start_share = 1.0 / 3.0;
    settings
}

#[tokio::test]
async fn variants_of_the_users_program_stand_beside_schedules_and_name_their_parents() {
    let problem = Problem::load(&shipped::at("dsyrk")).expect("a problem");
    let own = "void dsyrk(int n) { for (int i = 0; i < n; i += 8) f(i); }\n";
    let settings = varying(own);
    let made = || {
        let searching = Searching::of_run(&problem, &settings).expect("it has schedules");
        ScheduleSource::new([(problem.id.clone(), searching)])
            .beginning_with(Some(own.into()))
            .varying(Variants::of_run(&problem, &settings))
    };
    let task = |step: u64, number: u32| Task {
        problem: problem.id.clone(),
        group_size: 9,
        permitted: TechniqueSet::all(),
        purpose: Purpose::Search,
        seed: step,
        ..flopsmith_test_support::task(step, number)
    };
    let mut source = made();
    let mut log: Vec<Outcome> = Vec::new();
    for step in 0..3 {
        let asked = task(step, 0);
        let answers = source
            .answer(&[&problem], std::slice::from_ref(&asked))
            .await;
        let group = answers.expect("answers").remove(0);
        assert_eq!(group.len(), 9);
        let varied = group.iter().filter(|answer| answer.parent.is_some());
        assert!((2..=3).contains(&varied.count()), "step {step}");
        for (sample, answer) in (0..).zip(group) {
            let mut candidate = flopsmith_test_support::sample_of(&asked, sample);
            candidate.follows = answer.parent;
            let length = answer.source.len();
            let verdict = flopsmith_test_support::measured(length as f64);
            log.push(Outcome {
                source: answer.source,
                ..flopsmith_test_support::outcome(candidate, verdict)
            });
        }
        let new = log.len() - 9;
        log[new..]
            .iter()
            .for_each(|outcome| source.outcome_reported(outcome));
    }
    // A source that is made anew goes on from the outcomes with the same parents.
    let mut again = made();
    log.iter()
        .for_each(|outcome| again.outcome_reported(outcome));
    let next = [task(3, 1)];
    let answers = source.answer(&[&problem], &next).await.expect("answers");
    let same = again.answer(&[&problem], &next).await.expect("answers");
    assert_eq!(answers, same);
    let known = |answer: &Answer| log.iter().any(|outcome| outcome.source == answer.source);
    assert!(
        !answers.iter().flatten().any(known),
        "nothing is tried again"
    );
}

#[tokio::test]
async fn a_problem_without_a_space_has_variants_of_the_users_program_alone() {
    let mut problem = Problem::load(&shipped::at("sort64")).expect("a problem");
    problem.template = None;
    let settings = varying("void sort64(int n) { for (int i = 0; i < n; i += 8) f(i); }\n");
    assert!(Searching::of_run(&problem, &settings).is_err());
    let none: [(ProblemId, Searching); 0] = [];
    let mut source = ScheduleSource::new(none).varying(Variants::of_run(&problem, &settings));
    let task = Task {
        problem: problem.id.clone(),
        ..task(1)
    };
    let answers = source
        .answer(&[&problem], std::slice::from_ref(&task))
        .await;
    let answers = answers.expect("answers").remove(0);
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|answer| answer.parent.is_some()));
    let none: [(ProblemId, Searching); 0] = [];
    let nothing = ScheduleSource::new(none).answer(&[&problem], &[task]).await;
    assert!(nothing.is_err(), "it has nothing to write");
}

#[test]
fn a_problem_in_another_language_learns_of_its_own_programs() {
    let mut problem = Problem::load(&shipped::at("dsyrk")).expect("a problem");
    for (language, words) in [
        (Language::Fortran, Some("--start mine.f90")),
        (Language::Cxx, Some("--start mine.cpp")),
        (Language::Python, None),
    ] {
        problem.language = language;
        let why = Searching::of(&problem, 1).err().expect("it is not in C");
        assert!(why.contains(words.unwrap_or("must be in")), "{why}");
        assert_eq!(why.contains("--start"), words.is_some(), "{why}");
    }
}

/// The settings of a search that begins with a program with three parameters, of 11 configurations.
fn tuned() -> Settings {
    let parameters = r#"{"ConfigurationSpace": {"TuningParameters": [
        {"Name": "A", "Type": "int", "Values": "[1, 2, 3]", "Default": 2},
        {"Name": "B", "Type": "int", "Values": "[0, 1]", "Default": 1},
        {"Name": "C", "Type": "int", "Values": "[0, 1]", "Default": 0}],
        "Conditions": [{"Expression": "A + B + C < 5", "Parameters": ["A", "B", "C"]}]}}"#;
    Settings {
        tasks: 2,
        group_size: 3,
        start: Some(flopsmith_config::Start {
            source: "void dgemm(int n) { n = A + B + C; }\n".into(),
            parameters: parameters.into(),
            configurations: 11,
            max_source_bytes: None,
        }),
        ..Settings::default()
    }
}

/// The tasks of a step of this search.
fn step_of(settings: &Settings, step: u64) -> Vec<Task> {
    let (tasks, group_size) = settings.search_step(step);
    let tasks = (0..tasks).map(|number| Task {
        group_size,
        tasks_in_step: tasks,
        permitted: TechniqueSet::all(),
        purpose: Purpose::Search,
        seed: 31 * step + u64::from(number),
        ..flopsmith_test_support::task(step, number)
    });
    tasks.collect()
}

#[tokio::test]
async fn a_search_over_parameters_tries_each_configuration_once_and_the_defaults_first() {
    let problem = Problem::load(&shipped::at("dgemm")).expect("a problem");
    let settings = tuned();
    let made = || {
        let searching = Searching::of_run(&problem, &settings).expect("they fit");
        ScheduleSource::new([(problem.id.clone(), searching)])
    };
    let mut source = made();
    let mut seen: Vec<String> = Vec::new();
    for step in 0..2 {
        let mut outcomes = Vec::new();
        for task in step_of(&settings, step) {
            let count = task.group_size as usize;
            let mut answers = source
                .answer(&[&problem], std::slice::from_ref(&task))
                .await
                .expect("answers");
            // The same task again, and the same task of another process.
            let again = source
                .answer(&[&problem], std::slice::from_ref(&task))
                .await;
            assert_eq!(again.expect("answers"), answers);
            let mut other = made();
            for program in &seen {
                other.outcome_seen(&problem.id, program, Some(program.len() as f64));
            }
            let elsewhere = other.answer(&[&problem], &[task]).await;
            assert_eq!(elsewhere.expect("answers"), answers);
            let group = answers.remove(0);
            assert_eq!(group.len(), count);
            outcomes.extend(group.into_iter().map(|answer| answer.source));
        }
        for program in &outcomes {
            source.outcome_seen(&problem.id, program, Some(program.len() as f64));
        }
        seen.extend(outcomes);
    }
    let defaults = "#define A 2\n#define B 1\n#define C 0\n";
    assert!(seen[0].starts_with(defaults), "{}", seen[0]);
    assert_eq!(seen.len(), 11);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 11, "no configuration is tried twice");
}

#[tokio::test]
async fn a_search_begins_with_the_users_own_program() {
    let problem = Problem::load(&shipped::at("dsyrk")).expect("a problem");
    let searching = Searching::of(&problem, 1).expect("it has schedules");
    let mut source = ScheduleSource::new([(problem.id.clone(), searching)])
        .beginning_with(Some("my program".into()));
    let mut of = async |step: u64, number: u32| {
        let task = Task {
            problem: problem.id.clone(),
            tasks_in_step: 2,
            group_size: 4,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            ..flopsmith_test_support::task(step, number)
        };
        let groups = source.answer(&[&problem], &[task]).await.expect("answers");
        let group = groups.into_iter().flatten().map(|answer| answer.source);
        group.collect::<Vec<_>>()
    };
    let first = of(0, 0).await;
    assert_eq!(first[0], "my program");
    assert_eq!(first.len(), 4);
    for (step, number) in [(0, 1), (1, 0)] {
        let later = of(step, number).await;
        assert!(!later.iter().any(|program| program == "my program"));
    }
}
