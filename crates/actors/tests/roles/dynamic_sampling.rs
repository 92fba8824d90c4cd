//! Steps with several rounds under kills: groups without a spread are drawn again, and conversations continue.

use std::time::Duration;

use flopsmith_actors::advantages::{StageBests, with_advantages};
use flopsmith_actors::batches::{Batch, Batches};
use flopsmith_actors::best_answers::BestAnswers;
use flopsmith_actors::role::archive::Archive;
use flopsmith_bus::{Delivery, Worker, WorkerOptions};
use flopsmith_config::{Job, PpoConfig, Settings, TurnPrompt};
use flopsmith_coordination::limits;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    CandidateFault, Exchange, InfrastructureCause, Outcome, Purpose, Request, Requests, Rollout,
    Task, Verdict, subjects,
};
use flopsmith_test_support::{
    asked, infrastructure, measured, outcome, rejected, rollout, run_id, sample_of, wrong,
};
use tokio_util::sync::CancellationToken;

use crate::{Working, World, settings, soon, start};

/// One step of two tasks, each of which may be drawn once more.
fn drawing_again() -> Settings {
    let mut settings = Settings {
        evaluate_tasks: 1,
        ..settings()
    };
    settings.advantage.dynamic_sampling = 1;
    settings
}

/// Conversations of two answers.
fn told() -> Settings {
    let mut settings = Settings {
        evaluate_tasks: 1,
        ppo: Some(PpoConfig::default()),
        ..settings()
    };
    settings.turns.most = 2;
    settings
}

fn archive(world: &World, settings: Settings) -> Working {
    let context = world.context(settings);
    start(Archive::new(context, Job::Train, CancellationToken::new()))
}

async fn tasks(queue: &mut Worker<Task>, count: usize) -> Vec<Delivery<Task>> {
    let mut found = Vec::new();
    while found.len() < count {
        found.push(soon(queue.next()).await.unwrap());
    }
    found
}

async fn answer<const N: usize>(world: &World, task: &Task, verdicts: [Verdict; N]) {
    let of = |(sample, verdict)| outcome(sample_of(task, sample), verdict);
    let outcomes: Vec<Outcome> = (0..).zip(verdicts).map(of).collect();
    let rollouts: Vec<Rollout> = outcomes.iter().map(rollout).collect();
    let subject = subjects::rollout(&run_id());
    world.bus.publish_many(&subject, &rollouts).await.unwrap();
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &outcomes).await.unwrap();
}

/// The queue of tasks, the evaluation at the start, which has no further round, and the tasks of the first step.
async fn first_step(world: &World) -> (Worker<Task>, Vec<Delivery<Task>>, Vec<Delivery<Task>>) {
    let options = WorkerOptions::new(Queue::generate("schedule").all(), 8);
    let mut queue = world.bus.worker::<Task>(options).await.unwrap();
    let evaluation = tasks(&mut queue, 1).await;
    answer(world, evaluation[0].message(), [wrong(), wrong()]).await;
    let begun = tasks(&mut queue, 2).await;
    (queue, evaluation, begun)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_spread_is_drawn_again_once_and_the_learner_waits_for_it() {
    let world = World::new().await;
    let first = archive(&world, drawing_again());
    let (mut queue, evaluation, begun) = first_step(&world).await;
    let step: Vec<&Task> = begun.iter().map(Delivery::message).collect();
    assert!(
        step.iter()
            .all(|t| t.purpose == Purpose::Train && t.step == 1)
    );
    answer(&world, step[0], [measured(10.0), wrong()]).await;
    answer(&world, step[1], [wrong(), wrong()]).await;
    let again = tasks(&mut queue, 1).await;
    let task = again[0].message();
    assert_eq!((task.id.as_str(), task.step), ("r-s1-g2", 1));
    assert_eq!(
        (task.tasks_in_step, task.outcomes_seen),
        (3, step[0].outcomes_seen)
    );
    assert!(step.iter().all(|t| t.seed != task.seed));

    // The learner waits for it, and the archive may die meanwhile.
    let context = world.context(drawing_again());
    let mut batches = Batches::open(&context, 0, limits::ROLLOUT).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), batches.next()).await;
    assert!(waits.is_err(), "the step is not over");
    first.ended.abort();
    let second = archive(&world, drawing_again());
    answer(&world, task, [wrong(), wrong()]).await;
    // It has no spread either, and there is no further round.
    let last = tasks(&mut queue, 1).await;
    let end = last[0].message();
    assert_eq!((end.purpose, end.step), (Purpose::EvaluateEnd, 2));

    let Batch { step, groups, .. } = soon(batches.next()).await.unwrap();
    assert_eq!((step, groups.len()), (1, 3));
    let (mut bests, mut best_answers) = (StageBests::default(), BestAnswers::default());
    let (advantaged, metrics) = with_advantages(
        groups,
        &context.settings,
        None,
        &mut bests,
        &mut best_answers,
    );
    assert_eq!((advantaged.len(), metrics.samples), (2, 2));
    assert_eq!(metrics.resampled_groups, 1);
    assert!((metrics.flat_groups - 2.0 / 3.0).abs() < 1e-12);
    for delivery in evaluation.into_iter().chain(begun).chain(again).chain(last) {
        delivery.done().await.unwrap();
    }
    queue.close();
    second.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_told_its_result_once_and_the_learner_has_both_turns() {
    let world = World::new().await;
    let first = archive(&world, told());
    let (mut queue, evaluation, begun) = first_step(&world).await;
    let step: Vec<&Task> = begun.iter().map(Delivery::message).collect();
    assert!(
        step.iter()
            .all(|t| t.history.is_empty() && t.follows.is_none())
    );
    answer(&world, step[0], [measured(10.0), wrong()]).await;
    let lost = infrastructure(InfrastructureCause::Jail);
    answer(&world, step[1], [lost, wrong()]).await;
    // An answer without a measurement has no result to report.
    let second = tasks(&mut queue, 3).await;
    let told_of = |sample: u32, of: &Task| Some(sample_of(of, sample).id);
    let follows: Vec<_> = second.iter().map(|d| d.message().follows.clone()).collect();
    let wanted = [
        told_of(0, step[0]),
        told_of(1, step[0]),
        told_of(1, step[1]),
    ];
    assert_eq!(follows, wanted);
    for delivery in &second {
        let task = delivery.message();
        assert_eq!((task.step, task.group_size, task.tasks_in_step), (1, 1, 5));
        assert_eq!(task.history.len(), 1);
    }

    // The archive may die meanwhile; no source gets a result twice.
    first.ended.abort();
    let context = world.context(told());
    let mut batches = Batches::open(&context, 0, limits::ROLLOUT).await.unwrap();
    let next = archive(&world, told());
    for (delivery, gflops) in second.iter().zip([20.0, 30.0, 40.0]) {
        answer(&world, delivery.message(), [measured(gflops)]).await;
    }
    let last = tasks(&mut queue, 1).await;
    let end = last[0].message();
    assert_eq!((end.purpose, end.step), (Purpose::EvaluateEnd, 2));
    let Batch { step, groups, .. } = soon(batches.next()).await.unwrap();
    assert_eq!((step, groups.len()), (1, 5));
    let (mut bests, mut best_answers) = (StageBests::default(), BestAnswers::default());
    let (advantaged, metrics) = with_advantages(
        groups,
        &context.settings,
        None,
        &mut bests,
        &mut best_answers,
    );
    assert_eq!(
        (advantaged.len(), metrics.samples, metrics.dropped),
        (6, 6, 1)
    );
    let score = |n: usize| advantaged[n].advantage;
    let share = context.settings.turns.discount;
    // The answers to the two tasks come first, then the turns that follow them, each faster than the one before.
    assert!(score(4) > score(3) && score(5) > score(4));
    // Two equal wrong first answers differ by the turns after them.
    let gap = score(2) - score(1);
    assert!((gap - share * (score(5) - score(4))).abs() < 1e-9, "{gap}");
    for delivery in evaluation
        .into_iter()
        .chain(begun)
        .chain(second)
        .chain(last)
    {
        delivery.done().await.unwrap();
    }
    queue.close();
    next.end().await.unwrap();
}

/// One conversation of three answers with the prompts of an agent, and a document to read.
fn reading(world: &World) -> Settings {
    let folder = world.folder.path().join("documents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tiles.md"), "Tiles of 48 rows fit.").unwrap();
    let mut settings = told();
    settings.tasks = 1;
    settings.turns.most = 3;
    settings.turns.prompt = TurnPrompt::Agent;
    settings.turns.documents = Some(folder);
    settings
}

/// Publishes an outcome with its tokens.
async fn decide(world: &World, outcome: &Outcome) {
    let subject = subjects::rollout(&run_id());
    world
        .bus
        .publish(&subject, &rollout(outcome))
        .await
        .unwrap();
    let subject = subjects::outcome(&run_id());
    world.bus.publish(&subject, outcome).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_in_the_next_prompt_also_by_an_archive_that_is_started_again() {
    let world = World::new().await;
    let first = archive(&world, reading(&world));
    let options = WorkerOptions::new(Queue::generate("schedule").all(), 8);
    let mut queue = world.bus.worker::<Task>(options).await.unwrap();
    let evaluation = tasks(&mut queue, 1).await;
    assert_eq!(evaluation[0].message().requests, None);
    answer(&world, evaluation[0].message(), [wrong(), wrong()]).await;
    let begun = tasks(&mut queue, 1).await;
    let task = begun[0].message();
    let offered = Requests {
        finds: None,
        documents: vec!["tiles.md".to_owned()],
    };
    assert_eq!(task.requests.as_ref(), Some(&offered));

    // The first conversation asks twice, and the archive may die after each of its answers.
    let read = |document: &str| Request::Read {
        document: document.to_owned(),
    };
    decide(&world, &asked(sample_of(task, 0), read("tiles.md"))).await;
    first.ended.abort();
    let next = archive(&world, reading(&world));
    decide(&world, &outcome(sample_of(task, 1), wrong())).await;
    let second = tasks(&mut queue, 2).await;
    let turn = second[0].message();
    assert_eq!(turn.follows, Some(sample_of(task, 0).id));
    let said = Exchange {
        answer: String::new(),
        request: Some(read("tiles.md")),
        result: "Tiles of 48 rows fit.".to_owned(),
    };
    assert_eq!(turn.history, [said]);
    assert_eq!(turn.requests.as_ref(), Some(&offered));
    next.ended.abort();
    let next = archive(&world, reading(&world));
    decide(&world, &asked(sample_of(turn, 0), read("tiles.md"))).await;
    let other = second[1].message();
    decide(&world, &outcome(sample_of(other, 0), measured(10.0))).await;

    // The last turn may not ask: there it counts as an answer without a program.
    let third = tasks(&mut queue, 2).await;
    let context = world.context(reading(&world));
    let mut batches = Batches::open(&context, 0, limits::ROLLOUT).await.unwrap();
    for (delivery, fault) in third
        .iter()
        .zip([CandidateFault::Format, CandidateFault::WrongResult])
    {
        let task = delivery.message();
        assert_eq!((task.history.len(), &task.requests), (2, &None));
        let mut nothing = outcome(sample_of(task, 0), rejected(fault));
        nothing.source.clear();
        decide(&world, &nothing).await;
    }
    let last = tasks(&mut queue, 1).await;
    assert_eq!(last[0].message().purpose, Purpose::EvaluateEnd);

    let Batch { step, groups, .. } = soon(batches.next()).await.unwrap();
    assert_eq!((step, groups.len()), (1, 5));
    let (mut bests, mut best_answers) = (StageBests::default(), BestAnswers::default());
    let (advantaged, metrics) = with_advantages(
        groups,
        &context.settings,
        None,
        &mut bests,
        &mut best_answers,
    );
    assert_eq!((metrics.samples, metrics.dropped), (6, 0));
    let score = |of: &Task, sample: u32| {
        let id = sample_of(of, sample).id;
        let mut found = advantaged.iter();
        let found = found.find(|sample| sample.rollout.candidate.id == id);
        found.unwrap().advantage
    };
    // Both requests earn what the last turn earns, each a turn later.
    let share = context.settings.turns.discount;
    let format = score(third[0].message(), 0);
    assert!(format < 0.0, "{format}");
    assert!((score(turn, 0) - share * format).abs() < 1e-12);
    assert!((score(task, 0) - share * share * format).abs() < 1e-12);
    for delivery in evaluation
        .into_iter()
        .chain(begun)
        .chain(second)
        .chain(third)
        .chain(last)
    {
        delivery.done().await.unwrap();
    }
    queue.close();
    next.end().await.unwrap();
}
