//! Conversations and the programs of earlier steps: parents, searches and repetitions.

use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{Outcome, ProblemId, Purpose, Task, Technique, TechniqueSet, subjects};
use flopsmith_test_support::endpoint::ScriptedEndpoint;
use flopsmith_test_support::{again, first, measured, run_id, wrong};

use super::{conversing, decide, generator, lines, program, said};
use crate::endpoint::compiler;
use crate::{World, soon, task};

/// Asks by a task that is alone in its step, and rests on all outcomes so far.
async fn ask_after_all(world: &World, task: Task) {
    let subject = subjects::outcome(&run_id());
    let mut log = world.bus.log::<Outcome>(&subject, 0).await.unwrap();
    let (outcomes_seen, _) = soon(log.replay()).await.unwrap().pop().unwrap();
    let task = Task {
        outcomes_seen,
        tasks_in_step: 1,
        ..task
    };
    let queue = Queue::generate("agent").of(&run_id());
    world.bus.publish(&queue, &task).await.unwrap();
}

/// A task of this step for one program with these techniques.
fn permitting(step: u64, permitted: &str) -> Task {
    Task {
        group_size: 1,
        permitted: permitted.parse().unwrap(),
        ..task(step, 0, Purpose::Search)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_about_a_confirmed_program_of_its_island_and_cell() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| program(&format!("int x{};", asked.number)));
    let server = server.unwrap();
    let mut settings = conversing(&server);
    // The tasks of odd steps are on the island of step 1.
    settings.generator.agent.islands = 2;
    let context = world.context(settings);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    let simd = first(0, "int a0;", "simd", measured(9.0));
    let unrolled = first(1, "int b0;", "unroll", measured(2.0));
    let log = subjects::outcome(&run_id());
    let once = [simd.clone(), unrolled.clone()];
    world.bus.publish_many(&log, &once).await.unwrap();
    ask_after_all(&world, permitting(3, "simd+unroll")).await;
    decide(&world, &mut candidates, "int x0;", wrong()).await;

    let twice = [again(&simd, measured(8.0)), again(&unrolled, measured(1.5))];
    world.bus.publish_many(&log, &twice).await.unwrap();
    for (step, permitted, written) in [
        (4, "simd+unroll", "int x1;"),
        (5, "simd", "int x2;"),
        (7, "unroll", "int x3;"),
    ] {
        ask_after_all(&world, permitting(step, permitted)).await;
        decide(&world, &mut candidates, written, wrong()).await;
    }
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    let lines = lines(&context);
    assert_eq!((asked.len(), lines.len()), (4, 4));
    for (number, why) in [(0, "no speed is confirmed"), (1, "it is another island")] {
        let prompt = &asked[number].body;
        assert!(!prompt.contains("Improve this program"), "{why}: {prompt}");
        assert!(lines[number]["parent"].is_null(), "{why}");
    }
    for (number, parent, confirmed, other) in [
        (2, &simd, "(8.000 GFLOPS)", &unrolled),
        (3, &unrolled, "(1.500 GFLOPS)", &simd),
    ] {
        let prompt = &asked[number].body;
        for part in ["Improve this program", parent.source.as_str(), confirmed] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        assert!(!prompt.contains(&other.source), "{prompt}");
        assert_eq!(lines[number]["parent"], parent.candidate.id.as_str());
        assert_eq!(lines[number]["island"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_an_earlier_step_is_found_and_not_evaluated_again() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => said("FIND simd a0"),
        1 => program("int  a0;  // again"),
        _ => program("int x1;"),
    });
    let server = server.unwrap();
    let context = world.context(conversing(&server));
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    let earlier = first(0, "int a0;", "simd", measured(2.0));
    let log = subjects::outcome(&run_id());
    world.bus.publish(&log, &earlier).await.unwrap();
    ask_after_all(&world, permitting(2, "simd")).await;
    // The repeated program is no candidate.
    decide(&world, &mut candidates, "int x1;", wrong()).await;
    candidates.close();
    working.end().await.unwrap();
    let prompts: Vec<String> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(prompts.len(), 3);
    let id = &earlier.candidate.id;
    for (number, words) in [
        (1, format!("Program `{id}` with simd. It is right")),
        (1, "reaches 2.000 GFLOPS".to_owned()),
        (1, "int a0;".to_owned()),
        (2, format!("was evaluated before as `{id}`")),
    ] {
        let prompt = &prompts[number];
        assert!(prompt.contains(&words), "{number}, {words}: {prompt}");
        let before = &prompts[number - 1];
        assert!(!before.contains(&words), "{number}, {words}: {before}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_found_by_the_techniques_of_their_problems_kind() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match asked.number {
        0 => program("int x0;"),
        1 => said("FIND shared_memory"),
        _ => said("```python\nx = 1\n```\n"),
    });
    let server = server.unwrap();
    let context = world.context_of(conversing(&server), &["modules/softmax"]);
    let working = generator(&context);
    let mut candidates = compiler(&world).await;
    let softmax = ProblemId::new("softmax").unwrap();
    let mut earlier = first(0, "x = 0", "shared_memory", measured(2.0));
    earlier.candidate.problem = softmax.clone();
    let log = subjects::outcome(&run_id());
    world.bus.publish(&log, &earlier).await.unwrap();
    ask_after_all(&world, permitting(2, "simd")).await;
    decide(&world, &mut candidates, "int x0;", wrong()).await;
    let of_module = Task {
        problem: softmax,
        ..permitting(3, "shared_memory")
    };
    ask_after_all(&world, of_module).await;
    decide(&world, &mut candidates, "x = 1", wrong()).await;
    candidates.close();
    working.end().await.unwrap();
    let asked = server.asked();
    let all = Technique::ALL.into_iter();
    let of_kernels: TechniqueSet = all.filter(|t| !t.is_of_modules_only()).collect();
    for (number, techniques) in [(0, of_kernels), (1, TechniqueSet::of_modules())] {
        let names: Vec<&str> = techniques.iter().map(Technique::name).collect();
        let offered = format!("the techniques among the words ({}) and", names.join(", "));
        let prompt = &asked[number].body;
        assert!(prompt.contains(&offered), "{offered}: {prompt}");
    }
    let found = format!("Program `{}` with shared_memory.", earlier.candidate.id);
    assert!(asked[2].body.contains(&found), "{}", asked[2].body);
}
