//! Quotas: how many candidates a token may send in an hour or a day.
//!
//! A window begins with the first candidate, and the next one with the first candidate after its end. A file in
//! the service's folder holds the number of candidates of each token's window, so a restart forgets nothing.
//!
//! The file changes with one rename, and it names the unfinished jobs that were counted and the candidates of theirs that were
//! given back. A process that is killed between two changes of the folder leaves jobs and windows that differ by one step. The
//! next process sees from the names which step is missing, and takes it once:
//! - A job is counted before it is in the folder. A counted job that is not there is given back.
//! - A candidate is given back after its answer is in the folder. An answer whose candidate should have been given back, and
//!   was not, is given back.
//! - A job's name leaves the window before the job is marked as done. An open job without a name has nothing left to give back.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::auth::Holder;
use crate::job::lock;
use crate::journal::{JobId, make, write};
use crate::refusal::{Kind, Refusal};

/// The most candidates of a token in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    candidates: u64,
    period: Period,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Period {
    Hour,
    Day,
}

impl Period {
    fn name(self) -> &'static str {
        match self {
            Self::Hour => "an hour",
            Self::Day => "a day",
        }
    }

    fn ms(self) -> u64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }
}

impl FromStr for Quota {
    type Err = ();

    /// Reads `N/hour` or `N/day`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (candidates, period) = text.split_once('/').ok_or(())?;
        let candidates = candidates.parse().map_err(|_| ())?;
        let period = match period {
            "hour" => Period::Hour,
            "day" => Period::Day,
            _ => return Err(()),
        };
        Ok(Self { candidates, period })
    }
}

/// The candidates of a holder since a time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Window {
    began_unix_ms: u64,
    used: u64,
    /// The unfinished jobs that were counted in this window.
    jobs: BTreeMap<JobId, Counted>,
}

/// The candidates of a job in a window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Counted {
    candidates: u64,
    /// Indexes of the candidates that were given back.
    refunded: BTreeSet<usize>,
}

impl Window {
    /// True if this time lies in the window.
    fn holds(&self, now_unix_ms: u64, period: Period) -> bool {
        // A window that begins later was written by a clock that was wrong.
        let age = now_unix_ms.checked_sub(self.began_unix_ms);
        age.is_some_and(|age| age < period.ms())
    }

    /// Gives a job back as if it had never been counted. True if it was counted.
    fn forget(&mut self, job: &JobId) -> bool {
        let Some(counted) = self.jobs.remove(job) else {
            return false;
        };
        let left = counted
            .candidates
            .saturating_sub(counted.refunded.len() as u64);
        self.used = self.used.saturating_sub(left);
        true
    }
}

/// The windows of all holders with a quota.
pub struct Quotas {
    folder: PathBuf,
    /// The windows by their files: the holder of an earlier process's job has no quota or another one.
    windows: Mutex<HashMap<PathBuf, Window>>,
}

impl Quotas {
    /// The quotas in the folder of a service. `has` tells whether the folder has a job, finished or not: a job that was counted
    /// and then never begun is given back.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn open(folder: &Path, has: impl Fn(&JobId) -> bool) -> io::Result<Self> {
        let folder = folder.join("quotas");
        make(&folder)?;
        let mut windows = HashMap::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let mut window = match read(&path) {
                Ok(window) => window,
                Err(error) => {
                    // A request of the holder reads it again, and is refused as long as it cannot be read.
                    tracing::warn!(path = %path.display(), %error, "the use of a quota cannot be read");
                    continue;
                }
            };
            let jobs = window.jobs.keys();
            let lost: Vec<JobId> = jobs.filter(|job| !has(job)).cloned().collect();
            for job in &lost {
                window.forget(job);
            }
            if !lost.is_empty() {
                keep(&path, &window);
            }
            windows.insert(path, window);
        }
        Ok(Self {
            folder,
            windows: Mutex::new(windows),
        })
    }

    fn path(&self, holder: Holder) -> PathBuf {
        let digits = holder.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        self.folder.join(digits.collect::<String>() + ".json")
    }

    /// Checks that a holder may send so many candidates more.
    ///
    /// # Errors
    /// A refusal with the time until the window ends, or because its file cannot be read.
    pub fn check(
        &self,
        holder: Holder,
        candidates: usize,
        now_unix_ms: u64,
    ) -> Result<(), Refusal> {
        let Some(quota) = holder.quota() else {
            return Ok(());
        };
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        let last = match windows.entry(path) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                // A file that cannot be read is no reason to forget its use.
                let kept = read(unknown.key()).map_err(|e| Refusal::storage(&e))?;
                unknown.insert(kept)
            }
        };
        let (began, used) = match last.holds(now_unix_ms, quota.period) {
            true => (last.began_unix_ms, last.used),
            false => (now_unix_ms, 0),
        };
        if used.saturating_add(candidates as u64) <= quota.candidates {
            return Ok(());
        }
        let detail = format!(
            "this token may send {} candidates {} and has sent {used}; the request has {candidates} more, so send fewer, or try again later",
            quota.candidates,
            quota.period.name(),
        );
        let end = began.saturating_add(quota.period.ms());
        let seconds = end.saturating_sub(now_unix_ms).div_ceil(1000);
        Err(Refusal::new(Kind::Quota, detail).retry_after(seconds))
    }

    /// Counts the candidates of a job that is about to be in the folder, and that [`Quotas::check`] let through.
    pub fn charge(&self, holder: Holder, job: &JobId, candidates: usize, now_unix_ms: u64) {
        let Some(quota) = holder.quota() else {
            return;
        };
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        let window = windows.entry(path.clone()).or_default();
        if !window.holds(now_unix_ms, quota.period) {
            *window = Window {
                began_unix_ms: now_unix_ms,
                ..Window::default()
            };
        }
        window.used = window.used.saturating_add(candidates as u64);
        let counted = Counted {
            candidates: candidates as u64,
            ..Counted::default()
        };
        window.jobs.insert(job.clone(), counted);
        keep(&path, window);
    }

    /// Gives back candidates of a job by their indexes, each once, unless the window that counted them has ended. The holder
    /// needs no quota any more.
    pub fn refund(&self, holder: Holder, job: &JobId, candidates: &[usize]) {
        self.change(holder, |window| {
            let Some(counted) = window.jobs.get_mut(job) else {
                return false;
            };
            let known = counted.refunded.len();
            counted.refunded.extend(candidates);
            let new = counted.refunded.len() - known;
            window.used = window.used.saturating_sub(new as u64);
            new > 0
        });
    }

    /// All answers of a job are in the folder, and everything is given back that has to be.
    pub fn settle(&self, holder: Holder, job: &JobId) {
        self.change(holder, |window| window.jobs.remove(job).is_some());
    }

    /// Gives back a job that could not be written into the folder.
    pub fn forget(&self, holder: Holder, job: &JobId) {
        self.change(holder, |window| window.forget(job));
    }

    /// Writes the window of a holder if `change` changes it.
    fn change(&self, holder: Holder, change: impl FnOnce(&mut Window) -> bool) {
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        if let Some(window) = windows.get_mut(&path)
            && change(window)
        {
            keep(&path, window);
        }
    }
}

/// The window in a file, or an old one if there is no file.
fn read(path: &Path) -> io::Result<Window> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Window::default()),
        Err(error) => Err(error),
    }
}

fn keep(path: &Path, window: &Window) {
    if let Err(error) = write(path, window) {
        tracing::warn!(%error, "the use of a quota cannot be written; a restart would forget it");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::auth::Token;

    /// The quotas in a folder that has all jobs.
    fn open(place: &Path) -> Quotas {
        Quotas::open(place, |_| true).unwrap()
    }

    #[test]
    fn a_window_ends_with_its_period_and_outlives_the_process() {
        let place = tempfile::tempdir().unwrap();
        let tokens = "0123456789abcdef 3/hour\nfedcba9876543210 1/day";
        let tokens = Token::new(tokens).unwrap();
        let holder = |header: &str| tokens.holder(Some(header.as_bytes())).unwrap();
        let hourly = holder("Bearer 0123456789abcdef");
        let daily = holder("Bearer fedcba9876543210");
        let (hour, began) = (3_600_000, 1_000_000);
        let quotas = open(place.path());
        quotas.check(hourly, 3, began).unwrap();
        quotas.charge(hourly, &JobId::random(), 2, began);
        quotas.charge(daily, &JobId::random(), 1, began);
        for quotas in [quotas, open(place.path())] {
            quotas.check(hourly, 1, began + 1).unwrap();
            let refusal = quotas.check(hourly, 2, began + 1).unwrap_err();
            assert_eq!(refusal.kind, Kind::Quota);
            let words = refusal.details().detail;
            assert!(words.contains("3 candidates an hour"), "{words}");
            quotas.check(hourly, 3, began + hour).unwrap();
            assert!(quotas.check(daily, 1, began + hour).is_err());
            quotas.check(daily, 1, began + 24 * hour).unwrap();
            quotas.check(daily, 0, 0).unwrap();
            quotas.check(Holder::default(), 9999, began).unwrap();
        }
    }

    #[test]
    fn a_request_that_is_refused_begins_no_window() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Token::new("0123456789abcdef 3/hour").unwrap();
        let holder = tokens.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let quotas = open(place.path());
        let (hour, began) = (3_600_000, 1_000_000_000);
        assert!(quotas.check(holder, 4, began).is_err());
        let (first, second) = (JobId::random(), JobId::random());
        quotas.charge(holder, &first, 3, began + 1000);
        assert!(quotas.check(holder, 1, began + hour).is_err());
        quotas.refund(holder, &first, &[1]);
        quotas.check(holder, 1, began + hour).unwrap();
        quotas.charge(holder, &second, 1, began + 2 * hour);
        // The window of these has ended.
        quotas.refund(holder, &first, &[2]);
        assert!(quotas.check(holder, 3, began + 2 * hour).is_err());
    }

    /// A process is killed after any of its steps, and the next one repeats what the folder of jobs says.
    #[test]
    fn a_candidate_is_given_back_once_whenever_a_process_ends() {
        let tokens = Token::new("0123456789abcdef 9/hour").unwrap();
        let holder = tokens.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let job = JobId::random();
        let began = 1_000_000;
        let steps: [fn(&Quotas, Holder, &JobId); 4] = [
            |quotas, holder, job| quotas.charge(holder, job, 5, 1_000_000),
            |quotas, holder, job| quotas.refund(holder, job, &[0, 3]),
            |quotas, holder, job| quotas.refund(holder, job, &[4]),
            Quotas::settle,
        ];
        for done in 0..=steps.len() {
            for begun in [false, true] {
                let place = tempfile::tempdir().unwrap();
                let quotas = open(place.path());
                for step in &steps[..done] {
                    step(&quotas, holder, &job);
                }
                drop(quotas);
                let quotas = Quotas::open(place.path(), |id| begun && *id == job).unwrap();
                // The answers in the folder of an open job, again and again.
                for _ in 0..2 {
                    quotas.refund(holder, &job, &[0, 3, 4]);
                }
                let used = match (done, begun) {
                    (0, _) | (1..=3, false) => 0,
                    _ => 2,
                };
                for quotas in [quotas, open(place.path())] {
                    quotas.check(holder, 9 - used, began).unwrap();
                    let refused = quotas.check(holder, 10 - used, began);
                    assert!(refused.is_err(), "{done} steps, begun: {begun}");
                }
            }
        }
    }

    #[test]
    fn a_job_that_could_not_be_written_costs_nothing() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Token::new("0123456789abcdef 3/hour").unwrap();
        let holder = tokens.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let job = JobId::random();
        let quotas = open(place.path());
        quotas.charge(holder, &job, 3, 5);
        quotas.forget(holder, &job);
        quotas.check(holder, 3, 5).unwrap();
    }

    #[test]
    fn a_window_that_cannot_be_read_is_not_a_new_one() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Token::new("0123456789abcdef 3/hour").unwrap();
        let holder = tokens.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let quotas = open(place.path());
        let file = quotas.path(holder);
        std::fs::write(&file, "{").unwrap();
        let refusal = quotas.check(holder, 1, 0).unwrap_err();
        assert_eq!(refusal.kind, Kind::Storage);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let refusal = quotas.check(holder, 1, 0).unwrap_err();
        assert_eq!(refusal.kind, Kind::Storage);
        std::fs::remove_dir(&file).unwrap();
        quotas.check(holder, 1, 0).unwrap();
    }

    #[test]
    fn a_quota_names_an_hour_or_a_day() {
        for wrong in ["", "5", "5/week", "/day", "-1/day", "5 /day", "x/hour"] {
            assert!(wrong.parse::<Quota>().is_err(), "{wrong}");
        }
        assert_eq!("5/day".parse::<Quota>().unwrap().candidates, 5);
    }
}
