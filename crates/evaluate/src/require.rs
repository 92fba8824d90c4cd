//! Conditions that must hold before anything can be evaluated.

use flopsmith_compile::toolchain::{Presence, Toolchain};
use flopsmith_machine::pinning;

use crate::Error;

/// True if a program has the name of a C compiler.
fn is_called_one(compiler: &str) -> bool {
    let name = compiler.rsplit('/').next().unwrap_or_default();
    let known = ["gcc", "g++", "clang", "clang++", "cc", "c++"];
    name.split('-').any(|part| known.contains(&part))
}

/// The default compiler. If it is missing, that is not the user's mistake.
const USUAL: &str = "gcc";

/// Refuses a requested compiler that is missing or is no compiler.
///
/// # Errors
/// [`Error::Input`], which says what to install or to name.
pub fn is_compiler(compiler: &str) -> Result<(), Error> {
    let lacking = match Toolchain::presence(compiler) {
        // A program with a compiler's name that does not answer like a compiler is broken: a fault of this machine, not
        // of the input.
        Presence::There if is_called_one(compiler) || !Toolchain::is_no_compiler(compiler) => {
            return Ok(());
        }
        Presence::Installable { .. } if compiler == USUAL => return Ok(()),
        Presence::There => format!("`{compiler}` does not answer as a C compiler does;"),
        Presence::NotExecutable => {
            format!("`{compiler}` cannot be executed; run `chmod +x` on it, or")
        }
        Presence::Installable { packages } => format!(
            "`{compiler}` was not found; install it (Debian, Ubuntu: `apt install {packages}`), or"
        ),
        Presence::Nowhere if compiler.contains('/') => {
            format!("there is no compiler at `{compiler}`;")
        }
        Presence::Nowhere => {
            format!("`{compiler}` was not found, and is no name of gcc or clang;")
        }
    };
    let here = Toolchain::here();
    let here = if here.is_empty() {
        "gcc and clang are not on the PATH".to_owned()
    } else {
        format!("on the PATH there is {}", here.join(", "))
    };
    Err(Error::Input(format!(
        "{lacking} name gcc, clang or the path of a C compiler (--compiler, FLOPSMITH_COMPILER, or `evaluate.compiler` of a run): {here}"
    )))
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
    fn more_threads_than_cores_are_wrong_usage() {
        has_cores(1).expect("every machine has a core");
        let error = has_cores(100_000).expect_err("no machine has so many");
        assert!(error.is_of_the_input(), "{error}");
        assert!(error.to_string().contains("`threads` is 100000"), "{error}");
    }
}
