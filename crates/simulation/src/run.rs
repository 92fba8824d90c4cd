//! One run of a simulated cluster, from its beginning until the run is complete or an invariant is broken.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::config::{Config, Mutation};
use crate::event::Event;
use crate::faults::Kind;
use crate::invariants;
use crate::judge::{Judge, View};
use crate::message::{Micros, SECOND, Sample, Single, Verdict};
use crate::program::{cell, mix, program, verdict};
use crate::world::{Losses, World};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Number of events.
    pub events: u64,
    /// Virtual time until the run was complete.
    pub lasted: Micros,
    /// A digest of all events in their order.
    pub digest: u64,
    /// Number of faults by kind.
    pub faults: Vec<(Kind, u64)>,
    /// How often a role failed, by itself or because of a fault.
    pub role_failures: u64,
    /// Leases that were lost.
    pub losses: Losses,
    /// How often a lease went from one node to another.
    pub taken_over: u64,
    /// The outcomes in the archive's book.
    pub outcomes: BTreeMap<Sample, Verdict>,
    /// The speed of the fastest program of each of the archive's cells.
    pub cells: BTreeMap<u32, u32>,
    /// Number of timings. A program that was timed twice counts twice.
    pub timed: u64,
    /// The largest number of versions by which the policy of a sample was behind the newest possible one.
    pub staleness: u32,
}

impl Report {
    /// Number of samples without a result.
    pub fn given_up(&self) -> usize {
        let outcomes = self.outcomes.values();
        outcomes
            .filter(|verdict| matches!(verdict, Verdict::Infrastructure(_)))
            .count()
    }
}

/// One event in the trace of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// When it happened.
    pub at: Micros,
    /// The name of the event.
    pub what: &'static str,
    /// The node of the event; 0 if the event has none.
    pub node: u64,
    /// The number that distinguishes the event from others of its kind.
    pub number: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at as f64 / SECOND as f64;
        let Self {
            what, node, number, ..
        } = self;
        write!(f, "{seconds:12.6} s  node {node:<4} {what} {number}")
    }
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    /// The name of the invariant: a function of `invariants.rs`, or `everything_ends`,
    /// `the_result_is_that_of_an_undisturbed_run`.
    pub invariant: &'static str,
    /// How the invariant was broken.
    pub detail: String,
    /// The seed of the run.
    pub seed: u64,
    /// Number of events before the violation.
    pub events: u64,
    /// Virtual time of the violation.
    pub at: Micros,
    /// The configuration of the cluster.
    pub config: Box<Config>,
    /// The last events, oldest first.
    pub trace: Vec<Line>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(
            f,
            "{} does not hold after {} events, {:.6} s into the run: {}",
            self.invariant,
            self.events,
            self.at as f64 / SECOND as f64,
            self.detail
        )?;
        write!(f, "to see it again: {}", self.replay())
    }
}

impl Violation {
    /// The command that replays the run.
    pub fn replay(&self) -> String {
        let config = &self.config;
        let mutation = config
            .mutation
            .map(|m| format!(" --mutation {}", m.name()))
            .unwrap_or_default();
        let only: Vec<String> = config.only.iter().map(|k| format!("{k:?}")).collect();
        let only = match only.is_empty() {
            true => String::new(),
            false => format!(" --only {}", only.join(",")),
        };
        format!(
            "cargo run --release -p flopsmith-simulation --example explore -- --from {} --seeds 1 --steps {} --nodes {},{},{},{},{} --step {}x{} --rounds {} --ahead {} --seconds {} --patience {}{only}{mutation} --trace",
            self.seed,
            config.steps,
            config.generators,
            config.compilers,
            config.verifiers,
            config.timers,
            config.singles,
            config.tasks,
            config.group,
            config.rounds,
            config.ahead,
            config.faults_for / SECOND,
            config.patience / SECOND,
        )
    }
}

/// Most events of a run. A run with more is regarded as endless.
const MOST_EVENTS: u64 = 200_000_000;

/// Runs a cluster and checks the invariants after every event.
///
/// # Errors
/// The first broken invariant.
pub fn simulate(config: &Config, seed: u64) -> Result<Report, Box<Violation>> {
    let mut run = Run {
        world: World::new(config.clone(), seed),
        judge: Judge::default(),
        events: 0,
        digest: 0,
        trace: VecDeque::with_capacity(config.trace),
    };
    run.go()
        .map_err(|(invariant, detail)| run.violation(invariant, detail))?;
    Ok(run.report())
}

struct Run {
    world: World,
    judge: Judge,
    events: u64,
    digest: u64,
    trace: VecDeque<Line>,
}

type Broken = (&'static str, String);

impl Run {
    fn go(&mut self) -> Result<(), Broken> {
        let config = self.world.config.clone();
        let deadline = config.faults_for + config.patience;
        loop {
            let Some((at, event)) = self.world.agenda.next() else {
                return self.everything_ends("nothing happens any more");
            };
            self.world.now = at;
            self.note(at, &event);
            self.world.happen(event);
            self.judge()?;
            if at > deadline || self.events > MOST_EVENTS {
                return self.everything_ends("it still goes on");
            }
            let view = View {
                now: at,
                world: &self.world,
            };
            if self.judge.over && self.judge.is_over(&view) {
                return self.the_result_is_that_of_an_undisturbed_run();
            }
        }
    }

    fn note(&mut self, at: Micros, event: &Event) {
        self.events += 1;
        let (what, node, number) = event.told();
        let first = what.len() as u64;
        self.digest = mix(&[self.digest, at, first, node, number]);
        if self.world.config.trace > 0 {
            if self.trace.len() >= self.world.config.trace {
                self.trace.pop_front();
            }
            self.trace.push_back(Line {
                at,
                what,
                node,
                number,
            });
        }
    }

    fn judge(&mut self) -> Result<(), Broken> {
        let facts = std::mem::take(&mut self.world.facts);
        let view = View {
            now: self.world.now,
            world: &self.world,
        };
        for fact in &facts {
            for (name, holds) in invariants::ALL {
                holds(&self.judge, &view, fact).map_err(|detail| (*name, detail))?;
            }
            self.judge.note(&view, fact);
        }
        // The allocation is used again.
        self.world.facts = facts;
        self.world.facts.clear();
        Ok(())
    }

    /// After the last fault every run ends within a known time: no queue keeps a message, and no process waits for
    /// ever.
    fn everything_ends(&self, how: &str) -> Result<(), Broken> {
        let queued = self.world.broker.work.len();
        let missing: Vec<_> = self.world.broker.work.works().take(3).collect();
        let step = self.judge.step;
        Err((
            "everything_ends",
            format!(
                "{how}: step {step:?}, {} gradient steps, {queued} in the queues, such as {missing:?}",
                self.judge.lessons
            ),
        ))
    }

    /// The archive's book and cells are those of an undisturbed run, except for samples that were given up, each with a
    /// cause.
    fn the_result_is_that_of_an_undisturbed_run(&self) -> Result<(), Broken> {
        let name = "the_result_is_that_of_an_undisturbed_run";
        let (config, seed) = (&self.world.config, self.world.seed);
        let Some(book) = self.book() else {
            return Err((name, "there is no book".to_owned()));
        };
        let mut cells = BTreeMap::new();
        let known = |sample: Sample| book.outcomes.get(&sample).copied();
        let asked = (0..config.steps).flat_map(|step| {
            let tasks = config.asked(step, known).tasks;
            config.samples_of(step, tasks)
        });
        for sample in asked {
            // Each policy version that may have answered writes a different program.
            let versions = config.versions_of_step(config.step_of(sample));
            let mut programs = versions.map(|version| program(config, seed, sample, version));
            let newest = program(config, seed, sample, config.step_of(sample));
            let evaluated = self.judge.written.get(&sample).copied();
            let written = programs
                .find(|one| evaluated == Some(*one))
                .unwrap_or(newest);
            let expected = verdict(written);
            let found = book.outcomes.get(&sample);
            match found {
                Some(found) if *found == expected => {}
                Some(Verdict::Infrastructure(_)) if config.faults_for > 0 => continue,
                _ => {
                    let detail = format!("{sample:?} is {found:?}, not {expected:?}");
                    return Err((name, detail));
                }
            }
            if let Verdict::Measured(speed) = expected {
                let best: &mut u32 = cells.entry(cell(written)).or_default();
                *best = speed.max(*best);
            }
        }
        let kept: BTreeMap<u32, u32> = speeds(book);
        match kept == cells {
            true => Ok(()),
            false => Err((name, format!("cells are {kept:?}, not {cells:?}"))),
        }
    }

    fn staleness(&self) -> u32 {
        let (config, seed) = (&self.world.config, self.world.seed);
        let behind = self.judge.written.iter().map(|(sample, written)| {
            let newest = config.step_of(*sample);
            let versions = config.versions_of_step(newest).rev();
            let mut wrote = versions.filter(|v| program(config, seed, *sample, *v) == *written);
            // A sample that was given up has no policy version.
            wrote.next().map_or(0, |version| newest - version)
        });
        behind.max().unwrap_or(0)
    }

    fn book(&self) -> Option<&crate::store::Book> {
        let head = self.world.broker.kv.record(Single::Archive).head?;
        let saved = self.world.store.load(Single::Archive, head)?;
        match &saved.state {
            crate::store::State::Archive(book) => Some(book),
            crate::store::State::Learner(_) => None,
        }
    }

    fn violation(&self, invariant: &'static str, detail: String) -> Box<Violation> {
        Box::new(Violation {
            invariant,
            detail,
            seed: self.world.seed,
            events: self.events,
            at: self.world.now,
            config: Box::new(self.world.config.clone()),
            trace: self.trace.iter().copied().collect(),
        })
    }

    fn report(&self) -> Report {
        let counts = &self.world.faults.counts;
        let book = self.book().cloned().unwrap_or_default();
        let timed = self.judge.evaluated.iter();
        Report {
            seed: self.world.seed,
            events: self.events,
            lasted: self.world.now,
            digest: self.digest,
            faults: Kind::ALL
                .iter()
                .map(|kind| (*kind, counts[*kind as usize]))
                .collect(),
            role_failures: self.world.role_failures,
            losses: self.world.losses,
            taken_over: self.judge.taken_over,
            cells: speeds(&book),
            outcomes: book.outcomes,
            timed: timed
                .filter(|((queue, _), _)| *queue == crate::message::Queue::Time)
                .map(|(_, times)| u64::from(*times))
                .sum(),
            staleness: self.staleness(),
        }
    }
}

fn speeds(book: &crate::store::Book) -> BTreeMap<u32, u32> {
    let cells = book.cells.iter();
    cells.map(|(cell, (speed, _))| (*cell, *speed)).collect()
}

/// Searches the seeds from `from` on for one under which the invariants detect this mistake.
pub fn caught(
    config: &Config,
    mutation: Mutation,
    from: u64,
    seeds: u64,
) -> Option<Box<Violation>> {
    let config = config.clone().mutated(mutation);
    (from..from + seeds).find_map(|seed| simulate(&config, seed).err())
}
