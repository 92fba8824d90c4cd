//! The compile stage against files: the first line of each names the required result.
//!
//! `refused/*.c` begins with `// FAULT: WORDS` and must end with that fault and those words in its diagnostics; `//
//! FAULT/PERMITTED: WORDS` names the techniques that the task permits (default: all). `honest/*.c` begins with `//
//! TECHNIQUES` and must build with exactly these techniques found.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod compilers;
mod explain;
mod limits;
mod marks;
mod schedules;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flopsmith_compile::{Compiler, Toolchain};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, TechniqueSet};
use flopsmith_sandbox::{Options, Sandbox};

fn problem() -> &'static Problem {
    static PROBLEM: OnceLock<Problem> = OnceLock::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    PROBLEM.get_or_init(|| Problem::load(&root).unwrap())
}

fn compiler() -> &'static Compiler {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    COMPILER.get_or_init(|| {
        let sandbox = Arc::new(Sandbox::new(Options::default()).unwrap());
        Compiler::new(sandbox, Toolchain::detect(None, problem()).unwrap())
    })
}

/// The files of a folder, sorted, each with its first line's text and its content.
fn zoo(folder: &str) -> Vec<(PathBuf, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/compile")
        .join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|path| {
            let source = std::fs::read_to_string(&path).unwrap();
            let first = source
                .lines()
                .next()
                .unwrap()
                .strip_prefix("// ")
                .unwrap()
                .to_owned();
            (path, first, source)
        })
        .collect();
    files.sort();
    assert!(files.len() > 10, "the zoo is empty");
    files
}

#[test]
fn every_refused_program_gets_its_reason() {
    let mut wrong = Vec::new();
    for (path, first, source) in zoo("refused") {
        let (expected, words) = first.split_once(": ").unwrap();
        let (fault, permitted) = match expected.split_once('/') {
            Some((fault, permitted)) => (fault, permitted.parse().unwrap()),
            None => (expected, TechniqueSet::all()),
        };
        match compiler().compile(problem(), &source, permitted) {
            Err(Failure::Candidate { fault: got, detail })
                if got.name() == fault && detail.contains(words) =>
            {
                assert!(detail.len() < 4096);
            }
            other => wrong.push(format!(
                "{}: {:?}",
                path.display(),
                other.map(|b| b.techniques)
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_honest_program_builds_with_its_techniques() {
    let mut wrong = Vec::new();
    for (path, first, source) in zoo("honest") {
        let expected: TechniqueSet = first.parse().unwrap();
        match compiler().compile(problem(), &source, TechniqueSet::all()) {
            Ok(built) if built.techniques == expected => {}
            Ok(built) => wrong.push(format!(
                "{}: found {}, expected {expected}",
                path.display(),
                built.techniques
            )),
            Err(failure) => wrong.push(format!("{}: {failure}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constructs that refused programs have as well. A full campaign of the corpus also measures these programs.
#[test]
fn honest_uses_of_attributes_threads_and_locks_are_let_through() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/tests/corpus/honest");
    for name in [
        "visible_by_an_attribute.c",
        "freed_by_an_attribute.c",
        "threads_with_scratch_of_their_own.c",
        "threads_with_locks.c",
    ] {
        let source = std::fs::read_to_string(corpus.join(name)).unwrap();
        compiler()
            .compile(problem(), &source, TechniqueSet::all())
            .unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn the_problems_own_programs_build() {
    for source in [
        &problem().reference_source,
        problem().baseline_source.as_ref().unwrap(),
    ] {
        let built = compiler()
            .compile(problem(), source, TechniqueSet::all())
            .unwrap();
        assert!(!built.object.is_empty() && built.seconds > 0.0);
        // The compiler does double-precision arithmetic in vector registers there, even for single numbers.
        if cfg!(target_arch = "x86_64") {
            assert!(built.vector_bits >= Some(128), "{:?}", built.vector_bits);
        }
    }
    let plain = compiler()
        .compile(problem(), &problem().reference_source, TechniqueSet::EMPTY)
        .unwrap();
    assert_eq!(plain.techniques, TechniqueSet::EMPTY);
}

#[test]
fn a_missing_compiler_is_nobodys_program() {
    let end = Toolchain::detect(Some("no-such-compiler"), problem());
    assert!(
        matches!(&end, Err(Failure::Infrastructure { detail, .. }) if detail.contains("install")),
        "{end:?}"
    );
}

#[test]
fn the_fingerprint_names_compiler_linker_language_and_flags() {
    let same = Toolchain::detect(Some("gcc"), problem()).unwrap();
    assert_eq!(same.fingerprint, compiler().toolchain().fingerprint);
    assert!(same.linker.contains("ld"), "{}", same.linker);
    let of = |problem: &Problem| Toolchain::detect(None, problem).unwrap().fingerprint;
    // A flag that defines no macro changes it as well.
    for flag in ["-ffast-math", "-falign-functions=32"] {
        let mut flags = problem().flags.clone();
        flags.push(flag.into());
        assert_ne!(of(&problem().clone().with_flags(flags)), same.fingerprint);
    }
    let mut cxx = problem().clone();
    cxx.language = Language::Cxx;
    let of_cxx = of(&cxx);
    assert_ne!(of_cxx, same.fingerprint);
    cxx.cxx_flags = Some(vec!["-std=gnu++20".into(), "-O2".into()]);
    assert_ne!(of(&cxx), of_cxx, "flags of the language that is used");
    let mut unused = problem().clone();
    unused.cxx_flags = cxx.cxx_flags;
    assert_eq!(
        of(&unused),
        same.fingerprint,
        "flags of a language that is not used"
    );
}

/// A compiler that gives the answers of the real one, except for its linker.
#[test]
fn another_linker_is_another_fingerprint() {
    let place = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = place.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let linker = script("ld", "echo a linker 3.1");
    let gcc = script(
        "gcc",
        &format!(
            "if [ \"$1\" = -print-prog-name=ld ]; then echo {}; else exec gcc \"$@\"; fi",
            linker.display()
        ),
    );
    let found = Toolchain::detect(gcc.to_str(), problem()).unwrap();
    assert_eq!(found.linker, "a linker 3.1");
    assert_eq!(found.version, compiler().toolchain().version);
    assert_ne!(found.fingerprint, compiler().toolchain().fingerprint);
}

#[test]
fn a_missing_compiler_of_another_language_is_missed_only_where_it_is_needed() {
    let place = tempfile::tempdir().unwrap();
    // A folder with only a C compiler.
    let gcc = place.path().join("gcc");
    std::fs::write(&gcc, "#!/bin/sh\nexec gcc \"$@\"\n").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&gcc, mode).unwrap();
    let found = Toolchain::detect(gcc.to_str(), problem()).unwrap();
    let missing = found.driver(Language::Cxx);
    assert!(
        matches!(&missing, Err(Failure::Infrastructure { detail, .. })
            if detail.contains("C++") && detail.contains("apt install g++")),
        "{missing:?}"
    );
    assert_eq!(found.driver(Language::C).unwrap().program, gcc);
    let mut cxx = problem().clone();
    cxx.language = Language::Cxx;
    assert!(Toolchain::detect(gcc.to_str(), &cxx).is_err());
}
