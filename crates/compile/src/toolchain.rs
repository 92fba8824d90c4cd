//! The compilers that build candidates, and their versions.

mod ask;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Digest, Failure, InfrastructureCause};

pub use ask::{Answer, ask as answer};

/// A C compiler, the other compilers of its family, their versions, and the flags for one problem.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The C compiler's path on this machine. It builds the problem's own programs, whatever the candidates' language.
    pub compiler: PathBuf,
    /// The first line of the C compiler's version text.
    pub version: String,
    /// The first line of the linker's version text.
    pub linker: String,
    /// The flags for C.
    pub flags: Vec<String>,
    /// Digest of everything that determines the result of a build in the problem's language: the versions of compilers
    /// and linker, the flags, and all macros that the compiler defines under these flags. The macros show what
    /// `-march=native` means on this machine.
    pub fingerprint: Digest,
    /// Every macro that is defined before the first line of a C program.
    pub macros: BTreeSet<String>,
    /// The drivers of other languages, or the reason why a driver is missing.
    others: BTreeMap<Language, Result<Driver, String>>,
}

/// The state of a compiler on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// The compiler exists.
    There,
    /// A file exists at the path, but it cannot be executed.
    NotExecutable,
    /// The compiler is missing, and a package provides one of that name.
    Installable {
        /// The Debian and Ubuntu packages that provide it.
        packages: String,
    },
    /// No file exists at the path, or the name is not that of any compiler.
    Nowhere,
}

/// The compiler for programs of one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The compiler's path on this machine.
    pub program: PathBuf,
    /// The first line of the compiler's version text.
    pub version: String,
    /// The flags for this language.
    pub flags: Vec<String>,
}

/// Flags for building candidates that do not come from the problem. They change predefined macros (`__PIC__` defined,
/// `__PIE__` not), so the check of a candidate's text must use them, too. Otherwise a candidate could show one text to
/// the check and build another.
pub const MODE: [&str; 2] = ["-shared", "-fPIC"];

/// Flags as [`MODE`], for one language. A C++ candidate is built without a run-time library. Exceptions and run-time
/// type information would need that library. Static variables need no guards, because no two threads initialise one.
///
/// The date and time macros have fixed values: a program is built more than once, and every build must be identical.
pub fn mode_of(language: Language) -> &'static [&'static str] {
    match language {
        Language::C => &[
            "-Wno-builtin-macro-redefined",
            "-D__DATE__=\"Jan  1 1970\"",
            "-D__TIME__=\"00:00:00\"",
            "-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"",
        ],
        Language::Cxx => &[
            "-fno-exceptions",
            "-fno-rtti",
            "-fno-threadsafe-statics",
            "-Wno-builtin-macro-redefined",
            "-D__DATE__=\"Jan  1 1970\"",
            "-D__TIME__=\"00:00:00\"",
            "-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"",
        ],
        // These flags override others, because the scan assumes these source forms and reads no preprocessor output.
        Language::Fortran => &["-ffree-form", "-nocpp"],
        Language::Fortran77 => &["-ffixed-form", "-nocpp"],
        Language::Python => &[],
    }
}

impl Toolchain {
    /// Finds the compiler and queries its version and its macros under the problem's flags.
    ///
    /// `compiler` is a name on the PATH or a path; `gcc` if none. The compilers of other languages come from the same
    /// family: g++ and gfortran for gcc, clang++ for clang. clang has no Fortran compiler here, so gfortran is used
    /// with it.
    ///
    /// # Errors
    /// An infrastructure failure that names the package to install, also where the compiler of the problem's language
    /// is missing.
    pub fn detect(compiler: Option<&str>, problem: &Problem) -> Result<Self, Failure> {
        let name = names::for_c(compiler.unwrap_or("gcc"));
        let compiler = find(&name).ok_or_else(|| {
            failure(format!(
                "the C compiler `{name}` was not found; install it (Debian, Ubuntu: `apt install {}`) or name another one",
                names::packages(&name)
            ))
        })?;
        let version = version(&compiler)?;
        let linker = linker(&compiler)?;
        let flags = problem.flags_for(Language::C);
        let dump = dump(&compiler, &flags, Language::C)?;
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
        let mut known = format!("{version}\n{linker}\n{flags:?}\n{dump}");
        let others: BTreeMap<_, _> = Language::ALL
            .into_iter()
            .filter(|language| *language != Language::C)
            .map(|language| (language, driver(&name, language, problem)))
            .collect();
        if let Some(driver) = others.get(&problem.language) {
            let driver = driver.as_ref().map_err(|why| failure(why.clone()))?;
            known.push_str(&format!(
                "\n{:?}\n{}\n{:?}\n",
                problem.language, driver.version, driver.flags
            ));
            if problem.language == Language::Cxx {
                known.push_str(&self::dump(&driver.program, &driver.flags, Language::Cxx)?);
            }
        }
        Ok(Toolchain {
            compiler,
            version,
            linker,
            flags,
            fingerprint: Digest::of(known.as_bytes()),
            macros,
            others,
        })
    }

    /// Reports whether a compiler of this name exists or can be installed.
    pub fn presence(compiler: &str) -> Presence {
        let name = names::for_c(compiler);
        match find(&name) {
            Some(path) if is_executable(&path) => Presence::There,
            Some(_) => Presence::NotExecutable,
            None if !name.contains('/') && names::is_known(&name) => Presence::Installable {
                packages: names::packages(&name),
            },
            None => Presence::Nowhere,
        }
    }

    /// The names of the C compilers on the PATH.
    pub fn here() -> Vec<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let files = std::env::split_paths(&path)
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten();
        let names: BTreeSet<String> = files
            .filter(|file| is_executable(&file.path()))
            .filter_map(|file| file.file_name().into_string().ok())
            .filter(|name| names::is_plain(name))
            .collect();
        names.into_iter().collect()
    }

    /// True if a program of this name exists and answers, but not as a C compiler does.
    pub fn is_no_compiler(compiler: &str) -> bool {
        let Some(program) = find(&names::for_c(compiler)) else {
            return false;
        };
        let question = ["-dM", "-E", "-x", "c", "/dev/null"].map(str::to_owned);
        match ask(&program, &question) {
            Ok(macros) => !macros.contains("#define __STDC__"),
            // A program that hangs or cannot be started gave no answer; a later step reports that failure.
            Err(Failure::Infrastructure { detail, .. }) => detail.contains("` failed: "),
            Err(_) => false,
        }
    }

    /// The compiler's message that refuses the problem's flags; none where the compiler accepts them or cannot be
    /// queried.
    pub fn refusal_of_flags(compiler: &str, problem: &Problem) -> Option<String> {
        let compiler = find(&names::for_c(compiler))?;
        version(&compiler).ok()?;
        match dump(&compiler, &problem.flags_for(Language::C), Language::C) {
            Ok(_) => None,
            Err(Failure::Infrastructure { detail, .. }) => {
                // A compiler that hangs or cannot be started has refused nothing; a later step reports that failure.
                let (_, said) = detail.split_once("` failed: ")?;
                let error = said.lines().find(|line| line.contains("error"));
                Some(error.or(said.lines().next())?.to_owned())
            }
            Err(_) => None,
        }
    }

    /// The compiler for programs in `language`.
    ///
    /// # Errors
    /// An infrastructure failure that names the package to install.
    pub fn driver(&self, language: Language) -> Result<Driver, Failure> {
        match self.others.get(&language) {
            None => Ok(Driver {
                program: self.compiler.clone(),
                version: self.version.clone(),
                flags: self.flags.clone(),
            }),
            Some(Ok(driver)) => Ok(driver.clone()),
            Some(Err(why)) => Err(failure(why.clone())),
        }
    }

    /// The compilers of other languages on this machine, one line each: language, version and flags.
    pub fn others(&self) -> Vec<String> {
        let found = self.others.iter().filter_map(|(language, driver)| {
            let driver = driver.as_ref().ok()?;
            let (name, flags) = (language.name(), driver.flags.join(" "));
            Some(format!("{name}: {}, {flags}", driver.version))
        });
        found.collect()
    }
}

/// The driver of a language other than C that belongs to the C compiler of this name, or the reason why it is missing.
fn driver(compiler: &str, language: Language, problem: &Problem) -> Result<Driver, String> {
    let wanted = names::drivers(compiler, language);
    let Some(program) = wanted.iter().find_map(|name| find(name)) else {
        let name = language.name();
        let package = match language {
            Language::Cxx if compiler.contains("clang") => "clang",
            Language::C | Language::Cxx => "g++",
            Language::Fortran | Language::Fortran77 => "gfortran",
            Language::Python => "python3",
        };
        return Err(format!(
            "there is no {name} compiler: `{}` was not found; install it (Debian, Ubuntu: `apt install {package}`)",
            wanted.join("` or `")
        ));
    };
    let version = version(&program).map_err(|failure| failure.to_string())?;
    Ok(Driver {
        program,
        version,
        flags: problem.flags_for(language),
    })
}

/// The first line of a program's version text.
fn version(program: &Path) -> Result<String, Failure> {
    let said = ask(program, &["--version".to_owned()])?;
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

/// The version of the linker that the compiler calls.
fn linker(compiler: &Path) -> Result<String, Failure> {
    let said = ask(compiler, &["-print-prog-name=ld".to_owned()])?;
    let named = match said.trim() {
        "" => "ld",
        name => name,
    };
    let program = find(named).ok_or_else(|| {
        failure(format!(
            "the linker `{named}` was not found; install it (Debian, Ubuntu: `apt install binutils`)"
        ))
    })?;
    version(&program)
}

/// All macros that are defined before the first line of a program.
fn dump(program: &Path, flags: &[String], language: Language) -> Result<String, Failure> {
    let mut arguments = flags.to_vec();
    arguments.extend(
        MODE.iter()
            .chain(mode_of(language))
            .map(|f| (*f).to_owned()),
    );
    let name = if language == Language::Cxx {
        "c++"
    } else {
        "c"
    };
    arguments.extend(["-dM", "-E", "-x", name, "/dev/null"].map(str::to_owned));
    ask(program, &arguments)
}

/// Predefined macros that the compiler's dump does not list.
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

/// Finds a program on the PATH, or at a path.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|p| is_executable(p))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

fn ask(compiler: &Path, arguments: &[String]) -> Result<String, Failure> {
    let called = || format!("`{} {}`", compiler.display(), arguments.join(" "));
    let mut command = Command::new(compiler);
    command.args(arguments).env("LC_ALL", "C");
    let answer = ask::ask(&mut command).map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => failure(format!("{} hangs: {e}", called())),
        _ => failure(format!("{} could not be started: {e}", called())),
    })?;
    if !answer.status.success() {
        let said = answer.stderr.trim();
        return Err(failure(format!("{} failed: {said}", called())));
    }
    Ok(answer.stdout)
}
