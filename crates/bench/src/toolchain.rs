//! The C compiler candidates are built with, and what it says of itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, InfrastructureCause};

use crate::failure::Failure;

/// A compiler, its version and the flags of one problem.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The compiler's path on this machine.
    pub compiler: PathBuf,
    /// The first line of what it says of its version.
    pub version: String,
    /// The problem's flags.
    pub flags: Vec<String>,
    /// Digest of version, flags and everything the compiler defines under them, so of what `-march=native` means here.
    pub fingerprint: Digest,
    /// Every macro that is defined before the first line of a program.
    pub(crate) macros: BTreeSet<String>,
}

/// Flags under which a candidate is built that are not the problem's. They define macros (`__PIC__`, and not `__PIE__`), so whoever looks
/// at a candidate's text must look under them, too: else it could show one text and build another.
pub(crate) const MODE: [&str; 2] = ["-shared", "-fPIC"];

impl Toolchain {
    /// Finds the compiler and asks it for its version and its macros under the problem's flags.
    ///
    /// `compiler` is a name on the PATH or a path; `gcc` if none.
    ///
    /// # Errors
    /// An infrastructure failure that says what to install.
    pub fn detect(compiler: Option<&str>, problem: &Problem) -> Result<Self, Failure> {
        let name = compiler.unwrap_or("gcc");
        let compiler = find(name).ok_or_else(|| {
            failure(format!(
                "the C compiler `{name}` was not found; install it (Debian, Ubuntu: `apt install {}`) or name another one",
                if name.contains("clang") { "clang libomp-dev" } else { "gcc libc6-dev libgomp1" }
            ))
        })?;
        let said = ask(&compiler, &["--version".to_owned()])?;
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        let mut arguments = problem.flags.clone();
        arguments.extend(MODE.map(str::to_owned));
        arguments.extend(["-dM", "-E", "-x", "c", "/dev/null"].map(str::to_owned));
        let dump = ask(&compiler, &arguments)?;
        let macros = dump
            .lines()
            .filter_map(|line| line.strip_prefix("#define "))
            .map(|rest| {
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect()
            })
            .chain(DYNAMIC.iter().map(|name| (*name).to_owned()))
            .collect();
        let fingerprint = Digest::of(format!("{version}\n{:?}\n{dump}", problem.flags).as_bytes());
        Ok(Toolchain {
            compiler,
            version,
            flags: problem.flags.clone(),
            fingerprint,
            macros,
        })
    }

    /// Is it clang?
    pub fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }
}

/// Macros that a dump does not list.
const DYNAMIC: &[&str] = &[
    "__FILE__",
    "__LINE__",
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
    "__COUNTER__",
    "__BASE_FILE__",
    "__FILE_NAME__",
    "__INCLUDE_LEVEL__",
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "__has_attribute",
    "__has_builtin",
    "__has_c_attribute",
    "__has_cpp_attribute",
    "__has_feature",
    "__has_extension",
    "__VA_ARGS__",
    "__VA_OPT__",
    "_Pragma",
    "defined",
];

fn failure(detail: String) -> Failure {
    Failure::infrastructure(InfrastructureCause::Compiler, detail)
}

fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|p| p.is_file())
}

fn ask(compiler: &Path, arguments: &[String]) -> Result<String, Failure> {
    let called = || format!("`{} {}`", compiler.display(), arguments.join(" "));
    let answer = Command::new(compiler)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|e| failure(format!("{} could not be started: {e}", called())))?;
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.stderr);
        return Err(failure(format!("{} failed: {}", called(), said.trim())));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}
