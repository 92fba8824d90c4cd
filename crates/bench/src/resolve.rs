//! Resolves the order of a ranking: programs that are adjacent and cannot be told apart are measured again.
//!
//! If two programs are close, one measurement of a fixed length orders them by noise. The time that it takes to tell
//! them apart depends on their distance, so the measuring time is spent where it decides an order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flopsmith_measure::ranking::{LogRatio, letters};
use flopsmith_measure::stats::SYSTEMATIC_LOG_SE;
use flopsmith_measure::{Chains, Limits, Purpose};
use flopsmith_protocol::{Interval, Measurement, StopReason, Verdict};
use flopsmith_run::console::say;
use tokio_util::sync::CancellationToken;

use crate::rows::Row;
use crate::several::Several;
use crate::workloads;

/// Greatest number of measurements of one program, and of evaluations of the ranking.
pub const MOST: usize = 8;
/// Standard error of ln(ratio) below which further measurements of a program are useless: the systematic error remains.
const EXHAUSTED: f64 = 1.05 * SYSTEMATIC_LOG_SE;

/// A program at one number of threads.
type Key = (String, u32);

/// Measures adjacent programs again until they can be told apart, or until the budget is spent.
pub fn run(several: &mut Several, budget: Duration, stopped: &CancellationToken) {
    let began = Instant::now();
    let over = || began.elapsed() >= budget;
    resolve(several, over, || stopped.is_cancelled());
}

/// The measurements of a program.
#[derive(Default)]
struct Known {
    /// Its measurements so far.
    measured: Vec<Measurement>,
    /// The disturbance of each measurement, if there was one.
    busy: Vec<Option<String>>,
}

/// A ranking of programs and the means to measure them; a trait so that tests can simulate measurements.
trait Ranking {
    /// The rows in their order.
    fn ranked(&self) -> &[Row];
    /// Times a program once more. Returns its verdict and the disturbance of the measurement.
    fn time(&mut self, at: &Key) -> Option<(Verdict, Option<String>)>;
    /// Replaces the result of a program by the mean of all its measurements; `busy` describes the disturbed ones.
    fn put(&mut self, at: &Key, all: &[Measurement], busy: Option<String>);
    /// Marks a program as refused that passed before.
    fn dismiss(&mut self, at: &Key, refused: Verdict);
    /// Computes anew which programs can be told apart.
    fn look(&mut self);
    /// Prints a line about the progress.
    fn tell(&self, line: &str);
}

impl Ranking for Several<'_> {
    fn ranked(&self) -> &[Row] {
        self.rows()
    }

    fn time(&mut self, at: &Key) -> Option<(Verdict, Option<String>)> {
        let done = self.again(&at.0, at.1)?;
        Some((done.verdict, done.busy))
    }

    fn put(&mut self, at: &Key, all: &[Measurement], busy: Option<String>) {
        let limits = Purpose::Rank.limits();
        self.replace(&at.0, at.1, all, busy, |chains| mean(all, chains, &limits));
    }

    fn dismiss(&mut self, at: &Key, refused: Verdict) {
        self.refuse(&at.0, at.1, refused);
    }

    fn look(&mut self) {
        self.arrange();
    }

    fn tell(&self, line: &str) {
        say(line);
    }
}

/// Evaluates the ranking at most [`MOST`] times, including the evaluation before this call; the ranking divides the
/// chance of an error by that number.
fn resolve(ranking: &mut impl Ranking, over: impl Fn() -> bool, stopped: impl Fn() -> bool) {
    let mut known: BTreeMap<Key, Known> = BTreeMap::new();
    for row in ranking.ranked().iter().filter(|row| !row.against) {
        if let Some(measurement) = row.done.verdict.measurement() {
            let first = Known {
                measured: vec![measurement.clone()],
                busy: vec![row.done.busy.clone()],
            };
            known.insert(key(row), first);
        }
    }
    for _ in 1..MOST {
        let close = close(ranking.ranked());
        if close.is_empty() || over() || stopped() {
            return;
        }
        ranking.tell(&format!(
            "{} programs cannot be told from the next one yet or did not converge: measuring them again ...",
            close.len()
        ));
        for key in close {
            if over() || stopped() {
                break;
            }
            let done = ranking.time(&key);
            // An interrupted measurement is no result.
            if stopped() {
                return;
            }
            match done {
                Some((Verdict::Measured { measurement }, busy)) => {
                    let all = known.entry(key.clone()).or_default();
                    all.measured.push(measurement);
                    all.busy.push(busy);
                    ranking.put(&key, &all.measured, disturbed(&all.busy));
                }
                Some((refused @ Verdict::Rejected { .. }, _)) => ranking.dismiss(&key, refused),
                // A failure of the machine: the earlier measurements stay.
                Some((Verdict::Infrastructure { .. } | Verdict::Unknown { .. }, _)) | None => {}
            }
        }
        ranking.look();
    }
}

fn key(row: &Row) -> Key {
    (row.file.clone(), row.threads)
}

/// Programs that deserve another measurement, in their order and without duplicates: adjacent ones that share a letter,
/// and those that did not converge. The program that all others are compared with is measured only once. A program is
/// left out as well if the clock and the hand-shake hide its calls, since no further measurement helps.
fn close(rows: &[Row]) -> Vec<Key> {
    let known = |row: &Row| {
        let exhausted = EXHAUSTED.max(1.05 * row.hidden_log_se);
        // Another process also lowers the error of the placement.
        let se = row.own.map(|own| own.widened(row.placement_log_se).se);
        row.against || row.is_hidden() || se.is_some_and(|se| se <= exhausted)
    };
    let together = |one: &Row, other: &Row| {
        let groups = one.group.as_ref().zip(other.group.as_ref());
        one.threads == other.threads
            && groups.is_some_and(|(one, other)| letters::share(one, other))
            && !(known(one) && known(other))
    };
    let worth = |(n, row): (usize, &Row)| {
        let unsure = row.own.is_some() && row.rank.is_none() && !known(row);
        let before = n.checked_sub(1).and_then(|n| rows.get(n));
        let close = before.is_some_and(|before| together(before, row))
            || rows.get(n + 1).is_some_and(|after| together(row, after));
        (!row.against && (unsure || close)).then(|| key(row))
    };
    rows.iter().enumerate().filter_map(worth).collect()
}

/// A description of the disturbed measurements: the last disturbance, and the number of disturbed measurements unless
/// all were.
fn disturbed(busy: &[Option<String>]) -> Option<String> {
    let (all, found) = (busy.len(), busy.iter().flatten().count());
    let last = busy.iter().flatten().next_back()?;
    Some(if found == all {
        last.clone()
    } else {
        format!("{last} ({found} of {all} measurements)")
    })
}

/// Combines several measurements of one program by one timer into one. Only the assignment of samples to single
/// measurements is lost. `limits` give the precision that is required.
pub fn mean(all: &[Measurement], chains: &Chains, limits: &Limits) -> Option<Measurement> {
    let chain = chains.whole();
    let ratios: Vec<LogRatio> = all.iter().map(|m| LogRatio::of(m, &chain)).collect();
    let own = LogRatio::mean(&ratios)?;
    let first = all.first()?;
    let n = all.len() as f64;
    let geometric =
        |value: fn(&Measurement) -> f64| (all.iter().map(|m| value(m).ln()).sum::<f64>() / n).exp();
    let total = own.value + chain.log_ratio;
    let half = 1.96 * own.se.hypot(chain.log_se);
    Some(Measurement {
        gflops: geometric(|m| m.gflops),
        seconds_per_call: geometric(|m| m.seconds_per_call),
        minimum_seconds: all
            .iter()
            .map(|m| m.minimum_seconds)
            .try_fold(f64::INFINITY, |least, seconds| Some(least.min(seconds?))),
        median_seconds: all
            .iter()
            .try_fold(0.0, |sum, m| Some(sum + m.median_seconds?.ln()))
            .map(|sum| (sum / n).exp()),
        share_of_peak: geometric(|m| m.share_of_peak),
        ratio: total.exp(),
        interval: Interval {
            low: (total - half).exp(),
            high: (total + half).exp(),
            confidence: 0.95,
        },
        log_ratio_se: own.se,
        calls: all.iter().map(|m| m.calls).sum(),
        blocks: all.iter().map(|m| m.blocks).sum(),
        rounds: all.iter().map(|m| m.rounds).sum(),
        outlying: all.iter().map(|m| m.outlying).sum(),
        mdape: all.iter().map(|m| m.mdape).fold(0.0, f64::max),
        stop: stop(limits, own.se),
        workloads: workloads::means(all, chains, limits)?,
        ..first.clone()
    })
}

/// The stop reason of several measurements together.
pub fn stop(limits: &Limits, log_se: f64) -> StopReason {
    if log_se <= limits.target_log_se {
        StopReason::Precise
    } else {
        limits.at_the_end(log_se)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::VecDeque;

    use flopsmith_measure::Chain;
    use flopsmith_measure::ranking::placement_log_se;
    use flopsmith_test_support::{Measured, normal, wrong};

    use super::*;
    use crate::rows::arrange;
    use crate::rows::tests::{fast, hidden, row, unsure};

    fn at(file: &str, threads: u32, gflops: f64, se: f64) -> Row {
        row(file, threads, Measured::at(gflops).se(se).verdict())
    }

    #[test]
    fn neighbours_that_share_a_letter_are_close() {
        let mut rows = [
            fast("a.c", 1, 60.0),
            fast("b.c", 1, 40.1),
            fast("c.c", 1, 40.0),
            fast("d.c", 1, 39.95),
            fast("e.c", 1, 20.0),
            // A row of another timer, and one of a refused program.
            fast("a.c", 2, 20.0),
            row("w.c", 1, wrong()),
        ];
        arrange(&mut rows, MOST);
        let files: Vec<String> = close(&rows).into_iter().map(|key| key.0).collect();
        assert_eq!(files, ["b.c", "c.c", "d.c"]);
        assert!(close(&rows[..1]).is_empty() && close(&[]).is_empty());
        // The program that all others are compared with is not measured again.
        rows[2].against = true;
        let files: Vec<String> = close(&rows).into_iter().map(|key| key.0).collect();
        assert_eq!(files, ["b.c", "d.c"]);
    }

    #[test]
    fn unconverged_programs_are_measured_again_but_not_those_below_clock_noise() {
        let mut rows = [
            fast("a.c", 1, 60.0),
            unsure("wild.c", 90.0),
            hidden("tiny.c", 1.1),
            hidden("same.c", 1.1),
        ];
        arrange(&mut rows, MOST);
        let files: Vec<String> = close(&rows).into_iter().map(|key| key.0).collect();
        assert_eq!(files, ["wild.c"]);
    }

    #[test]
    fn programs_at_the_systematic_error_are_not_measured_again() {
        let mut rows = [
            at("a.c", 1, 40.0, SYSTEMATIC_LOG_SE),
            at("b.c", 1, 40.0, SYSTEMATIC_LOG_SE),
        ];
        arrange(&mut rows, MOST);
        assert_eq!(rows[0].group, rows[1].group);
        assert!(close(&rows).is_empty());
        rows[1] = at("b.c", 1, 40.0, 0.003);
        arrange(&mut rows, MOST);
        assert_eq!(close(&rows).len(), 2);
    }

    /// Programs of known speeds on a machine with known errors.
    struct Simulated {
        rows: Vec<Row>,
        /// ln of the ratio of each.
        truths: BTreeMap<String, f64>,
        /// Number by which the chance of an error is divided.
        looks: usize,
        /// True if any programs could be told apart in any evaluation.
        apart: bool,
        /// The disturbances of the next measurements of each program.
        bursts: BTreeMap<String, VecDeque<Option<&'static str>>>,
        /// Standard deviation of ln(ratio) between processes, which no scatter of calls shows.
        placement: f64,
        /// True if the letters count it.
        counted: bool,
        /// State of the random numbers.
        state: u64,
    }

    /// Standard error of a simulated measurement.
    const SE: f64 = 0.004;
    const NO_WAY: Chain = Chain {
        log_ratio: 0.0,
        log_se: 0.0,
        reference_seconds: 1.0,
        baseline_seconds: 1.0,
    };

    impl Simulated {
        /// Measures each program once and evaluates the ranking. All its processes are alike.
        fn new(truths: &[f64], looks: usize, seed: u64) -> Self {
            Self::placed(truths, looks, seed, 0.0, false)
        }

        /// The same with processes that differ by `placement`; with `counted` letters know that.
        fn placed(truths: &[f64], looks: usize, seed: u64, placement: f64, counted: bool) -> Self {
            let names = ('a'..='z').map(|name| format!("{name}.c"));
            let mut simulated = Self {
                rows: Vec::new(),
                truths: names.zip(truths.iter().copied()).collect(),
                looks,
                apart: false,
                bursts: BTreeMap::new(),
                placement,
                counted,
                state: seed,
            };
            let files: Vec<String> = simulated.truths.keys().cloned().collect();
            for file in files {
                let (verdict, busy) = simulated.time(&(file.clone(), 1)).unwrap();
                let mut first = row(&file, 1, verdict);
                first.done.busy = busy;
                first.placement_log_se = simulated.placement_of_one();
                simulated.rows.push(first);
            }
            simulated.look();
            simulated
        }

        /// The error of the placement that the letters count for one measurement.
        fn placement_of_one(&self) -> f64 {
            match self.counted {
                true => placement_log_se(Purpose::Rank),
                false => 0.0,
            }
        }

        /// In [0, 1), by SplitMix64.
        fn uniform(&mut self) -> f64 {
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    impl Ranking for Simulated {
        fn ranked(&self) -> &[Row] {
            &self.rows
        }

        fn time(&mut self, at: &Key) -> Option<(Verdict, Option<String>)> {
            let truth = *self.truths.get(&at.0)?;
            // Where processes are alike, nothing is drawn for them.
            let placed = if self.placement > 0.0 {
                self.placement * normal(|| self.uniform())
            } else {
                0.0
            };
            let ratio = (truth + placed + SE * normal(|| self.uniform())).exp();
            let verdict = Measured::at(40.0).ratio(ratio).se(SE).verdict();
            let next = self.bursts.get_mut(&at.0).and_then(VecDeque::pop_front);
            let busy = next.flatten().map(str::to_owned);
            Some((verdict, busy))
        }

        fn put(&mut self, at: &Key, all: &[Measurement], busy: Option<String>) {
            let measurement = mean(all, &NO_WAY.into(), &Purpose::Rank.limits()).unwrap();
            let ratios: Vec<LogRatio> = all.iter().map(|one| LogRatio::of(one, &NO_WAY)).collect();
            let placement = LogRatio::lacks(&ratios, self.placement_of_one());
            let row = self.rows.iter_mut().find(|row| key(row) == *at).unwrap();
            row.placement_log_se = placement;
            row.own = Some(LogRatio::of(&measurement, &NO_WAY));
            row.done.verdict = Verdict::Measured { measurement };
            row.done.busy = busy;
        }

        fn dismiss(&mut self, at: &Key, _: Verdict) {
            self.rows.retain(|row| key(row) != *at);
        }

        fn look(&mut self) {
            arrange(&mut self.rows, self.looks);
            let groups: Vec<&str> = self
                .rows
                .iter()
                .filter_map(|row| row.group.as_deref())
                .collect();
            self.apart |= groups
                .iter()
                .any(|one| groups.iter().any(|other| !letters::share(one, other)));
        }

        fn tell(&self, _: &str) {}
    }

    /// The share of rankings in which any programs are told apart in any evaluation.
    fn told_apart(truths: &[f64], looks: usize, rankings: u32) -> f64 {
        let apart = (0..rankings).filter(|&seed| {
            let mut simulated = Simulated::new(truths, looks, u64::from(seed));
            resolve(&mut simulated, || false, || false);
            simulated.apart
        });
        apart.count() as f64 / f64::from(rankings)
    }

    #[test]
    fn equal_programs_are_hardly_ever_told_apart_however_often_they_are_looked_at() {
        let rankings = 2000;
        // With so many rankings, the share exceeds this limit by chance in one of two hundred tests.
        let most = 0.05 + 2.6 * (0.05 * 0.95 / f64::from(rankings)).sqrt();
        for programs in [2, 4] {
            let equal = vec![0.0; programs];
            let share = told_apart(&equal, MOST, rankings);
            assert!(share <= most, "{programs} equal programs: {share}");
            // Without dividing the chance of an error the share is larger.
            let share = told_apart(&equal, 1, rankings);
            assert!(share > most, "{programs} at the full chance: {share}");
        }
    }

    #[test]
    fn copies_in_processes_that_differ_are_hardly_ever_told_apart() {
        let rankings: u32 = 1000;
        let most = 0.05 + 2.6 * (0.05 * 0.95 / f64::from(rankings)).sqrt();
        let share = |truths: &[f64], counted: bool| {
            let apart = (0..rankings).filter(|&seed| {
                let seed = u64::from(seed);
                let mut simulated = Simulated::placed(truths, MOST, seed, 0.02, counted);
                resolve(&mut simulated, || false, || false);
                simulated.apart
            });
            apart.count() as f64 / f64::from(rankings)
        };
        let copies = share(&[0.0; 4], true);
        assert!(copies <= most, "four copies: {copies}");
        let blind = share(&[0.0; 4], false);
        assert!(blind > 0.5, "by the scatter of calls alone: {blind}");
        // Eight processes of each tell them apart.
        let different = share(&[0.0, 0.08], true);
        assert!(different >= 0.95, "{different}");
    }

    #[test]
    fn different_programs_are_told_apart_in_the_end() {
        // In the first evaluation they are 1.8 standard errors apart, after eight measurements 5.
        let share = told_apart(&[0.0, 0.01], MOST, 500);
        assert!(share >= 0.95, "{share}");
        let share = told_apart(&[0.0, 0.03], MOST, 500);
        assert!(share >= 0.99, "{share}");
    }

    #[test]
    fn measurements_that_were_disturbed_are_counted_whichever_they_were() {
        // With so small a chance of an error, equal programs are not told apart.
        let mut simulated = Simulated::new(&[0.0, 0.0], 1_000_000, 1);
        // Each was measured once. Then a short burst disturbs one program, and the other one is disturbed all the time.
        for row in &mut simulated.rows {
            row.done.busy = (row.file == "b.c").then(|| "others".to_owned());
        }
        let bursts = [
            ("a.c", [Some("a burst"), None]),
            ("b.c", [Some("others"); 2]),
        ];
        simulated.bursts = bursts
            .map(|(file, bursts)| (file.to_owned(), VecDeque::from(bursts)))
            .into();
        // The closure is called before each round and before each of the two measurements in it.
        let asked = std::cell::Cell::new(0);
        let over = || asked.replace(asked.get() + 1) >= 6;
        resolve(&mut simulated, over, || false);
        let said = |file: &str| {
            let row = simulated.rows.iter().find(|row| row.file == file);
            row.unwrap().done.busy.clone()
        };
        assert_eq!(said("a.c").unwrap(), "a burst (1 of 3 measurements)");
        assert_eq!(said("b.c").unwrap(), "others");
        assert_eq!(disturbed(&[None, None]), None);
    }

    #[test]
    fn time_that_is_over_or_an_interruption_ends_it() {
        let mut simulated = Simulated::new(&[0.0, 0.0], MOST, 1);
        let before: Vec<Option<LogRatio>> = simulated.rows.iter().map(|r| r.own).collect();
        resolve(&mut simulated, || true, || false);
        resolve(&mut simulated, || false, || true);
        let after: Vec<Option<LogRatio>> = simulated.rows.iter().map(|r| r.own).collect();
        assert_eq!(before, after);
    }

    #[test]
    fn measurements_are_made_one_with_everything_that_is_added_up() {
        let chain = Chain {
            log_ratio: 3.0,
            log_se: 0.03,
            reference_seconds: 1.0,
            baseline_seconds: 0.05,
        };
        let limits = Purpose::Rank.limits();
        let one = Measured::at(40.0).se(0.004).measurement();
        let all = vec![one.clone(); 4];
        let found = mean(&all, &chain.into(), &limits).unwrap();
        assert!((found.ratio / one.ratio - 1.0).abs() < 1e-12);
        assert!((found.gflops / one.gflops - 1.0).abs() < 1e-12);
        assert!((found.log_ratio_se - 0.002).abs() < 1e-12);
        assert_eq!((found.calls, found.blocks), (4 * one.calls, 4 * one.blocks));
        assert_eq!((found.rounds, found.outlying), (48, 0));
        assert_eq!(found.stop, StopReason::Precise);
        let half = (found.interval.high / found.interval.low).ln() / 2.0;
        assert!((half - 1.96 * 0.002f64.hypot(0.03)).abs() < 1e-9);
        // They differ by more than their standard errors explain.
        let other = Measured::at(50.0).se(0.004).measurement();
        let apart = mean(&[one, other], &chain.into(), &limits).unwrap();
        assert_eq!(apart.stop, StopReason::Unconverged);
        assert_eq!(mean(&[], &chain.into(), &limits), None);
    }
}
