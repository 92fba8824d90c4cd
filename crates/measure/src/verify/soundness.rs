//! Checks whether a problem's reference is fit to judge programs.
//!
//! The reference is compared with nothing but itself: the same input must give the same bits, every input array and every
//! scalar must matter, outputs must vary, and a call must change an array that it reads and writes. A reference that breaks one of these laws lets wrong programs pass or refuses right
//! ones, for any problem. Outputs that vary in a few places only are weak.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::Waiting;
use flopsmith_harness::control::Element;
use flopsmith_problem::{ArgKind, Finding, Params, Problem, Role};
use flopsmith_protocol::{Failure, InfrastructureCause};
use flopsmith_sandbox::Sandbox;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cases::{reference_failed, too_large};
use super::weakness::Movement;
use super::{arena_for, compile_own};
use crate::supervise::{
    Arena, Array, Placing, Process, Setup, Specification, plan, poison, specify,
};

/// Time limit of a call: a reference that takes longer hangs.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Number of other inputs that are tried before outputs count as the same: small outputs of integers may agree by
/// chance.
const DRAWS: usize = 3;
/// An output with fewer elements may rightly hold one value.
const FEW: usize = 16;

/// Smallest size at which a reference is examined, if the definition has smaller ones.
const SMALL: i64 = 8;

/// The result of an examination.
#[derive(Debug, Clone, PartialEq)]
pub struct Examined {
    /// All findings that are worth reporting.
    pub findings: Vec<Finding>,
    /// True if the reference could be compiled and called. Otherwise it can neither verify nor time a program.
    pub ran: bool,
}

/// Compiles the reference and calls it at the smallest hidden size and at the timed size of each workload. `seed` chooses the
/// inputs.
///
/// # Errors
/// An infrastructure failure of this machine. A fault of the definition is a finding.
pub fn examine(
    sandbox: &Arc<Sandbox>,
    harness: &Path,
    problem: &Problem,
    toolchain: &Toolchain,
    seed: u64,
) -> Result<Examined, Failure> {
    let mut findings = Vec::new();
    match look(sandbox, harness, problem, toolchain, seed, &mut findings) {
        Ok(()) => Ok(Examined {
            findings,
            ran: true,
        }),
        Err(Failure::Infrastructure {
            cause: InfrastructureCause::Baseline,
            detail,
        }) => {
            findings.push(Finding::Error(detail));
            Ok(Examined {
                findings,
                ran: false,
            })
        }
        Err(other) => Err(other),
    }
}

fn look(
    sandbox: &Arc<Sandbox>,
    harness: &Path,
    problem: &Problem,
    toolchain: &Toolchain,
    seed: u64,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    // With a handful of elements an input may rightly not matter: the only row of a sparse matrix begins at 0.
    let mut smallest = problem.timed.clone();
    for hidden in &problem.verify.hidden {
        let sizes = hidden.between(SMALL, SMALL);
        smallest.extend(sizes.first().map(|size| (hidden.param.clone(), *size)));
    }
    let mut laboratory = Laboratory {
        sandbox,
        harness,
        problem,
        object: compile_own(
            sandbox,
            toolchain,
            problem,
            &problem.reference_source,
            "reference.c",
        )?,
        arena: arena_for(problem)?,
        rng: ChaCha8Rng::seed_from_u64(seed),
        broken: BTreeSet::new(),
        findings,
    };
    laboratory.examine_at(&smallest)?;
    for timed in problem.timed_sizes() {
        if smallest != *timed {
            laboratory.examine_at(timed)?;
        }
    }
    laboratory.say_what_is_kept();
    Ok(())
}

/// A law that a reference must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Law {
    Deterministic,
    InputsMatter,
    OutputsVary,
}

struct Laboratory<'a> {
    sandbox: &'a Sandbox,
    harness: &'a Path,
    problem: &'a Problem,
    object: Vec<u8>,
    arena: Arena,
    rng: ChaCha8Rng,
    /// Laws that an array broke, so that each is reported once and not for every size.
    broken: BTreeSet<(Law, String)>,
    findings: &'a mut Vec<Finding>,
}

impl Laboratory<'_> {
    fn examine_at(&mut self, params: &Params) -> Result<(), Failure> {
        let mut specification = specify(self.problem, params)?;
        let names = array_names(self.problem);
        let size = words(params);
        let seed = self.rng.random();
        specification.draw(seed);
        let drawn = draw(&specification, seed);
        let mut process = self.start()?;
        let first = self.call(&mut process, &specification, &drawn)?;
        // The old content of outputs must not matter. Two old contents show which elements are never written.
        let other_poison = inverted(&specification, &drawn);
        let again = self.call(&mut process, &specification, &other_poison)?;
        process.exit().map_err(reference_failed)?;
        // Other memory, and data left there by a call before, must not matter either.
        let mut process = self.start()?;
        let other_memory = self.call(&mut process, &specification, &drawn)?;

        let outputs = specification.written();
        let mut unwritten = vec![0; outputs.len()];
        let mut same = true;
        for (i, &n) in outputs.iter().enumerate() {
            let array = &specification.arrays[n];
            let element = array.element;
            if array.role == Role::Output {
                unwritten[i] = never_written(&first[i], &again[i], element);
            }
            let differs = |other: &[Vec<u8>]| differing(&first[i], &other[i], element);
            let differ = (differs(&again) - unwritten[i]).max(differs(&other_memory));
            if differ > 0 {
                same = false;
                let text = format!(
                    "the reference is not deterministic: {differ} of {} elements of `{}` have other bits in a second call with the same input ({size})",
                    array.count(),
                    names[n]
                );
                let finding = if self.problem.deterministic {
                    Finding::Error(text)
                } else {
                    Finding::Warning(text)
                };
                self.note(Law::Deterministic, names[n], finding);
            }
        }
        if !same {
            // If outputs differ by themselves, they do not show the effect of an input.
            return process.exit().map_err(reference_failed);
        }
        self.does_everything_matter(&mut process, &specification, (&drawn, &first), &size)?;
        let mut varies = vec![false; outputs.len()];
        let mut movements: Vec<Movement<'_>> = outputs
            .iter()
            .zip(&first)
            .map(|(&n, bytes)| Movement::new(&specification.arrays[n], &drawn[n], bytes))
            .collect();
        for _ in 0..DRAWS {
            let seed = self.rng.random();
            let mut others = specification.clone();
            others.draw(seed);
            let other = draw(&others, seed);
            let found = self.call(&mut process, &others, &other)?;
            for (i, varies) in varies.iter_mut().enumerate() {
                let n = outputs[i];
                *varies |= match specification.arrays[n].role {
                    Role::InOut => found[i] != other[n],
                    _ => found[i] != first[i],
                };
                movements[i].note(&other[n], &found[i]);
            }
        }
        process.exit().map_err(reference_failed)?;
        for (i, &n) in outputs.iter().enumerate() {
            let array = &specification.arrays[n];
            let say = |what: String| format!("`{}` {what} ({size})", names[n]);
            let flaw = flaw(&first[i], array, unwritten[i], varies[i]);
            let flaw = flaw.map(|flaw| Finding::Error(say(flaw)));
            let weakness = || {
                let weakness = movements[i].weakness();
                weakness.map(|weakness| Finding::Warning(say(weakness)))
            };
            if let Some(finding) = flaw.or_else(weakness) {
                self.note(Law::OutputsVary, names[n], finding);
            }
        }
        Ok(())
    }

    /// Changes each array that a call reads and each scalar, one at a time.
    fn does_everything_matter(
        &mut self,
        process: &mut Process,
        specification: &Specification,
        (drawn, first): (&[Vec<u8>], &[Vec<u8>]),
        size: &str,
    ) -> Result<(), Failure> {
        let names = array_names(self.problem);
        for n in specification.read() {
            let mut matters = false;
            for _ in 0..DRAWS {
                let mut changed = drawn.to_vec();
                changed[n] = specification.arrays[n].filled(self.rng.random());
                if self.call(process, specification, &changed)? != *first {
                    matters = true;
                    break;
                }
            }
            if !matters {
                let text = match specification.arrays[n].role {
                    Role::InOut => format!(
                        "what `{}` holds before a call does not matter: give it `role = \"output\"` ({size})",
                        names[n]
                    ),
                    _ => format!(
                        "`{}` does not matter: every output stays the same when the values of this input change ({size})",
                        names[n]
                    ),
                };
                self.note(Law::InputsMatter, names[n], Finding::Error(text));
            }
        }
        for (n, scalar) in specification.scalars().iter().enumerate() {
            let mut matters = false;
            for _ in 0..DRAWS {
                let mut changed = specification.clone();
                changed.draw_one(n, self.rng.random());
                if self.call(process, &changed, drawn)? != *first {
                    matters = true;
                    break;
                }
            }
            if !matters {
                let text = format!(
                    "`{}` does not matter: every output stays the same when the value of this scalar changes ({size})",
                    scalar.name
                );
                self.note(Law::InputsMatter, &scalar.name, Finding::Error(text));
            }
        }
        Ok(())
    }

    fn start(&self) -> Result<Process, Failure> {
        let setup = Setup {
            sandbox: self.sandbox,
            harness: self.harness,
            entry: &self.problem.entry.name,
            arena: &self.arena,
            threads: self.problem.threads.iter().copied().max().unwrap_or(1),
            cores: None,
            waiting: Waiting::Sleep,
            cpu_limit: None,
        };
        Process::start(&setup, &self.object).map_err(reference_failed)
    }

    /// Places the arrays at random, calls the reference once, and reads its outputs.
    fn call(
        &mut self,
        process: &mut Process,
        specification: &Specification,
        content: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let (arena, rng) = (&self.arena, &mut self.rng);
        outputs(process, arena, specification, content, CALL_LIMIT, rng)
    }

    fn note(&mut self, law: Law, array: &str, finding: Finding) {
        if self.broken.insert((law, array.to_owned())) {
            self.findings.push(finding);
        }
    }

    fn say_what_is_kept(&mut self) {
        let kept = |law: Law| self.broken.iter().all(|(broken, _)| *broken != law);
        if !kept(Law::Deterministic) {
            return;
        }
        let (inputs_matter, outputs_vary) = (kept(Law::InputsMatter), kept(Law::OutputsVary));
        let mut good = |text: &str| self.findings.push(Finding::Good(text.to_owned()));
        good("the reference gives the same bits for the same input");
        if inputs_matter {
            good("every input matters");
        }
        if outputs_vary {
            good("outputs vary with the inputs");
        }
    }
}

/// The fault of an array that a call writes, in words that follow its name. `varies` says whether it is another one with
/// other inputs, or, if a call reads it as well, whether a call changes it.
fn flaw(bytes: &[u8], array: &Array, unwritten: usize, varies: bool) -> Option<String> {
    let width = array.element.bytes();
    let count = bytes.len() / width;
    if unwritten > 0 {
        return Some(format!("has {unwritten} of {count} elements never written"));
    }
    if !varies && array.role.is_read() {
        return Some("is the same before and after a call: give it `role = \"input\"`".to_owned());
    }
    if count >= FEW && bytes.iter().all(|b| *b == 0) {
        return Some("is zero everywhere".to_owned());
    }
    let mut elements = bytes.chunks_exact(width);
    let head = elements.next();
    if count >= FEW && elements.all(|x| Some(x) == head) {
        return Some("holds the same value everywhere".to_owned());
    }
    (!varies).then(|| "does not vary: it is the same whatever the inputs are".to_owned())
}

/// Number of elements that held poison before and after a first call, and the opposite bits before and after another.
fn never_written(first: &[u8], again: &[u8], element: Element) -> usize {
    let (width, poison) = (element.bytes(), poison(element));
    let opposite: Vec<u8> = poison.iter().map(|byte| !byte).collect();
    let pairs = first.chunks_exact(width).zip(again.chunks_exact(width));
    pairs
        .filter(|(x, y)| *x == poison.as_slice() && *y == opposite.as_slice())
        .count()
}

/// The names of the array arguments, in their order.
pub(super) fn array_names(problem: &Problem) -> Vec<&str> {
    problem
        .entry
        .args
        .iter()
        .filter(|a| matches!(a.kind, ArgKind::Array { .. }))
        .map(|a| a.name.as_str())
        .collect()
}

/// Parameters in words.
pub(crate) fn words(params: &Params) -> String {
    let params: Vec<String> = params.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    params.join(", ")
}

/// Number of elements that have other bits.
fn differing(x: &[u8], y: &[u8], element: Element) -> usize {
    let width = element.bytes();
    x.chunks_exact(width)
        .zip(y.chunks_exact(width))
        .filter(|(a, b)| a != b)
        .count()
}

/// Calls one of the problem's own programs once with arrays of this content, at random places. Returns the bytes of each output.
pub(super) fn outputs(
    process: &mut Process,
    arena: &Arena,
    specification: &Specification,
    content: &[Vec<u8>],
    limit: Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<Vec<u8>>, Failure> {
    let placement = arena
        .place(&specification.arrays, Placing::Between, rng)
        .ok_or_else(too_large)?;
    let mapping = arena.mapping();
    for (bytes, &(offset, _)) in content.iter().zip(&placement.arrays) {
        mapping.write(offset, bytes);
    }
    process
        .plan(&plan(specification, &placement))
        .map_err(reference_failed)?;
    process.call(limit).map_err(reference_failed)?;
    let read = |n: usize| {
        let (offset, bytes) = placement.arrays[n];
        let mut found = vec![0u8; bytes];
        mapping.read(offset, &mut found);
        found
    };
    let outputs = specification.written().into_iter().map(read).collect();
    arena.restore(&placement);
    Ok(outputs)
}

/// The bytes of every array before a call: random inputs, poisoned outputs.
pub(super) fn draw(specification: &Specification, seed: u64) -> Vec<Vec<u8>> {
    let arrays = specification.arrays.iter();
    arrays.map(|array| array.before(seed)).collect()
}

/// The same inputs with the opposite bits in the arrays that a call only writes.
fn inverted(specification: &Specification, drawn: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let arrays = specification.arrays.iter().zip(drawn);
    arrays
        .map(|(array, bytes)| match array.role {
            Role::Output => bytes.iter().map(|byte| !byte).collect(),
            Role::Input | Role::InOut => bytes.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().copied().flat_map(f64::to_ne_bytes).collect()
    }

    fn array(role: Role) -> Array {
        Array {
            name: "x".into(),
            element: Element::F64,
            role,
            dims: vec![20],
            parts: 1,
            align: 64,
            stream: 0,
            content: flopsmith_harness::Content::Uniform,
        }
    }

    #[test]
    fn outputs_that_say_nothing_are_told_apart() {
        let of = |values: &[f64], varies| flaw(&bytes(values), &array(Role::Output), 0, varies);
        let many: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(of(&many, true), None);
        let says = |found: Option<String>, part: &str| {
            assert!(
                found.as_ref().is_some_and(|f| f.contains(part)),
                "{part}: {found:?}"
            );
        };
        says(of(&many, false), "does not vary");
        says(of(&[0.0; 20], true), "zero everywhere");
        says(of(&[1.5; 20], true), "same value everywhere");
        let holes = flaw(&bytes(&many), &array(Role::Output), 1, true);
        says(holes, "1 of 20 elements never written");
        let kept = flaw(&bytes(&many), &array(Role::InOut), 0, false);
        says(kept, "role = \"input\"");
        // A sum has one element, which may have any value.
        assert_eq!(of(&[0.0], true), None);
        says(of(&[0.0], false), "does not vary");
    }

    #[test]
    fn an_element_that_may_be_poison_is_not_taken_for_one_that_was_never_written() {
        for element in [Element::U8, Element::I32, Element::F64] {
            let poison = poison(element);
            let opposite: Vec<u8> = poison.iter().map(|byte| !byte).collect();
            let written = vec![1; element.bytes()];
            let of = |x: [&Vec<u8>; 3], y: [&Vec<u8>; 3]| {
                let both = [x, y].map(|all| all.map(Vec::as_slice).concat());
                never_written(&both[0], &both[1], element)
            };
            let (p, o, w) = (&poison, &opposite, &written);
            assert_eq!(of([p, w, p], [o, w, o]), 2, "{element:?}");
            // The result is what the poison happens to be.
            assert_eq!(of([p, w, p], [p, w, o]), 1, "{element:?}");
        }
    }
}
