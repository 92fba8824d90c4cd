//! Other activity on the machine during a timing.
//!
//! All values come from files of the kernel; a value that no file holds stays unknown. The kernel counts processor time
//! in hundredths of a second, so the share from a short interval is coarse. The intervals are therefore added up
//! ([`Surroundings`]), and the sum is judged once it covers about a quarter of a second.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::attest::read;
use crate::pinning::Cores;

/// Seconds of one tick of `/proc/stat`: USER_HZ is 100 on every Linux this runs on, see proc(5).
const TICK_SECONDS: f64 = 0.01;
/// From this share on, the use of a core by other processes is reported. An idle desktop stays well below.
pub const OTHERS: f64 = 0.25;
/// From this share on, time that the hypervisor takes from a core is reported.
pub const STOLEN: f64 = 0.10;

/// Conditions that change from minute to minute, kept with the raw samples of each measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// Share of processor time that the hypervisor took since boot.
    pub steal_share: Option<f64>,
    /// Highest temperature in °C.
    pub temperature_c: Option<f64>,
    /// Current frequency of the kernel's first core, MHz.
    pub clock_mhz: Option<f64>,
    /// Use of the timed cores' time during the measurement.
    pub meanwhile: Shares,
    /// Increase of the time of the baseline's fastest calls over the measurements before, as a share of their median:
    /// 0.1 is 10 % longer. Unknown in a timer's first measurements.
    pub baseline_drift: Option<f64>,
}

impl Conditions {
    /// Reads the current conditions. Fields that only a measurement can fill stay unknown.
    pub fn now(kernel_core: usize) -> Self {
        let root = Path::new("/");
        Self {
            load: read(root, "proc/loadavg")
                .and_then(|l| l.split_whitespace().next().and_then(|w| w.parse().ok())),
            steal_share: read(root, "proc/stat").and_then(|s| steal_share(&s)),
            temperature_c: temperature(root),
            clock_mhz: read(
                root,
                &format!("sys/devices/system/cpu/cpu{kernel_core}/cpufreq/scaling_cur_freq"),
            )
            .and_then(|khz| khz.parse::<f64>().ok())
            .map(|khz| khz / 1000.0),
            meanwhile: Shares::default(),
            baseline_drift: None,
        }
    }
}

fn temperature(root: &Path) -> Option<f64> {
    (0..16)
        .filter_map(|n| read(root, &format!("sys/class/thermal/thermal_zone{n}/temp")))
        .filter_map(|t| t.parse::<f64>().ok())
        .map(|milli| milli / 1000.0)
        .reduce(f64::max)
}

/// The share of all processor time that was stolen, from the first line of /proc/stat.
fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|w| w.parse().ok())
        .collect();
    let total: f64 = ticks.iter().sum();
    (ticks.len() == 8 && total > 0.0).then(|| ticks[7] / total)
}

/// The cores that affect a timer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// The cores on which the kernel runs.
    pub kernel: Vec<usize>,
    /// Hardware threads that share a physical core with one of the kernel's cores.
    pub siblings: Vec<usize>,
    /// The core on which the supervisor spins, if it has its own core.
    pub supervisor: Option<usize>,
}

impl Watched {
    /// The watched cores of a timer that has these `cores` for a kernel of `threads` threads. The `siblings` share
    /// physical cores with the kernel's cores.
    pub fn of(cores: &Cores, threads: u32, siblings: &[usize]) -> Self {
        let used = cores.kernel.len().min(threads.max(1) as usize);
        let kernel = cores.kernel[..used].to_vec();
        Self {
            siblings: siblings
                .iter()
                .copied()
                .filter(|core| !kernel.contains(core))
                .collect(),
            supervisor: cores.supervisor.filter(|core| !kernel.contains(core)),
            kernel,
        }
    }
}

/// Ticks of each core since boot: ticks with work for any process, and ticks that the hypervisor took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading(BTreeMap<usize, Ticks>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

impl Reading {
    /// Reads `/proc/stat`; none where the file lists no cores.
    pub fn now() -> Option<Self> {
        let reading = Self::parse(&read(Path::new("/"), "proc/stat")?);
        (!reading.0.is_empty()).then_some(reading)
    }

    fn parse(stat: &str) -> Self {
        let core = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let core: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            let ticks: Vec<u64> = words.take(8).filter_map(|w| w.parse().ok()).collect();
            let ticks: [u64; 8] = ticks.try_into().ok()?;
            let [
                user,
                nice,
                system,
                _idle,
                _waiting,
                interrupts,
                soft,
                stolen,
            ] = ticks;
            let busy = user + nice + system + interrupts + soft;
            Some((core, Ticks { busy, stolen }))
        };
        Self(stat.lines().filter_map(core).collect())
    }

    /// Seconds since an earlier reading: those in which `core` was at work, and those that the hypervisor took from the
    /// core.
    fn since(&self, before: &Self, core: usize) -> Option<(f64, f64)> {
        let (then, now) = (before.0.get(&core)?, self.0.get(&core)?);
        // The kernel occasionally lowers its count of stolen time.
        let seconds = |then: u64, now: u64| now.saturating_sub(then) as f64 * TICK_SECONDS;
        Some((
            seconds(then.busy, now.busy),
            seconds(then.stolen, now.stolen),
        ))
    }
}

/// The use of some cores' time, in seconds. Values of several intervals can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Surroundings {
    /// Observed wall-clock seconds, summed over all kernel cores.
    pub core_seconds: f64,
    /// Seconds of these that the hypervisor took.
    pub stolen: f64,
    /// Seconds of these in which processes other than the measured ones were at work. Below 0 where the kernel counted
    /// less time than the measured processes report; the error evens out in sums.
    pub others: f64,
    /// Observed wall-clock seconds, summed over all siblings.
    pub sibling_seconds: f64,
    /// Seconds of these in which the siblings were at work.
    pub sibling_busy: f64,
}

impl Surroundings {
    /// The use of time between two readings that are `wall` apart, if the measured processes used `own` processor time
    /// on the kernel's cores in that interval.
    pub fn between(
        before: &Reading,
        after: &Reading,
        wall: Duration,
        own: Duration,
        cores: &Watched,
    ) -> Self {
        let wall = wall.as_secs_f64();
        let mut sum = Self {
            others: -own.as_secs_f64(),
            ..Self::default()
        };
        for (busy, stolen) in cores
            .kernel
            .iter()
            .filter_map(|&core| after.since(before, core))
        {
            sum.core_seconds += wall;
            sum.others += busy;
            sum.stolen += stolen;
        }
        if sum.core_seconds == 0.0 {
            return Self::default();
        }
        for (busy, _) in cores
            .siblings
            .iter()
            .filter_map(|&core| after.since(before, core))
        {
            sum.sibling_seconds += wall;
            sum.sibling_busy += busy;
        }
        sum
    }

    /// These values as shares.
    pub fn shares(&self) -> Shares {
        let share = |part: f64, of: f64| (of > 0.0).then(|| (part / of).clamp(0.0, 1.0));
        Shares {
            core_seconds: self.core_seconds,
            stolen: share(self.stolen, self.core_seconds),
            others: share(self.others, self.core_seconds),
            siblings: share(self.sibling_busy, self.sibling_seconds),
        }
    }
}

impl AddAssign for Surroundings {
    fn add_assign(&mut self, other: Self) {
        self.core_seconds += other.core_seconds;
        self.stolen += other.stolen;
        self.others += other.others;
        self.sibling_seconds += other.sibling_seconds;
        self.sibling_busy += other.sibling_busy;
    }
}

/// Use of the time of some cores, as shares between 0 and 1. Each share is exact only to a hundredth of a second of
/// `core_seconds`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Observed wall-clock time, summed over all kernel cores, seconds.
    pub core_seconds: f64,
    /// Share of the kernel cores' time that the hypervisor took.
    pub stolen: Option<f64>,
    /// Share of the kernel cores' time in which processes other than the measured ones were at work.
    pub others: Option<f64>,
    /// Share of time in which any process was at work on the other hardware threads of the same physical cores; none if
    /// there are no such threads.
    pub siblings: Option<f64>,
}

/// The state of a core while no process of the caller ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The core's number.
    pub core: usize,
    /// The share of time in which processes were at work on the core.
    pub others: f64,
    /// The share of time that the hypervisor took.
    pub stolen: f64,
}

/// Observes each core of a timer for `window`. The caller must run nothing on these cores meanwhile.
pub fn look(cores: &Watched, window: Duration) -> Vec<Found> {
    let Some(before) = Reading::now() else {
        return Vec::new();
    };
    let start = Instant::now();
    std::thread::sleep(window);
    let wall = start.elapsed().as_secs_f64();
    let Some(after) = Reading::now() else {
        return Vec::new();
    };
    let all = cores.kernel.iter().chain(&cores.siblings);
    all.chain(&cores.supervisor)
        .filter_map(|&core| {
            let (busy, stolen) = after.since(&before, core)?;
            Some(Found {
                core,
                others: (busy / wall).min(1.0),
                stolen: (stolen / wall).min(1.0),
            })
        })
        .collect()
}

/// A warning about the worst disturbance in `found`; none if all shares are below their thresholds.
pub fn complaint(found: &[Found], cores: &Watched) -> Option<String> {
    let worst = |share: &dyn Fn(&Found) -> f64| {
        let by_share = |a: &&Found, b: &&Found| share(a).total_cmp(&share(b));
        found.iter().max_by(by_share).copied()
    };
    let used = worst(&|f| f.others).filter(|f| f.others >= OTHERS);
    if let Some(Found { core, others, .. }) = used {
        let beside = if cores.siblings.contains(&core) {
            ", which shares a physical core with a timed one,"
        } else {
            ""
        };
        return Some(format!(
            "core {core}{beside} is used {:.0} % by others",
            others * 100.0
        ));
    }
    let stolen = worst(&|f| f.stolen).filter(|f| f.stolen >= STOLEN)?;
    Some(format!(
        "the hypervisor takes {:.0} % of core {}",
        stolen.stolen * 100.0,
        stolen.core
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  30 0 0 500 0 0 0 2 0 0\ncpu0 10 0 0 90 0 0 0 1 0 0\ncpu1 20 0 0 80 0 0 0 1 0 0\ncpu2 0 0 0 100 0 0 0 0 0 0\nintr 5 0\n";
    const AFTER: &str = "cpu  90 0 0 600 0 0 0 4 0 0\ncpu0 20 0 0 180 0 0 0 1 0 0\ncpu1 60 5 5 110 0 3 2 26 0 0\ncpu2 50 0 0 150 0 0 0 0 0 0\nintr 9 0\n";

    fn cores() -> Watched {
        Watched {
            kernel: vec![1],
            siblings: vec![2],
            supervisor: Some(0),
        }
    }

    fn near(share: Option<f64>, expected: f64) -> bool {
        share.is_some_and(|s| (s - expected).abs() < 1e-9)
    }

    #[test]
    fn a_timer_watches_the_cores_it_uses_and_those_beside_them_each_once() {
        let cores = Cores {
            supervisor: Some(0),
            kernel: vec![1, 2],
        };
        let watched = Watched::of(&cores, 1, &[1, 3]);
        let expected = Watched {
            kernel: vec![1],
            siblings: vec![3],
            supervisor: Some(0),
        };
        assert_eq!(watched, expected);
        assert_eq!(Watched::of(&cores, 8, &[]).kernel, [1, 2]);
    }

    #[test]
    fn others_have_what_was_booked_less_what_we_used() {
        let (before, after) = (Reading::parse(BEFORE), Reading::parse(AFTER));
        assert_eq!(before.0.len(), 3);
        let second = Duration::from_secs(1);
        let own = Duration::from_millis(300);
        let mut sum = Surroundings::between(&before, &after, second, own, &cores());
        let shares = sum.shares();
        assert!(near(shares.others, 0.25), "{shares:?}");
        assert!(near(shares.stolen, 0.25), "{shares:?}");
        assert!(near(shares.siblings, 0.5), "{shares:?}");
        // An error of one tick too few in one interval and one tick too many in the next cancels out.
        let quiet = Surroundings::between(&after, &after, second, own, &cores());
        assert!(near(quiet.shares().others, 0.0), "{quiet:?}");
        sum += quiet;
        assert!((sum.others + 0.05).abs() < 1e-9, "{sum:?}");
        assert_eq!(sum.core_seconds, 2.0);
    }

    #[test]
    fn counters_missing_from_the_kernel_are_unknown() {
        assert_eq!(Reading::parse("intr 5\ncpu0 1 2 3\ncpux 1").0.len(), 0);
        let reading = Reading::parse(BEFORE);
        let elsewhere = Watched {
            kernel: vec![7],
            ..Watched::default()
        };
        let second = Duration::from_secs(1);
        let nothing = Surroundings::between(&reading, &reading, second, second, &elsewhere);
        assert_eq!(nothing, Surroundings::default());
        assert_eq!(nothing.shares(), Shares::default());
        let alone = Watched {
            kernel: vec![0],
            ..Watched::default()
        };
        let shares =
            Surroundings::between(&reading, &reading, second, Duration::ZERO, &alone).shares();
        assert_eq!((shares.others, shares.siblings), (Some(0.0), None));
    }

    #[test]
    fn the_worst_core_is_named_and_a_machine_at_rest_none() {
        let found = |core, others, stolen| Found {
            core,
            others,
            stolen,
        };
        let words = |all: &[Found]| complaint(all, &cores());
        assert_eq!(words(&[]), None);
        assert_eq!(words(&[found(0, 0.1, 0.0), found(1, 0.2, 0.05)]), None);
        assert_eq!(
            words(&[found(0, 0.3, 0.2), found(1, 0.4, 0.0)]).unwrap(),
            "core 1 is used 40 % by others"
        );
        assert!(words(&[found(2, 0.9, 0.0)]).unwrap().contains("physical"));
        assert_eq!(
            words(&[found(1, 0.0, 0.14), found(0, 0.0, 0.0)]).unwrap(),
            "the hypervisor takes 14 % of core 1"
        );
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let Some(reading) = Reading::now() else {
            return;
        };
        let kernel = reading.0.keys().copied().take(1).collect();
        let cores = Watched {
            kernel,
            ..Watched::default()
        };
        let found = look(&cores, Duration::from_millis(20));
        assert_eq!(found.len(), 1);
        assert!((0.0..=1.0).contains(&found[0].others), "{found:?}");
    }

    #[test]
    fn the_share_since_boot() {
        assert_eq!(steal_share("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 9"), Some(0.125));
        assert_eq!(steal_share("intr 5"), None);
    }
}
