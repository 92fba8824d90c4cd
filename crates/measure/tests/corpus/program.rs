//! A file of the corpus, and the meaning of its first lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use flopsmith_problem::Language;
use flopsmith_protocol::{
    CandidateFault, Certificate, Interval, TechniqueSet, UnknownCause, Verdict,
};

use crate::fixtures;
use crate::mutate::Acts;
use crate::stages::{Ended, Plain};

/// The required and the optional keys in the first lines of an attack, and the same for an honest program.
const OF_ATTACKS: (&[&str], &[&str]) = (
    &["attack", "how", "refused as"],
    &[
        "permitted",
        "needs",
        "problem",
        "threads",
        "judged as",
        "control",
    ],
);
const OF_HONEST: (&[&str], &[&str]) = (
    &["honest"],
    &[
        "permitted",
        "needs",
        "problem",
        "threads",
        "techniques",
        "judged as",
    ],
);
/// The problem of a program that names no other.
pub const USUAL: &str = "dgemm";

/// The word in an attack's header for an attack that may be measured, because it gains nothing.
const HARMLESS: &str = "harmless";
/// The word for an attack that sanitizers cannot check although the problem's reference runs with them; it does not
/// count.
const UNCHECKED: &str = "unchecked";
/// The value for a program that must pass the checks before a number counts, and not only a screening.
const CERTIFY: &str = "certify";
/// The word for an attack that may end without a measurement and without a fault.
const UNMEASURED: &str = "unmeasured";
/// The honest loops of harmless attacks are plain ones. An attack that is surely this many times as fast has gained
/// something. The compiler's layout of the same loops in another program moves their speed by less. An attack that
/// skips half of the work would be twice as fast.
const GAIN: f64 = 1.15;
/// An attack that seems this many times as fast is measured anew, as precisely as the plain loops.
const SUSPECT: f64 = 1.1;

/// Ways of cheating that may need calls of other sizes, or more calls of the timed size: telling verified calls from
/// timed ones, kept results, known sizes, and some sizes only.
const BY_OTHER_CALLS: [u32; 4] = [5, 7, 9, 12];
/// These, and reduced precision, which shows with some contents of inputs and not with others.
const SEEN_AT_TIMES: [u32; 5] = [5, 7, 9, 10, 12];

/// Faults that any single call shows, at every size: without a clock, a second call with the same inputs, or luck.
const BY_ONE_CALL: [CandidateFault; 7] = [
    CandidateFault::WrongResult,
    CandidateFault::InputModified,
    CandidateFault::OutOfBounds,
    CandidateFault::Crash,
    CandidateFault::Exited,
    CandidateFault::Timeout,
    CandidateFault::ForbiddenSyscall,
];

/// Faults that the text or the compiled object shows. A program with no other faults never runs.
const BEFORE_IT_RUNS: [CandidateFault; 8] = [
    CandidateFault::ForbiddenConstruct,
    CandidateFault::ForbiddenInclude,
    CandidateFault::ForbiddenSymbol,
    CandidateFault::ForbiddenTechnique,
    CandidateFault::MissingEntry,
    CandidateFault::WrongSignature,
    CandidateFault::CompileError,
    CandidateFault::CompileLimit,
];

/// One program.
pub struct Program {
    /// Its folder and file.
    pub name: String,
    pub language: Language,
    pub source: String,
    /// The techniques of its task.
    pub permitted: TechniqueSet,
    /// Its requirements on the machine.
    pub needs: Vec<String>,
    /// The problem of the program, which names its entry.
    pub problem: String,
    /// Number of threads of its timing.
    pub threads: u32,
    /// True if it is verified in full and checked with sanitizers, like programs before they count.
    pub is_to_count: bool,
    /// The source of its control: the same program without the attack.
    pub control: Option<String>,
    /// The numbers of its ways of cheating.
    pub ways: BTreeSet<u32>,
    pub expected: Expected,
}

/// The required result of a program.
#[derive(Clone)]
pub enum Expected {
    /// A refusal with one of these faults. A `harmless` one may also be measured: its cheat gains nothing, so it gets
    /// the speed of honest work.
    Refused {
        faults: Vec<CandidateFault>,
        harmless: bool,
        /// Sanitizers cannot check it: it has no fault, and it does not count.
        unchecked: bool,
        /// It cannot be distinguished from a disturbed measurement: it has no fault, and it gets no number.
        unmeasured: bool,
    },
    /// A measurement, and exactly these techniques if they matter.
    Measured(Option<TechniqueSet>),
}

impl Expected {
    pub fn holds(&self, ended: &Ended) -> bool {
        match (self, &ended.verdict) {
            (Expected::Refused { faults, .. }, Verdict::Rejected { fault, .. }) => {
                faults.contains(fault)
            }
            (
                Expected::Refused { unchecked, .. },
                Verdict::Unknown {
                    cause: UnknownCause::Unchecked,
                    ..
                },
            ) => *unchecked,
            (Expected::Refused { unmeasured, .. }, Verdict::Infrastructure { .. }) => *unmeasured,
            (Expected::Refused { harmless, .. }, Verdict::Measured { .. }) => {
                *harmless && gains_nothing(ended)
            }
            (Expected::Measured(techniques), Verdict::Measured { .. }) => {
                techniques.is_none() || *techniques == ended.techniques
            }
            _ => false,
        }
    }
}

impl Program {
    /// The same program with another source.
    pub fn with_source(&self, source: String) -> Program {
        Program {
            source,
            name: self.name.clone(),
            language: self.language,
            needs: self.needs.clone(),
            problem: self.problem.clone(),
            threads: self.threads,
            is_to_count: self.is_to_count,
            control: self.control.clone(),
            ways: self.ways.clone(),
            permitted: self.permitted,
            expected: self.expected.clone(),
        }
    }

    /// True if `fault` means that the text is no program, although this program is one.
    pub fn not_built(&self, fault: CandidateFault) -> bool {
        fault == CandidateFault::CompileError && !self.faults().contains(&fault)
    }

    /// True if it attacks the compiler, independently of its calls.
    pub fn acts_when_compiled(&self) -> bool {
        self.faults().contains(&CandidateFault::CompileLimit)
    }

    /// True if its text or its object is enough to refuse it.
    pub fn is_refused_before_it_runs(&self) -> bool {
        let Expected::Refused {
            faults,
            harmless: false,
            unchecked: false,
            unmeasured: false,
        } = &self.expected
        else {
            return false;
        };
        faults.iter().all(|fault| BEFORE_IT_RUNS.contains(fault))
    }

    fn faults(&self) -> &[CandidateFault] {
        match &self.expected {
            Expected::Refused { faults, .. } => faults,
            Expected::Measured(_) => &[],
        }
    }

    /// True if it is refused because sanitizers cannot check it.
    pub fn is_unchecked(&self) -> bool {
        matches!(
            &self.expected,
            Expected::Refused {
                unchecked: true,
                ..
            }
        )
    }

    /// True if it may be measured, because its cheat gains nothing.
    pub fn may_be_measured(&self) -> bool {
        matches!(&self.expected, Expected::Refused { harmless: true, .. })
    }

    /// True if a variant with this trigger is wrong in every verdict, however fast it is. Another variant may be an
    /// honest program, which must only not be faster than its honest loops.
    pub fn must_be_refused(&self, acts: Acts) -> bool {
        use CandidateFault as F;
        let Expected::Refused {
            faults,
            harmless: false,
            ..
        } = &self.expected
        else {
            return false;
        };
        let none_of = |which: &[F]| !faults.iter().any(|fault| which.contains(fault));
        // Work behind a table need not show its technique, and a machine has its own limits.
        let by_text = none_of(&[F::ForbiddenTechnique, F::CompileLimit]);
        // A program's own function is harmless under another name than that of a library function.
        let by_deed = by_text
            && none_of(&[
                F::ForbiddenConstruct,
                F::ForbiddenSymbol,
                F::MissingEntry,
                F::WrongSignature,
                F::CompileError,
            ]);
        // If it acts in some calls only, a check sees less of it.
        if self.is_unchecked() && !matches!(acts, Acts::Always | Acts::Renamed) {
            return false;
        }
        let by_one_call = faults.iter().all(|fault| BY_ONE_CALL.contains(fault));
        match acts {
            Acts::Always => by_text,
            Acts::Renamed => by_deed,
            Acts::WhenTimed => by_deed && self.ways.is_disjoint(&BY_OTHER_CALLS.into()),
            Acts::WhenVerified => {
                by_deed && by_one_call && self.ways.is_disjoint(&SEEN_AT_TIMES.into())
            }
            Acts::Perhaps => false,
        }
    }

    /// True if it is an attack that looks faster than its honest loops.
    pub fn seems_to_gain(&self, ended: &Ended) -> bool {
        matches!(self.expected, Expected::Refused { .. })
            && matches!((&ended.verdict, ended.plain), (Verdict::Measured { measurement }, Some(plain)) if measurement.ratio >= SUSPECT * plain.ratio)
    }
}

/// True if it was measured, and is not surely faster than the plain loops of attacks, neither with its arrays in caches
/// nor, where that is known, without. For a certified number the lower end of its interval decides.
pub fn gains_nothing(ended: &Ended) -> bool {
    let (Verdict::Measured { measurement }, Some(plain)) = (&ended.verdict, ended.plain) else {
        return false;
    };
    let at_least = match measurement.certificate {
        Some(_) => measurement.interval.low,
        None => measurement.ratio,
    };
    let gflops_at_least = measurement.gflops * (at_least / measurement.ratio);
    let by_caches = at_least >= GAIN * plain.ratio && gflops_at_least >= GAIN * plain.gflops;
    !by_caches && !gains_without_caches(measurement.certificate.as_ref(), plain)
}

/// True if calls that find nothing in a cache are surely faster than those of the plain loops.
fn gains_without_caches(certificate: Option<&Certificate>, plain: Plain) -> bool {
    let interval = certificate.and_then(|certificate| certificate.cold_interval);
    interval.is_some_and(|cold| cold.low >= GAIN * plain.cold_ratio.unwrap_or(1.0))
}

#[test]
fn a_gain_without_caches_is_one() {
    let plain = |cold_ratio: Option<f64>| Plain {
        ratio: 1.0,
        gflops: 1.0,
        cold_ratio,
    };
    let certificate = |low: f64| Certificate {
        layout_ratios: vec![1.0],
        layout_spread: 0.0,
        cold_seconds_per_call: Some(1e-3),
        cold_ratio: Some(low * 1.1),
        cold_interval: Some(Interval {
            low,
            high: low * 1.2,
            confidence: 0.95,
        }),
        cold_stop: None,
    };
    for (low, of_plain, gains) in [
        (1.1, None, false),
        (1.2, None, true),
        (1.2, Some(1.1), false),
        (1.3, Some(1.1), true),
    ] {
        let found = gains_without_caches(Some(&certificate(low)), plain(of_plain));
        assert_eq!(found, gains, "{low} {of_plain:?}");
    }
    let unknown = Certificate {
        cold_interval: None,
        ..certificate(9.0)
    };
    assert!(!gains_without_caches(Some(&unknown), plain(None)));
    assert!(!gains_without_caches(None, plain(None)));
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Refused {
                faults,
                harmless,
                unchecked,
                unmeasured,
            } => {
                let mut names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
                names.extend(unchecked.then_some(UNCHECKED));
                names.extend(harmless.then_some("measured without a gain"));
                names.extend(unmeasured.then_some(UNMEASURED));
                f.write_str(&names.join(" or "))
            }
            Expected::Measured(None) => f.write_str("measured"),
            Expected::Measured(Some(techniques)) => write!(f, "measured with {techniques}"),
        }
    }
}

/// The programs that try to cheat.
pub fn attacks() -> Vec<Program> {
    files("attacks", |name, lines| {
        let ways = lines["attack"]
            .split(", ")
            .map(|way| match way.parse::<u32>() {
                Ok(number @ 1..=30) => number,
                _ => panic!("{name}: there is no way of cheating number {way}"),
            })
            .collect();
        let wanted: Vec<&str> = lines["refused as"].split(" | ").collect();
        let harmless = wanted.contains(&HARMLESS);
        let unchecked = wanted.contains(&UNCHECKED);
        let unmeasured = wanted.contains(&UNMEASURED);
        let faults = wanted
            .into_iter()
            .filter(|wanted| ![HARMLESS, UNCHECKED, UNMEASURED].contains(wanted))
            .map(|wanted| {
                let found = CandidateFault::ALL.iter().find(|f| f.name() == wanted);
                *found.unwrap_or_else(|| panic!("{name}: there is no fault `{wanted}`"))
            })
            .collect();
        let expected = Expected::Refused {
            faults,
            harmless,
            unchecked,
            unmeasured,
        };
        (ways, expected)
    })
}

/// The programs that only look strange.
pub fn honest() -> Vec<Program> {
    files("honest", |_, lines| {
        let techniques = lines
            .get("techniques")
            .map(|set| set.parse::<TechniqueSet>().unwrap());
        (BTreeSet::new(), Expected::Measured(techniques))
    })
}

fn files(
    folder: &str,
    read: impl Fn(&str, &BTreeMap<&str, &str>) -> (BTreeSet<u32>, Expected),
) -> Vec<Program> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let mut programs: Vec<Program> = std::fs::read_dir(&path)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy();
            let name = format!("{folder}/{file}");
            let source = std::fs::read_to_string(&path).unwrap();
            let (permitted, needs, problem, threads, is_to_count, control, (ways, expected)) = {
                let lines = first_lines(&name, &source);
                let permitted = lines
                    .get("permitted")
                    .map(|set| set.parse::<TechniqueSet>().unwrap());
                let needs = lines
                    .get("needs")
                    .map(|needs| needs.split(", ").map(str::to_owned).collect());
                let problem = lines.get("problem").unwrap_or(&USUAL);
                let threads = lines
                    .get("threads")
                    .map_or(1, |count| count.parse::<u32>().unwrap());
                let is_to_count = lines.get("judged as").is_some_and(|as_what| {
                    assert_eq!(*as_what, CERTIFY, "{name}: judged as what?");
                    true
                });
                let control = lines
                    .get("control")
                    .map(|change| fixtures::without_attack(&name, &source, change));
                (
                    permitted,
                    needs,
                    (*problem).to_owned(),
                    threads,
                    is_to_count,
                    control,
                    read(&name, &lines),
                )
            };
            let language = Language::of_file(&path)
                .unwrap_or_else(|| panic!("{name}: nobody knows which language this is"));
            Program {
                name,
                language,
                source,
                permitted: permitted.unwrap_or_else(TechniqueSet::all),
                needs: needs.unwrap_or_default(),
                problem,
                threads,
                is_to_count,
                control,
                ways,
                expected,
            }
        })
        .collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// The lines `// key: value` at the top of a file, in Fortran `! key: value`. A misspelt key must not pass for a
/// comment.
fn first_lines<'s>(name: &str, source: &'s str) -> BTreeMap<&'s str, &'s str> {
    let (musts, mays) = if name.starts_with("attacks/") {
        OF_ATTACKS
    } else {
        OF_HONEST
    };
    let mut found = BTreeMap::new();
    // One file begins with a byte order mark.
    for line in source.trim_start_matches('\u{feff}').lines() {
        let Some((key, value)) = line
            .strip_prefix("// ")
            .or_else(|| line.strip_prefix("! "))
            .and_then(|rest| rest.split_once(": "))
        else {
            break;
        };
        assert!(
            musts.contains(&key) || mays.contains(&key),
            "{name}: there is no key `{key}`"
        );
        assert!(
            found.insert(key, value.trim()).is_none(),
            "{name}: `{key}` is said twice"
        );
    }
    for must in musts {
        assert!(found.contains_key(must), "{name}: `{must}: ` is missing");
    }
    found
}
