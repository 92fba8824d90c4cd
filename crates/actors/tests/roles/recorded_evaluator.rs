//! A run's programs, with their outcomes in the run that it repeats.

use std::sync::Arc;

use flopsmith_actors::Error;
use flopsmith_actors::recorded::Recorded;
use flopsmith_actors::role::recorded_evaluator::RecordedEvaluator;
use flopsmith_actors::role::recorder::files;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{Candidate, Outcome, Purpose, Verdict, subjects};
use flopsmith_test_support::{Measured, machine_class, outcome, remeasured, run_id, wrong};

use crate::{World, candidate, settings, soon, start};

fn recorded(world: &World, outcomes: &[Outcome]) -> Arc<Recorded> {
    let lines = outcomes
        .iter()
        .map(|o| serde_json::to_string(o).unwrap() + "\n");
    let folder = world.folder.path().join("recorded");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(files::OUTCOMES), lines.collect::<String>()).unwrap();
    Arc::new(Recorded::read(&folder).unwrap())
}

fn asked(outcome: &Outcome) -> Candidate {
    Candidate {
        candidate: outcome.candidate.clone(),
        source: outcome.source.clone(),
        answer: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_has_the_outcome_it_had_and_another_one_ends_the_run() {
    let world = World::new().await;
    let context = world.context(settings());
    let of = |sample| candidate(1, 0, sample, Purpose::Train);
    // The value as it is read from JSON, to the last bit.
    let fast = Measured::at(100.0 / 3.0).outcome(of(0));
    let known = [fast.clone(), outcome(of(1), wrong())];
    let recorded = recorded(&world, &known);
    let role = start(RecordedEvaluator::new(context, recorded));
    let queue = Queue::compile(&machine_class()).of(&run_id());
    // The run had ended before its second measurement.
    let again = Candidate {
        candidate: remeasured(&fast.candidate, 1),
        source: fast.source.clone(),
        answer: None,
    };
    let work = [asked(&fast), again];
    world.bus.publish_many(&queue, &work).await.unwrap();
    let subject = subjects::outcome(&run_id());
    let mut log = soon(world.bus.log::<Outcome>(&subject, 0)).await.unwrap();
    let (_, first) = soon(log.next()).await.unwrap();
    assert_eq!(
        (first.verdict, first.candidate),
        (fast.verdict.clone(), fast.candidate.clone())
    );
    let (_, second) = soon(log.next()).await.unwrap();
    assert!(matches!(second.verdict, Verdict::Infrastructure { .. }));
    assert_eq!(second.candidate.purpose, Purpose::Certify);

    let other = Candidate {
        source: "int another;".into(),
        ..asked(&known[1])
    };
    world.bus.publish(&queue, &other).await.unwrap();
    let error = soon(role.ended).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Diverged(_)), "{error}");
    let said = error.to_string();
    assert!(said.contains(known[1].candidate.id.as_str()), "{said}");
    assert!(error.is_final());
}
