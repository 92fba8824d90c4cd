//! The program around a sanitized candidate, and the file with the arguments of its calls.

use flopsmith_problem::{ArgKind, Distribution, Entry, Params, Problem};
use flopsmith_protocol::Failure;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::supervise::{Given, poison, specify};
use crate::verify::content;
use crate::verify::sizes::{PARTS, Sizes};

const DRIVER: &str = include_str!("driver.c");
const REPORTERS: &str = include_str!("fortran.c");

/// Exit code with which a sanitizer's runtime ends a program after a report.
pub(super) const REPORTED: i32 = 97;
/// Stack of the thread that calls the program, in bytes. It is larger than a candidate's own, since the checks make
/// frames larger.
pub(super) const STACK_BYTES: u64 = 64 << 20;

/// Leaks are not reported: a program may keep its workspace, and to find leaks the runtime would have to trace the
/// program. A limit already forbids core dumps; the runtime's way of forbidding them is a call that the jail does not
/// know. The runtime does not look for locals that are used after their function has returned: it would keep locals on
/// a heap of its own, which is not aligned as vectors of 64 bytes need it, and honest programs would die.
const COMMON: &str = "halt_on_error=1:exitcode=97:symbolize=0:disable_coredump=0";
const ADDRESS: &str = "detect_leaks=0:detect_stack_use_after_return=0:max_allocation_size_mb=1024:allocator_may_return_null=1:\
                       quarantine_size_mb=16:detect_odr_violation=0:allow_user_segv_handler=0:handle_abort=1:print_legend=0:\
                       malloc_context_size=2";
const UNDEFINED: &str = "print_stacktrace=1";
/// Threads of a pool go on after the last call; whether they may do so is judged by the verifier.
const THREAD: &str =
    "atexit_sleep_ms=0:report_thread_leaks=0:report_mutex_bugs=0:report_signal_unsafe=0";

/// Most operations of a case: a program with checks is up to some hundred times as slow as a timed one.
const MOST_WORK: f64 = 2e7;
/// Most operations, and most bytes of inputs, of a case that is as large as timed calls.
const MOST_TIMED_WORK: f64 = 4e7;
const MOST_TIMED_BYTES: usize = 16 << 20;

/// The driver of a problem's programs, in C.
pub(super) fn source(problem: &Problem) -> String {
    let options = |own: &str| format!("{COMMON}:{own}");
    DRIVER
        .replace("@PROTOTYPE@", problem.entry.prototype.trim())
        .replace("@ADDRESS@", &options(ADDRESS))
        .replace("@UNDEFINED@", &options(UNDEFINED))
        .replace("@THREAD@", &options(THREAD))
        .replace("@STACK@", &STACK_BYTES.to_string())
        .replace("@CASE@", &calls(&problem.entry))
}

/// The functions that programs in Fortran call when a check fails, in C.
pub(super) fn reporters() -> String {
    REPORTERS.replace("@REPORTED@", &REPORTED.to_string())
}

/// The C code of two calls with the same arguments: read the arguments, call, read them again into the same places,
/// call.
fn calls(entry: &Entry) -> String {
    let (mut first, mut again, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (n, argument) in entry.args.iter().enumerate() {
        match &argument.kind {
            ArgKind::Int { .. } => {
                first.push(format!("  int fs_{n} = fs_number();"));
                again.push(format!("  fs_{n} = fs_number();"));
            }
            ArgKind::Scalar { element, .. } => {
                first.push(format!("  {} fs_{n} = fs_real();", element.c_type()));
                again.push(format!("  fs_{n} = fs_real();"));
            }
            ArgKind::Array { align, .. } => {
                // The allocator takes no smaller alignment than a pointer's.
                let align = (*align).max(8);
                first.push(format!("  void *fs_{n} = fs_array({align});"));
                again.push(format!("  fs_again(fs_{n});"));
                last.push(format!("  free(fs_{n});"));
            }
        }
    }
    let arguments: Vec<String> = (0..entry.args.len()).map(|n| format!("fs_{n}")).collect();
    let call = format!("  {}({});", entry.name, arguments.join(", "));
    let restart = "  lseek(fs_file, start, SEEK_SET);".to_owned();
    first.push(call.clone());
    first.push(restart);
    first.extend(again);
    first.push(call);
    first.extend(last);
    first.join("\n")
}

/// The arguments with which a program is called.
pub(super) struct Cases {
    /// The parameters of each case.
    pub params: Vec<Params>,
    /// The file that the driver reads.
    pub file: Vec<u8>,
}

impl Cases {
    /// Three cases: the smallest size of all, one of the smallest sizes, and one size for which parallel loops may
    /// start threads. The smallest timed size is a fourth case unless it takes too long: a program may take another way
    /// there. Inputs are drawn as those of verification are.
    pub fn draw(problem: &Problem, rng: &mut ChaCha8Rng) -> Result<Self, Failure> {
        let sizes = Sizes { problem };
        let (smallest, small) = (sizes.smallest(), sizes.edge(rng));
        let more = sizes.below(rng.random_range(0..PARTS), rng);
        let more = if problem.work_flops(&more) <= MOST_WORK {
            more
        } else {
            sizes.edge(rng)
        };
        let mut params = vec![smallest, small, more];
        let mut cases = Vec::new();
        for params in &params {
            write_case(problem, params, rng, &mut cases)?;
        }
        let timed = problem.timed_sizes().into_iter();
        let timed = timed.map(|params| (problem.work_flops(params), params));
        let least = timed.min_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((work, timed)) = least
            && work <= MOST_TIMED_WORK
        {
            let before = cases.len();
            write_case(problem, timed, rng, &mut cases)?;
            if cases.len() - before <= MOST_TIMED_BYTES {
                params.push(timed.clone());
            } else {
                cases.truncate(before);
            }
        }
        let mut file = number(params.len()).to_vec();
        file.append(&mut cases);
        Ok(Self { params, file })
    }
}

fn write_case(
    problem: &Problem,
    params: &Params,
    rng: &mut ChaCha8Rng,
    file: &mut Vec<u8>,
) -> Result<(), Failure> {
    let known = &problem.verify.distributions;
    let distribution = if known.is_empty() {
        Distribution::Uniform
    } else {
        known[rng.random_range(0..known.len())]
    };
    let mut specification = specify(problem, params)?;
    if !specification.scalars().is_empty() {
        specification.draw(rng.random());
    }
    for given in specification.given() {
        match given {
            Given::Int(value) => file.extend(value.to_ne_bytes()),
            Given::Scalar(scalar) => file.extend(scalar.value().to_ne_bytes()),
            Given::Array(array) => {
                let content = if array.role.is_read() {
                    content::draw(array, distribution, rng)
                } else {
                    poison(array.element).repeat(array.count())
                };
                file.extend(number(content.len()));
                file.extend(content);
            }
        }
    }
    Ok(())
}

fn number(count: usize) -> [u8; 8] {
    (count as i64).to_ne_bytes()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use flopsmith_test_support::shipped;
    use rand::SeedableRng;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::problem(name)).unwrap()
    }

    const DGEMM: &str = "  int fs_0 = fs_number();
  void *fs_1 = fs_array(64);
  void *fs_2 = fs_array(64);
  void *fs_3 = fs_array(64);
  dgemm(fs_0, fs_1, fs_2, fs_3);
  lseek(fs_file, start, SEEK_SET);
  fs_0 = fs_number();
  fs_again(fs_1);
  fs_again(fs_2);
  fs_again(fs_3);
  dgemm(fs_0, fs_1, fs_2, fs_3);
  free(fs_1);
  free(fs_2);
  free(fs_3);";

    const HISTOGRAM: &str = "  int fs_0 = fs_number();
  int fs_1 = fs_number();
  void *fs_2 = fs_array(64);
  void *fs_3 = fs_array(64);
  histogram(fs_0, fs_1, fs_2, fs_3);
  lseek(fs_file, start, SEEK_SET);
  fs_0 = fs_number();
  fs_1 = fs_number();
  fs_again(fs_2);
  fs_again(fs_3);
  histogram(fs_0, fs_1, fs_2, fs_3);
  free(fs_2);
  free(fs_3);";

    #[test]
    fn scalars_are_passed_by_value_and_arrays_that_are_written_are_read_again() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/arguments/axpby");
        let problem = Problem::load(&folder).unwrap();
        let expected = "  int fs_0 = fs_number();
  double fs_1 = fs_real();
  void *fs_2 = fs_array(64);
  float fs_3 = fs_real();
  void *fs_4 = fs_array(64);
  axpby(fs_0, fs_1, fs_2, fs_3, fs_4);
  lseek(fs_file, start, SEEK_SET);
  fs_0 = fs_number();
  fs_1 = fs_real();
  fs_again(fs_2);
  fs_3 = fs_real();
  fs_again(fs_4);
  axpby(fs_0, fs_1, fs_2, fs_3, fs_4);
  free(fs_2);
  free(fs_4);";
        assert_eq!(calls(&problem.entry), expected);
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let mut file = Vec::new();
        let params = Params::from([("n".to_owned(), 3)]);
        write_case(&problem, &params, &mut rng, &mut file).unwrap();
        let real = |at: usize| f64::from_ne_bytes(file[at..at + 8].try_into().unwrap());
        let (alpha, beta) = (real(8), real(48));
        assert!((0.5..2.0).contains(&alpha), "{alpha}");
        assert!(
            (-1.0..1.0).contains(&beta) && f64::from(beta as f32) == beta,
            "{beta}"
        );
        // Two numbers and two arrays of three doubles with their lengths.
        assert_eq!(file.len(), 3 * 8 + 2 * (8 + 3 * 8));
    }

    #[test]
    fn the_driver_calls_what_the_problem_says() {
        for (name, expected) in [("dgemm", DGEMM), ("histogram", HISTOGRAM)] {
            let problem = problem(name);
            assert_eq!(calls(&problem.entry), expected);
            let source = source(&problem);
            assert!(source.contains(expected) && source.contains(&problem.entry.prototype));
            assert!(!source.contains('@'), "{source}");
            assert!(source.contains(&format!("exitcode={REPORTED}:")));
        }
    }

    /// Reads a file of cases as the driver does.
    fn read(problem: &Problem, mut file: &[u8]) -> Vec<Vec<i64>> {
        let mut number = |skip: bool| {
            let (bytes, rest) = file.split_first_chunk::<8>().unwrap();
            let number = i64::from_ne_bytes(*bytes);
            file = if skip { &rest[number as usize..] } else { rest };
            number
        };
        let cases = number(false);
        let read = (0..cases)
            .map(|_| {
                let kinds = problem.entry.args.iter().map(|a| &a.kind);
                kinds
                    .map(|kind| number(matches!(kind, ArgKind::Array { .. })))
                    .collect()
            })
            .collect();
        assert!(file.is_empty());
        read
    }

    #[test]
    fn the_file_holds_arrays_of_the_sizes_that_are_promised() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let problem = problem("histogram");
        let cases = Cases::draw(&problem, &mut rng).unwrap();
        let read = read(&problem, &cases.file);
        assert_eq!(read.len(), cases.params.len());
        for (read, params) in read.iter().zip(&cases.params) {
            let (n, bins) = (params["n"], params["bins"]);
            assert_eq!(read, &[n, bins, 4 * n, 4 * bins]);
        }
        assert_eq!(&read[0][..2], &[1, 1], "the smallest size comes first");
    }

    #[test]
    fn every_problem_has_cases_that_are_soon_done() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for folder in shipped::problems() {
            let problem = Problem::load(&folder).unwrap();
            let cases = Cases::draw(&problem, &mut rng).unwrap();
            let bytes = cases.file.len();
            assert!(bytes < 64 << 20, "{}: {bytes} bytes", problem.id.as_str());
        }
    }
}
