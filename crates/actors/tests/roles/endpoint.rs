//! A generator whose programs a model behind an endpoint writes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};

use flopsmith_actors::Error;
use flopsmith_actors::answer::{Answer, Source};
use flopsmith_actors::node::Context;
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::source::endpoint::{EndpointSource, spending};
use flopsmith_bus::{Worker, WorkerOptions};
use flopsmith_config::{Endpoint, GeneratorKind, Prompt, Settings};
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, EliteHint, Exchange, InfrastructureCause, Outcome, Purpose, Task, TechniqueSet,
    Verdict, subjects,
};
use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};
use flopsmith_test_support::{machine_class, run_id};

use crate::{LIMIT, Working, World, settings, soon, start, task};

pub(super) fn asking(server: &ScriptedEndpoint, concurrency: usize) -> Settings {
    let mut endpoint = Endpoint::new(&server.url(), "m");
    endpoint.concurrency = concurrency;
    endpoint.retries.first_wait_seconds = 0.0;
    let mut settings = settings();
    settings.generator.kind = GeneratorKind::Endpoint;
    settings.generator.prompt = Prompt::Full;
    settings.generator.endpoint = Some(Box::new(endpoint));
    settings
}

/// An answer of a chat model: a program with this number.
fn written(number: usize) -> Act {
    Act::streamed(&format!("```c\nint x{number};\n```\n"), (10, 20))
}

fn generator(context: &Arc<Context>) -> Working {
    let source = EndpointSource::open(context).unwrap();
    start(Generator::new(
        Arc::clone(context),
        Box::new(source),
        "endpoint",
    ))
}

/// Asks for this many samples by one task, which shows a program to build on.
async fn ask(world: &World, samples: u32) {
    let task = Task {
        elite: Some(EliteHint {
            techniques: TechniqueSet::EMPTY,
            source: "int elite;".into(),
            gflops: 1.0,
        }),
        history: vec![Exchange {
            answer: "int failed;".into(),
            request: None,
            result: "This does not pass.".into(),
        }],
        tasks_in_step: 1,
        group_size: samples,
        ..task(0, 0, Purpose::Search)
    };
    let queue = Queue::generate("endpoint").of(&run_id());
    world.bus.publish(&queue, &task).await.unwrap();
}

pub(super) async fn compiler(world: &World) -> Worker<Candidate> {
    let queue = Queue::compile(&machine_class()).all();
    let options = WorkerOptions::new(queue, 8);
    world.bus.worker::<Candidate>(options).await.unwrap()
}

/// The sample and the source of the next candidate.
async fn next(candidates: &mut Worker<Candidate>) -> (u32, String) {
    let delivery = soon(candidates.next()).await.unwrap();
    let message = delivery.message();
    let next = (message.candidate.sample, message.source.clone());
    delivery.done().await.unwrap();
    next
}

async fn outcomes(world: &World) -> Vec<Outcome> {
    world.log(&subjects::outcome(&run_id())).await
}

/// The words about each sample that has no answer.
async fn missing(world: &World) -> Vec<(u32, String)> {
    let all = outcomes(world).await.into_iter().map(|outcome| {
        let Verdict::Infrastructure {
            cause: InfrastructureCause::Generator,
            detail,
        } = outcome.verdict
        else {
            unreachable!("the source has no answer: {:?}", outcome.verdict);
        };
        (outcome.candidate.sample, detail)
    });
    all.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_published_while_others_are_being_written() {
    let world = World::new().await;
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let server = ScriptedEndpoint::start(move |asked| {
        if asked.number > 0 {
            wait.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        written(asked.number)
    });
    let server = server.unwrap();
    let context = world.context(asking(&server, 3));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 3).await;
    let mut samples = BTreeSet::new();
    for _ in 0..3 {
        let (sample, source) = next(&mut candidates).await;
        assert!(source.starts_with("int x"), "{source}");
        samples.insert(sample);
        // Only now the next answer is written.
        go.send(()).unwrap();
    }
    assert_eq!(samples, BTreeSet::from([0, 1, 2]));
    candidates.close();
    working.end().await.unwrap();
    let spent = context.asked().spending.unwrap();
    assert_eq!((spent.requests, spent.failed), (3, 0));
    assert_eq!(spent.amount.output_tokens, 60);
    assert_eq!(spending(&context.folder).unwrap().unwrap(), spent);
    for asked in server.asked() {
        for part in [
            "Build on it",
            "int elite;",
            "```c",
            "int failed;",
            "does not pass",
        ] {
            assert!(asked.body.contains(part), "{}", asked.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_lost_by_a_server_that_is_late_wrong_or_breaks_off() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => Act::error(429, "Retry-After: 0\r\n", "slow down"),
        1 => Act::error(500, "", "down"),
        2 => Act::Answer(200, "", "<html>proxy</html>".into()),
        3 => Act::Cut(Act::pieces("```c")),
        4 => Act::Hang(Act::pieces("```c")),
        5 => Act::Never,
        6 => Act::error(400, "", "no"),
        number => written(number),
    });
    let server = server.unwrap();
    let mut settings = asking(&server, 1);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    endpoint.retries.most = 6;
    endpoint.timeouts.idle_seconds = 0.05;
    endpoint.timeouts.first_byte_seconds = 0.3;
    let context = world.context(settings);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 3).await;
    // The first sample is refused after six failures that pass, and the others are written.
    let found = [next(&mut candidates).await, next(&mut candidates).await];
    let found = found.map(|(sample, source)| (sample, source.trim().to_owned()));
    assert_eq!(
        found,
        [(1, "int x7;".to_owned()), (2, "int x8;".to_owned())]
    );
    let missing = missing(&world).await;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0].0, 0);
    assert!(missing[0].1.contains("answers 400: no"), "{missing:?}");
    candidates.close();
    working.end().await.unwrap();
    assert_eq!(context.asked().trouble, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_stops_asks_again_only_for_what_it_lacks() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        1 => Act::Never,
        number => written(number),
    });
    let server = server.unwrap();
    let settings = asking(&server, 1);
    let context = world.context(settings.clone());
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 2).await;
    let first = next(&mut candidates).await;
    assert_eq!((first.0, first.1.trim()), (0, "int x0;"));
    soon(async {
        while server.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();
    assert!(outcomes(&world).await.is_empty());

    let context = world.context(settings);
    let working = generator(&context);
    let second = next(&mut candidates).await;
    assert_eq!((second.0, second.1.trim()), (1, "int x2;"));
    candidates.close();
    working.end().await.unwrap();
    assert_eq!(server.asked().len(), 3);
    // The request that was broken off may have been charged.
    let spent = spending(&context.folder).unwrap().unwrap();
    assert_eq!((spent.requests, spent.failed, spent.assumed), (3, 1, 1));
    assert_eq!(context.asked().spending, Some(spent));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_goes_on_does_not_ask_for_an_answer_that_counts_as_missing() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        1 => Act::error(400, "", "no"),
        2 => Act::Never,
        number => written(number),
    });
    let server = server.unwrap();
    let settings = asking(&server, 1);
    let working = generator(&world.context(settings.clone()));
    let mut candidates = compiler(&world).await;
    ask(&world, 3).await;
    assert_eq!(next(&mut candidates).await.0, 0);
    soon(async {
        while server.asked().len() < 3 || missing(&world).await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    working.end().await.unwrap();

    let working = generator(&world.context(settings));
    let last = next(&mut candidates).await;
    assert_eq!((last.0, last.1.trim()), (2, "int x3;"));
    candidates.close();
    working.end().await.unwrap();
    assert_eq!(server.asked().len(), 4);
    let missing = missing(&world).await;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0].0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_spent_leaves_outcomes_and_says_so() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![Act::streamed("```c\nint x;\n```\n", (19_000, 20))]);
    let server = server.unwrap();
    let mut settings = asking(&server, 2);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    endpoint.budget.tokens = Some(20_000);
    endpoint.concurrency = 1;
    let context = world.context(settings);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    ask(&world, 3).await;
    assert_eq!(next(&mut candidates).await.0, 0);
    let missing = soon(async {
        loop {
            let missing = missing(&world).await;
            if missing.len() == 2 {
                return missing;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let words = "the budget in tokens has no room";
    assert!(
        missing.iter().all(|(_, why)| why.contains(words)),
        "{missing:?}"
    );
    assert!(context.asked().exhausted);
    candidates.close();
    working.end().await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_everything_ends_the_generator_and_no_answer_is_lost() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(vec![Act::error(401, "", "no such key")]).unwrap();
    let context = world.context(asking(&server, 2));
    let working = generator(&context);
    ask(&world, 4).await;
    let error = soon(working.ended).await.unwrap().unwrap_err();
    assert!(error.is_final(), "{error:?}");
    assert!(matches!(error, Error::Hopeless(_)), "{error:?}");
    let words = error.to_string();
    for part in ["refuses every request", "no such key", "check the URL"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(outcomes(&world).await.is_empty());
    assert!(server.asked().len() <= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_nothing_step_after_step_ends_the_generator() {
    let world = World::new().await;
    // A request that is refused at once is not repeated, so nothing else slows the search down.
    let server = ScriptedEndpoint::acts(vec![Act::error(400, "", "no such field")]).unwrap();
    let context = world.context(asking(&server, 2));
    let working = generator(&context);
    let queue = Queue::generate("endpoint").of(&run_id());
    for step in 0..5 {
        let task = Task {
            tasks_in_step: 1,
            group_size: 2,
            ..task(step, 0, Purpose::Search)
        };
        world.bus.publish(&queue, &task).await.unwrap();
    }
    let error = soon(working.ended).await.unwrap().unwrap_err();
    assert!(error.is_final(), "{error:?}");
    let words = error.to_string();
    for part in ["3 steps in a row", "no such field", "resume the run"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(server.asked().len(), 6);
}

/// All answers to tasks, from a new source.
async fn answers(context: &Arc<Context>, tasks: &[Task]) -> Vec<Vec<Answer>> {
    let mut source = EndpointSource::open(context).unwrap();
    let problems: Vec<&Problem> = context.problems().map(|of| &*of.problem).collect();
    soon(source.answer(&problems, tasks)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_held_twice_is_asked_once() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| written(asked.number)).unwrap();
    let context = world.context(asking(&server, 1));
    let task = Task {
        group_size: 2,
        ..task(0, 0, Purpose::Search)
    };
    let groups = answers(&context, &[task.clone(), task]).await;
    let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 0]);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_any_length_fits_into_a_message_and_stays_too_long() {
    let world = World::new().await;
    // A character of two bytes is at the limit.
    let program = format!("//{}\n", "ü".repeat(1 << 20));
    let text = format!("```c\n{program}```\n");
    let server = ScriptedEndpoint::acts(vec![Act::whole(&text, (10, 20))]).unwrap();
    let context = world.context(asking(&server, 1));
    let task = Task {
        group_size: 1,
        ..task(0, 0, Purpose::Search)
    };
    let groups = answers(&context, &[task]).await;
    let length = groups[0][0].source.len();
    assert!(((1 << 20) + 1..(1 << 20) + 5).contains(&length), "{length}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_told_and_keeps_no_generator_from_stopping() {
    let world = World::new().await;
    let server = ScriptedEndpoint::acts(Vec::new()).unwrap();
    let mut settings = asking(&server, 1);
    drop(server);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    // The next try is due long after this test.
    endpoint.retries.first_wait_seconds = 60.0;
    let context = world.context(settings);
    let working = generator(&context);
    ask(&world, 1).await;
    soon(async {
        while context.asked().trouble.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let trouble = context.asked().trouble;
    for part in ["the server cannot be reached", "is tried again in"] {
        assert!(trouble.contains(part), "{trouble}");
    }
    working.end().await.unwrap();
    // The connection was never made, so nothing was charged.
    let spent = spending(&context.folder).unwrap().unwrap();
    assert_eq!((spent.requests, spent.failed, spent.assumed), (1, 1, 0));
    assert!(outcomes(&world).await.is_empty());
}
