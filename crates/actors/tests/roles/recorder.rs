//! The content of a run's folder after the end of its recorder.

use std::path::Path;
use std::sync::Arc;

use flopsmith_actors::answer_line::AnswerLine;
use flopsmith_actors::node::Context;
use flopsmith_actors::role::recorder::{
    DeadLine, Detokenize, Progress, Recorder, StepLine, Texts, files,
};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateRef, Outcome, PolicyPublished, PolicyVersion, Purpose, Rollout, RunId,
    subjects,
};
use flopsmith_test_support::{machine_class, outcome, rollout, run_id, wrong};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::{World, candidate, settings, soon, start};

/// The outcomes of a whole step.
fn step() -> Vec<Outcome> {
    let samples = [(0, 0), (0, 1), (1, 0), (1, 1)];
    samples
        .map(|(task, sample)| outcome(candidate(0, task, sample, Purpose::Search), wrong()))
        .into()
}

fn lines<T: DeserializeOwned>(context: &Arc<Context>, name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(context.folder.join(name)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorder_that_is_stopped_at_once_has_written_what_is_in_the_logs() {
    let world = World::new().await;
    let context = world.context(settings());
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &step()).await.unwrap();
    let (progress, _) = watch::channel(Progress::default());
    let recorder = Recorder::new(Arc::clone(&context), progress);
    start(recorder).end().await.unwrap();
    assert_eq!(lines::<Outcome>(&context, files::OUTCOMES), step());
    assert_eq!(lines::<StepLine>(&context, files::METRICS).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_published_while_roles_drain_are_recorded() {
    let world = World::new().await;
    let context = world.context(settings());
    let subject = subjects::outcome(&run_id());
    let (sender, mut progress) = watch::channel(Progress::default());
    let working = start(Recorder::new(Arc::clone(&context), sender));
    let outcomes = step();
    world.bus.publish(&subject, &outcomes[0]).await.unwrap();
    // From here on its readers know of no further entry.
    soon(progress.wait_for(|p| p.total == 1)).await.unwrap();
    let rest = &outcomes[1..];
    world.bus.publish_many(&subject, rest).await.unwrap();
    working.end().await.unwrap();
    assert_eq!(lines::<Outcome>(&context, files::OUTCOMES), outcomes);
    assert_eq!(progress.borrow().total, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_line_was_not_written_any_more_gets_it() {
    let world = World::new().await;
    let context = world.context(settings());
    let written: Vec<String> = step()
        .iter()
        .map(|outcome| serde_json::to_string(outcome).unwrap() + "\n")
        .collect();
    std::fs::write(context.folder.join(files::OUTCOMES), written.concat()).unwrap();
    let (progress, _) = watch::channel(Progress::default());
    let recorder = Recorder::new(Arc::clone(&context), progress);
    start(recorder).end().await.unwrap();
    assert_eq!(lines::<StepLine>(&context, files::METRICS).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_recorded_once_with_their_reason() {
    let world = World::new().await;
    let context = world.context(settings());
    let own = candidate(0, 0, 1, Purpose::Search);
    let foreign = CandidateRef {
        run: RunId::new("other").unwrap(),
        ..candidate(0, 0, 0, Purpose::Search)
    };
    let programs = [foreign, own].map(|candidate| Candidate {
        candidate,
        source: "int x;".into(),
        answer: None,
    });
    let queue = Queue::compile(&machine_class());
    world
        .dead_letter(&queue, &programs, "it kills compilers")
        .await;
    for _ in 0..2 {
        let (progress, _) = watch::channel(Progress::default());
        let recorder = Recorder::new(Arc::clone(&context), progress);
        start(recorder).end().await.unwrap();
    }
    let written: Vec<DeadLine> = lines(&context, files::DEAD);
    let expected = DeadLine {
        sequence: 2,
        id: Some("r-s0-g0-c1".into()),
        subject: queue.of(&run_id()),
        reason: "it kills compilers".into(),
        attempts: 1,
    };
    assert_eq!(written, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_of_every_second_step_stays_in_the_folder() {
    let world = World::new().await;
    let mut settings = settings();
    settings.learner.checkpoint_every = 2;
    let context = world.context(settings);
    for number in 0..=4u64 {
        let weights = context.host.store.put(vec![number as u8; 3]).await;
        let published = PolicyPublished {
            run: run_id(),
            version: PolicyVersion(number),
            step: number,
            weights: weights.unwrap(),
            metrics: None,
        };
        let subject = subjects::policy(&run_id());
        world.bus.publish(&subject, &published).await.unwrap();
    }
    let keep = |target: &Path, weights: &[u8]| {
        std::fs::create_dir_all(target)?;
        std::fs::write(target.join("weights"), weights)
    };
    let (progress, _) = watch::channel(Progress::default());
    let recorder = Recorder::new(Arc::clone(&context), progress).keeping(Arc::new(keep));
    start(recorder).end().await.unwrap();
    let folder = context.folder.join(files::CHECKPOINTS);
    let entries = std::fs::read_dir(&folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["version-000002", "version-000004"]);
    let written = std::fs::read(folder.join("version-000004/weights")).unwrap();
    assert_eq!(written, [4; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_written_while_the_run_goes_on_and_none_twice_after_a_kill() {
    let world = World::new().await;
    let context = world.context(settings());
    let subject = subjects::rollout(&run_id());
    let rollouts: Vec<Rollout> = step().iter().map(rollout).collect();
    let recorder = || {
        let detokenize: Detokenize = Arc::new(|rollout: &Rollout| {
            Ok(Texts {
                prompt: format!("prompt {:?}", rollout.prompt_tokens),
                answer: format!("answer of {}", rollout.candidate.id),
            })
        });
        let (progress, _) = watch::channel(Progress::default());
        let recorder = Recorder::new(Arc::clone(&context), progress);
        start(recorder.detokenizing(Some(detokenize)))
    };
    let file = context.folder.join(files::ANSWERS);
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    let working = recorder();
    let first = &rollouts[..2];
    world.bus.publish_many(&subject, first).await.unwrap();
    let written = async {
        while text().matches('\n').count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon(written).await;
    working.end().await.unwrap();

    // A kill in the middle of a line.
    let whole = text();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let rest = &rollouts[2..];
    world.bus.publish_many(&subject, rest).await.unwrap();
    for _ in 0..2 {
        recorder().end().await.unwrap();
        let lines: Vec<AnswerLine> = lines(&context, files::ANSWERS);
        assert_eq!(lines.len(), 4);
        for (line, rollout) in lines.iter().zip(&rollouts) {
            let candidate = &rollout.candidate;
            assert_eq!(line.task, candidate.task);
            assert_eq!(line.sample, candidate.sample);
            assert_eq!(line.prompt, "prompt [1]");
            assert_eq!(line.answer, format!("answer of {}", candidate.id));
            assert_eq!(line.finished, Some(true));
        }
    }
}
