//! Quotas: how many candidates a token may send in an hour or a day.
//!
//! A window begins with the first candidate, and the next one with the first candidate after its end. A file in
//! the service's folder holds the number of candidates of each token's window, so a restart forgets nothing.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::auth::Holder;
use crate::job::lock;
use crate::journal::{make, write};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Window {
    began_unix_ms: u64,
    used: u64,
}

impl Window {
    /// The window at this time: this one, or a new one.
    fn at(self, now_unix_ms: u64, period: Period) -> Self {
        // A window that begins later was written by a clock that was wrong.
        let age = now_unix_ms.checked_sub(self.began_unix_ms);
        match age.is_some_and(|age| age < period.ms()) {
            true => self,
            false => Self {
                began_unix_ms: now_unix_ms,
                used: 0,
            },
        }
    }
}

/// The windows of all holders with a quota.
pub struct Quotas {
    folder: PathBuf,
    /// The windows by their files: the holder of an earlier process's job has no quota or another one.
    windows: Mutex<HashMap<PathBuf, Window>>,
}

impl Quotas {
    /// The quotas in the folder of a service.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.join("quotas");
        make(&folder)?;
        Ok(Self {
            folder,
            windows: Mutex::default(),
        })
    }

    fn path(&self, holder: Holder) -> PathBuf {
        let digits = holder.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        self.folder.join(digits.collect::<String>() + ".json")
    }

    /// The last window that was charged, or an old one without any. A file that cannot be read is no reason to forget its use.
    fn last(&self, holder: Holder) -> io::Result<Window> {
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        if let Some(known) = windows.get(&path) {
            return Ok(*known);
        }
        let kept = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Window::default(),
            Err(error) => return Err(error),
        };
        windows.insert(path, kept);
        Ok(kept)
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
        let last = self.last(holder).map_err(|e| Refusal::storage(&e))?;
        let window = last.at(now_unix_ms, quota.period);
        if window.used.saturating_add(candidates as u64) <= quota.candidates {
            return Ok(());
        }
        let detail = format!(
            "this token may send {} candidates {} and has sent {}; the request has {candidates} more, so send fewer, or try again later",
            quota.candidates,
            quota.period.name(),
            window.used
        );
        let end = window.began_unix_ms.saturating_add(quota.period.ms());
        let seconds = end.saturating_sub(now_unix_ms).div_ceil(1000);
        Err(Refusal::new(Kind::Quota, detail).retry_after(seconds))
    }

    /// Counts candidates of a holder, which [`Quotas::check`] let through.
    pub fn charge(&self, holder: Holder, candidates: usize, now_unix_ms: u64) {
        let Some(quota) = holder.quota() else {
            return;
        };
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        let window = windows.entry(path.clone()).or_default();
        *window = window.at(now_unix_ms, quota.period);
        window.used = window.used.saturating_add(candidates as u64);
        keep(&path, window);
    }

    /// Gives back candidates that this or an earlier process counted at a time, unless their window has ended. The
    /// holder needs no quota.
    pub fn refund(&self, holder: Holder, candidates: usize, counted_unix_ms: u64) {
        if candidates == 0 {
            return;
        }
        if let Err(error) = self.last(holder) {
            tracing::warn!(%error, "the use of a quota cannot be read; candidates that the machine failed to evaluate stay counted");
            return;
        }
        let path = self.path(holder);
        let mut windows = lock(&self.windows);
        if let Some(window) = windows.get_mut(&path)
            && window.used > 0
            && window.began_unix_ms <= counted_unix_ms
        {
            window.used = window.used.saturating_sub(candidates as u64);
            keep(&path, window);
        }
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

    #[test]
    fn a_window_ends_with_its_period_and_outlives_the_process() {
        let place = tempfile::tempdir().unwrap();
        let tokens = "0123456789abcdef 3/hour\nfedcba9876543210 1/day";
        let tokens = Token::new(tokens).unwrap();
        let holder = |header: &str| tokens.holder(Some(header.as_bytes())).unwrap();
        let hourly = holder("Bearer 0123456789abcdef");
        let daily = holder("Bearer fedcba9876543210");
        let (hour, began) = (3_600_000, 1_000_000);
        let quotas = Quotas::open(place.path()).unwrap();
        quotas.check(hourly, 3, began).unwrap();
        quotas.charge(hourly, 2, began);
        quotas.charge(daily, 1, began);
        for quotas in [quotas, Quotas::open(place.path()).unwrap()] {
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
        let quotas = Quotas::open(place.path()).unwrap();
        let (hour, began) = (3_600_000, 1_000_000_000);
        assert!(quotas.check(holder, 4, began).is_err());
        quotas.charge(holder, 3, began + 1000);
        assert!(quotas.check(holder, 1, began + hour).is_err());
        quotas.refund(holder, 1, began + 1000);
        quotas.check(holder, 1, began + hour).unwrap();
        quotas.charge(holder, 1, began + 2 * hour);
        // The window of these has ended.
        quotas.refund(holder, 1, began + 1000);
        assert!(quotas.check(holder, 3, began + 2 * hour).is_err());
    }

    #[test]
    fn a_window_that_cannot_be_read_is_not_a_new_one() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Token::new("0123456789abcdef 3/hour").unwrap();
        let holder = tokens.holder(Some(b"Bearer 0123456789abcdef")).unwrap();
        let quotas = Quotas::open(place.path()).unwrap();
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
