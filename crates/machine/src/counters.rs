//! Hardware counters of a process: cycles, instructions, and misses of caches and branches, in user mode. The kernel's count of
//! page faults is beside them.
//!
//! They explain a speed and decide nothing. Many machines have none: the kernel may refuse them to a user, a container's
//! system-call filter to everybody in it, and most virtual machines do not pass them on.

use std::fs::File;
use std::io::Read;
use std::ops::{Add, Sub};
use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;

/// An event that the processor counts, or the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Cycles of the clock.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Branches that were predicted wrong.
    BranchMisses,
    /// Reads that missed the first data cache.
    FirstCacheMisses,
    /// Reads that missed the last cache.
    LastCacheMisses,
    /// First touches of pages, which the kernel counts itself.
    PageFaults,
}

/// The types `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE` and `PERF_TYPE_HW_CACHE` of perf_event_open(2).
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
/// Misses (1) of reads (0), in the bits above the number of a cache.
const READ_MISSES: u64 = 1 << 16;

impl Counter {
    /// All counters.
    pub const ALL: [Self; 6] = [
        Self::Cycles,
        Self::Instructions,
        Self::BranchMisses,
        Self::FirstCacheMisses,
        Self::LastCacheMisses,
        Self::PageFaults,
    ];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::BranchMisses => "branch misses",
            Self::FirstCacheMisses => "L1 read misses",
            Self::LastCacheMisses => "LLC read misses",
            Self::PageFaults => "page faults",
        }
    }

    /// Type and number of the event for the kernel.
    fn event(self) -> (u32, u64) {
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::BranchMisses => (HARDWARE, 5),
            Self::FirstCacheMisses => (CACHE, READ_MISSES),
            Self::LastCacheMisses => (CACHE, 2 | READ_MISSES),
            Self::PageFaults => (SOFTWARE, 2),
        }
    }

    /// True if no program counts none of it, so that a zero means a counter that does not work.
    fn always_counts(self) -> bool {
        matches!(self, Self::Cycles | Self::Instructions)
    }
}

/// `struct perf_event_attr` in its first version, which every kernel takes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;
/// The flags `inherit`, `exclude_kernel` and `exclude_hv`: later threads count as well, kernel and hypervisor do not.
const USER_MODE_OF_ALL_THREADS: u64 = (1 << 1) | (1 << 5) | (1 << 6);
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Opens a counter on a process; 0 is this one.
#[expect(
    unsafe_code,
    reason = "there is no safe function for this system call, whose result is a new descriptor"
)]
fn open(counter: Counter, pid: i32) -> Result<File, Errno> {
    let (kind, config) = counter.event();
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        sample_period: 0,
        sample_type: 0,
        read_format: TIMES,
        flags: USER_MODE_OF_ALL_THREADS,
        wakeup_events: 0,
        bp_type: 0,
        config1: 0,
    };
    let (any_core, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads the attributes, which live until it has done so and say their size.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            any_core,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let opened = Errno::result(opened)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else has it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(opened as i32) };
    Ok(File::from(descriptor))
}

/// The count of a counter, and the nanoseconds for which it counted. A processor with fewer counters than are open lets them take
/// turns: then one ran for a part of the time in which it was enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reading {
    value: u64,
    enabled: u64,
    running: u64,
}

impl Reading {
    fn of(mut file: &File) -> std::io::Result<Self> {
        let mut bytes = [0; 24];
        file.read_exact(&mut bytes)?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().unwrap_or_default();
            u64::from_ne_bytes(word)
        });
        let mut next = || words.next().unwrap_or_default();
        Ok(Self {
            value: next(),
            enabled: next(),
            running: next(),
        })
    }

    /// The count, scaled up to the whole time; none if the counter never ran.
    fn count(self) -> Option<f64> {
        let share = self.running as f64 / self.enabled as f64;
        (self.running > 0).then(|| self.value as f64 / share)
    }
}

/// The readings of all counters; none of a counter that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readings([Option<Reading>; Counter::ALL.len()]);

impl Readings {
    /// The counts.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (counter, reading) in Counter::ALL.into_iter().zip(self.0) {
            let count = reading.and_then(Reading::count);
            let count = count.filter(|count| *count > 0.0 || !counter.always_counts());
            counts.0[counter as usize] = count;
        }
        counts
    }

    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut all = Self::default();
        for ((sum, a), b) in all.0.iter_mut().zip(self.0).zip(other.0) {
            *sum = a.zip(b).map(|(a, b)| Reading {
                value: combine(a.value, b.value),
                enabled: combine(a.enabled, b.enabled),
                running: combine(a.running, b.running),
            });
        }
        all
    }
}

impl Add for Readings {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

/// The counts between two readings.
impl Sub for Readings {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }
}

/// Counts of events; none of an event that was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts([Option<f64>; Counter::ALL.len()]);

impl Counts {
    /// The count of an event.
    pub fn of(&self, counter: Counter) -> Option<f64> {
        self.0[counter as usize]
    }

    /// The same with this count.
    #[must_use]
    pub fn with(mut self, counter: Counter, count: f64) -> Self {
        self.0[counter as usize] = Some(count);
        self
    }

    /// Instructions in a cycle.
    pub fn instructions_per_cycle(&self) -> Option<f64> {
        let instructions = self.of(Counter::Instructions)?;
        self.of(Counter::Cycles).map(|cycles| instructions / cycles)
    }

    /// All counts divided by a number.
    #[must_use]
    pub fn divided_by(self, by: f64) -> Self {
        Self(self.0.map(|count| count.map(|count| count / by)))
    }
}

/// The open counters of a process and of all threads that it makes from then on.
pub struct Counters {
    /// One place for each counter, with the error of one that is missing.
    files: [Result<File, Errno>; Counter::ALL.len()],
}

impl Counters {
    /// Opens the counters that this machine has on a process of this user.
    ///
    /// # Errors
    /// A sentence on what keeps every one of them from being opened, and what would permit them.
    pub fn of(pid: i32) -> Result<Self, String> {
        let files = Counter::ALL.map(|counter| open(counter, pid));
        match &files[0] {
            Err(error) if files.iter().all(Result::is_err) => Err(refusal(*error, paranoid())),
            _ => Ok(Self { files }),
        }
    }

    /// The counters that are open.
    pub fn open(&self) -> Vec<Counter> {
        let all = Counter::ALL.into_iter().zip(&self.files);
        all.filter_map(|(counter, file)| file.is_ok().then_some(counter))
            .collect()
    }

    /// The counters that are missing, and why; none if all are open.
    pub fn missing(&self) -> Option<String> {
        let errors = self.files.iter().map(|file| file.as_ref().err().copied());
        missing(errors, paranoid())
    }

    /// Reads all of them.
    pub fn read(&self) -> Readings {
        let mut readings = Readings::default();
        for (reading, file) in readings.0.iter_mut().zip(&self.files) {
            *reading = file.as_ref().ok().and_then(|file| Reading::of(file).ok());
        }
        readings
    }
}

/// The counters that have errors, in the order of [`Counter::ALL`], and the reason.
fn missing(errors: impl Iterator<Item = Option<Errno>>, paranoid: Option<i32>) -> Option<String> {
    let all = Counter::ALL.into_iter().zip(errors);
    let lacking: Vec<(Counter, Errno)> = all
        .filter_map(|(counter, error)| Some((counter, error?)))
        .collect();
    let (first, error) = lacking.first()?;
    let names: Vec<&str> = lacking.iter().map(|(counter, _)| counter.name()).collect();
    let why = match first {
        Counter::Cycles => refusal(*error, paranoid),
        // A processor with counters has none for this.
        _ => "this processor, or its hypervisor, does not count them".to_owned(),
    };
    Some(format!("{} are not counted: {why}", names.join(", ")))
}

/// The kernel's level of refusals; none if it does not tell.
fn paranoid() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    level(&text)
}

fn level(text: &str) -> Option<i32> {
    text.trim().parse().ok()
}

/// The highest level at which users may count their own processes in user mode.
const PERMITTING: i32 = 2;

/// Why there are no counters, and what would permit them, where opening one fails so.
fn refusal(error: Errno, paranoid: Option<i32>) -> String {
    match (error, paranoid) {
        (Errno::EACCES | Errno::EPERM, Some(level)) if level > PERMITTING => format!(
            "the kernel refuses hardware counters to this user, because kernel.perf_event_paranoid is {level}: `sysctl kernel.perf_event_paranoid={PERMITTING}` or the capability CAP_PERFMON permits them"
        ),
        (Errno::EACCES | Errno::EPERM, _) => "hardware counters are refused, usually by the system-call filter of a container: a filter that permits perf_event_open, or the capability CAP_PERFMON, permits them".to_owned(),
        (Errno::ENOSYS, _) => "this kernel has no system call for hardware counters, or a filter hides it: a kernel with CONFIG_PERF_EVENTS has it".to_owned(),
        (Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP, _) => "the processor shows no hardware counters here, as in most virtual machines: a machine without a hypervisor has them, or one whose hypervisor passes them on (a virtual PMU)".to_owned(),
        _ => format!("hardware counters cannot be opened ({error}); `perf stat -e cycles true` shows whether other programs can"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_cause_and_what_would_permit_counters() {
        for (error, paranoid, words) in [
            (Errno::EACCES, Some(4), "perf_event_paranoid is 4"),
            (Errno::EPERM, Some(3), "perf_event_paranoid=2"),
            (Errno::EPERM, Some(2), "filter of a container"),
            (Errno::EACCES, None, "CAP_PERFMON"),
            (Errno::ENOENT, Some(-1), "virtual machines"),
            (Errno::EOPNOTSUPP, Some(2), "virtual PMU"),
            (Errno::ENOSYS, None, "CONFIG_PERF_EVENTS"),
            (Errno::EMFILE, Some(2), "EMFILE"),
        ] {
            let said = refusal(error, paranoid);
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(level("-1\n"), Some(-1));
        assert_eq!(level("4\n"), Some(4));
        assert_eq!(level("none"), None);
    }

    #[test]
    fn missing_counters_are_named_with_the_reason_of_the_first() {
        let said = |errors: [Option<Errno>; 6]| missing(errors.into_iter(), Some(2));
        assert_eq!(said([None; 6]), None);
        let mut errors = [Some(Errno::ENOENT); 6];
        errors[5] = None;
        let none = said(errors).unwrap();
        let names = "cycles, instructions, branch misses, L1 read misses, LLC read misses are not";
        assert!(none.starts_with(names), "{none}");
        assert!(none.contains("most virtual machines"), "{none}");
        let mut errors = [None; 6];
        errors[Counter::LastCacheMisses as usize] = Some(Errno::ENOENT);
        let one = said(errors).unwrap();
        assert!(
            one.starts_with("LLC read misses are not counted: this processor"),
            "{one}"
        );
    }

    #[test]
    fn a_count_is_scaled_by_the_time_in_which_its_counter_ran() {
        let reading = |value, enabled, running| Reading {
            value,
            enabled,
            running,
        };
        assert_eq!(reading(30, 100, 100).count(), Some(30.0));
        assert_eq!(reading(30, 100, 50).count(), Some(60.0));
        assert_eq!(reading(0, 100, 0).count(), None);
        assert_eq!(Reading::default().count(), None);
        let all = |cycles, misses| {
            let mut all = Readings::default();
            all.0[Counter::Cycles as usize] = cycles;
            all.0[Counter::BranchMisses as usize] = misses;
            all
        };
        let before = all(Some(reading(10, 10, 10)), Some(reading(5, 10, 10)));
        let after = all(Some(reading(50, 30, 20)), Some(reading(5, 30, 30)));
        let counts = (after - before).counts();
        assert_eq!(counts.of(Counter::Cycles), Some(80.0));
        assert_eq!(counts.of(Counter::BranchMisses), Some(0.0));
        assert_eq!(counts.of(Counter::Instructions), None);
        let twice = (after - before) + (after - before);
        assert_eq!(twice.counts().of(Counter::Cycles), Some(160.0));
        // No program runs for no cycle: such a counter does not work.
        let still = all(Some(reading(10, 30, 30)), Some(reading(5, 30, 30)));
        let counts = (still - before).counts();
        assert_eq!(counts.of(Counter::Cycles), None);
        assert_eq!(counts.of(Counter::BranchMisses), Some(0.0));
    }

    #[test]
    fn rates_need_both_of_their_counts() {
        let counts = Counts::default().with(Counter::Instructions, 600.0);
        assert_eq!(counts.instructions_per_cycle(), None);
        let counts = counts.with(Counter::Cycles, 200.0);
        assert_eq!(counts.instructions_per_cycle(), Some(3.0));
        let each = counts.divided_by(4.0);
        assert_eq!(each.of(Counter::Cycles), Some(50.0));
        assert_eq!(each.of(Counter::LastCacheMisses), None);
    }

    #[test]
    fn this_process_is_counted_or_the_refusal_says_what_would_permit_it() {
        match Counters::of(0) {
            Ok(counters) => {
                let before = counters.read();
                let pages = std::hint::black_box(vec![1u8; 64 << 20]);
                let counts = (counters.read() - before).counts();
                drop(pages);
                for counter in counters.open() {
                    if counter.always_counts() || counter == Counter::PageFaults {
                        assert!(counts.of(counter).unwrap() > 0.0, "{counter:?}: {counts:?}");
                    }
                }
                let open = counters.open().len();
                assert_eq!(counters.missing().is_none(), open == Counter::ALL.len());
            }
            Err(why) => {
                // A cause, and behind the colon its remedy.
                let (cause, remedy) = why.split_once(": ").unwrap();
                assert!(cause.contains("hardware counters"), "{why}");
                assert!(
                    remedy.contains("has") || remedy.contains("permits"),
                    "{why}"
                );
            }
        }
    }
}
