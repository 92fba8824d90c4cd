//! Finds definitions that are sound but weak.
//!
//! A bound may let results pass that have half the digits (of doubles: those of single precision) or come from
//! functions that are less exact than they could be, or may refuse the reference itself once its sums are in another
//! order; a program may leave out a part of the work on timed inputs; an output may hardly depend on the inputs; a call
//! may be too short to be timed. None of these is certainly a mistake, so each is a warning that names the change to
//! make.

use std::collections::BTreeMap;
use std::sync::Arc;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::control::Element;
use flopsmith_harness::half;
use flopsmith_problem::{ErrorBound, Finding, Params};
use flopsmith_protocol::{Failure, InfrastructureCause, Measurement};

use super::cases::Case;
use super::pool::Group;
use super::soundness::{array_names, words};
use super::{Verifier, compile_own};
use crate::supervise::Array;
use crate::time::{Chains, Resolution};

/// The largest relative change by a rounding to single precision, and half of its digits: results with this relative
/// error should be refused.
const COARSE_F64: f64 = 1.0 / 16_777_216.0;
const COARSE_F32: f64 = 1.0 / 4_096.0;
/// Half of the digits of binary16 and of bfloat16.
const COARSE_F16: f64 = 1.0 / 64.0;
const COARSE_BF16: f64 = 1.0 / 16.0;
/// An element hardly changes with the inputs if its relative change is smaller than this.
const NOTICEABLE_F64: f64 = 1.0 / 1_048_576.0;
const NOTICEABLE_F32: f64 = 1.0 / 1_024.0;
const NOTICEABLE_F16: f64 = 1.0 / 32.0;
const NOTICEABLE_BF16: f64 = 1.0 / 16.0;

/// Flags that let a compiler change the order of sums, and nothing else. They need each other.
const OTHER_ORDER: [&str; 4] = [
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
];
/// Number of verifications of the reference with these flags, each on other cases.
const TRIES: u64 = 3;
/// If another order of sums uses up this share of a bound, there is no room for the next order.
const NEARLY_ALL: f64 = 0.5;

/// Each call is timed by itself, and below this time the clock's own noise is a noticeable part.
const SHORT_CALL_SECONDS: f64 = 20e-6;

/// An output with fewer elements may rightly keep some of them.
const FEW: usize = 16;
/// If less than one element in this many changes with the inputs, the output hardly varies.
const HARDLY: usize = 10;

impl Verifier {
    /// The weak points of the bound and the inputs; `toolchain` compiles the reference again, with its sums in another
    /// order and with less exact functions.
    ///
    /// # Errors
    /// An infrastructure failure of this machine.
    pub fn weaknesses(
        &mut self,
        toolchain: &Toolchain,
        seed: u64,
    ) -> Result<Vec<Finding>, Failure> {
        // The loops need the verifier, so the sizes are copies.
        let problem = Arc::clone(&self.problem);
        let sizes = problem.timed_sizes();
        let at = |size: &Params, findings: Vec<Finding>| match sizes.len() {
            1 => findings,
            _ => findings
                .into_iter()
                .map(|f| named(f, &words(size)))
                .collect(),
        };
        let mut findings = Vec::new();
        for size in &sizes {
            findings.extend(at(size, self.how_loose(size)));
        }
        let (tight, honest) = self.how_tight(toolchain, seed)?;
        findings.extend(tight);
        for size in &sizes {
            let downgraded = self.downgrades(toolchain, honest, seed, size)?;
            findings.extend(at(size, downgraded));
        }
        for size in &sizes {
            let shortcuts = self.shortcuts(toolchain, seed, size)?;
            findings.extend(at(size, shortcuts));
        }
        Ok(findings)
    }

    /// The cases at the timed size of a workload, that with uniform inputs first. Visible cases belong to the first
    /// workload, whatever their size.
    pub(super) fn cases_at(&self, size: &Params) -> Vec<&Case> {
        if *size == self.problem.timed {
            return self.pool.of(Group::Timed).iter().collect();
        }
        let others = self.pool.of(Group::Workloads).iter();
        others.filter(|case| case.params == *size).collect()
    }

    /// Compares the errors of coarse results with the bound, at the timed size of a workload: smaller sizes may have bounds
    /// so narrow that they hide a loose one.
    fn how_loose(&self, size: &Params) -> Vec<Finding> {
        let mut worst: BTreeMap<usize, f64> = BTreeMap::new();
        let mut elements: BTreeMap<usize, Element> = BTreeMap::new();
        for case in self.cases_at(size) {
            for (array, share) in case.shares(coarser) {
                let most = worst.entry(array).or_insert(0.0);
                *most = most.max(share);
                elements.insert(array, case.specification.arrays[array].element);
            }
        }
        let names = array_names(&self.problem);
        worst
            .iter()
            .zip(elements.values())
            .map(|((array, share), element)| {
                looseness(names[*array], *element, *share, &self.problem.bound)
            })
            .collect()
    }

    /// Verifies the reference with its sums in another order. Returns a finding, and the share of the bound that honest
    /// errors take. There is no finding if no output is a floating-point number or the compiler cannot change the
    /// order.
    fn how_tight(
        &mut self,
        toolchain: &Toolchain,
        seed: u64,
    ) -> Result<(Option<Finding>, f64), Failure> {
        let floats = self.pool.of(Group::Timed).first().is_some_and(|case| {
            let mut arrays = case.specification.arrays.iter();
            arrays.any(|array| array.role.is_written() && array.element.is_float())
        });
        if !floats {
            return Ok((None, 0.0));
        }
        let mut reordering = toolchain.clone();
        reordering.flags.extend(OTHER_ORDER.map(str::to_owned));
        let source = &self.problem.reference_source;
        let built = compile_own(
            &self.sandbox,
            &reordering,
            &self.problem,
            source,
            "reference.c",
        );
        let object = match built {
            Ok(object) => object,
            Err(Failure::Infrastructure {
                cause: InfrastructureCause::Baseline,
                ..
            }) => return Ok((None, 0.0)),
            Err(other) => return Err(other),
        };
        let mut worst: f64 = 0.0;
        for n in 0..TRIES {
            match self.verify(&object, seed.wrapping_add(n)) {
                Ok(report) => worst = worst.max(report.worst_error_share),
                Err(Failure::Candidate { detail, .. }) => {
                    let change = match self.problem.bound {
                        ErrorBound::Exact => {
                            "use a `scaled` bound with magnitude.c, unless the order is part of the problem"
                        }
                        ErrorBound::Gemm { .. } | ErrorBound::Scaled { .. } => "raise `bound.c`",
                    };
                    let finding = Finding::Warning(format!(
                        "the bound is tight: it refuses the reference when the compiler may change the order of its sums; {change} ({detail})"
                    ));
                    return Ok((Some(finding), 1.0));
                }
                Err(other) => return Err(other),
            }
        }
        Ok((Some(tightness(worst)), worst))
    }
}

/// A finding with the size of the workload that it is about.
fn named(finding: Finding, size: &str) -> Finding {
    let told = |text: String| format!("{text} (timed at {size})");
    match finding {
        Finding::Error(text) => Finding::Error(told(text)),
        Finding::Warning(text) => Finding::Warning(told(text)),
        Finding::Good(text) => Finding::Good(told(text)),
    }
}

/// A result with too few digits.
fn coarser(element: Element, at: usize, value: f64) -> f64 {
    // Both signs, in no regular pattern, so that nothing averages out.
    let up = at.count_ones().is_multiple_of(2);
    let off = |by: f64| value * if up { 1.0 + by } else { 1.0 - by };
    match element {
        Element::F64 => off(COARSE_F64),
        Element::F32 => f64::from(off(COARSE_F32) as f32),
        Element::F16 => f64::from(half::from_f16(half::to_f16(off(COARSE_F16) as f32))),
        Element::Bf16 => f64::from(half::from_bf16(half::to_bf16(off(COARSE_BF16) as f32))),
        Element::I32 | Element::I64 | Element::U8 => value,
    }
}

/// The finding for an output whose coarse results err by `share` of the bound at most.
fn looseness(name: &str, element: Element, share: f64, bound: &ErrorBound) -> Finding {
    let exactly = || Finding::Good(format!("`{name}` is compared exactly"));
    let constant = match bound {
        ErrorBound::Exact => return exactly(),
        ErrorBound::Gemm { c } | ErrorBound::Scaled { c, .. } => *c,
    };
    let bits = match element {
        Element::F64 => 24,
        Element::F32 => 12,
        Element::F16 => 6,
        Element::Bf16 => 4,
        Element::I32 | Element::I64 | Element::U8 => return exactly(),
    };
    let coarse = format!("results of `{name}` with a relative error of 2^-{bits}");
    if share > 1.0 {
        return Finding::Good(format!("{coarse} are refused"));
    }
    let below = if share > 0.0 {
        format!(" below {:.1e}", constant * share)
    } else {
        String::new()
    };
    Finding::Warning(format!(
        "the bound is loose: {coarse} pass at the timed size; set `bound.c`, which is {constant}, to a smaller value{below}, or correct `bound.operations` or magnitude.c"
    ))
}

/// The finding if another order of sums uses up `share` of the bound.
fn tightness(share: f64) -> Finding {
    let text = format!(
        "with its sums in another order, the reference has an error of at most {share:.3} of the bound"
    );
    if share > NEARLY_ALL {
        Finding::Warning(format!(
            "{text}: honest programs may be refused; raise `bound.c`"
        ))
    } else {
        Finding::Good(text)
    }
}

/// A finding if calls are too short to be timed one by one. `reference` is the measurement of the reference as a candidate,
/// and `chains` have its time and that of the baseline at each workload. The first threshold is the one above which `bench`
/// no longer says that most of a call is the hand-shake ([`Resolution::hides_calls_of`]).
pub fn short_call(
    reference: &Measurement,
    chains: &Chains,
    resolution: &Resolution,
) -> Option<Finding> {
    let each = || chains.each().iter();
    let seconds = each().map(|chain| chain.reference_seconds);
    let seconds = seconds.fold(f64::INFINITY, f64::min);
    let baseline = each().map(|chain| chain.baseline_seconds);
    let baseline = baseline.fold(f64::INFINITY, f64::min);
    let hidden = if resolution.hides_calls_of(reference) {
        Some("the reference")
    } else if resolution.hides(baseline) {
        Some("a program as fast as the baseline")
    } else {
        None
    };
    if let Some(whose) = hidden {
        return Some(Finding::Warning(format!(
            "most of a call of {whose} is the hand-shake with its process ({:.2} µs), so `bench` can hardly tell programs apart: enlarge `[timed]` until such a call lasts {:.0} µs at least",
            resolution.hand_shake_seconds * 1e6,
            resolution.shortest_seconds().max(SHORT_CALL_SECONDS) * 1e6
        )));
    }
    (seconds < SHORT_CALL_SECONDS).then(|| {
        Finding::Warning(format!(
            "a call of the reference lasts {:.2} µs at the timed size, and a call of a faster program is shorter; the clock's own noise shows below {:.0} µs: enlarge `[timed]` to at least {:.1} times the work",
            seconds * 1e6,
            SHORT_CALL_SECONDS * 1e6,
            SHORT_CALL_SECONDS / seconds.max(1e-9)
        ))
    })
}

/// The elements of an array that have changed so far: those of an output with the inputs, and those of an array that a
/// call reads and writes in the call.
pub(super) struct Movement<'a> {
    array: &'a Array,
    first: Vec<f64>,
    moved: Vec<bool>,
}

impl<'a> Movement<'a> {
    /// A record after the first call. The array held `before` in front of it and `first` after it.
    pub fn new(array: &'a Array, before: &[u8], first: &[u8]) -> Self {
        let first = array.values(first);
        let mut movement = Self {
            array,
            moved: vec![false; first.len()],
            first,
        };
        if array.role.is_read() {
            let before = array.values(before);
            movement.compare(&before, &movement.first.clone());
        }
        movement
    }

    /// Records the array before and after a call with other inputs.
    pub fn note(&mut self, before: &[u8], after: &[u8]) {
        // Where its own content is another one, a difference from the first call says nothing.
        let than = match self.array.role.is_read() {
            true => self.array.values(before),
            false => self.first.clone(),
        };
        self.compare(&than, &self.array.values(after));
    }

    fn compare(&mut self, x: &[f64], y: &[f64]) {
        let least = match self.array.element {
            Element::F64 => NOTICEABLE_F64,
            Element::F32 => NOTICEABLE_F32,
            Element::F16 => NOTICEABLE_F16,
            Element::Bf16 => NOTICEABLE_BF16,
            Element::I32 | Element::I64 | Element::U8 => 0.0,
        };
        for (moved, (x, y)) in self.moved.iter_mut().zip(x.iter().zip(y)) {
            *moved |= (x - y).abs() > least * x.abs().max(y.abs());
        }
    }

    /// The weak point of the array, in words that follow its name.
    pub fn weakness(&self) -> Option<String> {
        let (count, moved) = (
            self.moved.len(),
            self.moved.iter().filter(|moved| **moved).count(),
        );
        (count >= FEW && moved * HARDLY < count).then(|| match self.array.role.is_read() {
            true => format!(
                "hardly changes: a call changes only {moved} of {count} elements noticeably, so a program may leave it as it is; put the elements that change into an array of their own"
            ),
            false => format!(
                "hardly varies: only {moved} of {count} elements change noticeably with the inputs, so a program may guess the others; leave constant elements out of the output, or give the inputs a wider `content`"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_harness::Content;
    use flopsmith_problem::Role;
    use flopsmith_test_support::Measured;

    use super::*;
    use crate::time::Chain;

    fn is_warning(finding: &Finding, part: &str) -> bool {
        matches!(finding, Finding::Warning(text) if text.contains(part))
    }

    fn is_good(finding: &Finding, part: &str) -> bool {
        matches!(finding, Finding::Good(text) if text.contains(part))
    }

    #[test]
    fn a_finding_about_one_of_several_workloads_names_its_size() {
        let found = named(Finding::Warning("the bound is loose".into()), "n = 512");
        assert!(is_warning(&found, "the bound is loose (timed at n = 512)"));
        assert!(is_good(
            &named(Finding::Good("fine".into()), "n = 8"),
            "n = 8"
        ));
        assert!(named(Finding::Error("wrong".into()), "n = 8").is_error());
    }

    #[test]
    fn a_loose_bound_is_told_with_the_constant_that_would_not_be() {
        let bound = ErrorBound::Gemm { c: 1e9 };
        let loose = looseness("C", Element::F64, 0.02, &bound);
        assert!(is_warning(&loose, "2^-24"), "{loose}");
        assert!(is_warning(&loose, "below 2.0e7"), "{loose}");
        let single = looseness("C", Element::F32, 0.5, &bound);
        assert!(is_warning(&single, "2^-12"), "{single}");
        let fine = looseness("C", Element::F64, 40.0, &bound);
        assert!(is_good(&fine, "are refused"), "{fine}");
        let never = looseness("C", Element::F64, f64::INFINITY, &bound);
        assert!(is_good(&never, "are refused"), "{never}");
    }

    #[test]
    fn coarse_results_are_those_of_single_precision() {
        for at in 0..8 {
            let off = (coarser(Element::F64, at, 3.0) / 3.0 - 1.0).abs();
            assert!((off * 2f64.powi(24) - 1.0).abs() < 1e-6, "{off}");
            let off = (coarser(Element::F32, at, 1.0) - 1.0).abs();
            assert!((off * 2f64.powi(12) - 1.0).abs() < 1e-3, "{off}");
            assert_eq!((coarser(Element::F16, at, 1.0) - 1.0).abs(), 2f64.powi(-6));
            assert_eq!((coarser(Element::Bf16, at, 1.0) - 1.0).abs(), 2f64.powi(-4));
        }
    }

    #[test]
    fn whole_numbers_and_exact_bounds_have_no_digits_to_lose() {
        let bound = ErrorBound::Gemm { c: 4.0 };
        let whole = looseness("count", Element::I32, 0.0, &bound);
        assert!(is_good(&whole, "`count` is compared exactly"), "{whole}");
        let exact = looseness("B", Element::F64, f64::INFINITY, &ErrorBound::Exact);
        assert!(is_good(&exact, "`B` is compared exactly"), "{exact}");
        for element in [Element::I32, Element::I64, Element::U8] {
            assert_eq!(coarser(element, 3, 7.0), 7.0);
        }
        assert_ne!(coarser(Element::F32, 3, 7.0), 7.0);
    }

    #[test]
    fn a_bound_that_another_order_nearly_uses_up_is_tight() {
        assert!(is_good(&tightness(0.1), "0.100 of the bound"));
        assert!(is_warning(&tightness(0.9), "raise `bound.c`"));
    }

    #[test]
    fn short_calls_are_told_with_how_much_is_missing() {
        // Hand-shakes of 4 µs, which are subtracted.
        let resolution = Resolution {
            hand_shake_seconds: 4e-6,
            taken_off_seconds: 4e-6,
            error_seconds: 8e-8,
        };
        // The baseline takes a fourth of the time of the reference.
        let of = |seconds: f64| {
            let chain = Chain {
                log_ratio: 4f64.ln(),
                log_se: 0.003,
                reference_seconds: seconds,
                baseline_seconds: seconds / 4.0,
            };
            let mut reference = Measured::at(1.0).measurement();
            reference.seconds_per_call = seconds;
            reference.median_seconds = Some(1.01 * seconds);
            short_call(&reference, &chain.into(), &resolution)
        };
        let says = |finding: Option<Finding>, part: &str| {
            let said = finding.as_ref().is_some_and(|f| is_warning(f, part));
            assert!(said, "{part}: {finding:?}");
        };
        assert_eq!(of(25e-6), None);
        says(of(18e-6), "lasts 18.00 µs at the timed size");
        says(of(18e-6), "at least 1.1 times the work");
        says(
            of(12e-6),
            "a program as fast as the baseline is the hand-shake",
        );
        says(of(3e-6), "a call of the reference is the hand-shake");
        says(of(3e-6), "(4.00 µs)");
        says(of(3e-6), "lasts 20 µs at least");
    }

    #[test]
    fn outputs_of_which_hardly_anything_moves_are_told() {
        let array = Array {
            name: "x".into(),
            element: Element::F64,
            role: Role::Output,
            dims: vec![40],
            parts: 1,
            align: 64,
            stream: 0,
            content: Content::Uniform,
        };
        let values: Vec<f64> = (1..=40).map(f64::from).collect();
        let with = |change: &dyn Fn(usize, f64) -> f64| {
            let mut movement = Movement::new(&array, &[], &array.bytes_of(&values));
            let other: Vec<f64> = values
                .iter()
                .enumerate()
                .map(|(at, x)| change(at, *x))
                .collect();
            movement.note(&[], &array.bytes_of(&other));
            movement.weakness()
        };
        assert_eq!(with(&|_, x| x + 1.0), None);
        assert_eq!(with(&|at, x| if at < 5 { -x } else { x }), None);
        let few = with(&|at, x| if at < 2 { -x } else { x });
        assert!(
            few.as_ref()
                .is_some_and(|text| text.contains("only 2 of 40")),
            "{few:?}"
        );
        // The change is below the digits that count.
        assert!(with(&|_, x| x * (1.0 + 1e-9)).is_some());

        // Of an array that is read and written, the change in a call counts, and not that its content is another one.
        let both = Array {
            role: Role::InOut,
            ..array.clone()
        };
        let other: Vec<f64> = values.iter().map(|x| -x).collect();
        let (first, second) = (both.bytes_of(&values), both.bytes_of(&other));
        let mut nothing = Movement::new(&both, &first, &first);
        nothing.note(&second, &second);
        let words = nothing.weakness();
        assert!(
            words
                .as_ref()
                .is_some_and(|text| text.contains("only 0 of 40")),
            "{words:?}"
        );
        nothing.note(&first, &second);
        assert_eq!(nothing.weakness(), None);
        assert_eq!(Movement::new(&both, &first, &second).weakness(), None);
    }
}
