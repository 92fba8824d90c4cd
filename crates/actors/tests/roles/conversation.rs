//! A generator that holds conversations with a model behind an endpoint.

mod population;

use std::sync::Arc;

use flopsmith_actors::node::Context;
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::source::conversation::{ConversingSource, Explain};
use flopsmith_bus::Worker;
use flopsmith_config::{GeneratorKind, Settings, Start};
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, Failure, InfrastructureCause, Outcome, Purpose, Question, Task, Verdict, subjects,
};
use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};
use flopsmith_test_support::{
    Measured, infrastructure, machine, measured, outcome, run_id, unknown, wrong,
};

use crate::endpoint::{asking, compiler};
use crate::{Working, World, candidate, soon, start, task};

fn conversing(server: &ScriptedEndpoint) -> Settings {
    let mut settings = asking(server, 1);
    settings.generator.kind = GeneratorKind::Agent;
    settings
}

fn said(text: &str) -> Act {
    Act::streamed(text, (10, 20))
}

fn program(text: &str) -> Act {
    said(&format!("```c\n{text}\n```\n"))
}

/// Explains a program by its text, and profiles none unless it is of `modules`.
struct Echo {
    modules: bool,
}

impl Explain for Echo {
    fn unexplained(&self, question: Question, _: &Problem) -> Option<&'static str> {
        let fits = (question == Question::Profile) == self.modules;
        (!fits).then_some("ask another one")
    }

    fn explain(
        &self,
        question: Question,
        _: &Arc<Problem>,
        source: &str,
    ) -> Result<String, Failure> {
        Ok(format!("{question:?} of {source}"))
    }
}

fn generator(context: &Arc<Context>) -> Working {
    explained_by(context, Echo { modules: false })
}

fn explained_by(context: &Arc<Context>, explainer: Echo) -> Working {
    let source = ConversingSource::open(context).unwrap();
    let source = source.explaining(Some(Arc::new(explainer)));
    start(Generator::new(
        Arc::clone(context),
        Box::new(source),
        "agent",
    ))
}

/// Asks for a conversation with this many programs, by a task of this step.
async fn ask(world: &World, step: u64, programs: u32) {
    let task = Task {
        tasks_in_step: 1,
        group_size: programs,
        ..task(step, 0, Purpose::Search)
    };
    let queue = Queue::generate("agent").of(&run_id());
    world.bus.publish(&queue, &task).await.unwrap();
}

/// Takes the next candidate, which must have this source, and decides it.
async fn decide(world: &World, candidates: &mut Worker<Candidate>, source: &str, verdict: Verdict) {
    let delivery = soon(candidates.next()).await.unwrap();
    let message = delivery.message();
    assert_eq!(message.source.trim(), source);
    let decided = Outcome {
        source: message.source.clone(),
        ..outcome(message.candidate.clone(), verdict)
    };
    let subject = subjects::outcome(&run_id());
    world.bus.publish(&subject, &decided).await.unwrap();
    delivery.done().await.unwrap();
}

fn lines(context: &Context) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(context.folder.join("attempts.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_result_is_told_before_the_next_program_is_written() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        1 => said("FIND simd x0"),
        2 => said("<<<<<<< SEARCH\nint x0;\n=======\nint x1;\n>>>>>>> REPLACE\n"),
        3 => program("int  x1;  // again"),
        4 => said("<<<<<<< SEARCH\nint y;\n=======\nint x1;\n>>>>>>> REPLACE\n"),
        _ => program("int x2;"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 3).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    decide(&world, &mut candidates, "int x1;", wrong()).await;
    decide(&world, &mut candidates, "int x2;", measured(1.0)).await;
    candidates.close();
    working.end().await.unwrap();
    let prompts: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(prompts.len(), 6);
    for (number, words) in [
        (1, "reaches 2.000 GFLOPS"),
        (1, "2 more can be evaluated"),
        (2, "No earlier program has these techniques"),
        (3, "refused (wrong_result)"),
        (3, "+int x1;"),
        (4, "the same program before"),
        (5, "no line is `int y;`"),
    ] {
        let prompt = &prompts[number];
        assert!(prompt.contains(words), "{number}, {words}: {prompt}");
        let before = &prompts[number - 1];
        assert!(!before.contains(words), "{number}, {words}: {before}");
    }
    let lines = lines(&context);
    let turns: Vec<_> = lines
        .iter()
        .map(|line| (line["candidate"].as_str().unwrap(), &line["turn"]))
        .map(|(candidate, turn)| (candidate.ends_with("-c1"), turn.as_u64().unwrap()))
        .collect();
    let (first, second) = (false, true);
    let wanted = [(first, 0), (second, 0), (second, 1)];
    assert_eq!(&turns[..3], wanted);
    assert_eq!(lines[2]["difference"], "-int x0;\n+int x1;\n");
    assert!(lines[2]["prompt"].as_str().unwrap().contains("int x0;"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_the_documents_of_the_folder_in_the_settings() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => said("READ tiles.md"),
        _ => program("int x0;"),
    });
    let server = server.unwrap();
    let documents = world.folder.path().join("documents");
    std::fs::create_dir(&documents).unwrap();
    std::fs::write(documents.join("tiles.md"), "Tiles of 48 rows fit.").unwrap();
    let mut settings = conversing(&server);
    settings.generator.agent.documents = Some(documents);
    let context = world.context(settings);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 1).await;
    decide(&world, &mut candidates, "int x0;", wrong()).await;
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    let (offer, text) = ("which shows a document: tiles.md.", "Tiles of 48 rows fit.");
    assert!(asked[0].body.contains(offer), "{}", asked[0].body);
    assert!(!asked[0].body.contains(text), "{}", asked[0].body);
    assert!(asked[1].body.contains(text), "{}", asked[1].body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speed_is_told_with_its_share_of_the_roof_at_each_workload() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        _ => program("int x1;"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 2).await;
    // As a timer does before it measures a program.
    let attested = r#"{"threads": 1,
        "peak": {"gflops": 50.0, "bandwidth_gb_s": 1.0, "vector_bits": 512, "threads": 1},
        "roofs": {"compute": [], "integer": [], "bandwidth": [
            {"level": "memory", "threads": 1, "gb_s": 1.0, "buffer_bytes": 65536, "holds_bytes": null}
        ]}}"#;
    let subject = subjects::machine(&run_id());
    let facts = machine(attested);
    world.bus.publish(&subject, &facts).await.unwrap();
    let workloads = [("n=256", 0.5), ("n=512", 1.0), ("n=1024", 2.0)];
    let measurement = Measured::at(2.0).over(&workloads);
    let verdict = Verdict::Measured { measurement };
    decide(&world, &mut candidates, "int x0;", verdict).await;
    decide(&world, &mut candidates, "int x1;", wrong()).await;
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    for part in [
        "2.000 GFLOPS: 2.000 times as fast as the plain reference. At `n=256`",
        "At `n=256` it reaches 4.7 % of the roof of 21.333 GFLOPS, which memory sets.",
        "At `n=1024` it reaches 8.0 % of the roof of 50.000 GFLOPS, which arithmetic sets.",
    ] {
        assert!(asked[1].body.contains(part), "{part}: {}", asked[1].body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_programs_are_explained_by_name_and_the_shown_one_without() {
    let world = World::new().await;
    let first = candidate(0, 0, 0, Purpose::Search).id.to_string();
    let named = format!("REMARKS {first}");
    let refused = format!("COUNTERS {first}");
    let server = ScriptedEndpoint::start(move |asked| match asked.number {
        0 => program("int x0;"),
        1 => program("int x1;"),
        2 => said("ASSEMBLY"),
        3 => said(&named),
        4 => said("THROUGHPUT x9"),
        5 => said(&refused),
        6 => said("COUNTERS"),
        _ => program("int x2;"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 3).await;
    decide(&world, &mut candidates, "int x0;", wrong()).await;
    decide(&world, &mut candidates, "int x1;", measured(2.0)).await;
    decide(&world, &mut candidates, "int x2;", measured(1.0)).await;
    candidates.close();
    working.end().await.unwrap();
    let prompts: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    for (number, words) in [
        (1, format!("This is program `{first}`")),
        (3, "Assembly of int x1;".to_owned()),
        (4, "Remarks of int x0;".to_owned()),
        (5, "There is no such program".to_owned()),
        (6, "Only a program that is right runs".to_owned()),
        (7, "Counters of int x1;".to_owned()),
    ] {
        let prompt = &prompts[number];
        assert!(prompt.contains(&words), "{number}, {words}: {prompt}");
        let before = &prompts[number - 1];
        assert!(!before.contains(&words), "{number}, {words}: {before}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_program_is_profiled_also_if_nobody_measured_it() {
    let world = World::new().await;
    let first = candidate(0, 0, 0, Purpose::Search).id.to_string();
    let named = format!("PROFILE {first}");
    let server = ScriptedEndpoint::start(move |asked| match asked.number {
        0 => program("int x0;"),
        1 => program("int x1;"),
        2 => said("PROFILE"),
        3 => said(&named),
        4 => said("COUNTERS"),
        _ => program("int x2;"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = explained_by(&context, Echo { modules: true });
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 3).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    decide(&world, &mut candidates, "int x1;", unknown()).await;
    decide(&world, &mut candidates, "int x2;", measured(1.0)).await;
    candidates.close();
    working.end().await.unwrap();
    let prompts: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert!(prompts[0].contains("a line `PROFILE`, which shows"));
    assert!(!prompts[0].contains("COUNTERS"), "{}", prompts[0]);
    for (number, words) in [
        (3, "Profile of int x1;"),
        (4, "Profile of int x0;"),
        (5, "This question has no answer here: ask another one."),
    ] {
        let prompt = &prompts[number];
        assert!(prompt.contains(words), "{number}, {words}: {prompt}");
        let before = &prompts[number - 1];
        assert!(!before.contains(words), "{number}, {words}: {before}");
    }
}

/// The change of the third program fits the one that was shown while the result of the second one was awaited in vain.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_waited_in_vain_goes_on_as_it_was_told() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        1 => said("<<<<<<< SEARCH\nint s0;\n=======\nint s1;\n>>>>>>> REPLACE\n"),
        2 => Act::Never,
        _ => program("int x1;"),
    });
    let server = server.unwrap();
    let mut settings = conversing(&server);
    settings.lost_after_seconds = 0.02;
    settings.start = Some(Start {
        source: "int s0;".into(),
        ..Start::default()
    });
    let context = world.context(settings.clone());
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 4).await;
    soon(async {
        while server.asked().len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();
    decide(&world, &mut candidates, "int s0;", wrong()).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    decide(&world, &mut candidates, "int s1;", measured(3.0)).await;

    settings.lost_after_seconds = 60.0;
    let context = world.context(settings);
    let working = generator(&context);
    decide(&world, &mut candidates, "int x1;", measured(1.0)).await;
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    let body = &asked[3].body;
    assert_eq!(body.matches("No result came in time").count(), 2, "{body}");
    assert!(!body.contains("2.000 GFLOPS"), "{body}");
    assert!(body.contains("3.000 GFLOPS"), "{body}");
    let unheard: Vec<bool> = lines(&context)
        .iter()
        .map(|line| line["unheard"] == true)
        .collect();
    assert_eq!(unheard, [true, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_where_it_was_stopped() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        1 => Act::Never,
        _ => program("int x1;"),
    });
    let server = server.unwrap();
    let settings = conversing(&server);
    let context = world.context(settings.clone());
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 2).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    soon(async {
        while server.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();

    let context = world.context(settings);
    let working = generator(&context);
    decide(&world, &mut candidates, "int x1;", measured(3.0)).await;
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].body.contains("reaches 2.000 GFLOPS"));
    assert_eq!(lines(&context).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_no_program_has_outcomes_without_one() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![said("I would rather not.")]).unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 1).await;
    let delivery = soon(candidates.next()).await.unwrap();
    let message = delivery.message();
    assert_eq!(message.source, "");
    let raw = message.answer.as_ref().unwrap();
    assert!(raw.text.contains("rather not"), "{raw:?}");
    delivery.done().await.unwrap();
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 6, "it was told and asked again");
    let urged: Vec<bool> = asked
        .iter()
        .map(|asked| asked.body.contains("or changes now"))
        .collect();
    assert_eq!(urged, [false, false, false, false, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spent_budget_leaves_outcomes_and_a_refusal_of_everything_ends_the_generator() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![Act::streamed("```c\nint x0;\n```\n", (99_000, 20))]);
    let server = server.unwrap();
    let mut settings = conversing(&server);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    endpoint.budget.tokens = Some(100_000);
    let context = world.context(settings);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 3).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    let all = soon(async {
        loop {
            let all = world.log::<Outcome>(&subjects::outcome(&run_id())).await;
            if all.len() == 3 {
                return all;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let lost = all.iter().filter(|o| o.verdict.kind() == "generator");
    assert_eq!(lost.count(), 2);
    assert!(context.asked().exhausted);
    candidates.close();
    working.end().await.unwrap();

    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![Act::error(401, "", "no such key")]).unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    ask(&world, 0, 2).await;
    let error = soon(working.ended).await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("refuses every request"),
        "{error}"
    );
    let left = world.log::<Outcome>(&subjects::outcome(&run_id())).await;
    assert!(left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_fails_is_repeated_and_three_in_a_row_end_the_conversation() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        2 => program("int x1;"),
        _ => Act::error(400, "", "the prompt is too long"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 4).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    decide(&world, &mut candidates, "int x1;", measured(3.0)).await;
    let all = soon(async {
        loop {
            let all = world.log::<Outcome>(&subjects::outcome(&run_id())).await;
            if all.len() == 4 {
                return all;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let lost = all.iter().filter(|o| o.verdict.kind() == "generator");
    assert_eq!(lost.count(), 2);
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 6);
    assert!(asked[1].body.contains("## Its result"));
    assert!(!asked[2].body.contains("## Its result"), "it is shorter");
    let turns: Vec<u64> = lines(&context)
        .iter()
        .map(|line| line["turn"].as_u64().unwrap())
        .collect();
    assert_eq!(turns, [0, 0]);
    // A run that goes on shortens its conversation as well.
    assert_eq!(lines(&context)[1]["shortened"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_the_machine_could_not_judge_may_be_written_again() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![program("int x0;")]).unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 2).await;
    let failed = infrastructure(InfrastructureCause::Jail);
    decide(&world, &mut candidates, "int x0;", failed).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    candidates.close();
    working.end().await.unwrap();
    assert!(server.asked()[1].body.contains("could not judge it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_for_a_sample_that_counts_as_missing() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        _ => program("int x1;"),
    });
    let server = server.unwrap();
    let missing = outcome(
        candidate(0, 0, 1, Purpose::Search),
        infrastructure(InfrastructureCause::Generator),
    );
    let subject = subjects::outcome(&run_id());
    world.bus.publish(&subject, &missing).await.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 0, 2).await;
    decide(&world, &mut candidates, "int x0;", measured(2.0)).await;
    // The next request is that of the next task.
    ask(&world, 1, 1).await;
    let delivery = soon(candidates.next()).await.unwrap();
    let message = delivery.message();
    assert_eq!(message.source.trim(), "int x1;");
    assert_eq!((message.candidate.step, message.candidate.sample), (1, 0));
    delivery.done().await.unwrap();
    candidates.close();
    working.end().await.unwrap();
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_ask_no_more_at_once_than_the_endpoint_permits() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| program(&format!("int x{};", asked.number)));
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    let queue = Queue::generate("agent").of(&run_id());
    for number in 0..2 {
        let task = Task {
            tasks_in_step: 2,
            group_size: 1,
            ..task(0, number, Purpose::Search)
        };
        world.bus.publish(&queue, &task).await.unwrap();
    }
    for _ in 0..2 {
        let delivery = soon(candidates.next()).await.unwrap();
        delivery.done().await.unwrap();
    }
    candidates.close();
    working.end().await.unwrap();
    let text = std::fs::read_to_string(context.folder.join("requests.jsonl")).unwrap();
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone())
        .collect();
    assert_eq!(events, ["reserved", "answered", "reserved", "answered"]);
}
