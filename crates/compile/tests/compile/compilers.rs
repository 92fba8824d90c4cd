//! Compilers that die, hang, wait or are killed: the party at fault, and the message.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use flopsmith_protocol::{CandidateFault as Fault, InfrastructureCause as Cause};

use super::*;

/// The word in sources at which the compiler misbehaves.
const WORD: &str = "NOW";

/// The usual compiler, except for sources with [`WORD`] in them, in its own folder.
fn installed(folder: &Path, does: &str) -> Toolchain {
    let mut toolchain = compiler().toolchain().clone();
    let usual = toolchain.compiler.display().to_string();
    // The jail can read the folder of programs.
    let programs = folder.join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(
        programs.join("crash.c"),
        "int main(void) { *(volatile int *)0 = 1; }\n",
    )
    .unwrap();
    let mut build = Command::new(&usual);
    build
        .arg("-o")
        .arg(programs.join("crash"))
        .arg(programs.join("crash.c"));
    assert!(build.status().unwrap().success());
    let path = programs.join("gcc");
    let text = format!(
        "#!/bin/sh\n\
         while read -r line; do\n\
         \x20   case \"$line\" in *{WORD}*) {does};; esac\n\
         done <kernel.c\n\
         exec {usual} \"$@\"\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    toolchain.compiler = path;
    toolchain
}

/// The result of a compilation with such a compiler, within these limits of processor time and of time.
fn end_of(does: &str, cpu: u64, wall: u64) -> Failure {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Arc::new(Sandbox::new(Options::default()).unwrap());
    let compiler = Compiler::new(sandbox, installed(folder.path(), does))
        .within(Duration::from_secs(cpu), Duration::from_secs(wall));
    let honest = &problem().reference_source;
    let built = compiler.compile(problem(), honest, TechniqueSet::all());
    assert!(built.is_ok(), "{does}: {:?}", built.map(|b| b.diagnostics));
    let marked = format!("{honest}/* {WORD} */\n");
    match compiler.compile(problem(), &marked, TechniqueSet::all()) {
        Err(failure) => failure,
        Ok(_) => panic!("{does}: it was compiled"),
    }
}

fn ends(does: &str, cpu: u64, wall: u64, blamed: Result<Fault, Cause>, words: &[&str]) {
    let failure = end_of(does, cpu, wall);
    let (found, detail) = match &failure {
        Failure::Candidate { fault, detail } => (Ok(*fault), detail),
        Failure::Infrastructure { cause, detail } => (Err(*cause), detail),
        Failure::Unknown { .. } => panic!("{does}: {failure}"),
    };
    assert_eq!(found, blamed, "{does}: {detail}");
    for part in words {
        assert!(detail.contains(part), "{does}: {part:?} in {detail}");
    }
}

#[test]
fn a_compiler_that_dies_is_said_to_have_died() {
    let crash = "exec \"${0%/*}/crash\"";
    let words = ["the compiler died from signal 11"];
    ends(crash, 10, 60, Ok(Fault::CompileError), &words);
    let warned = "echo 'kernel.c:1:1: warning: something' >&2; exec \"${0%/*}/crash\"";
    let words = ["died from signal 11: kernel.c:1:1: warning: something"];
    ends(warned, 10, 60, Ok(Fault::CompileError), &words);
    let part = "\"${0%/*}/crash\"; echo 'gcc: internal compiler error: Segmentation fault signal terminated program cc1' >&2; exit 4";
    let words = ["internal compiler error: Segmentation fault"];
    ends(part, 10, 60, Ok(Fault::CompileError), &words);
}

#[test]
fn a_compiler_that_comes_to_no_end_hits_its_limit() {
    let words = ["exceeded its time limit"];
    ends(
        "while :; do :; done",
        1,
        60,
        Ok(Fault::CompileLimit),
        &words,
    );
}

#[test]
fn a_compiler_that_waits_is_told_from_a_busy_machine() {
    let words = ["s of processor time in ", "it waits without computing"];
    ends("exec sleep 1000", 3, 3, Err(Cause::Compiler), &words);
}

#[test]
fn a_compiler_that_is_killed_from_outside_is_nobodys_fault() {
    let killed = "sh -c 'kill -9 $$'; echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1";
    let words = ["killed from outside"];
    ends(killed, 10, 60, Err(Cause::Resources), &words);
}

#[test]
fn clang_builds_what_gcc_builds() {
    let toolchain = match Toolchain::detect(Some("clang"), problem()) {
        Ok(toolchain) => toolchain,
        Err(why) => return flopsmith_test_support::skipped(&why.to_string()),
    };
    let sandbox = Arc::new(Sandbox::new(Options::default()).unwrap());
    let clang = Compiler::new(sandbox, toolchain);
    let loops = "void dgemm(int n, const double *A, const double *B, double *C) {\n\
                 OPENMP\n\
                 for (int i = 0; i < n; i++)\n\
                 for (int j = 0; j < n; j++) {\n\
                 double s = 0;\n\
                 for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];\n\
                 C[i * n + j] = s;\n\
                 }\n}\n";
    for (header, directive) in [
        ("", ""),
        ("#include <string.h>\n", ""),
        ("#include <immintrin.h>\n", ""),
        // The folder of the OpenMP library must not be in the object.
        ("#include <omp.h>\n", "#pragma omp parallel for"),
        ("", "#pragma omp parallel for proc_bind(spread)"),
    ] {
        let source = format!("{header}{}", loops.replace("OPENMP", directive));
        let built = clang.compile(problem(), &source, TechniqueSet::all());
        assert!(built.is_ok(), "{source}{:?}", built.map(|b| b.diagnostics));
    }
    let tasks = include_str!("../../../measure/tests/corpus/honest/two_threads_by_tasks.c");
    let built = clang.compile(problem(), tasks, TechniqueSet::all());
    assert!(built.is_ok(), "{:?}", built.map(|b| b.diagnostics));
}
