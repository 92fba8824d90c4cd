//! A run on a module of PyTorch with ready samples, from the task to the cell and the reward. Skipped without PyTorch.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use flopsmith_actors::Error;
use flopsmith_actors::answer::{Answer, Answers, Source, problem_of};
use flopsmith_actors::evaluation;
use flopsmith_actors::modules::ModuleTimer;
use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::archive::Archive;
use flopsmith_actors::role::compiler::Compiler;
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::role::timer::{self, Timer};
use flopsmith_actors::role::verifier::Verifier;
use flopsmith_archive::{Archive as Cells, Elite};
use flopsmith_config::{Job, Settings, Standard};
use flopsmith_evaluate::{ModuleEvaluator, Pipeline};
use flopsmith_problem::prompt::{self, Style};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Outcome, Purpose, RawAnswer, Task, TechniqueSet, subjects};
use flopsmith_reward::{Context as Circumstances, Logistic, Reward};
use flopsmith_test_support::{run_id, skipped};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{World, settings, start};

/// Longest time of the run: TorchInductor compiles the reference, and g++ the candidates.
const LONG: Duration = Duration::from_secs(900);

/// Gives the answers of a file of JSON lines in their order.
struct Ready(std::vec::IntoIter<String>);

impl Ready {
    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let answers = text.lines().map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            value["answer"].as_str().unwrap().to_owned()
        });
        Self(answers.collect::<Vec<String>>().into_iter())
    }
}

fn answer(text: &str, language: Language) -> Answer {
    let program = prompt::extract(text, Style::Full, language);
    Answer {
        raw: program.is_none().then(|| RawAnswer::of(text, true)),
        source: program.unwrap_or_default(),
        request: None,
        sampled: None,
        parent: None,
    }
}

#[async_trait]
impl Source for Ready {
    async fn answer_each(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        let mut groups: Vec<Vec<Answer>> = Vec::new();
        for task in tasks {
            let language = problem_of(problems, task)?.language;
            let texts = self.0.by_ref().take(task.group_size as usize);
            groups.push(texts.map(|text| answer(&text, language)).collect());
        }
        answers.take_all(groups);
        Ok(())
    }
}

fn softmax() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules/softmax")
}

/// A file with a right sample, a wrong one and one without a program.
fn samples(world: &World) -> PathBuf {
    let right = std::fs::read_to_string(softmax().join("solution_cpp.py")).unwrap();
    let end = "return output;";
    assert!(right.contains(end));
    let wrong = right.replacen(
        end,
        "output.data_ptr<float>()[7] += 0.01f; return output;",
        1,
    );
    let of = |program: &str| format!("Here it is.\n```python\n{program}```\n");
    let answers = [of(&right), of(&wrong), "I am sorry.".to_owned()];
    let lines = answers.map(|answer| json!({ "answer": answer }).to_string() + "\n");
    let file = world.folder.path().join("samples.jsonl");
    std::fs::write(&file, lines.concat()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_samples_become_outcomes_cells_and_rewards() {
    let problem = Problem::load_module(&softmax()).unwrap();
    let problem = Arc::new(problem.select(&["narrow"]).unwrap());
    let evaluator = match ModuleEvaluator::open(Arc::clone(&problem), 1, true, |_| {}) {
        Ok(evaluator) => evaluator,
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("need Python with PyTorch"), "{why}");
            return skipped(&why);
        }
    };
    let world = World::new().await;
    let mut settings = Settings {
        tasks: 1,
        group_size: 3,
        lost_after_seconds: LONG.as_secs_f64(),
        reward: Reward::Logistic(Logistic { a: 2.0 }),
        ..settings()
    };
    settings.sqd.techniques = problem.usual_pool();
    settings.sqd.enabled = false;
    settings.evaluate.again = Standard::Screen;
    let pipeline = Pipeline::Module(evaluator.clone());
    let context = Context::new(Parts {
        run: run_id(),
        settings,
        folder: world.folder.path().to_owned(),
        problem: Arc::clone(&problem),
        others: Vec::new(),
        toolchain: pipeline.fingerprint().clone(),
        host: world.host(),
    });

    let begun = evaluator.clone();
    let machine = tokio::task::spawn_blocking(move || begun.attest());
    let machine = machine.await.unwrap().unwrap();
    let timed = Arc::new(Mutex::new(ModuleTimer {
        evaluator: evaluator.clone(),
        machine,
    }));
    let timed = timer::StageContext::new(Arc::clone(&context), timed);
    let timed = timed.with_layouts(Arc::new(evaluator.clone()));
    let verified = evaluation::verifier(&context, &pipeline, 1).unwrap();
    let stage: Arc<ModuleEvaluator> = Arc::new(evaluator);
    let source = Ready::read(&samples(&world));
    let finished = CancellationToken::new();
    let roles = [
        start(Compiler::new(Arc::clone(&context), stage)),
        start(Verifier::new(verified)),
        start(Timer::new(timed)),
        start(Generator::new(
            Arc::clone(&context),
            Box::new(source),
            "schedule",
        )),
        start(Archive::new(
            Arc::clone(&context),
            Job::Search,
            finished.clone(),
        )),
    ];
    let over = tokio::time::timeout(LONG, finished.cancelled()).await;
    over.expect("the run takes too long");
    for role in roles {
        role.end().await.unwrap();
    }

    let outcomes: Vec<Outcome> = world.log(&subjects::outcome(&run_id())).await;
    let first = |sample: u32| {
        let id = format!("r-s0-g0-c{sample}");
        let mut outcomes = outcomes.iter();
        outcomes.find(|o| o.candidate.id.as_str() == id).unwrap()
    };
    let (right, wrong, none) = (first(0), first(1), first(2));
    let measurement = right.verdict.measurement();
    let measurement = measurement.unwrap_or_else(|| unreachable!("{:?}", right.verdict));
    assert!(measurement.ratio > 0.02 && measurement.gflops > 0.0);
    assert!(measurement.workloads.is_empty());
    let raw = measurement.samples.as_ref().unwrap();
    let raw: Value = serde_json::from_slice(&world.store.get(raw).await.unwrap()).unwrap();
    let speeds = raw["workloads"][0]["speeds"].as_array().unwrap();
    assert_eq!(speeds.len(), 2, "eager PyTorch and TorchInductor");
    assert_eq!(wrong.verdict.kind(), "wrong_result", "{:?}", wrong.verdict);
    assert_eq!(none.verdict.kind(), "format");
    // A right program that may become an elite is measured again, with every layout that it has.
    let again = |o: &&Outcome| o.candidate.purpose == Purpose::Certify;
    let again: Vec<&Outcome> = outcomes.iter().filter(again).collect();
    let of = |o: &&Outcome| o.candidate.remeasures.clone();
    assert!(
        again
            .iter()
            .all(|o| of(o) == Some(right.candidate.id.clone()))
    );
    assert!(!again.is_empty());

    let techniques = right.techniques.unwrap();
    let expected: TechniqueSet = "simd+partial_sums".parse().unwrap();
    assert_eq!(techniques, expected);
    let class = right.candidate.machine_class.clone();
    let mut cells = Cells::new(problem.id.clone(), class, problem.usual_pool(), 1);
    let elite = Elite::from_outcome(right).unwrap();
    let elite = elite.measured_again(measurement).unwrap();
    assert!(cells.insert(techniques, elite, 0.0, 0.0).stayed());
    let best = cells.cell(techniques).and_then(|cell| cell.best()).unwrap();
    assert_eq!(best.candidate, right.candidate.id);
    assert!(Elite::from_outcome(wrong).is_none());

    let circumstances = Circumstances {
        peak_gflops: None,
        stage_best_gflops: None,
    };
    let reward = |o: &Outcome| context.settings.reward.reward(&o.verdict, &circumstances);
    let expected = 1.0 / (1.0 + (-2.0 * measurement.ratio.ln()).exp());
    assert!((reward(right).unwrap() - expected).abs() < 1e-12);
    assert_eq!((reward(wrong), reward(none)), (Some(0.0), Some(0.0)));
}
