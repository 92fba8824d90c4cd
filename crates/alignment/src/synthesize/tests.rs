//! The whole work on a folder, with a server that follows a script.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_run::{jsonl, paths};
use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};

use super::*;
use crate::split;

/// A server, and the folder that its answers go to.
struct Tested {
    server: ScriptedEndpoint,
    endpoint: Endpoint,
    place: tempfile::TempDir,
    problems: Vec<Arc<Problem>>,
}

impl Tested {
    /// The last act is done again and again.
    fn new(acts: Vec<Act>) -> Self {
        let server = ScriptedEndpoint::acts(acts).unwrap();
        let mut endpoint = Endpoint::new(&server.url(), "m");
        // So that the acts come in the order of the answers' numbers.
        endpoint.concurrency = 1;
        endpoint.retries.first_wait_seconds = 0.0;
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.c"), "snippet_line;\n").unwrap();
        Self {
            server,
            endpoint,
            place,
            problems: Vec::new(),
        }
    }

    fn run(&self, count: u32, seed: u64, measure: &mut Measure<'_>) -> Result<Report> {
        let (snippets, output) = (self.place.path().join("a.c"), self.place.path().join("out"));
        let order = Order {
            endpoint: &self.endpoint,
            sampling: Sampling {
                temperature: 0.8,
                top_p: 0.95,
                top_k: 0,
                max_tokens: 500,
            },
            seed,
            count,
            snippets: Some(&snippets),
            problems: self.problems.clone(),
            workloads: &[],
            style: Style::Compact,
            compiler: "gcc",
            allow_weaker_jail: false,
            output: &output,
        };
        run_with(&order, &CancellationToken::new(), measure)
    }

    /// Without a known problem nothing is measured.
    fn unmeasured(&self, count: u32) -> Report {
        self.run(count, 1, &mut nothing).unwrap()
    }

    fn programs(&self) -> Vec<Program> {
        let path = self.place.path().join("out").join(PROGRAMS);
        jsonl::read(&path, Program::check).unwrap()
    }
}

fn nothing(_: &Known, given: Given) -> Result<Option<Program>> {
    Err(anyhow::anyhow!("nobody measures {}", given.source))
}

fn streamed(text: &str) -> Act {
    Act::streamed(text, (100, 50))
}

fn pair(slow: &str, fast: &str) -> String {
    format!("### Slow\n```c\n{slow}\n```\n### Fast\n```c\n{fast}\n```\n")
}

fn tasked(task: &str, slow: &str, fast: &str) -> String {
    format!("### Task\n{task}\n{}", pair(slow, fast))
}

#[test]
fn answers_of_every_kind_are_counted_and_none_is_asked_for_again() {
    let mut cut = Act::pieces(&tasked("Cut.", "int c;", "int d;"));
    cut.push(r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#.to_owned());
    cut.push("[DONE]".to_owned());
    let tested = Tested::new(vec![
        streamed(&tasked("Add.", "int slow;", "int fast;")),
        streamed("I cannot do that."),
        // Its slow program is known, so the claim of the fast one compares nothing.
        streamed(&tasked("Add again.", "int  slow; // again", "int other;")),
        streamed(&tasked("Same.", "int a;", "int a ;")),
        Act::Stream(cut),
        streamed(&"x".repeat(200_000)),
        Act::error(400, "", "no"),
        streamed(&tasked("Multiply.", "int s;", "int f;")),
    ]);
    let report = tested.unmeasured(7);
    assert_eq!((report.answers, report.kept, report.missing), (6, 1, 1));
    let all = [
        Refusal::CutOff,
        Refusal::TooLong,
        Refusal::Format,
        Refusal::Same,
        Refusal::Repeated,
    ];
    assert_eq!(report.refused, BTreeMap::from(all.map(|r| (r, 1))));
    assert_eq!(report.failed, BTreeMap::from([(Reason::Refused, 1)]));
    assert_eq!(report.spending.requests, 7);
    let asked = tested.server.asked();
    assert!(asked.iter().all(|a| a.body.contains("snippet_line;")));
    let kept = std::fs::read_to_string(tested.place.path().join("out/answers.jsonl")).unwrap();
    assert!(kept.contains("I cannot do that.") && kept.len() < 100_000);

    // The answer that is missing is asked for, and later one more.
    let report = tested.unmeasured(7);
    assert_eq!(tested.server.asked().len(), 8);
    assert_eq!((report.answers, report.kept, report.missing), (7, 2, 0));
    assert_eq!(tested.unmeasured(7), report);
    assert_eq!(tested.server.asked().len(), 8);
    let report = tested.unmeasured(8);
    assert_eq!(tested.server.asked().len(), 9);
    assert_eq!(report.refused[&Refusal::Repeated], 2);

    let programs = tested.programs();
    let lines: Vec<_> = programs
        .iter()
        .map(|p| (p.prompt.as_str(), p.source.trim(), p.rank, p.runtime_s))
        .collect();
    let (slow, fast) = (Some(Rank::Slow), Some(Rank::Fast));
    assert_eq!(
        lines,
        [
            ("Add.", "int slow;", slow, None),
            ("Add.", "int fast;", fast, None),
            ("Multiply.", "int s;", slow, None),
            ("Multiply.", "int f;", fast, None),
        ]
    );
    let settings = split::Settings {
        pairs: 10,
        examples: 10,
        improve: 1,
        fence: None,
        hold_out: &BTreeSet::new(),
        seed: 1,
    };
    let written = split::write(&tested.place.path().join("data"), &programs, &settings).unwrap();
    let labels = written.iter().find(|w| w.file == "labels.jsonl").unwrap();
    assert_eq!(labels.lines, 4);

    let error = tested.run(8, 2, &mut nothing).unwrap_err().to_string();
    assert!(error.contains("`seed` (1 there, 2 here)"), "{error}");
}

#[test]
fn programs_of_a_known_problem_get_measured_labels() {
    let mut tested = Tested::new(vec![
        streamed(&pair("int slow;", "int fast;")),
        streamed(&pair("int slow;", "int late;")),
        streamed(&pair("int slow;", "int fast;")),
    ]);
    let problem = Arc::new(paths::problem("dgemm").unwrap());
    tested.problems = vec![Arc::clone(&problem)];
    let mut measured = Vec::new();
    let mut run = |late: Option<Option<f64>>| {
        let measure = &mut |known: &Known, given: Given| -> Result<Option<Program>> {
            assert_eq!(known.problem.id, problem.id);
            measured.push(given.source.trim().to_owned());
            let runtime_s = match given.source.trim() {
                "int slow;" => Some(Some(0.4)),
                "int fast;" => Some(Some(0.1)),
                _ => late,
            };
            Ok(runtime_s.map(|runtime_s| Program {
                runtime_s,
                correct: runtime_s.is_some(),
                rank: None,
                ..claimed(given, Rank::Fast)
            }))
        };
        tested.run(3, 1, measure).unwrap()
    };
    let report = run(None);
    assert_eq!((report.answers, report.kept, report.undecided), (3, 1, 1));
    assert_eq!(report.refused, BTreeMap::from([(Refusal::Repeated, 1)]));
    assert_eq!((report.timed_pairs, report.faster_pairs), (1, 1));
    // This machine measures now what it failed to, and asks for nothing.
    let report = run(Some(None));
    assert_eq!((report.kept, report.undecided, report.repeated), (2, 0, 1));
    assert_eq!((report.programs, report.timed, report.wrong), (3, 2, 1));
    assert_eq!(
        measured,
        ["int slow;", "int fast;", "int late;", "int late;"]
    );
    let asked = tested.server.asked();
    assert_eq!(asked.len(), 3);
    let title = "Multiply two square matrices";
    assert!(asked.iter().all(|a| a.body.contains(title)));
    assert!(asked.iter().all(|a| !a.body.contains("whole program")));
    let permitted = label::permitted(&problem);
    let prompt = label::prompt(&problem, permitted, Style::Compact).unwrap();
    assert!(tested.programs().iter().all(|p| p.prompt == prompt));
}

#[test]
fn a_refused_key_is_wrong_usage_and_a_budget_leaves_answers_missing() {
    let tested = Tested::new(vec![Act::error(401, "", "no such key")]);
    let error = tested.run(3, 1, &mut nothing).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("no such key"), "{error}");

    let mut poor = Tested::new(vec![streamed(&tasked("Add.", "int s;", "int f;"))]);
    poor.endpoint.budget.tokens = Some(3000);
    let report = poor.unmeasured(20);
    assert_eq!(report.answers, poor.server.asked().len());
    assert!((1..20).contains(&report.answers), "{report:?}");
    let missing = 20 - report.answers;
    assert_eq!(report.missing, missing);
    assert_eq!(report.failed, BTreeMap::from([(Reason::Budget, missing)]));
    assert!(report.spending.amount.tokens() <= 3000);
}
