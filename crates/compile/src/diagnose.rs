//! The interpretation of a compiler's exit and messages.

use std::time::Duration;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, harmless};
use flopsmith_sandbox::{Exit, Finished};

use super::folder::{PRELUDE, source_name};
use super::{LARGEST_OBJECT, succeeded};

/// Most bytes of diagnostics that are kept.
const KEPT: usize = 2048;
/// A process that uses less than 1/50 of the elapsed time is waiting and not working: even on a busy machine, other
/// processes leave it a larger share.
const IDLE: u32 = 50;
/// A killed process that used more than this share of its processor time was killed because of that limit.
const USED_UP: f64 = 0.9;

/// The limits of a compiler process, and the disk space left when the process had ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// Limit on processor time.
    pub cpu: Duration,
    /// Limit on memory, in bytes.
    pub memory_bytes: u64,
    /// Space left in the output folder, in bytes; none where it is unknown.
    pub room_bytes: Option<u64>,
}

/// Returns the warnings of a successful compilation, or the reason of a failure.
pub(super) fn judge(
    ended: &Finished,
    problem: &Problem,
    language: Language,
    allowed: &Allowed,
) -> Result<String, Failure> {
    let file = source_name(language);
    let said = String::from_utf8_lossy(&ended.stderr);
    if succeeded(ended) {
        return Ok(cut(said.trim()));
    }
    limits(ended, &said, allowed)?;
    definition(&said, problem)?;
    if let Some(line) = said.lines().find(|line| is_out_of_reach(line)) {
        return Err(Failure::candidate(
            CandidateFault::MemoryLimit,
            format!(
                "the static data take more than 2 GiB, which is more than a program may have; make its arrays smaller\n{}",
                cut(line)
            ),
        ));
    }
    let entry = &problem.entry.name;
    let quoted = |before: &str, after: &str| {
        ["'", "‘", "`"].iter().any(|open| {
            said.lines().any(|l| {
                l.contains("error:")
                    && l.split_once(&format!("{before}{open}{entry}"))
                        .is_some_and(|(_, rest)| {
                            rest.trim_start_matches(['\'', '’', '`'])
                                .trim_start()
                                .starts_with(after)
                        })
            })
        })
    };
    let signature = quoted("conflicting types for ", "")
        || quoted("static declaration of ", "follows")
        || quoted("", "redeclared as different kind")
        || (language == Language::Cxx && said.lines().any(|l| redeclares(l, entry)));
    if signature {
        return Err(Failure::candidate(
            CandidateFault::WrongSignature,
            format!(
                "`{entry}` must have the type `{}`\n{}",
                problem.entry.prototype,
                first(&said, file)
            ),
        ));
    }
    if said.contains("`__dso_handle'") || said.contains("undefined symbol: __dso_handle") {
        return Err(Failure::candidate(
            CandidateFault::ForbiddenConstruct,
            "a static object with a destructor is not permitted: its destructor would run when the program ends",
        ));
    }
    Err(Failure::candidate(
        CandidateFault::CompileError,
        first(&said, file),
    ))
}

/// True if a linker reports in this line that code cannot reach data: static data lie within 2 GiB of the code. Messages of
/// the compiler, which quote the source, do not count.
fn is_out_of_reach(line: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    let quotes = has(&["warning:", "note:", " | "]);
    let of_gnu = has(&[
        "relocation truncated to fit: R_",
        "failed to convert GOTPCREL relocation against",
    ]);
    let of_llvm = line.contains("relocation R_") && line.contains(" out of range");
    !quotes && (of_gnu || of_llvm)
}

/// Returns an infrastructure failure if the compiler does not accept the problem's own prototype, which it reads before the
/// program: for example because it has no `_Float16`. No macro of the program comes before the prototype.
fn definition(said: &str, problem: &Problem) -> Result<(), Failure> {
    let of_prelude = |line: &&str| {
        let place = line.strip_prefix("./").unwrap_or(line);
        place
            .strip_prefix(PRELUDE)
            .is_some_and(|rest| rest.starts_with(':') && rest.contains("error:"))
    };
    match said.lines().find(of_prelude) {
        None => Ok(()),
        Some(line) => Err(Failure::infrastructure(
            InfrastructureCause::Compiler,
            format!(
                "this compiler does not accept the prototype `{}` of the problem, so no program can be built: {}; take another compiler, or another type",
                problem.entry.prototype,
                cut(line)
            ),
        )),
    }
}

/// True if a C++ compiler reports in this line that the entry was declared with other types or another linkage.
fn redeclares(line: &str, entry: &str) -> bool {
    const WORDS: [&str; 5] = [
        "conflicting declaration of C function",
        "ambiguating new declaration of",
        "was declared 'extern' and later 'static'",
        "redeclared as different kind",
        "functions that differ only in their return type",
    ];
    let names = || {
        let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.any(|word| word == entry)
    };
    // clang's message for the last of these texts does not name the function.
    line.contains("error:")
        && WORDS.iter().any(|words| line.contains(words))
        && (names() || line.contains(WORDS[4]))
}

/// Returns an error with the reason if preprocessing failed.
pub(super) fn preprocessed(
    ended: &Finished,
    language: Language,
    allowed: &Allowed,
) -> Result<(), Failure> {
    if succeeded(ended) {
        return Ok(());
    }
    let file = source_name(language);
    let said = String::from_utf8_lossy(&ended.stderr);
    limits(ended, &said, allowed)?;
    Err(Failure::candidate(
        CandidateFault::CompileError,
        first(&said, file),
    ))
}

/// Failures that do not concern the source's meaning: exhausted limits, signals and a full disk.
fn limits(ended: &Finished, said: &str, allowed: &Allowed) -> Result<(), Failure> {
    let seconds = format!(
        "{:.1} s of processor time in {:.0} s",
        ended.cpu.as_secs_f64(),
        ended.wall.as_secs_f64()
    );
    match ended.exit {
        Exit::WallTimeout if ended.cpu < ended.wall / IDLE => {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                format!(
                    "the compiler used {seconds}: it waits without computing; run it by hand, or name another compiler"
                ),
            ));
        }
        Exit::WallTimeout if ended.cpu < allowed.cpu / 2 => {
            return Err(Failure::infrastructure(
                InfrastructureCause::Resources,
                format!("the compiler got {seconds}: this machine is too busy"),
            ));
        }
        Exit::WallTimeout | Exit::CpuTimeout => {
            return Err(limit("the compiler exceeded its time limit", said));
        }
        Exit::MemoryLimit => {
            return Err(limit("the compiler exceeded its memory limit", said));
        }
        Exit::OutputLimit => {
            return Err(limit(
                "the compiler wrote more messages than its limit permits",
                said,
            ));
        }
        Exit::ForbiddenSyscall => {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                "the jail forbids a system call that this compiler makes",
            ));
        }
        Exit::Signal(libc::SIGKILL) => return Err(killed(ended, said, allowed)),
        Exit::Signal(signal) => {
            let died = format!("the compiler died from signal {signal}");
            return Err(Failure::candidate(
                CandidateFault::CompileError,
                with_words(&died, said),
            ));
        }
        Exit::Code(_) => {}
    }
    if said.contains("Bad system call") {
        return Err(Failure::infrastructure(
            InfrastructureCause::Compiler,
            format!(
                "the jail forbids a system call that this compiler makes: {}",
                cut(said)
            ),
        ));
    }
    // A child process of the compiler was killed, and the driver reports that.
    if said.contains("Killed signal terminated") {
        return Err(killed(ended, said, allowed));
    }
    const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
    const EXHAUSTED: [&str; 7] = [
        "virtual memory exhausted",
        "out of memory",
        "Cannot allocate memory",
        "memory exhausted",
        "File size limit exceeded",
        "file truncated",
        "CPU time limit exceeded",
    ];
    let spoken = |texts: &[&'static str]| texts.iter().copied().find(|text| said.contains(*text));
    if let (Some(text), Some(room)) = (spoken(&FULL), allowed.room_bytes)
        && room < LARGEST_OBJECT
    {
        return Err(Failure::infrastructure(
            InfrastructureCause::Resources,
            format!(
                "the compiler could not write its result ({text}): the temporary folder has {:.1} MiB left; make room there, or set TMPDIR to another one",
                room as f64 / f64::from(1 << 20)
            ),
        ));
    }
    match spoken(&FULL).or_else(|| spoken(&EXHAUSTED)) {
        Some(text) => Err(limit(
            &format!("the compiler ran into a limit ({text})"),
            said,
        )),
        None => Ok(()),
    }
}

/// The failure for a limit that the compiler exceeded because of the source.
fn limit(what: &str, said: &str) -> Failure {
    Failure::candidate(CandidateFault::CompileLimit, with_words(what, said))
}

/// The failure for a compiler that SIGKILL ended. The kernel sends that signal when the compiler exceeds its processor
/// time or memory, and also when the machine runs out of memory; a person may have sent it as well.
fn killed(ended: &Finished, said: &str, allowed: &Allowed) -> Failure {
    if ended.cpu.as_secs_f64() > USED_UP * allowed.cpu.as_secs_f64() {
        return limit("the compiler exceeded its time limit", said);
    }
    if ended.max_rss_bytes > allowed.memory_bytes / 2 {
        return limit("the compiler exceeded its memory limit", said);
    }
    Failure::infrastructure(
        InfrastructureCause::Resources,
        "the compiler was killed from outside: the machine was short of memory, or a person ended it",
    )
}

/// The text `what`, with the compiler's first message about the source.
fn with_words(what: &str, said: &str) -> String {
    let first = |kind: &str| said.lines().find(|line| line.contains(kind));
    match first("error:").or_else(|| first("warning:")) {
        Some(line) => cut(&format!("{what}: {line}")),
        None => what.to_owned(),
    }
}

/// The first error and the source excerpt that the compiler prints with it, cut.
fn first(said: &str, file: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    // gfortran prints the excerpt first and the error after it.
    let of_fortran = |l: &str| l.starts_with("Error:") || l.starts_with("Fatal Error:");
    let is_error =
        |l: &str| l.contains("error:") || l.contains("undefined reference") || of_fortran(l);
    let Some(from) = lines.iter().position(|l| is_error(l)) else {
        return cut(said.trim());
    };
    if of_fortran(lines[from]) {
        let place = lines[..from].iter().rposition(|l| l.starts_with(file));
        return cut(&lines[place.unwrap_or(from)..=from].join("\n"));
    }
    let more = lines[from + 1..]
        .iter()
        .take(6)
        .take_while(|l| !l.starts_with(file) && !l.starts_with("compilation terminated"));
    let shown: Vec<&str> = std::iter::once(&lines[from]).chain(more).copied().collect();
    let others = lines.iter().filter(|l| is_error(l)).count() - 1;
    let mut text = shown.join("\n");
    if others > 0 {
        text.push_str(&format!("\n({others} more errors)"));
    }
    cut(&text)
}

/// Cuts a text and replaces the characters that a terminal would interpret: a compiler's messages quote the source
/// literally.
fn cut(text: &str) -> String {
    harmless(text, KEPT)
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    fn ended(exit: Exit, cpu_seconds: u64) -> Finished {
        Finished {
            exit,
            stdout: Vec::new(),
            stderr: Vec::new(),
            wall: Duration::from_secs(60),
            cpu: Duration::from_secs(cpu_seconds),
            max_rss_bytes: 0,
        }
    }

    const ALLOWED: Allowed = Allowed {
        cpu: Duration::from_secs(10),
        memory_bytes: 2 << 30,
        room_bytes: Some(1 << 40),
    };

    /// The candidate's fault, or else the infrastructure's cause.
    fn blamed(
        end: &Finished,
        said: &str,
        allowed: &Allowed,
    ) -> Result<CandidateFault, InfrastructureCause> {
        match limits(end, said, allowed) {
            Err(Failure::Candidate { fault, .. }) => Ok(fault),
            Err(Failure::Infrastructure { cause, .. }) => Err(cause),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_busy_machine_is_nobodys_fault() {
        use CandidateFault::CompileLimit;
        use InfrastructureCause::{Compiler, Resources};
        for (exit, cpu_seconds, expected) in [
            // 1 s of a minute: the compiler waits for something, or other processes took the rest.
            (Exit::WallTimeout, 1, Err(Compiler)),
            (Exit::WallTimeout, 2, Err(Resources)),
            (Exit::WallTimeout, 9, Ok(CompileLimit)),
            (Exit::CpuTimeout, 10, Ok(CompileLimit)),
            (Exit::ForbiddenSyscall, 0, Err(Compiler)),
        ] {
            let end = ended(exit, cpu_seconds);
            assert_eq!(
                blamed(&end, "", &ALLOWED),
                expected,
                "{exit:?} {cpu_seconds}"
            );
        }
    }

    #[test]
    fn killed_compilers_are_a_candidate_fault_only_at_an_exhausted_limit() {
        use CandidateFault::CompileLimit;
        let gib = 1u64 << 30;
        let texts = [
            (Exit::Signal(libc::SIGKILL), ""),
            (
                Exit::Code(1),
                "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.\n",
            ),
        ];
        for (exit, said) in texts {
            for (cpu_seconds, max_rss_bytes, expected) in [
                (1, gib / 4, Err(InfrastructureCause::Resources)),
                (1, gib + gib / 2, Ok(CompileLimit)),
                (10, gib / 4, Ok(CompileLimit)),
            ] {
                let end = Finished {
                    max_rss_bytes,
                    ..ended(exit, cpu_seconds)
                };
                assert_eq!(blamed(&end, said, &ALLOWED), expected, "{exit:?} {end:?}");
            }
        }
    }

    #[test]
    fn a_full_folder_of_ours_is_not_the_sources_fault() {
        let said = "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status\n";
        let end = ended(Exit::Code(1), 0);
        let with = |room_bytes| {
            blamed(
                &end,
                said,
                &Allowed {
                    room_bytes,
                    ..ALLOWED
                },
            )
        };
        let limit = Ok(CandidateFault::CompileLimit);
        assert_eq!(with(Some(1 << 40)), limit);
        assert_eq!(with(None), limit);
        for room in [0, 1 << 20, LARGEST_OBJECT - 1] {
            assert_eq!(
                with(Some(room)),
                Err(InfrastructureCause::Resources),
                "{room}"
            );
        }
    }

    #[test]
    fn a_limit_is_told_with_the_first_thing_that_was_said() {
        let detail = |exit, said: &str| match limits(&ended(exit, 10), said, &ALLOWED) {
            Err(Failure::Candidate { detail, .. }) => detail,
            other => unreachable!("{other:?}"),
        };
        let warnings = "kernel.c: In function 'f':\nkernel.c:2:9: warning: division by zero\nkernel.c:3:9: warning: more\n";
        assert_eq!(
            detail(Exit::OutputLimit, warnings),
            "the compiler wrote more messages than its limit permits: kernel.c:2:9: warning: division by zero"
        );
        let error = format!("{warnings}kernel.c:4:1: error: no\n");
        assert!(detail(Exit::MemoryLimit, &error).ends_with(": kernel.c:4:1: error: no"));
        assert!(
            detail(Exit::Signal(11), &error).ends_with("from signal 11: kernel.c:4:1: error: no")
        );
        assert_eq!(
            detail(Exit::CpuTimeout, ""),
            "the compiler exceeded its time limit"
        );
    }

    #[test]
    fn cxx_says_in_its_own_words_that_the_entry_is_another() {
        for line in [
            "kernel.cpp:1:17: error: conflicting declaration of C function 'void dgemm(int, double*)'",
            "kernel.cpp:1:5: error: ambiguating new declaration of 'int dgemm(int)'",
            "kernel.cpp:1:5: error: functions that differ only in their return type cannot be overloaded",
        ] {
            assert!(redeclares(line, "dgemm"), "{line}");
        }
        for line in [
            "kernel.cpp:1:17: error: conflicting declaration of C function 'void my_dgemm(int)'",
            "kernel.cpp:1:17: note: previous declaration 'void dgemm(int)'",
            "kernel.cpp:1:17: error: 'dgemm' was not declared in this scope",
        ] {
            assert!(!redeclares(line, "dgemm"), "{line}");
        }
    }

    #[test]
    fn static_data_beyond_the_reach_of_code_are_too_much_memory() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("it is shipped");
        let fault = |said: &str| {
            let end = Finished {
                stderr: said.into(),
                ..ended(Exit::Code(1), 0)
            };
            match judge(&end, &problem, Language::C, &ALLOWED) {
                Err(Failure::Candidate { fault, detail }) => (fault, detail),
                other => unreachable!("{other:?}"),
            }
        };
        for said in [
            "/tmp/ccM2.o: in function `dgemm':\nkernel.c:(.text+0x7): relocation truncated to fit: R_X86_64_PC32 against `.bss'\ncollect2: error: ld returned 1 exit status\n",
            "/usr/bin/ld: failed to convert GOTPCREL relocation against 's'; relink with --no-relax\ncollect2: error: ld returned 1 exit status\n",
            "ld.lld: error: kernel.c:(.text+0x7): relocation R_X86_64_PC32 out of range: 2400000000 is not in [-2147483648, 2147483647]\n",
            "mold: error: /tmp/ccM2.o:(.text): relocation R_X86_64_PC32 against s out of range: 2400000000 is not in [-2147483648, 2147483648)\n",
        ] {
            let (found, detail) = fault(said);
            assert_eq!(found, CandidateFault::MemoryLimit, "{said}");
            assert!(
                detail.contains("2 GiB") && detail.contains("reloc"),
                "{detail}"
            );
        }
        for said in [
            "kernel.c:1:2: warning: #warning relocation truncated to fit: R_ [-Wcpp]\n    1 | #warning relocation truncated to fit: R_\nkernel.c:2:1: error: unknown type name 'x'\n",
            "/usr/bin/ld: kernel.o: relocation R_X86_64_PC32 against symbol `s' can not be used when making a shared object; recompile with -fPIC\n",
        ] {
            assert_eq!(fault(said).0, CandidateFault::CompileError, "{said}");
        }
    }

    #[test]
    fn a_prototype_that_the_compiler_does_not_accept_is_not_the_programs_fault() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("it is shipped");
        let of = |said: &str| definition(said, &problem);
        for said in [
            "In file included from <command-line>:\nentry.h:1:20: error: unknown type name '_Float16'\n",
            "In file included from <built-in>:1:\n./entry.h:1:20: error: _Float16 is not supported on this target\n",
        ] {
            let failure = of(said).expect_err("no program can be built");
            assert!(
                matches!(
                    &failure,
                    Failure::Infrastructure {
                        cause: InfrastructureCause::Compiler,
                        detail
                    } if detail.contains("_Float16") && detail.contains("void dgemm(")
                ),
                "{failure}"
            );
        }
        for said in [
            "kernel.c:1:6: error: conflicting types for 'dgemm'\nentry.h:1:6: note: previous declaration\n",
            "kernel.c:1:2: error: #error entry.h:1:1: error: x\n",
            "    1 | entry.h:1:1: error: x\n",
        ] {
            assert!(of(said).is_ok(), "{said}");
        }
    }

    #[test]
    fn the_first_error_is_shown_with_its_place() {
        let said = "kernel.c: In function 'f':\nkernel.c:2:5: warning: w\nkernel.c:3:9: error: 'x' undeclared\n    \
                    3 | x;\n      | ^\nkernel.c:4:1: error: y\n";
        assert_eq!(
            first(said, "kernel.c"),
            "kernel.c:3:9: error: 'x' undeclared\n    3 | x;\n      | ^\n(1 more errors)"
        );
        let said = "kernel.f90:2:3:\n\n    2 |   x = y +\n      |   1\nError: Invalid expression at (1)\nkernel.f90:9:1:\nError: z\n";
        assert_eq!(
            first(said, "kernel.f90"),
            "kernel.f90:2:3:\n\n    2 |   x = y +\n      |   1\nError: Invalid expression at (1)"
        );
        assert!(cut(&"é".repeat(2000)).len() <= KEPT + 4);
    }
}
