//! A last check of programs that are about to count: each is built once more with sanitizers and called in its jail.
//!
//! Verification finds the faults that show in results. If a program reads beyond its arrays and throws the value away,
//! if an overflow happens to wrap, or if a race happens to end well, no result shows it, and any of these may break on
//! another machine. Before a program becomes an elite, or its number is certified, it is therefore compiled with
//! AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer if it uses OpenMP and is timed with
//! several threads. The sanitized program is called with a few small secret cases.
//!
//! Sanitizers find mistakes, not malice: the program runs in one process with the runtime that watches it and could
//! silence that runtime. The program cannot tell the two builds apart by macros or exempt itself by attributes, since
//! the scan refuses both. The sanitizers do not see reads of memory that was never written to (MemorySanitizer is not
//! in gcc; the poison in outputs and verification stand in for it), nor the reads of masked vector loads and gathers.
//!
//! Programs in C++ and Fortran are checked as those in C are. In C++, memory from `new` must go back by the `delete`
//! that belongs to it. In Fortran, subscripts are compared with the bounds that arrays are declared with. The library
//! function that the compiler then calls is not linked; a reporter of ours (`fortran.c`) takes its place.
//!
//! A program is blamed only for a report of a runtime. But if a program does not build with checks, does not start,
//! asks for more memory at once than the runtime gives, or is too slow or too large with checks in it, it was not
//! checked, and so it does not count either ([`UnknownCause::Unchecked`]): otherwise a program with something to hide
//! would only have to be too large. A sanitizer is used only once the problem's own reference has run under it without
//! a finding. A sanitizer that is not usable on this machine is left out for all programs, and [`Checked::left_out`]
//! says so.

mod driver;
mod openmp;
mod report;
mod tool;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::{self, Toolchain};
use flopsmith_compile::{Companion, Compiler, Instrumentation, Instrumented, Made, source_name};
use flopsmith_problem::{Language, Params, Problem};
use flopsmith_protocol::{
    CandidateFault, Digest, Failure, InfrastructureCause, UnknownCause, harmless,
};
use flopsmith_sandbox::{Exit, Finished, Job, Kind, Limits, MemoryBound, Sandbox};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use driver::{Cases, REPORTED, STACK_BYTES};
use report::Report;
use tool::Tool;

pub use tool::{missing_runtimes, no_room};

/// Most memory of a sanitized program, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
const CPU: Duration = Duration::from_secs(20);
const WALL: Duration = Duration::from_secs(60);
/// Threads of the runtimes themselves, and the main one.
const MORE_THREADS: u64 = 8;
/// Most bytes quoted from a runtime's output that is no report.
const EXCERPT_BYTES: usize = 300;
/// Verdicts that are kept in memory: programs that become elites are few.
const KEPT: usize = 4096;
/// How often the reference is tried before a sanitizer is left out for all programs because the reference did not run
/// to its end: a busy machine may have kept the reference from that.
const REFERENCE_TRIES: u32 = 3;

/// The sanitizers that ran on a program without findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The sanitizers, in words.
    pub by: Vec<String>,
    /// Sanitizers that are not usable on this machine, with the reason.
    pub left_out: Vec<String>,
    /// Seconds it took.
    pub seconds: f64,
}

/// The limits of a sanitized program with so many threads.
pub(crate) fn limits(threads: u32) -> Limits {
    Limits {
        wall: WALL,
        cpu: CPU,
        memory_bytes: MEMORY_BYTES,
        file_bytes: 0,
        processes: u64::from(threads) + MORE_THREADS,
        open_files: 16,
        output_bytes: 64 << 10,
        stack_bytes: STACK_BYTES,
    }
}

fn is_clang(toolchain: &Toolchain) -> bool {
    toolchain.version.contains("clang")
}

/// How a sanitized program ended.
enum Ended {
    Clean,
    Finding(String),
    /// No code of the program had run yet.
    NotStarted(String),
    /// The program began, but its end decides nothing.
    Undecided(String),
}

/// Verdicts of programs, by language and digest of the text.
type Known = HashMap<(Language, Digest), Result<Checked, Failure>>;

/// Companion objects, by sanitizer and whether the program is in Fortran.
type Own = BTreeMap<(Tool, bool), Arc<[Companion]>>;

/// Checks programs of one problem with sanitizers. Threads can share one instance.
pub struct Sanitizers {
    sandbox: Arc<Sandbox>,
    compiler: Compiler,
    problem: Arc<Problem>,
    threads: u32,
    /// Per sanitizer: it is usable here, or the reason why it is not.
    usable: Mutex<BTreeMap<Tool, Result<(), String>>>,
    known: Mutex<Known>,
    /// Companion objects linked to every program, by sanitizer and whether the program is in Fortran.
    own: Mutex<Own>,
    /// Builds with a sanitizer so far.
    builds: AtomicU64,
}

impl Sanitizers {
    /// Sanitizers for programs that are timed with `threads` threads. Missing tools show with the first program.
    /// Programs that clang builds are checked as gcc builds them: the runtimes of gcc are linked into the one file that
    /// is called.
    pub fn new(
        sandbox: Arc<Sandbox>,
        problem: Arc<Problem>,
        toolchain: &Toolchain,
        threads: u32,
    ) -> Self {
        let gcc = is_clang(toolchain).then(|| Toolchain::detect(Some("gcc"), &problem));
        let toolchain = match gcc {
            Some(Ok(gcc)) => gcc,
            // A missing gcc is reported when there is a program to check.
            Some(Err(_)) | None => toolchain.clone(),
        };
        Self {
            compiler: Compiler::new(Arc::clone(&sandbox), toolchain),
            sandbox,
            problem,
            threads,
            usable: Mutex::default(),
            known: Mutex::default(),
            own: Mutex::default(),
            builds: AtomicU64::new(0),
        }
    }

    /// Checks `source`, in the language of the problem's candidates. It has passed the compile stage and verification;
    /// `openmp` says whether it uses OpenMP. The same source gets the same answer.
    ///
    /// # Errors
    /// [`CandidateFault::UndefinedBehaviour`] with the finding; [`UnknownCause::Unchecked`] if a sanitizer under which
    /// the reference runs could not check the program; or an infrastructure failure.
    pub fn check(&self, source: &str, openmp: bool) -> Result<Checked, Failure> {
        self.check_as(self.problem.language, source, openmp)
    }

    /// [`Sanitizers::check`] for a source in another language.
    ///
    /// # Errors
    /// The same.
    pub fn check_as(
        &self,
        language: Language,
        source: &str,
        openmp: bool,
    ) -> Result<Checked, Failure> {
        let key = (language, Digest::of(source.as_bytes()));
        if let Some(known) = locked(&self.known).get(&key) {
            return known.clone();
        }
        let result = self.look(language, source, openmp);
        if matches!(result, Ok(_) | Err(Failure::Candidate { .. })) {
            let mut known = locked(&self.known);
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(key, result.clone());
        }
        result
    }

    /// The number of builds with a sanitizer so far, those of the problem's reference included.
    pub fn builds(&self) -> u64 {
        self.builds.load(Ordering::Relaxed)
    }

    fn look(&self, language: Language, source: &str, openmp: bool) -> Result<Checked, Failure> {
        let started = Instant::now();
        let (mut by, mut left_out) = (Vec::new(), Vec::new());
        let threaded = openmp && self.threads > 1;
        let tools = [Some(Tool::Address), threaded.then_some(Tool::Thread)];
        for tool in tools.into_iter().flatten() {
            if let Err(why) = self.usable(tool)? {
                left_out.push(format!("{tool}: {why}"));
                continue;
            }
            match self.once(tool, language, source)? {
                Ended::Clean => by.push(tool.to_string()),
                Ended::Finding(words) => {
                    return Err(Failure::candidate(
                        CandidateFault::UndefinedBehaviour,
                        words,
                    ));
                }
                Ended::NotStarted(why) => {
                    let why = format!("the sanitized program did not start: {why}");
                    return Err(unchecked(tool, &why));
                }
                Ended::Undecided(why) => return Err(unchecked(tool, &why)),
            }
        }
        Ok(Checked {
            by,
            left_out,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Whether a sanitizer can be used here, or why not. The problem's own reference is tried with it first. The answer
    /// is kept for all later programs; an infrastructure failure is not.
    fn usable(&self, tool: Tool) -> Result<Result<(), String>, Failure> {
        let mut known = locked(&self.usable);
        if let Some(answer) = known.get(&tool) {
            return Ok(answer.clone());
        }
        let answer = match self.obstacle(tool) {
            Some(why) => Err(why),
            None => match self.reference(tool)? {
                Ended::Clean => Ok(()),
                Ended::Finding(words) => Err(format!(
                    "the sanitizer reports a finding in the problem's own reference ({words})"
                )),
                Ended::NotStarted(why) | Ended::Undecided(why) => Err(format!(
                    "the sanitizer cannot check the problem's own reference: {why}"
                )),
            },
        };
        if let Err(why) = &answer {
            tracing::warn!(sanitizers = %tool, %why, "sanitizers are left out; `flopsmith doctor` reports what is missing");
        }
        known.insert(tool, answer.clone());
        Ok(answer)
    }

    /// How the problem's own reference ends.
    fn reference(&self, tool: Tool) -> Result<Ended, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let ended = self
                .once(tool, Language::C, &self.problem.reference_source)
                .map_err(own)?;
            let says_nothing = matches!(ended, Ended::NotStarted(_) | Ended::Undecided(_));
            if !says_nothing || tries >= REFERENCE_TRIES {
                return Ok(ended);
            }
        }
    }

    /// An obstacle that shows without running the sanitizer.
    fn obstacle(&self, tool: Tool) -> Option<String> {
        let toolchain = self.compiler.toolchain();
        if is_clang(toolchain) {
            return Some(
                "sanitizers check a build by gcc, and this machine has no gcc: install gcc"
                    .to_owned(),
            );
        }
        let missing = missing_runtimes(&toolchain.compiler);
        if let Some(name) = tool.runtimes().iter().find(|name| missing.contains(name)) {
            return Some(format!(
                "{} has no {name}; install its sanitizers (Debian, Ubuntu: `apt install gcc`; Fedora: `dnf install libasan-static libubsan-static libtsan-static`)",
                toolchain.compiler.display()
            ));
        }
        if toolchain::find("objcopy").is_none() {
            return Some("`objcopy` was not found; install binutils".to_owned());
        }
        // Other faults of the jail show when the program runs.
        if let Err(error @ flopsmith_sandbox::Error::Limit { .. }) =
            crate::needs::sanitizers(&self.sandbox, self.threads)
        {
            return Some(error.to_string());
        }
        (tool == Tool::Thread).then(no_room).flatten()
    }

    /// Builds a program with a sanitizer and lets it run.
    fn once(&self, tool: Tool, language: Language, source: &str) -> Result<Ended, Failure> {
        let made = match self.build(tool, language, source)? {
            Made::Built(made) => made,
            Made::Unbuilt(why) => return Ok(Ended::Undecided(why)),
        };
        if tool == Tool::Thread
            && let Some(name) = openmp::unknown(&made.object)
        {
            return Ok(Ended::Undecided(format!(
                "the sanitizer does not know which accesses `{name}` orders"
            )));
        }
        let cases = Cases::draw(
            &self.problem,
            &mut ChaCha8Rng::seed_from_u64(rand::rng().random()),
        )?;
        let finished = self.run(tool, &made, &cases)?;
        Ok(self.judge(tool, language, &made, &cases, &finished))
    }

    fn build(&self, tool: Tool, language: Language, source: &str) -> Result<Made, Failure> {
        self.builds.fetch_add(1, Ordering::Relaxed);
        let own = self.own(tool, language)?;
        let objcopy = toolchain::find("objcopy").unwrap_or_else(|| PathBuf::from("objcopy"));
        let how = Instrumentation {
            checks: &tool.checks(language),
            link: &tool.link(),
            own: &own,
            objcopy: &objcopy,
        };
        self.compiler
            .instrument(language, &self.problem, source, &how)
    }

    fn own(&self, tool: Tool, language: Language) -> Result<Arc<[Companion]>, Failure> {
        let mut known = locked(&self.own);
        let key = (tool, language.is_fortran());
        if let Some(own) = known.get(&key) {
            return Ok(Arc::clone(own));
        }
        let driver = driver::source(&self.problem);
        let mut own = vec![self.compiler.companion("driver", &driver)?];
        if tool == Tool::Thread {
            own.push(self.compiler.companion("openmp", openmp::WRAPPERS)?);
        }
        if language.is_fortran() {
            own.push(self.compiler.companion("fortran", &driver::reporters())?);
        }
        let own: Arc<[Companion]> = own.into();
        known.insert(key, Arc::clone(&own));
        Ok(own)
    }

    fn run(&self, tool: Tool, made: &Instrumented, cases: &Cases) -> Result<Finished, Failure> {
        let program = self.file("sanitized-", &made.program, 0o555)?;
        let file = self.file("cases-", &cases.file, 0o444)?;
        // As in verification; with ThreadSanitizer at least two, since it looks for races.
        let verified = self.problem.threads.iter().copied().max().unwrap_or(1);
        let threads = match tool {
            Tool::Address => verified,
            Tool::Thread => self.threads.max(2),
        };
        // The driver calls the program from a thread of its own.
        let mut job = Job::new(
            Kind::Run {
                threads: threads + 1,
            },
            ["/sanitized"],
        );
        job.read_only = vec![
            (program.to_path_buf(), "/sanitized".into()),
            (file.to_path_buf(), "/cases".into()),
        ];
        job.env = [
            ("OMP_NUM_THREADS", threads.to_string()),
            ("OMP_DYNAMIC", "false".to_owned()),
            ("GOMP_SPINCOUNT", "1000".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        job.memory_bound = MemoryBound::Resident;
        job.limits = limits(threads);
        self.sandbox
            .run(&job)
            .map_err(|e| Failure::ours(InfrastructureCause::Jail, &e))
    }

    /// A file for the jail, closed: the kernel starts no program whose file is still open for writing.
    fn file(&self, prefix: &str, content: &[u8], mode: u32) -> Result<tempfile::TempPath, Failure> {
        let made = || -> std::io::Result<tempfile::TempPath> {
            let path = tempfile::Builder::new()
                .prefix(prefix)
                .tempfile_in(self.sandbox.scratch())?
                .into_temp_path();
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            Ok(path)
        };
        made().map_err(|e| {
            Failure::infrastructure(
                InfrastructureCause::Resources,
                format!("cannot write the files of a sanitized program: {e}"),
            )
        })
    }

    fn judge(
        &self,
        tool: Tool,
        language: Language,
        made: &Instrumented,
        cases: &Cases,
        finished: &Finished,
    ) -> Ended {
        let progress = Progress::of(&finished.stdout);
        let said = String::from_utf8_lossy(&finished.stderr);
        let Some(case) = progress.cases.checked_sub(1) else {
            return Ended::NotStarted(end_in_words(finished));
        };
        if let Some(report) = report::find(&said, source_name(language)) {
            let mut words = self.words(made, &report);
            if let Some(params) = cases.params.get(case) {
                words.push_str(&format!(" (called with {})", name(params)));
            }
            return Ended::Finding(format!("{tool} sanitizer: {words}"));
        }
        if report::was_denied_memory(&said) {
            return Ended::Undecided(
                "the sanitized program asked for more memory than it may have".to_owned(),
            );
        }
        if progress.done && finished.exit == Exit::Code(0) {
            return Ended::Clean;
        }
        Ended::Undecided(end_in_words(finished))
    }

    /// A report in words, with the lines of the program that it is about.
    fn words(&self, made: &Instrumented, report: &Report) -> String {
        let addresses: Vec<u64> = report.stacks.iter().flatten().copied().collect();
        let found = match toolchain::find("addr2line") {
            Some(tool) if report.line.is_none() => self.compiler.lines(made, &tool, &addresses),
            _ => Vec::new(),
        };
        let mut found = found.into_iter();
        let mut lines = Vec::new();
        for stack in &report.stacks {
            let of_stack: Vec<Option<u32>> = found.by_ref().take(stack.len()).collect();
            lines.extend(of_stack.into_iter().flatten().next());
        }
        report.words(&lines)
    }
}

/// The failure of a program that a sanitizer could not check although it checks the problem's reference. The program
/// does not count.
fn unchecked(tool: Tool, why: &str) -> Failure {
    Failure::unknown(
        UnknownCause::Unchecked,
        format!(
            "the {tool} sanitizer checks the problem's reference and cannot check this program, so the program does not count: {why}; \
             write a program that needs less (smaller tables, fewer steps at small sizes, plain constructs)"
        ),
    )
}

/// A fault of the problem's own program is no candidate's fault.
fn own(failure: Failure) -> Failure {
    match failure {
        Failure::Candidate { fault, detail } => Failure::infrastructure(
            InfrastructureCause::Baseline,
            format!("the problem's own reference.c is refused ({fault}): {detail}"),
        ),
        other => other,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of the driver.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    /// Cases that the program began.
    cases: usize,
    done: bool,
}

impl Progress {
    fn of(stdout: &[u8]) -> Self {
        let said = String::from_utf8_lossy(stdout);
        Self {
            cases: said.lines().filter(|line| *line == "case").count(),
            done: said.lines().next_back() == Some("done"),
        }
    }
}

fn end_in_words(finished: &Finished) -> String {
    let how = match finished.exit {
        Exit::WallTimeout | Exit::CpuTimeout => "the sanitized program takes too long".to_owned(),
        Exit::MemoryLimit => "the sanitized program takes too much memory".to_owned(),
        Exit::OutputLimit => "the sanitized program wrote too much output".to_owned(),
        Exit::Code(REPORTED) => {
            "the sanitizer's run-time library ended the program without a finding".to_owned()
        }
        other => format!("the sanitized program ended with {other:?}"),
    };
    let said = String::from_utf8_lossy(&finished.stderr);
    let last = said
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !line.contains("reading executable name failed"));
    match last {
        Some(line) => format!("{how}: {}", harmless(line, EXCERPT_BYTES)),
        None => how,
    }
}

fn name(params: &Params) -> String {
    let each: Vec<String> = params.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_case_that_was_begun_is_known() {
        let of = |said: &str| Progress::of(said.as_bytes());
        let progress = |cases, done| Progress { cases, done };
        assert_eq!(of(""), progress(0, false));
        assert_eq!(of("case\ncase\n"), progress(2, false));
        assert_eq!(of("case\ncase\ndone\n"), progress(2, true));
    }
}
