//! The meanings of the reasons of results, and advice. Pure.

use flopsmith_problem::{Problem, meant};
use flopsmith_protocol::{CandidateFault, InfrastructureCause, UnknownCause};

use super::results::{Explained, Party, Permitted};

/// The explanation of a reason.
///
/// # Errors
/// A sentence, if there is no such reason.
pub fn explain(reason: &str, problem: Option<&Problem>) -> Result<Explained, String> {
    let found = all().find(|(name, ..)| *name == reason);
    let Some((name, fault_of, (meaning, try_next))) = found else {
        let known: Vec<&str> = all().map(|(name, ..)| name).collect();
        // Comparing a name of megabytes would take long.
        let near = (reason.len() <= 120).then(|| meant(reason, known.iter().copied()));
        let near = near
            .flatten()
            .map(|near| format!(" (did you mean {near}?)"));
        return Err(format!(
            "there is no such reason{}; the field `reason` of a result has one of {}",
            near.unwrap_or_default(),
            known.join(", ")
        ));
    };
    Ok(Explained {
        reason: name.to_owned(),
        fault_of,
        meaning: meaning.to_owned(),
        try_next: try_next.to_owned(),
        permitted: problem.map(permitted),
    })
}

fn permitted(problem: &Problem) -> Permitted {
    Permitted {
        prototype: problem.entry.prototype.clone(),
        includes: problem.includes.clone(),
        forbidden: problem.forbidden.clone(),
        max_source_bytes: problem.max_source_bytes,
        techniques: problem.techniques,
    }
}

/// Meaning and advice.
type Words = (&'static str, &'static str);

/// All reasons, with the party at fault.
fn all() -> impl Iterator<Item = (&'static str, Party, Words)> {
    let faults = CandidateFault::ALL.iter();
    let faults = faults.map(|fault| (fault.name(), Party::Program, of_program(*fault)));
    let causes = InfrastructureCause::ALL.iter();
    let causes = causes.map(|cause| (cause.name(), Party::Machine, of_machine(*cause)));
    let unknown = UnknownCause::ALL.iter();
    let unknown = unknown.map(|cause| (cause.name(), Party::Unknown, of_unknown(*cause)));
    faults.chain(causes).chain(unknown)
}

fn of_program(fault: CandidateFault) -> Words {
    use CandidateFault as F;
    match fault {
        F::Format => (
            "The answer contains no complete program.",
            "Write the whole program between two fences (```c and ```, for a module ```python and ```), or send it as `source`.",
        ),
        F::SourceTooLarge => (
            "The source is longer than the problem permits.",
            "Shorten it: remove tables and unrolled copies that a loop or a macro can replace.",
        ),
        F::NotText => (
            "The source has control characters, or bytes that are not UTF-8.",
            "Send plain text; only tabs and line ends may stand beside visible characters.",
        ),
        F::ForbiddenInclude => (
            "The source includes a header that the problem does not list.",
            "Include only the headers in `permitted.includes`, and declare nothing from other libraries.",
        ),
        F::ForbiddenSymbol => (
            "The source or the object uses a function or library that the problem does not permit.",
            "Write the function yourself. Look for calls that the compiler inserts, such as those of a library for half \
             precision, and for library functions that do the problem's own work.",
        ),
        F::ForbiddenConstruct => (
            "The source has a construct that no plain kernel needs: inline assembly, attributes of sections or constructors, \
             pragmas that change flags, clocks, signals, files.",
            "Remove it; `diagnostics` names its line. Vector extensions and intrinsics of permitted headers are allowed.",
        ),
        F::ForbiddenTechnique => (
            "The program uses a technique that the task forbids, or has a loop in which such a technique could hide.",
            "Leave the technique out, and write loops as `for`, `while` or `do` without `goto`.",
        ),
        F::CompileError => (
            "The compiler refused the source.",
            "Correct the first error in `diagnostics`; later ones often follow from it. The flags are those of the problem.",
        ),
        F::CompileLimit => (
            "The compiler needed more time, memory or output than it may.",
            "Make the program simpler: unroll less, use smaller tables, and avoid deep templates and macros.",
        ),
        F::MissingEntry => (
            "The object does not define the problem's function.",
            "Define the function with the name and prototype in `permitted.prototype`, and not as `static`; in C++ declare it \
             `extern \"C\"`.",
        ),
        F::WrongSignature => (
            "The problem's function has another type than the prototype.",
            "Copy the prototype: order, types, constness and return type of the arguments.",
        ),
        F::Timeout => (
            "A call did not return in time, or took far longer than the reference's.",
            "Look for loops that do not end at sizes other than the timed one, such as 0, 1 and odd sizes.",
        ),
        F::Crash => (
            "A signal ended the program.",
            "Look for accesses outside the arrays, aligned loads of unaligned addresses, division by zero, and large arrays on \
             the stack.",
        ),
        F::Exited => (
            "The program ended its own process.",
            "Remove calls of exit, abort and assert; return from the function instead.",
        ),
        F::MemoryLimit => (
            "The program asked for more memory than permitted.",
            "Use smaller buffers: pack blocks instead of whole arrays, and make static data small.",
        ),
        F::ForbiddenSyscall => (
            "The program made a system call that a kernel does not need.",
            "Remove input and output, clocks, files, processes and calls for huge pages or affinity.",
        ),
        F::LeftRunning => (
            "Threads, processes or processor time went on after the call had returned.",
            "Join all threads before the function returns, and keep no thread of your own between calls; with OpenMP use \
             parallel regions only.",
        ),
        F::WrongResult => (
            "The result differs from the reference by more than the problem's bound, on an input or at a size that the program \
             has not seen before.",
            "Test sizes that no block or vector width divides, empty and tiny sizes, unequal dimensions, values of very \
             different magnitude, and outputs with old content. Reorder sums only as far as the bound allows.",
        ),
        F::Nondeterministic => (
            "The same input gave different bits.",
            "Initialise all memory that is read, do not depend on addresses or alignment, and keep no state between calls.",
        ),
        F::OutOfBounds => (
            "The program wrote memory outside its arrays.",
            "Check the remainders of blocks and vectors at sizes that these do not divide.",
        ),
        F::InputModified => (
            "The program changed an input.",
            "Write to outputs and to buffers of your own only, and do not cast `const` away.",
        ),
        F::SkippedWork => (
            "The result of a timed call was wrong, though the program passed verification.",
            "Compute every call from its inputs: do not cache results, and do not recognise calls or addresses.",
        ),
        F::UndefinedBehaviour => (
            "Sanitizers found forbidden accesses, behaviour that the language leaves undefined, or a data race.",
            "Correct what `diagnostics` names: overflow of signed integers, unaligned accesses, uninitialised reads, accesses \
             past the end, unsynchronised threads.",
        ),
    }
}

fn of_machine(cause: InfrastructureCause) -> Words {
    use InfrastructureCause as C;
    const AGAIN: &str = "Call the tool again. If it fails again, tell your user; changing the program does not help.";
    let meaning = match cause {
        C::Jail => "The jail in which programs run could not be set up.",
        C::Compiler => "The compiler is missing or does not start.",
        C::Harness => {
            "The program that calls candidates did not start, or broke its protocol before the call."
        }
        C::Baseline => "The problem's own baseline failed, so nothing could be timed.",
        C::Store => "Data could not be stored or read.",
        C::Bus => "The message bus failed.",
        C::Shutdown => {
            "The service stopped, or the request was withdrawn, before the program was evaluated."
        }
        C::Resources => "The machine has no more space, memory or file handles.",
        C::Generator => "The source of programs could not write the program.",
        C::Implausible => {
            return (
                "The measured speed is above what this machine can do, so the measurement is wrong.",
                "Call the tool again. If the same program gives it again, tell your user: the clock of the machine or the \
                 problem's count of operations may be wrong.",
            );
        }
    };
    (meaning, AGAIN)
}

fn of_unknown(cause: UnknownCause) -> Words {
    use UnknownCause as U;
    match cause {
        U::Panicked => (
            "The evaluation itself failed; the log of the service has the message.",
            "Call the tool again. If the same program fails again, tell your user, and change the program.",
        ),
        U::NoSamples => (
            "The measurement ended without a time.",
            "Call the tool again when the machine is quieter; if calls of the program take very long, make them shorter.",
        ),
        U::UnwritableSamples => (
            "The times of the measurement could not be written.",
            "Call the tool again. If it fails again, tell your user that the disk may be full.",
        ),
        U::NotTimed => (
            "The program was verified or compiled, but it is for a GPU and this service has none to time it on.",
            "Nothing is wrong with the program. Ask for a machine class with a GPU, or write inline C++, which runs on the CPU.",
        ),
        U::Asked => (
            "The answer makes a request of a conversation, and has no program to judge.",
            "Call the tool with a whole program.",
        ),
        U::Unchecked => (
            "Sanitizers could not check the program, although they can check the reference.",
            "Make the program smaller or plainer, so that it builds and runs with sanitizers, or use the purpose `rank`.",
        ),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn every_reason_has_a_meaning_and_advice() {
        let mut names = BTreeSet::new();
        for (name, party, (meaning, try_next)) in all() {
            assert!(names.insert(name), "{name}");
            for words in [meaning, try_next] {
                assert!(words.ends_with('.') && words.len() > 20, "{name}: {words}");
            }
            let explained = explain(name, None).unwrap();
            assert_eq!(
                (explained.reason.as_str(), explained.fault_of),
                (name, party)
            );
            assert!(explained.permitted.is_none());
        }
        let total = CandidateFault::ALL.len() + InfrastructureCause::ALL.len();
        assert_eq!(names.len(), total + UnknownCause::ALL.len());
    }

    #[test]
    fn an_unknown_reason_is_answered_with_the_nearest_one() {
        let error = explain("wrong_resul", None).unwrap_err();
        assert!(error.contains("did you mean `wrong_result`?"), "{error}");
        let error = explain(&"x".repeat(1 << 20), None).unwrap_err();
        assert!(error.len() < 2000, "{}", error.len());
    }

    #[test]
    fn a_problem_adds_what_its_programs_may_use() {
        let problem = Problem::load(&shipped::at("dgemm")).unwrap();
        let explained = explain("forbidden_include", Some(&problem)).unwrap();
        let permitted = explained.permitted.unwrap();
        assert!(
            permitted.prototype.contains("dgemm"),
            "{}",
            permitted.prototype
        );
        assert_eq!(permitted.includes, problem.includes);
    }
}
