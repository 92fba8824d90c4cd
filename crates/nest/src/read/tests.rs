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
