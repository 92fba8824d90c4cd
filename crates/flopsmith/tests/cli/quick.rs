//! Short runs: multiplications of small matrices, without measurements before and after the loop, and with few and short
//! second measurements. A test may set more: the last setting of a name counts.

use std::path::PathBuf;
use std::process::Command;

/// A folder for `FLOPSMITH_PROBLEMS` whose `dgemm` is 64 x 64 x 64. A resumed run needs it as well.
pub fn problems() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/problems"))
}

/// Lets a run have such a problem. It is not compared with OpenBLAS, whose speed takes seconds to measure at each start:
/// no library is there.
pub fn on(command: &mut Command) {
    command.env("FLOPSMITH_PROBLEMS", problems());
    command.env("FLOPSMITH_OPENBLAS", "/dev/null");
}

/// The settings of a run of such a problem.
pub const SETTINGS: [&str; 4] = [
    "evaluate.finalists=0",
    // As in a search with a short budget: second measurements otherwise take most of its time.
    "evaluate.again=screen",
    "sqd.remeasures_per_step=2",
    // Tests that run at the same time disturb each other.
    "evaluate.quarantine=false",
];

/// The shipped starter without the program that each run would measure for comparison.
#[cfg(feature = "torch")]
pub fn starter() -> PathBuf {
    let shipped = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter"));
    let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("starter");
    std::fs::create_dir_all(&own).unwrap();
    for file in std::fs::read_dir(shipped.canonicalize().unwrap()).unwrap() {
        let file = file.unwrap();
        if file.file_name() == "corpus_best.c" {
            continue;
        }
        // Another test may have made it first, in another checkout a while ago.
        let link = own.join(file.file_name());
        if link.read_link().ok() != Some(file.path()) {
            let fresh = own.join(format!(".{}", std::process::id()));
            std::os::unix::fs::symlink(file.path(), &fresh).unwrap();
            std::fs::rename(fresh, link).unwrap();
        }
    }
    own
}
