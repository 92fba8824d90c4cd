//! Decides whose fault the end of a harness process is.

use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, harmless};
use flopsmith_sandbox::{Exit, Finished};

use super::setup::STACK_BYTES;

/// No program in the jail can send this signal, and when the supervisor sends it, the supervisor gives the reason.
const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;

/// Most bytes quoted from a program's output.
const EXCERPT_BYTES: usize = 400;

/// The failure of a process that ended before a candidate's first instruction ran, which cannot be the candidate's
/// fault.
pub fn before_first_call(finished: &Finished) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Harness,
        format!(
            "the harness ended before the first call: {:?} {}",
            finished.exit,
            excerpt(&finished.stderr)
        ),
    )
}

/// The failure of a candidate whose object the loader did not take, with the loader's own message.
pub fn not_loaded(message: &str, memory_bytes: u64) -> Failure {
    // Messages of glibc and of musl.
    const NO_ROOM: [&str; 4] = [
        "cannot map zero-fill pages",
        "failed to map segment",
        "cannot allocate memory",
        "Cannot allocate memory",
    ];
    if NO_ROOM.iter().any(|words| message.contains(words)) {
        return Failure::candidate(
            CandidateFault::MemoryLimit,
            format!(
                "the program needs more than the {} MiB of memory that it may have, its static data included: \
                 the object cannot be loaded: {message}",
                memory_bytes >> 20
            ),
        );
    }
    let fault = if message.contains("undefined symbol") {
        CandidateFault::ForbiddenSymbol
    } else {
        CandidateFault::ForbiddenConstruct
    };
    Failure::candidate(fault, format!("the object cannot be loaded: {message}"))
}

/// The failure of a process that ended after its candidate had been called.
pub fn of_candidate(finished: &Finished, memory_bytes: u64) -> Failure {
    // A program that touches memory it did not get dies like one with any other wild pointer.
    let starved = finished.max_rss_bytes > memory_bytes / 2;
    if finished.exit == Exit::Signal(SIGKILL) && !starved {
        return Failure::infrastructure(
            InfrastructureCause::Harness,
            "the process was killed from outside: the machine is short of memory, or a person killed it",
        );
    }
    let memory = "the program used all the memory it may have".to_owned();
    let (fault, what) = match finished.exit {
        Exit::Code(code) => (
            CandidateFault::Exited,
            format!("the program ended its process with code {code}"),
        ),
        Exit::Signal(_) if starved => (CandidateFault::MemoryLimit, memory),
        Exit::MemoryLimit => (CandidateFault::MemoryLimit, memory),
        Exit::Signal(signal) => (
            CandidateFault::Crash,
            format!("the program died from {}", signal_name(signal)),
        ),
        Exit::WallTimeout | Exit::CpuTimeout => (
            CandidateFault::Timeout,
            "the program used all the processor time that it may have".to_owned(),
        ),
        Exit::OutputLimit => (
            CandidateFault::ForbiddenSyscall,
            "the program wrote too much output".to_owned(),
        ),
        Exit::ForbiddenSyscall => (
            CandidateFault::ForbiddenSyscall,
            "the program made a system call that no kernel needs (starting threads or processes, opening files, …)"
                .to_owned(),
        ),
    };
    let said = excerpt(&finished.stderr);
    let detail = if said.is_empty() {
        what
    } else {
        format!("{what}: {said}")
    };
    Failure::candidate(fault, detail)
}

/// Bytes of the stack that a function never gets: those of its callers, and those that a function without calls of its own
/// uses below the end of its frame.
const OF_OTHERS: u64 = 4 << 10;

/// Adds to a crash that a function's local variables, which take `frame()` bytes, exceed the stack.
pub(crate) fn about_the_stack(failure: Failure, frame: impl FnOnce() -> u64) -> Failure {
    match failure {
        Failure::Candidate {
            fault: fault @ CandidateFault::Crash,
            detail,
        } => {
            let bytes = frame();
            let more = match bytes > STACK_BYTES - OF_OTHERS {
                true => format!(
                    "; a function of the program needs {} MiB of stack for its local variables, and the stack has {} MiB for those of all functions together: make its local arrays smaller, or allocate them",
                    bytes.div_ceil(1 << 20),
                    STACK_BYTES >> 20
                ),
                false => String::new(),
            };
            Failure::candidate(fault, detail + &more)
        }
        other => other,
    }
}

fn excerpt(output: &[u8]) -> String {
    harmless(String::from_utf8_lossy(output).trim(), EXCERPT_BYTES)
}

fn signal_name(number: i32) -> String {
    nix::sys::signal::Signal::try_from(number)
        .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn finished(exit: Exit, rss: u64) -> Finished {
        Finished {
            exit,
            stdout: vec![],
            stderr: b"free(): invalid pointer\n".to_vec(),
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            max_rss_bytes: rss,
        }
    }

    #[test]
    fn every_end_has_its_fault() {
        use CandidateFault as F;
        let gib = 1u64 << 30;
        for (exit, rss, expected) in [
            (Exit::Code(0), 0, F::Exited),
            (Exit::Signal(11), gib / 4, F::Crash),
            (Exit::Signal(11), gib - 1, F::MemoryLimit),
            (Exit::MemoryLimit, 0, F::MemoryLimit),
            (Exit::CpuTimeout, 0, F::Timeout),
            (Exit::ForbiddenSyscall, 0, F::ForbiddenSyscall),
            (Exit::OutputLimit, 0, F::ForbiddenSyscall),
        ] {
            let failure = of_candidate(&finished(exit, rss), gib);
            assert!(
                matches!(&failure, Failure::Candidate { fault, detail } if *fault == expected && detail.contains("invalid pointer")),
                "{exit:?}: {failure}"
            );
            assert!(matches!(
                before_first_call(&finished(exit, rss)),
                Failure::Infrastructure {
                    cause: InfrastructureCause::Harness,
                    ..
                }
            ));
        }
    }

    #[test]
    fn a_crash_names_the_stack_where_a_function_needs_more() {
        let said = |fault, bytes: u64| {
            about_the_stack(Failure::candidate(fault, "it died"), || bytes).to_string()
        };
        let large = 600_000_000;
        // The frame of an array of 16 MiB, in a function that calls another one and in a function that calls none.
        let just = [STACK_BYTES + 64, STACK_BYTES - 120];
        for (bytes, needs) in [(large, "573 MiB"), (just[0], "17 MiB"), (just[1], "16 MiB")] {
            let words = said(CandidateFault::Crash, bytes);
            let needs = format!("needs {needs} of stack");
            for part in [needs.as_str(), "the stack has 16 MiB"] {
                assert!(words.contains(part), "{part} in {words}");
            }
        }
        assert!(!said(CandidateFault::Crash, STACK_BYTES / 2).contains("stack"));
        assert!(!said(CandidateFault::WrongResult, large).contains("stack"));
    }

    #[test]
    fn programs_too_large_to_load_get_the_fault_memory_limit() {
        use CandidateFault as F;
        for (message, expected) in [
            ("kernel.so: cannot map zero-fill pages", F::MemoryLimit),
            (
                "kernel.so: failed to map segment from shared object",
                F::MemoryLimit,
            ),
            (
                "kernel.so: cannot allocate memory in static TLS block",
                F::MemoryLimit,
            ),
            ("kernel.so: undefined symbol: f", F::ForbiddenSymbol),
            ("kernel.so: invalid ELF header", F::ForbiddenConstruct),
        ] {
            let failure = not_loaded(message, 288 << 20);
            assert!(
                matches!(&failure, Failure::Candidate { fault, detail } if *fault == expected && detail.contains(message)),
                "{failure}"
            );
        }
    }

    #[test]
    fn last_words_are_cut_and_cannot_be_obeyed() {
        let mut end = finished(Exit::Signal(6), 0);
        end.stderr = b"\x1b[31mred\xff\x1b]52;c;cm0=\x07 ".repeat(1000);
        let Failure::Candidate { detail, .. } = of_candidate(&end, 1 << 30) else {
            unreachable!("the program's own signal");
        };
        assert!(detail.len() < 2 * EXCERPT_BYTES && detail.contains("red"));
        assert!(!detail.contains(['\x1b', '\x07']));
    }
}
