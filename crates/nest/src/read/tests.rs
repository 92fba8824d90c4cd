use std::path::Path;

use flopsmith_problem::Problem;

use super::*;

fn shipped(name: &str) -> Problem {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    Problem::load(&root.join(name)).expect("a shipped problem is sound")
}

#[test]
fn affine_references_are_read() {
    for (name, statements) in [
        ("dgemm", 2),
        ("dgemv", 2),
        ("dsyrk", 2),
        ("transpose", 1),
        ("lu", 4),
        ("conv2d", 2),
    ] {
        let program = read(&shipped(name)).expect(name);
        assert_eq!(program.statements.len(), statements, "{name}: {program:#?}");
    }
}

#[test]
fn others_are_refused_with_the_line() {
    let error = read(&shipped("sort64")).expect_err("it sorts");
    assert!(error.to_string().starts_with("line "), "{error}");
}

/// The shipped problems, those of suites as well.
fn all_shipped() -> Vec<Problem> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let folders = |of: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(of).expect("a folder");
        let paths = entries.map(|e| e.expect("an entry").path());
        paths.filter(|p| p.is_dir()).collect()
    };
    let mut all = Vec::new();
    for folder in folders(&root) {
        // Modules of Python have no reference in C.
        let is_module = |f: &Path| f.join("reference.py").is_file();
        let is_problem = |f: &Path| f.join("problem.toml").is_file() && !is_module(f);
        let each = if is_problem(&folder) {
            vec![folder]
        } else {
            folders(&folder)
        };
        let sound = |f: &std::path::PathBuf| Problem::load(f).expect("a shipped problem is sound");
        all.extend(each.iter().filter(|f| is_problem(f)).map(sound));
    }
    all
}

/// Scratch arrays get rows of their own length, so an element that a subscript finds beyond its row would move.
#[test]
fn subscripts_of_scratch_arrays_stay_within_their_dimensions() {
    let mut checked = 0;
    for problem in all_shipped() {
        let Ok(program) = read(&problem) else {
            continue;
        };
        for statement in &program.statements {
            let domain = program.domain(statement);
            for access in statement.reads().into_iter().chain([&statement.target]) {
                let array = &program.arrays[access.array];
                if array.origin != Origin::Scratch {
                    continue;
                }
                for (subscript, extent) in access.subscripts.iter().zip(&array.extents) {
                    let extent = extent.as_ref().expect("scratch arrays are sized");
                    let inside = domain.implies(subscript)
                        && domain.implies(&extent.minus(subscript).offset(-1));
                    let at = format!("{}: {} {access:?}", problem.id, array.name);
                    assert!(inside, "{at}: {subscript:?} of {extent:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 50, "{checked}");
}
