//! Tries less exact references and changed inputs at the timed size of each workload.
//!
//! The bound is compared with the errors of versions of the reference that have lost digits ([`super::downgrades`]).
//! The inputs of timed calls are changed in one place at a time: if a change affects no result, a program could leave
//! out work.

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::Content;
use flopsmith_harness::control::Element;
use flopsmith_problem::{Distribution, ErrorBound, Finding, Params};
use flopsmith_protocol::{Failure, InfrastructureCause};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cases::{Case, precision, reference_failed};
use super::shortcuts::{self, Look};
use super::soundness::{draw, outputs};
use super::{CPU_LIMIT, Verifier, compile_own, downgrades, oracle};
use crate::supervise::{Placing, Process, Specification, specify};

/// A version of the reference does not show that the bound is loose if its share of the bound is at most this many times
/// that of honest programs, ... Theirs is known from a few verifications of a single program, the reference with its sums in
/// another order. Others may err more, so a bound as narrow as that could refuse them.
const HONEST: f64 = 4.0;
/// ... or at most this share of the bound, if another order of sums changes nothing and so gives no share of honest programs.
const UNSEEN: f64 = 1.0 / 64.0;
/// Draws of inputs that all have to admit a less exact reference: where a result depends on a single reciprocal, one estimate in some
/// fifty is exact enough by chance.
const DRAWS: usize = 3;
/// Elements of each input that are changed, one at a time.
const ELEMENTS: usize = 40;
/// If a smaller share of an input's elements matters, a program may leave out work. A factorization reads half of a
/// matrix.
const MATTER: f64 = 0.3;
/// Rows of a graded input that are left out, one at a time.
const ROWS: usize = 12;
/// At most this share of the results that depend on a row may stay right without the row.
const WITHOUT: f64 = 0.1;
/// A row may be left out if every result is off by at most this many times its tolerance.
const BOTH_SIDES: f64 = 2.0;

impl Verifier {
    /// Compares the bound with the errors of less exact versions of the reference. Honest programs take up to `honest`
    /// of the bound.
    pub(super) fn downgrades(
        &mut self,
        toolchain: &Toolchain,
        honest: f64,
        seed: u64,
        size: &Params,
    ) -> Result<Vec<Finding>, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let Some(case) = self.cases_at(size).first().copied() else {
            return Ok(Vec::new());
        };
        if self.problem.bound == ErrorBound::Exact {
            return Ok(Vec::new());
        }
        let written = case.specification.arrays.iter();
        let written = written.filter(|array| array.role.is_written());
        let mut findings = Vec::new();
        for single in precisions(written.map(|array| array.element)) {
            findings.extend(self.downgrades_to(case, toolchain, honest, single, &mut rng)?);
        }
        Ok(findings)
    }

    /// The same for results of `single` precision or double, at this case.
    fn downgrades_to(
        &self,
        case: &Case,
        toolchain: &Toolchain,
        honest: f64,
        single: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        for variant in downgrades::variants(&self.problem.reference_source, single) {
            let built = compile_own(
                &self.sandbox,
                toolchain,
                &self.problem,
                &variant.source,
                "reference.c",
            );
            let object = match built {
                Ok(object) => object,
                // The reference is written in a way that this change does not fit.
                Err(Failure::Infrastructure {
                    cause: InfrastructureCause::Baseline,
                    ..
                }) => continue,
                Err(other) => return Err(other),
            };
            let share = self.settled(case, honest, rng, |case, rng| {
                self.share_of(case, &object, |x| x, rng)
            })?;
            findings.push(admitted(&variant.name, share, honest, variant.easy));
        }
        let mut arrays = case.specification.arrays.iter();
        if arrays.any(|array| array.role.is_read() && array.element.is_float()) {
            let (what, shorter): (_, fn(f64) -> f64) = match single {
                true => ("inputs in half precision", half),
                false => ("inputs in single precision", |x| f64::from(x as f32)),
            };
            let share = self.settled(case, honest, rng, |case, rng| {
                self.share_of(case, &self.reference, shorter, rng)
            })?;
            findings.push(admitted(what, share, honest, false));
        }
        Ok(findings)
    }

    /// The largest error of a program as a share of the bound, by `share_of` for a case: in this case, and in others with fresh inputs
    /// of its size as long as the program seems to show that the bound is loose.
    fn settled(
        &self,
        case: &Case,
        honest: f64,
        rng: &mut ChaCha8Rng,
        share_of: impl Fn(&Case, &mut ChaCha8Rng) -> Result<f64, Failure>,
    ) -> Result<f64, Failure> {
        largest_of_draws(honest, |draw| match draw {
            0 => share_of(case, rng),
            _ => share_of(&self.drawn_anew(case, rng)?, rng),
        })
    }

    /// A case of the same size with fresh uniform inputs.
    fn drawn_anew(&self, case: &Case, rng: &mut ChaCha8Rng) -> Result<Case, Failure> {
        self.arena.reset();
        let mut references = self.start_references(&self.arena)?;
        let params = case.params.clone();
        let uniform = Distribution::Uniform;
        let fresh = Case::draw(
            &self.problem,
            params,
            uniform,
            &self.arena,
            &mut references,
            rng,
        )?;
        references.exit()?;
        Ok(fresh)
    }

    /// The largest error of a program as a share of the bound, if the inputs of a case are changed before the call.
    fn share_of(
        &self,
        case: &Case,
        object: &[u8],
        change: impl Fn(f64) -> f64,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        self.arena.reset();
        let entry = &self.problem.entry.name;
        let mut process = self.start(object, entry, &self.arena, Some(CPU_LIMIT))?;
        let placement = self.lay_out(case, &self.arena, Placing::Between, &mut process, rng)?;
        for (n, bytes) in &case.inputs {
            let array = &case.specification.arrays[*n];
            if array.element.is_float() {
                let values: Vec<f64> = array.values(bytes).into_iter().map(&change).collect();
                let mapping = self.arena.mapping();
                mapping.write(placement.arrays[*n].0, &array.bytes_of(&values));
            }
        }
        let share = match process.call(case.limit) {
            Ok(_) => case.worst_share(&self.arena, &placement),
            Err(Failure::Candidate { .. }) => f64::INFINITY,
            Err(other) => return Err(other),
        };
        self.arena.restore(&placement);
        // A process that died has ended already.
        if share.is_finite() {
            process.exit()?;
        }
        Ok(share)
    }

    /// Looks for work on timed inputs of a workload that a program can leave out.
    pub(super) fn shortcuts(
        &mut self,
        toolchain: &Toolchain,
        seed: u64,
        size: &Params,
    ) -> Result<Vec<Finding>, Failure> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn_from = rng.random();
        let mut plain = specify(&self.problem, size)?;
        plain.draw(drawn_from);
        let mut timed = plain.clone();
        timed.grade(&self.problem, plain.product(&self.problem.bound)?.as_ref());
        self.arena.reset();
        let entry = self.problem.entry.name.clone();
        let object = self.called_often(toolchain, size)?;
        let mut process = self
            .start(&object, &entry, &self.arena, None)
            .map_err(reference_failed)?;
        let drawn = draw(&timed, drawn_from);
        let first = self.call(&mut process, &timed, &drawn, &mut rng)?;
        let look = |n: usize, bytes: &[u8]| Look {
            array: &timed.arrays[n],
            values: timed.arrays[n].values(bytes),
        };
        let inputs: Vec<Look<'_>> = timed
            .read()
            .into_iter()
            .map(|n| look(n, &drawn[n]))
            .collect();
        let written = timed.written().into_iter().zip(&first);
        let outputs: Vec<Look<'_>> = written.map(|(n, bytes)| look(n, bytes)).collect();
        let mut findings = shortcuts::easy(&inputs, &outputs);
        let mut least: f64 = 1.0;
        for n in timed.read() {
            let array = &timed.arrays[n];
            if matches!(array.content, Content::Offsets { .. }) {
                continue;
            }
            let share = self.that_matter(&mut process, &timed, n, (&drawn, &first), &mut rng)?;
            least = least.min(share);
            if share < MATTER {
                findings.push(Finding::Warning(format!(
                    "only {:.0} % of the elements of `{}` influence a result: a program may look for these and leave out the others; give `{}` another `content`",
                    100.0 * share, array.name, array.name
                )));
            }
        }
        let reason = self.problem.easy_inputs.as_deref();
        let mut findings = shortcuts::with_reason(findings, reason);
        let rows = self.rows_without_weight(&mut process, (&plain, &timed), size, &mut rng)?;
        findings.extend(rows);
        process.exit().map_err(reference_failed)?;
        findings.extend(self.repetitions(size, &mut rng)?);
        if findings.is_empty() {
            findings.push(Finding::Good(format!(
                "no short cut is known for these inputs; at least {:.0} % of the elements of each input matter",
                100.0 * least
            )));
        }
        Ok(findings)
    }

    /// The program whose results show the weight of an input: the reference, and at further workloads the baseline where
    /// there is one. A plain reference needs seconds for a large call, and there are a hundred of them; the baseline is
    /// verified against it at every one of these sizes.
    fn called_often(&self, toolchain: &Toolchain, size: &Params) -> Result<Vec<u8>, Failure> {
        match &self.problem.baseline_source {
            Some(source) if *size != self.problem.timed => compile_own(
                &self.sandbox,
                toolchain,
                &self.problem,
                source,
                "baseline.c",
            ),
            _ => Ok(self.reference.clone()),
        }
    }

    /// The share of an input's elements that change a result when they change.
    fn that_matter(
        &self,
        process: &mut Process,
        timed: &Specification,
        n: usize,
        (drawn, first): (&[Vec<u8>], &[Vec<u8>]),
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let array = &timed.arrays[n];
        let other = array.filled(rng.random());
        let width = array.element.bytes();
        let (mut tried, mut matter) = (0, 0);
        for _ in 0..ELEMENTS {
            let at = width * rng.random_range(0..array.count());
            let mut changed = drawn.to_vec();
            changed[n][at..at + width].copy_from_slice(&other[at..at + width]);
            if changed[n] != drawn[n] {
                tried += 1;
                matter += usize::from(self.call(process, timed, &changed, rng)? != *first);
            }
        }
        Ok(matter as f64 / f64::from(tried.max(1)))
    }

    /// Leaves out rows of graded inputs. If several rows are summed, those with small grades must not be too small to
    /// matter.
    fn rows_without_weight(
        &self,
        process: &mut Process,
        (plain, timed): (&Specification, &Specification),
        size: &Params,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Finding>, Failure> {
        let (ErrorBound::Scaled { c, operations }, Some(magnitude)) =
            (&self.problem.bound, &self.magnitude)
        else {
            return Ok(Vec::new());
        };
        let operations = operations.value(size).unwrap_or(f64::NAN);
        let mut findings = Vec::new();
        for n in plain.read() {
            let array = &timed.arrays[n];
            if !matches!(array.content, Content::Graded { .. }) {
                continue;
            }
            let seed = rng.random();
            let (even, graded) = (draw(plain, seed), draw(timed, seed));
            let whole = [
                self.call(process, plain, &even, rng)?,
                self.call(process, timed, &graded, rng)?,
            ];
            let sizes = {
                let mut process = self
                    .start(&magnitude.bytes, &magnitude.entry, &self.arena, None)
                    .map_err(reference_failed)?;
                let sizes = self.call(&mut process, timed, &graded, rng)?;
                process.exit().map_err(reference_failed)?;
                sizes
            };
            let row = array.columns() * array.element.bytes();
            let (mut depend, mut stay) = (0usize, 0usize);
            for _ in 0..ROWS {
                let at = row * rng.random_range(0..array.bytes() / row);
                let mut part = Vec::new();
                for (specification, drawn) in [(plain, &even), (timed, &graded)] {
                    let mut without = drawn.clone();
                    without[n][at..at + row].fill(0);
                    part.push(self.call(process, specification, &without, rng)?);
                }
                for (i, output) in timed.written().into_iter().enumerate() {
                    let array = &timed.arrays[output];
                    let values = |bytes: &[u8]| array.values(bytes);
                    let even = values(&whole[0][i]).into_iter().zip(values(&part[0][i]));
                    let graded = values(&whole[1][i]).into_iter().zip(values(&part[1][i]));
                    let precision = precision(array.element);
                    for (((x, y), (u, v)), size) in even.zip(graded).zip(values(&sizes[i])) {
                        let tolerance = oracle::scaled_tolerance(*c, operations, precision, size);
                        depend += usize::from(x != y);
                        stay += usize::from(x != y && (u - v).abs() <= BOTH_SIDES * tolerance);
                    }
                }
            }
            let share = stay as f64 / depend.max(1) as f64;
            if share > WITHOUT {
                findings.push(Finding::Warning(format!(
                    "rows of `{}` are graded so far apart that {:.0} % of the results that depend on a row stay right without it: lower `graded` to fewer binades",
                    array.name,
                    100.0 * share
                )));
            }
        }
        Ok(findings)
    }

    /// Calls a program once with the inputs `content`. Returns the bytes of each output.
    fn call(
        &self,
        process: &mut Process,
        specification: &Specification,
        content: &[Vec<u8>],
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        outputs(process, &self.arena, specification, content, CPU_LIMIT, rng)
    }
}

/// The precisions of these arrays' floats for which less exact versions of a reference are made, each once: true for
/// single. Of floats of two bytes, programs compute in single precision, and the result's own digits are few.
fn precisions(written: impl Iterator<Item = Element>) -> Vec<bool> {
    let found: Vec<Element> = written.collect();
    let precisions = [(Element::F64, false), (Element::F32, true)].into_iter();
    precisions
        .filter(|(element, _)| found.contains(element))
        .map(|(_, single)| single)
        .collect()
}

/// The nearest number with the eleven digits of half precision and any exponent.
fn half(x: f64) -> f64 {
    let bits = (x as f32).to_bits();
    let rounded = bits.wrapping_add(0xfff + ((bits >> 13) & 1)) & !0x1fff;
    f64::from(f32::from_bits(rounded))
}

/// The share of the bound that a version of the reference may take without a word, if honest programs take `honest` of it.
fn permitted(honest: f64) -> f64 {
    if honest > 0.0 {
        HONEST * honest
    } else {
        UNSEEN
    }
}

/// The largest of the shares in at most [`DRAWS`] draws. The first that is no sign of a loose bound settles it.
fn largest_of_draws(
    honest: f64,
    mut share: impl FnMut(usize) -> Result<f64, Failure>,
) -> Result<f64, Failure> {
    let mut largest: f64 = 0.0;
    for draw in 0..DRAWS {
        largest = largest.max(share(draw)?);
        if largest > 1.0 || largest <= permitted(honest) {
            break;
        }
    }
    Ok(largest)
}

/// The finding for a reference with `what`, which takes `share` of the bound while honest programs take `honest` of it.
fn admitted(what: &str, share: f64, honest: f64, easy: bool) -> Finding {
    let text = format!("the reference with {what}");
    let by = match honest > 0.0 {
        true => format!("at most {HONEST} times as much as honest programs do"),
        false => {
            format!("by at most {UNSEEN} of the bound, and no error of honest programs is known")
        }
    };
    if share > 1.0 {
        Finding::Good(format!(
            "{text} is refused: its error is {share:.1e} of the bound"
        ))
    } else if easy {
        Finding::Warning(format!(
            "{text} passes at the timed size, so a program may do only that; give the inputs a wider `content`"
        ))
    } else if share <= permitted(honest) {
        Finding::Good(format!(
            "{text} errs {by}: its error is {share:.3} of the bound"
        ))
    } else {
        Finding::Error(format!(
            "the bound is loose: {text} passes at the timed size with an error of {share:.3} of it, and honest programs need {honest:.3}; lower `bound.c`, or make `bound.operations` and magnitude.c count errors of either sign, which add up to fewer roundings than the worst case"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downgrade_that_a_fresh_draw_refuses_is_refused() {
        let met = |shares: [f64; DRAWS], honest: f64| {
            let mut draws = 0;
            let largest = largest_of_draws(honest, |draw| {
                draws += 1;
                Ok(shares[draw])
            });
            (largest.ok(), draws)
        };
        // The first draw is right by chance.
        assert_eq!(met([0.55, 48.0, 0.1], 0.0), (Some(48.0), 2));
        assert_eq!(
            met([0.55, 0.4, f64::INFINITY], 0.1),
            (Some(f64::INFINITY), 3)
        );
        // A loose bound admits it in all draws.
        assert_eq!(met([0.55, 0.7, 0.4], 0.1), (Some(0.7), 3));
        // One draw shows the usual cases.
        assert_eq!(met([60.0, 0.1, 0.1], 0.0), (Some(60.0), 1));
        assert_eq!(met([0.3, 9.0, 9.0], 0.1), (Some(0.3), 1));
    }

    #[test]
    fn a_downgrade_is_told_unless_it_is_refused_or_hardly_worse_than_honest_programs() {
        let of = |share, honest, easy| admitted("`exp`", share, honest, easy);
        assert!(matches!(of(3.0, 0.2, false), Finding::Good(text) if text.contains("refused")));
        assert!(
            matches!(of(0.6, 0.2, false), Finding::Good(text) if text.contains("at most 4 times as much as honest programs"))
        );
        assert!(matches!(of(0.6, 0.1, false), Finding::Error(text) if text.contains("loose")));
        assert!(
            matches!(of(0.001, 0.0, false), Finding::Good(text) if text.contains("at most 0.015625 of the bound"))
        );
        assert!(matches!(of(0.1, 0.0, false), Finding::Error(text) if text.contains("loose")));
        assert!(matches!(of(0.001, 0.2, true), Finding::Warning(text) if text.contains("wider")));
        assert!(matches!(of(f64::INFINITY, 0.2, true), Finding::Good(_)));
    }

    #[test]
    fn pages_say_how_much_more_a_downgrade_may_err() {
        let factor = format!("at most {HONEST} times as much as honest programs");
        for page in [
            include_str!("../../../../docs/reference/problem-file.md"),
            include_str!("../../../../docs/decisions/0031-error-bounds.md"),
        ] {
            let words: Vec<&str> = page.split_whitespace().collect();
            assert!(words.join(" ").contains(&factor), "{factor}");
        }
    }

    #[test]
    fn downgrades_are_made_for_the_floats_of_any_result() {
        use Element::{Bf16, F16, F32, F64, I32, U8};
        let of = |written: &[Element]| precisions(written.iter().copied());
        assert_eq!(of(&[F64, F64]), [false]);
        assert_eq!(
            of(&[I32, F32]),
            [true],
            "a number of an element comes first"
        );
        assert_eq!(of(&[F32, U8, F64]), [false, true]);
        assert!(of(&[I32, F16, Bf16]).is_empty());
    }

    #[test]
    fn half_precision_has_eleven_digits() {
        for x in [1.0, -0.3, 123.456, 1e-3] {
            let off = (half(x) / x - 1.0).abs();
            assert!(off <= 2f64.powi(-11), "{x}: {off}");
        }
        assert_ne!(half(0.3), 0.3);
        assert_eq!(half(half(0.3)), half(0.3));
    }
}
