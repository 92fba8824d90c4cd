//! The invariants, which hold after every event. Each is a function of the earlier observations ([`Judge`]), of the
//! current cluster ([`View`]) and of one occurrence ([`Fact`]). Its error text describes the violation.

use flopsmith_coordination::sampling::Asked;

use crate::config::terms;
use crate::fact::Fact;
use crate::judge::{Judge, View, samples_of};
use crate::message::{Body, Cause, Entry, Log, MessageId, Queue, SECOND, Sample, Single, Verdict};
use crate::store::Lessons;

type Verdicts = Result<(), String>;

type Invariant = fn(&Judge, &View<'_>, &Fact) -> Verdicts;

macro_rules! invariants {
    ($($name:ident,)+) => {
        /// All invariants that are checked after each event, by name.
        pub(crate) const ALL: &[(&str, Invariant)] = &[$((stringify!($name), $name),)+];
    };
}

invariants![
    no_sample_is_lost,
    none_is_counted_twice,
    the_first_outcome_counts,
    acknowledged_work_has_its_effect,
    one_holder_writes,
    a_state_rests_on_the_one_before,
    versions_are_monotonic,
    published_versions_are_saved,
    tasks_rest_on_a_saved_step,
    only_what_is_over_is_learnt_from,
    each_sample_is_learnt_at_most_once,
    lessons_are_of_their_own_tokens,
    rollouts_come_before_candidates,
    what_is_given_up_has_its_letter,
    the_dead_are_decided,
    in_flight_is_bounded,
    confirmed_writes_survive,
    an_id_is_stored_once,
    no_work_is_taken_from_the_living,
    nobody_holds_for_ever,
    what_is_done_has_left,
];

fn broken(what: String) -> Verdicts {
    Err(what)
}

/// Every sample of a step that the archive's book has closed has exactly one outcome there.
fn no_sample_is_lost(_: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Lease {
        single: Single::Archive,
        before,
        after,
        ..
    } = fact
    else {
        return Ok(());
    };
    let Some(head) = after.head.filter(|_| after.head != before.head) else {
        return Ok(());
    };
    let Some((book, _)) = view.book(head) else {
        return broken(format!("{head:?} is the run's state and was never saved"));
    };
    let config = view.config();
    let known = |sample: Sample| book.outcomes.get(&sample).copied();
    let mut closed = 0;
    for step in 0..book.step.unwrap_or(0) {
        let Asked {
            tasks,
            settled: over,
            ..
        } = config.asked(step, known);
        if !over {
            return broken(format!(
                "step {step} is closed, and outcomes of its {tasks} tasks are missing"
            ));
        }
        closed += config.samples_of(step, tasks).count();
    }
    let there = book.outcomes.len();
    match there == closed {
        true => Ok(()),
        false => broken(format!(
            "{there} samples have an outcome, of {closed} that were asked for"
        )),
    }
}

/// No archive counts a sample twice.
fn none_is_counted_twice(_: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match fact {
        Fact::Counted {
            node,
            sample,
            new: false,
            ..
        } => broken(format!("{node:?} counted {sample:?} once more")),
        _ => Ok(()),
    }
}

/// The archive and the learner both use the first outcome of a sample in the log.
fn the_first_outcome_counts(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let same = |sample, verdict| match judge.first_outcomes.get(&sample) {
        Some(first) if *first == verdict => Ok(()),
        first => broken(format!(
            "{sample:?} counts as {verdict:?}, not as {first:?}"
        )),
    };
    match fact {
        Fact::Counted {
            sample, verdict, ..
        } => same(*sample, *verdict),
        Fact::Lease {
            single: Single::Learner,
            before,
            after,
            ..
        } if before.head != after.head => {
            after
                .head
                .and_then(|head| view.lessons(head))
                .map_or(Ok(()), |(lessons, _)| {
                    let mut learnt = lessons.learnt.iter();
                    learnt.try_for_each(|(sample, verdict)| same(*sample, *verdict))
                })
        }
        _ => Ok(()),
    }
}

/// Work is acknowledged only after its result was stored: the next stage's work, or the outcome.
fn acknowledged_work_has_its_effect(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Settled {
        work,
        terminated: false,
        ..
    } = fact
    else {
        return Ok(());
    };
    let next = match work.queue {
        Queue::Generate => Queue::Compile,
        Queue::Compile => Queue::Verify,
        Queue::Verify | Queue::Time => Queue::Time,
    };
    for sample in samples_of(view.config(), work) {
        let passed_on = next != work.queue && judge.queued.contains(&(next, sample.0));
        let decided = judge.first_outcomes.contains_key(&sample);
        if !passed_on && !decided {
            return broken(format!(
                "{work:?} is acknowledged, and nothing came of {sample:?}"
            ));
        }
    }
    Ok(())
}

/// Only the holder of a lease changes its record, and a change of holder leaves the committed state as it was.
fn one_holder_writes(_: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Lease {
        single,
        by,
        before,
        after,
    } = fact
    else {
        return Ok(());
    };
    let changes_hands = after.term == before.term + 1 && after.head == before.head;
    let is_holder = before.holder.is_some_and(|holder| holder.node == *by);
    let keeps_it = (after.term, after.holder) == (before.term, before.holder) && is_holder;
    match changes_hands || (keeps_it && after.beat >= before.beat) {
        true => Ok(()),
        false => broken(format!(
            "{by:?} made {after:?} of the {single:?}'s {before:?}"
        )),
    }
}

/// The newly committed state was made from the previously committed one.
fn a_state_rests_on_the_one_before(_: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Lease {
        single,
        before,
        after,
        ..
    } = fact
    else {
        return Ok(());
    };
    let Some(head) = after.head.filter(|_| after.head != before.head) else {
        return Ok(());
    };
    let parent = match single {
        Single::Archive => view.book(head).map(|(book, parent)| {
            // A step that draws tasks again is saved more than once.
            let first = book.step == Some(0) && book.tasks == view.config().tasks;
            (parent, first)
        }),
        Single::Learner => view
            .lessons(head)
            .map(|(lessons, parent)| (parent, lessons.steps == 1)),
    };
    match parent {
        Some((parent, first)) if parent == before.head && first == parent.is_none() => Ok(()),
        other => broken(format!(
            "{head:?} of the {single:?} rests on {other:?}, not on {:?}",
            before.head
        )),
    }
}

/// Policy versions are published in order, and a version always stands for the same weights.
fn versions_are_monotonic(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    let Some((version, weights)) = version_of(fact) else {
        return Ok(());
    };
    match judge.versions.get(&version) {
        Some(known) if *known == weights => Ok(()),
        Some(known) => broken(format!(
            "version {version} was {known:x} and is {weights:x}"
        )),
        None => {
            let newest = judge.versions.keys().next_back();
            let next = newest.map_or(0, |newest| newest + 1);
            match version == next {
                true => Ok(()),
                false => broken(format!("version {version} follows {newest:?}")),
            }
        }
    }
}

/// A published version is in the learner's committed state, so that a successor continues from it.
fn published_versions_are_saved(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match version_of(fact) {
        Some((version, _)) if version > judge.lessons => broken(format!(
            "version {version} is told and the run's state has {}",
            judge.lessons
        )),
        _ => Ok(()),
    }
}

fn version_of(fact: &Fact) -> Option<(u32, u64)> {
    match fact {
        Fact::Stored {
            body: Body::Entry(Entry::Version(version, weights)),
            ..
        } => Some((*version, *weights)),
        _ => None,
    }
}

/// A published task belongs to a committed step.
fn tasks_rest_on_a_saved_step(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    if let Fact::Stored {
        body: Body::Work(work),
        ..
    } = fact
        && work.queue == Queue::Generate
    {
        let step = view.config().step_of_task(work.number);
        let tasks = view.config().tasks_of(step, 0..judge.tasks);
        let saved = judge.step;
        if saved < Some(step) || (saved == Some(step) && work.number >= tasks.end) {
            let many = judge.tasks;
            return broken(format!(
                "task {} of step {step} is out; {many} of {saved:?} are saved",
                work.number
            ));
        }
    }
    Ok(())
}

/// The content of the learner's state that the fact committed. None for any other fact.
fn new_lessons<'a>(view: &'a View<'_>, fact: &Fact) -> Option<&'a Lessons> {
    let Fact::Lease {
        single: Single::Learner,
        before,
        after,
        ..
    } = fact
    else {
        return None;
    };
    let head = after.head.filter(|_| after.head != before.head)?;
    view.lessons(head).map(|(lessons, _)| lessons)
}

/// The learner uses a step only after all of its tasks have their outcomes, including the tasks that were drawn again.
fn only_what_is_over_is_learnt_from(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Some(lessons) = new_lessons(view, fact) else {
        return Ok(());
    };
    let Some(step) = lessons.steps.checked_sub(1) else {
        return Ok(());
    };
    match view
        .config()
        .asked(step, |sample| judge.first_outcomes.get(&sample).copied())
    {
        Asked { settled: true, .. } => Ok(()),
        Asked { tasks, .. } => broken(format!(
            "step {step} has {tasks} tasks, and not all of their outcomes"
        )),
    }
}

/// No two gradient steps of the run's policy learn from one sample.
fn each_sample_is_learnt_at_most_once(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Some(lessons) = new_lessons(view, fact) else {
        return Ok(());
    };
    let mut learnt = lessons.learnt.iter();
    match learnt.find(|(sample, _)| judge.learnt.contains(sample)) {
        Some((sample, _)) => broken(format!("{sample:?} is learnt from once more")),
        None => Ok(()),
    }
}

/// The learner pairs a sample's tokens with the outcome of the program that these tokens form. A task that two
/// generators answered has two programs.
fn lessons_are_of_their_own_tokens(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Some(lessons) = new_lessons(view, fact) else {
        return Ok(());
    };
    let mut learnt = lessons.learnt.iter().map(|(sample, _)| sample);
    match learnt.find(|sample| judge.rollouts.get(sample) != judge.written.get(sample)) {
        Some(sample) => broken(format!(
            "{sample:?} was evaluated as {:?}, and learnt from the tokens of {:?}",
            judge.written.get(sample),
            judge.rollouts.get(sample)
        )),
        None => Ok(()),
    }
}

/// Every candidate has a stored rollout, so that the learner never waits for lost tokens.
fn rollouts_come_before_candidates(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    if let Fact::Stored {
        body: Body::Work(work),
        ..
    } = fact
        && work.queue == Queue::Compile
        && let Some(sample) = work.sample()
        && !judge.rollouts.contains_key(&sample)
    {
        return broken(format!("{sample:?} is a candidate and has no rollout"));
    }
    Ok(())
}

/// A message that is terminated without a result has a dead letter.
fn what_is_given_up_has_its_letter(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match fact {
        Fact::Settled {
            sequence,
            work,
            terminated: true,
        } if !judge.letters.contains(sequence) => {
            broken(format!("{work:?} was given up without a letter"))
        }
        _ => Ok(()),
    }
}

/// An outcome without a result has a cause: the most failures that a sample may have, or a dead letter. The archive
/// gives no sample up as lost, because no sample is lost.
fn the_dead_are_decided(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Stored {
        body: Body::Entry(Entry::Outcome(sample, _, Verdict::Infrastructure(cause))),
        ..
    } = fact
    else {
        return Ok(());
    };
    if judge.first_outcomes.contains_key(sample) {
        // The outcome comes too late to count.
        return Ok(());
    }
    let letter = judge.given_up.get(sample);
    let failures = judge.failures.get(sample).copied().unwrap_or(0);
    let right = match cause {
        Cause::StageFailure => failures >= terms::ATTEMPTS,
        Cause::DeadLetter => letter.is_some(),
        // Until a sample has an outcome, its message is in a queue or among the dead letters. The archive reads the
        // dead letters long before it gives a sample up as lost.
        Cause::Lost => false,
    };
    match right {
        true => Ok(()),
        false => broken(format!(
            "{sample:?} is decided as {cause:?}, with {failures} failures and a letter since {letter:?}"
        )),
    }
}

/// A worker holds and requests no more messages than it has slots.
fn in_flight_is_bounded(_: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match fact {
        Fact::Hand { node, held, slots } if held > slots => {
            broken(format!("{node:?} has {held} messages and room for {slots}"))
        }
        _ => Ok(()),
    }
}

/// Messages that the broker confirmed exist after a kill.
fn confirmed_writes_survive(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Restarted = fact else { return Ok(()) };
    let work = &view.broker().work;
    let mut confirmed = judge.confirmed_work.iter();
    if let Some(gone) = confirmed.find(|sequence| !work.contains(**sequence)) {
        return broken(format!("work {gone} was confirmed and is gone"));
    }
    for log in [Log::Outcome, Log::Rollout, Log::Policy, Log::Dead] {
        let entries = view.broker().logs.entries(log);
        let confirmed = judge.confirmed_entries.range((log, 0)..=(log, u64::MAX));
        for ((_, sequence), entry) in confirmed {
            let place = usize::try_from(*sequence).unwrap_or(0);
            let there = place.checked_sub(1).and_then(|place| entries.get(place));
            if there.map(Entry::id) != Some(entry.id()) {
                return broken(format!("{entry:?} was confirmed and is gone"));
            }
        }
    }
    Ok(())
}

/// Within the dedupe window a stream stores an id once. A killed broker may have forgotten the ids of removed work.
fn an_id_is_stored_once(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::Stored { body, by, .. } = fact else {
        return Ok(());
    };
    let id = body.id();
    let Some((at, life)) = judge.stored.get(&id) else {
        return Ok(());
    };
    let is_work = matches!(
        id,
        MessageId::Task(_)
            | MessageId::Candidate(_)
            | MessageId::Compiled(_)
            | MessageId::Verified(_)
    );
    let forgotten = is_work && *life != view.broker().generation;
    match forgotten || view.now - at >= view.world.faults.window {
        true => Ok(()),
        false => broken(format!("{id:?} of {by:?} is stored twice")),
    }
}

/// The broker gives a message to no other worker while its holder works on it and gives signs of life.
fn no_work_is_taken_from_the_living(judge: &Judge, view: &View<'_>, fact: &Fact) -> Verdicts {
    let Fact::TakenBack { node, token } = fact else {
        return Ok(());
    };
    if judge.is_excused(*node, view.now) {
        return Ok(());
    }
    let holder = view.node(*node);
    let job = holder.jobs.values().find(|job| job.token == *token);
    match job {
        Some(job) if holder.up && view.now - job.since < terms::HOLD_LIMIT => broken(format!(
            "{node:?} has been at work on {:?} for {} s, and lost it",
            job.work,
            (view.now - job.since) / SECOND
        )),
        _ => Ok(()),
    }
}

/// A worker that does not finish a message loses it, because signs of life end with the hold limit.
fn nobody_holds_for_ever(_: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match fact {
        // A sign of life may arrive late by as much as the longest cut of a connection.
        Fact::Alive { node, held } if *held > terms::HOLD_LIMIT + 45 * SECOND => broken(format!(
            "{node:?} has held a message for {} s",
            held / SECOND
        )),
        _ => Ok(()),
    }
}

/// A node regards a message as done only if the message has left its queue.
fn what_is_done_has_left(judge: &Judge, _: &View<'_>, fact: &Fact) -> Verdicts {
    match fact {
        Fact::Done { sequence } if !judge.settled.contains(sequence) => broken(format!(
            "message {sequence} is taken for worked off, and nobody has acknowledged it"
        )),
        _ => Ok(()),
    }
}
