//! What a compiler's end means and says.

use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateFault, InfrastructureCause};
use flopsmith_sandbox::{Exit, Finished};

use super::{CPU, succeeded};
use crate::failure::{Failure, harmless};

/// Most bytes of diagnostics that are kept.
const KEPT: usize = 2048;

/// The warnings of a successful compilation, or why it failed.
pub(super) fn judge(ended: &Finished, problem: &Problem, file: &str) -> Result<String, Failure> {
    let said = String::from_utf8_lossy(&ended.stderr);
    if succeeded(ended) {
        return Ok(cut(said.trim()));
    }
    limits(ended, &said)?;
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
        || quoted("", "redeclared as different kind");
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
    Err(Failure::candidate(
        CandidateFault::CompileError,
        first(&said, file),
    ))
}

/// Why preprocessing failed, if it did.
pub(super) fn preprocessed(ended: &Finished, file: &str) -> Result<(), Failure> {
    if succeeded(ended) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    limits(ended, &said)?;
    Err(Failure::candidate(
        CandidateFault::CompileError,
        first(&said, file),
    ))
}

/// Ends that say nothing about the source's meaning.
fn limits(ended: &Finished, said: &str) -> Result<(), Failure> {
    let limit = |what: &str| {
        Err(Failure::candidate(
            CandidateFault::CompileLimit,
            what.to_owned(),
        ))
    };
    match ended.exit {
        Exit::WallTimeout if ended.cpu < CPU / 2 => {
            return Err(Failure::infrastructure(
                InfrastructureCause::Resources,
                format!(
                    "the compiler got {:.1} s of processor time in {:.0} s: this machine is too busy",
                    ended.cpu.as_secs_f64(),
                    ended.wall.as_secs_f64()
                ),
            ));
        }
        Exit::WallTimeout | Exit::CpuTimeout => {
            return limit("the compiler needed more time than it may");
        }
        Exit::MemoryLimit => return limit("the compiler needed more memory than it may"),
        Exit::OutputLimit => return limit("the compiler wrote more messages than it may"),
        Exit::ForbiddenSyscall => {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                "the jail forbids a system call that this compiler makes",
            ));
        }
        Exit::Signal(libc::SIGKILL) => {
            return limit("the compiler was killed, most likely for its memory");
        }
        Exit::Signal(signal) => {
            return Err(Failure::candidate(
                CandidateFault::CompileError,
                format!("the compiler died from signal {signal}"),
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
    const EXHAUSTED: [&str; 9] = [
        "virtual memory exhausted",
        "out of memory",
        "Cannot allocate memory",
        "memory exhausted",
        "File size limit exceeded",
        "No space left on device",
        "file truncated",
        "Killed signal terminated",
        "CPU time limit exceeded",
    ];
    match EXHAUSTED.iter().find(|text| said.contains(**text)) {
        Some(text) => limit(&format!("the compiler ran into a limit ({text})")),
        None => Ok(()),
    }
}

/// The first error and what the compiler shows of the place, cut.
fn first(said: &str, file: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let is_error = |l: &str| l.contains("error:") || l.contains("undefined reference");
    let Some(from) = lines.iter().position(|l| is_error(l)) else {
        return cut(said.trim());
    };
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

/// Compilers show the source as it is, whatever a terminal makes of it.
fn cut(text: &str) -> String {
    harmless(text, KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: Exit, cpu_seconds: u64) -> Finished {
        use std::time::Duration;
        Finished {
            exit,
            stdout: Vec::new(),
            stderr: Vec::new(),
            wall: Duration::from_secs(60),
            cpu: Duration::from_secs(cpu_seconds),
            max_rss_bytes: 0,
        }
    }

    #[test]
    fn a_busy_machine_is_nobodys_fault() {
        let fault = |end: Finished| match limits(&end, "") {
            Err(Failure::Candidate { fault, .. }) => Some(fault),
            _ => None,
        };
        assert_eq!(fault(ended(Exit::WallTimeout, 1)), None);
        assert_eq!(
            fault(ended(Exit::WallTimeout, 9)),
            Some(CandidateFault::CompileLimit)
        );
        assert_eq!(
            fault(ended(Exit::CpuTimeout, 10)),
            Some(CandidateFault::CompileLimit)
        );
        assert_eq!(fault(ended(Exit::ForbiddenSyscall, 0)), None);
        assert!(limits(&ended(Exit::ForbiddenSyscall, 0), "").is_err());
        assert!(limits(&ended(Exit::WallTimeout, 1), "").is_err());
    }

    #[test]
    fn the_first_error_is_shown_with_its_place() {
        let said = "kernel.c: In function 'f':\nkernel.c:2:5: warning: w\nkernel.c:3:9: error: 'x' undeclared\n    \
                    3 | x;\n      | ^\nkernel.c:4:1: error: y\n";
        assert_eq!(
            first(said, "kernel.c"),
            "kernel.c:3:9: error: 'x' undeclared\n    3 | x;\n      | ^\n(1 more errors)"
        );
        assert!(cut(&"é".repeat(2000)).len() <= KEPT + 4);
    }
}
