//! Compilers that print their version and then die, and flags that they refuse.

use super::*;

/// A compiler that answers questions, in its own folder, and runs `does` in place of a compilation.
fn compiler(place: &Path, does: &str) -> Option<PathBuf> {
    let Some(usual) = on_path("gcc") else {
        skipped("gcc is not on the PATH");
        return None;
    };
    let usual = usual.display();
    // The jail can read the folder of programs.
    let programs = place.join("bin");
    fs::create_dir(&programs).unwrap();
    let crash = programs.join("crash.c");
    fs::write(&crash, "int main(void) { *(volatile int *)0 = 1; }\n").unwrap();
    let mut build = Command::new("gcc");
    build.arg("-o").arg(programs.join("crash")).arg(&crash);
    assert!(build.status().unwrap().success());
    let questions = "*\" --version \"*|*\" -print-prog-name=ld \"*|*\" -dM \"*";
    let text = format!(
        "case \" $* \" in {questions}) exec {usual} \"$@\";; esac\n{does}\nexec {usual} \"$@\""
    );
    Some(script(&programs, "cc", &text))
}

fn bench(place: &Path, compiler: &Path, source: &str) -> Ended {
    let file = place.join("program.c");
    fs::write(&file, source).unwrap();
    let mut command = flopsmith();
    command
        .arg("bench")
        .arg(&file)
        .args([
            "--problem",
            "dgemm",
            "--purpose",
            "screen",
            "--format",
            "json",
        ])
        // This test does not concern the jail's protection.
        .args(["--allow-weaker-jail", "--compiler"])
        .arg(compiler);
    run(command)
}

const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}\n";

#[test]
fn a_compiler_that_never_says_what_it_is_is_an_error_of_this_machine() {
    let place = tempfile::tempdir().unwrap();
    let hanging = script(place.path(), "cc", "sleep 1000 & exec sleep 1000");
    let ended = bench(place.path(), &hanging, IDLE);
    contains(ended.one_error(INFRASTRUCTURE), &["hangs", "10 s"]);
}

#[test]
fn a_program_that_is_no_compiler_is_wrong_usage() {
    let place = tempfile::tempdir().unwrap();
    let ended = bench(place.path(), Path::new("/bin/ls"), IDLE);
    contains(
        ended.one_error(USAGE),
        &["/bin/ls", "as a C compiler does", "--compiler"],
    );
}

#[test]
fn a_compiler_that_dies_at_everything_is_one_error_of_this_machine() {
    let place = tempfile::tempdir().unwrap();
    let Some(compiler) = compiler(place.path(), "exec \"${0%/*}/crash\"") else {
        return;
    };
    let ended = bench(place.path(), &compiler, IDLE);
    let words = ["reference.c", "the compiler died from signal 11"];
    contains(ended.one_error(INFRASTRUCTURE), &words);
}

#[test]
fn a_compiler_that_dies_at_one_program_refuses_that() {
    let place = tempfile::tempdir().unwrap();
    let does = "while read -r line; do case \"$line\" in *NOW*) exec \"${0%/*}/crash\";; esac; done <kernel.c";
    let Some(compiler) = compiler(place.path(), does) else {
        return;
    };
    let ended = bench(place.path(), &compiler, &format!("{IDLE}/* NOW */\n"));
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    let object: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(object["reason"], "compile_error", "{object}");
    let detail = object["diagnostics"].as_str().unwrap();
    contains(detail, &["the compiler died from signal 11"]);
}

#[test]
fn a_compiler_that_hangs_at_one_program_says_nothing_of_it() {
    let place = tempfile::tempdir().unwrap();
    let does =
        "while read -r line; do case \"$line\" in *NOW*) exec sleep 1000;; esac; done <kernel.c";
    let Some(compiler) = compiler(place.path(), does) else {
        return;
    };
    let ended = bench(place.path(), &compiler, &format!("{IDLE}/* NOW */\n"));
    assert_eq!(ended.code, Some(INFRASTRUCTURE), "{}", ended.said());
    let object: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(object["outcome"], "infrastructure", "{object}");
    assert_eq!(object["reason"], "compiler", "{object}");
    let detail = object["diagnostics"].as_str().unwrap();
    contains(detail, &["waits without computing"]);
}

#[test]
fn flags_of_a_run_that_its_compiler_does_not_take_are_wrong_usage() {
    let place = tempfile::tempdir().unwrap();
    let flags = ["evaluate.flags=-O3 -march=nosuch"];
    let ended = run(search(flopsmith(), place.path(), "10m", &flags));
    contains(ended.one_error(USAGE), &["evaluate.flags", "nosuch"]);
}
