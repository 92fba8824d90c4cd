//! Conditions that must hold before anything can be evaluated.

use flopsmith_compile::toolchain::{Presence, Toolchain};
use flopsmith_machine::pinning;
use flopsmith_protocol::{Failure, InfrastructureCause};

use crate::Error;

/// True if a program has the name of a C compiler.
fn is_called_one(compiler: &str) -> bool {
    let name = compiler.rsplit('/').next().unwrap_or_default();
    let known = ["gcc", "g++", "clang", "clang++", "cc", "c++"];
    name.split('-').any(|part| known.contains(&part))
}

/// Refuses a compiler that is missing or is no compiler.
///
/// # Errors
/// [`Error::Stage`] if the machine lacks a compiler of this name, as for the compiler of a program's own language: it says
/// what to install. [`Error::Input`] for any other name: it says what to name.
pub fn is_compiler(compiler: &str) -> Result<(), Error> {
    let lacking = match Toolchain::presence(compiler) {
        // A program with a compiler's name that does not answer like a compiler is broken: a fault of this machine, not
        // of the input.
        Presence::There if is_called_one(compiler) || !Toolchain::is_no_compiler(compiler) => {
            return Ok(());
        }
        Presence::There => format!("`{compiler}` does not answer as a C compiler does;"),
        Presence::NotExecutable => {
            format!("`{compiler}` cannot be executed; run `chmod +x` on it, or")
        }
        Presence::Installable { packages } => {
            let lacking = format!(
                "`{compiler}` was not found; install it (Debian, Ubuntu: `apt install {packages}`), or {}",
                another()
            );
            return Err(Failure::infrastructure(InfrastructureCause::Compiler, lacking).into());
        }
        Presence::Nowhere if compiler.contains('/') => {
            format!("there is no compiler at `{compiler}`;")
        }
        Presence::Nowhere => {
            format!("`{compiler}` was not found, and is no name of gcc or clang;")
        }
    };
    Err(Error::Input(format!("{lacking} {}", another())))
}

/// The tools that can be named instead.
fn another() -> String {
    let here = Toolchain::here();
    let here = if here.is_empty() {
        "gcc and clang are not on the PATH".to_owned()
    } else {
        format!("on the PATH there is {}", here.join(", "))
    };
    format!(
        "name gcc, clang or the path of a C compiler (--compiler, FLOPSMITH_COMPILER, or `evaluate.compiler` of a run): {here}"
    )
}

/// Refuses more threads than there are cores to time them on: the threads would take turns, and their times would mean
/// nothing.
///
/// # Errors
/// [`Error::Input`], which says how many cores there are.
pub fn has_cores(threads: u32) -> Result<(), Error> {
    let cores = pinning::allowed_cores().len();
    if threads as usize <= cores {
        return Ok(());
    }
    Err(Error::Input(format!(
        "`threads` is {threads}, but this process may use only {cores} core{}: set `threads` to at most {cores}",
        if cores == 1 { "" } else { "s" }
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_can_be_installed_is_lacked_and_any_other_name_is_wrong_usage() {
        let lacked = is_compiler("gcc-99").expect_err("there is no such version");
        assert!(!lacked.is_of_the_input(), "{lacked}");
        assert!(
            lacked.to_string().contains("apt install gcc-99"),
            "{lacked}"
        );
        let mistyped = is_compiler("gccc").expect_err("no compiler has this name");
        assert!(mistyped.is_of_the_input(), "{mistyped}");
    }

    #[test]
    fn more_threads_than_cores_are_wrong_usage() {
        has_cores(1).expect("every machine has a core");
        let error = has_cores(100_000).expect_err("no machine has so many");
        assert!(error.is_of_the_input(), "{error}");
        assert!(error.to_string().contains("`threads` is 100000"), "{error}");
    }
}
