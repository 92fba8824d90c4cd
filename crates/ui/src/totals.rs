//! Sums over the records of a run. They are made while records are added, and need no second look at the log.

use std::collections::BTreeMap;

use flopsmith_protocol::Purpose;

use crate::index::{Party, Record};

/// Problems that have cells of their own. A stream of fresh problems may have many more.
const MOST_WITH_CELLS: u16 = 512;

/// Nodes that have sums of their own.
const MOST_NODES: u16 = 1024;

/// The sums over a run's outcomes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Number of outcomes.
    pub count: u64,
    /// Outcomes by party, in the order of [`Party::ALL`].
    pub parties: [u64; 4],
    /// Outcomes by reason.
    pub reasons: BTreeMap<u16, Reason>,
    /// Problems.
    pub problems: BTreeMap<u16, OfProblem>,
    /// Steps; second measurements belong to none.
    pub steps: BTreeMap<u32, Step>,
    /// Cells of the archive: problem, and bits of techniques.
    pub cells: BTreeMap<(u16, u32), Cell>,
    /// Nodes.
    pub nodes: BTreeMap<u16, OfNode>,
    /// When the newest outcome was decided, seconds since 1970.
    pub newest: u32,
}

/// The outcomes of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfNode {
    /// Outcomes by party, in the order of [`Party::ALL`].
    pub parties: [u64; 4],
    /// Measurements that did not become precise.
    pub imprecise: u64,
    /// Seconds of compiling, verifying and timing.
    pub work: f64,
    /// Deviation of the call times of its own measurements.
    pub noise: Spread,
    /// When its first and its last outcome were decided, seconds since 1970.
    pub seconds: (u32, u32),
    /// The newest of its outcomes.
    pub example: u64,
}

/// Steps of a [`Spread`] for a factor of two.
const STEPS: f32 = 4.0;
/// The smallest share that a [`Spread`] tells from 0.
const LEAST: f32 = 1.0 / 16_384.0;

/// A histogram of shares in steps of a factor of the fourth root of two, from a sixteen-thousandth to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread([u32; 58]);

impl Default for Spread {
    fn default() -> Self {
        Self([0; 58])
    }
}

impl Spread {
    /// Counts a share.
    pub fn note(&mut self, share: f32) {
        // A number that is not one becomes 0.
        let step = ((share / LEAST).log2() * STEPS).max(-1.0) + 1.0;
        let step = (step as usize).min(self.0.len() - 1);
        self.0[step] = self.0[step].saturating_add(1);
    }

    /// Number of shares.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The share below which this part of all lies, within a fifth of it; none without one. `part` is from 0 to 1.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let wanted = (part * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let step = self.0.iter().position(|count| {
            below += u64::from(*count);
            below >= wanted
        })?;
        Some(match step {
            0 => 0.0,
            // The middle of the step.
            _ => f64::from(LEAST) * ((step as f64 - 0.5) / f64::from(STEPS)).exp2(),
        })
    }
}

/// The outcomes of one reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reason {
    /// Number of them.
    pub count: u64,
    /// The party they are due to.
    pub party: Party,
    /// The newest of them.
    pub example: u64,
}

/// A measured program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Its speed, 10⁹ operations a second.
    pub gflops: f32,
    /// Its ratio to the plain reference.
    pub ratio: f32,
    /// The number of its record.
    pub number: u64,
}

/// The outcomes of one problem.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfProblem {
    /// Programs that were judged for the first time.
    pub judged: u64,
    /// Those that were verified and measured.
    pub correct: u64,
    /// The fastest of them by its first measurement.
    pub first: Option<Speed>,
    /// The fastest whose measurement was repeated, by the later one.
    pub again: Option<Speed>,
}

impl OfProblem {
    /// The best program: one whose measurement was repeated, or else one that was measured once.
    pub fn best(&self) -> Option<Speed> {
        self.again.or(self.first)
    }
}

/// The outcomes of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its purpose.
    pub purpose: Purpose,
    /// The highest stage of its tasks.
    pub stage: u16,
    /// All outcomes.
    pub outcomes: u32,
    /// Outcomes that count.
    pub samples: u32,
    /// Those that were verified and measured.
    pub correct: u32,
    /// The sum of their speeds.
    pub gflops: f64,
    /// The best speed that converged; 0 without one.
    pub best_gflops: f32,
    /// The best ratio that converged; 0 without one.
    pub best_ratio: f32,
    /// When its last outcome was decided, seconds since 1970.
    pub seconds: u32,
}

impl Step {
    /// Share of the samples that was verified and measured; none without a sample.
    pub fn correct_rate(&self) -> Option<f64> {
        (self.samples > 0).then(|| f64::from(self.correct) / f64::from(self.samples))
    }

    /// Mean speed of the samples, where failures count 0; none without a sample.
    pub fn mean_gflops(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.gflops / f64::from(self.samples))
    }
}

/// The programs of one set of techniques.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cell {
    /// Programs that were judged for the first time.
    pub tried: u64,
    /// Those that were verified and measured.
    pub correct: u64,
    /// The fastest by its first measurement.
    pub first: Option<Speed>,
    /// The fastest whose measurement was repeated, by the later one.
    pub again: Option<Speed>,
}

impl Totals {
    /// Adds the next record.
    pub fn add(&mut self, number: u64, record: &Record) {
        self.count += 1;
        self.parties[record.party as usize] += 1;
        self.newest = self.newest.max(record.seconds);
        self.note_node(number, record);
        let reason = self.reasons.entry(record.reason).or_insert(Reason {
            count: 0,
            party: record.party,
            example: number,
        });
        reason.count += 1;
        reason.example = number;
        let speed = Speed {
            gflops: record.gflops,
            ratio: record.ratio,
            number,
        };
        let counts = matches!(record.party, Party::Measured | Party::Rejected);
        let is_measured = record.party == Party::Measured;
        let problem = self.problems.entry(record.problem).or_default();
        let cell = match record.techniques {
            Some(techniques) if counts && record.problem < MOST_WITH_CELLS => {
                let key = (record.problem, techniques.bits());
                Some(self.cells.entry(key).or_default())
            }
            _ => None,
        };
        if record.repeats() {
            // A verdict from the cache is no second measurement, and one that did not converge confirms nothing.
            if is_measured && record.converged && !record.reused {
                better(&mut problem.again, speed);
                if let Some(cell) = cell {
                    better(&mut cell.again, speed);
                }
            }
            return;
        }
        if counts && !record.exploration {
            problem.judged += 1;
            problem.correct += u64::from(is_measured);
        }
        if is_measured {
            better(&mut problem.first, speed);
        }
        if let Some(cell) = cell {
            if !record.exploration {
                cell.tried += 1;
                cell.correct += u64::from(is_measured);
            }
            if is_measured {
                better(&mut cell.first, speed);
            }
        }
        self.note_step(record, counts && !record.exploration);
    }

    fn note_node(&mut self, number: u64, record: &Record) {
        if record.node >= MOST_NODES {
            return;
        }
        let node = self.nodes.entry(record.node).or_default();
        let (first, last) = match node.parties.iter().sum::<u64>() {
            0 => (record.seconds, record.seconds),
            _ => node.seconds,
        };
        node.seconds = (first.min(record.seconds), last.max(record.seconds));
        node.parties[record.party as usize] += 1;
        node.example = number;
        // The measurement of an identical program was made earlier, perhaps by another node.
        if record.reused {
            return;
        }
        node.work += f64::from(record.work);
        if record.party == Party::Measured {
            node.imprecise += u64::from(!record.converged);
            node.noise.note(record.noise);
        }
    }

    fn note_step(&mut self, record: &Record, is_sample: bool) {
        let step = self.steps.entry(record.step).or_insert(Step {
            purpose: record.purpose,
            stage: 0,
            outcomes: 0,
            samples: 0,
            correct: 0,
            gflops: 0.0,
            best_gflops: 0.0,
            best_ratio: 0.0,
            seconds: 0,
        });
        step.stage = step.stage.max(record.stage);
        step.outcomes = step.outcomes.saturating_add(1);
        step.seconds = step.seconds.max(record.seconds);
        if is_sample {
            step.samples = step.samples.saturating_add(1);
            if record.party == Party::Measured {
                step.correct = step.correct.saturating_add(1);
                step.gflops += f64::from(record.gflops);
            }
        }
        if record.converged {
            step.best_gflops = step.best_gflops.max(record.gflops);
            step.best_ratio = step.best_ratio.max(record.ratio);
        }
    }

    /// Share of the programs that were judged for the first time that was verified and measured.
    pub fn correct_rate(&self) -> Option<f64> {
        let sum = |of: fn(&OfProblem) -> u64| self.problems.values().map(of).sum::<u64>();
        let judged = sum(|problem| problem.judged);
        (judged > 0).then(|| sum(|problem| problem.correct) as f64 / judged as f64)
    }

    /// The newest step.
    pub fn last_step(&self) -> Option<u32> {
        self.steps.keys().next_back().copied()
    }

    /// Problems with a verified program.
    pub fn solved(&self) -> usize {
        let best = self.problems.values().filter(|of| of.best().is_some());
        best.count()
    }
}

fn better(best: &mut Option<Speed>, speed: Speed) {
    if best.is_none_or(|best| best.gflops < speed.gflops) {
        *best = Some(speed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateRef, Outcome};
    use flopsmith_test_support::{
        Measured, again, candidate, first, measured, outcome as of, unknown, wrong,
    };

    use super::*;
    use crate::index::{Names, outcome};

    fn totals(outcomes: &[Outcome]) -> Totals {
        let mut names = Names::default();
        let mut totals = Totals::default();
        for (number, of) in (0..).zip(outcomes) {
            let line = serde_json::to_vec(of).unwrap();
            totals.add(number, &outcome(&line, &mut names).unwrap());
        }
        totals
    }

    #[test]
    fn a_step_has_the_numbers_of_its_line_in_the_metrics() {
        let explored = CandidateRef {
            exploration: true,
            ..candidate(1, 1, 0)
        };
        let outcomes = [
            first(1, "a", "simd", measured(10.0)),
            first(2, "b", "simd", measured(30.0)),
            first(3, "c", "simd", wrong()),
            of(candidate(1, 0, 4), unknown()),
            of(explored, measured(90.0)),
            of(candidate(2, 0, 0), wrong()),
        ];
        let totals = totals(&outcomes);
        let lines = flopsmith_actors::role::recorder::step_lines(outcomes.iter());
        assert_eq!(totals.steps.len(), lines.len());
        for line in lines {
            let step = totals.steps[&(line.step as u32)];
            assert_eq!(step.samples, line.samples);
            assert_eq!(step.correct_rate().unwrap(), line.correct_rate);
            assert_eq!(step.mean_gflops().unwrap(), line.mean_gflops);
            assert_eq!(f64::from(step.best_gflops), line.best_gflops);
            assert_eq!(
                u64::from(step.outcomes),
                line.outcomes.values().sum::<u64>()
            );
        }
        assert_eq!((totals.count, totals.last_step()), (6, Some(2)));
        assert_eq!(totals.parties, [3, 2, 0, 1]);
        assert_eq!(totals.correct_rate(), Some(0.5));
    }

    #[test]
    fn the_best_program_is_one_whose_measurement_was_repeated() {
        let fast = first(1, "fast", "simd", measured(50.0));
        let slow = first(2, "slow", "simd", measured(40.0));
        let unsure = Measured::at(70.0).unconverged().verdict();
        let cached = Measured::at(60.0).reused().verdict();
        let mut outcomes = vec![fast.clone(), slow.clone()];
        assert_eq!(totals(&outcomes).problems[&0].best().unwrap().number, 0);
        outcomes.extend([again(&fast, unsure), again(&fast, cached)]);
        assert_eq!(totals(&outcomes).problems[&0].best().unwrap().number, 0);
        outcomes.push(again(&slow, measured(39.0)));
        let totals = totals(&outcomes);
        assert_eq!(totals.problems[&0].best().unwrap().number, 4);
        let simd = totals.cells.values().next().unwrap();
        assert_eq!((simd.tried, simd.correct), (2, 2));
        assert_eq!(simd.first.unwrap().number, 0);
        assert_eq!(simd.again.unwrap().gflops, 39.0);
        // Repetitions are of no step.
        assert_eq!(totals.steps[&1].outcomes, 2);
    }

    #[test]
    fn a_failure_of_the_machine_makes_no_cell() {
        let tried = |verdict| totals(&[first(1, "a", "simd", verdict)]).cells.len();
        assert_eq!([unknown(), wrong()].map(tried), [0, 1]);
    }
    #[test]
    fn a_node_has_its_own_measurements_and_failures() {
        let by = |node: &str, at: u64, of: Outcome| Outcome {
            node: flopsmith_protocol::NodeId::new(node).unwrap(),
            stage_seconds: [1.0, 0.5, 2.5],
            decided_unix_ms: 1000 * at,
            ..of
        };
        let program = first(1, "a", "simd", measured(50.0));
        let unsure = Measured::at(70.0).unconverged().verdict();
        let cached = Measured::at(60.0).reused().verdict();
        let totals = totals(&[
            by("one", 20, program.clone()),
            by("two", 30, first(2, "b", "simd", wrong())),
            by("one", 10, first(3, "c", "simd", unsure)),
            by("one", 40, first(4, "d", "simd", cached)),
            by("two", 50, of(candidate(1, 0, 5), unknown())),
        ]);
        let (one, two) = (&totals.nodes[&0], &totals.nodes[&1]);
        assert_eq!((one.parties, two.parties), ([3, 0, 0, 0], [0, 1, 0, 1]));
        assert_eq!((one.imprecise, one.noise.count()), (1, 2));
        assert_eq!((one.work, one.seconds, one.example), (8.0, (10, 40), 3));
        assert_eq!(two.noise.quantile(0.5), None);
        let noise = one.noise.quantile(0.5).unwrap();
        assert!((0.008..0.0125).contains(&noise), "{noise}");
    }

    #[test]
    fn a_spread_tells_its_quantiles_within_a_fifth() {
        let mut spread = Spread::default();
        for n in 1..=1000u16 {
            spread.note(f32::from(n) / 1000.0);
        }
        for (part, share) in [(0.1, 0.1), (0.5, 0.5), (0.9, 0.9), (1.0, 1.0)] {
            let told = spread.quantile(part).unwrap();
            assert!((told / share - 1.0).abs() < 0.2, "{part}: {told}");
        }
        let mut odd = Spread::default();
        for share in [0.0, -1.0, f32::NAN, 1e-30] {
            odd.note(share);
        }
        assert_eq!(odd.quantile(1.0), Some(0.0));
        odd.note(f32::INFINITY);
        assert!(odd.quantile(1.0).unwrap() >= 1.0);
    }
}
