use std::path::Path;

use flopsmith_problem::Problem;

use super::*;
use crate::shipped;

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

/// Sources that nest deeply, are long, or would make values deep, are refused or read within the stack of a test.
#[test]
fn no_source_overflows_the_stack() {
    let problem = shipped("dgemm");
    let entry = "void dgemm(int n, const double *A, const double *B, double *C)";
    let nested = |[before, open, inside, close, after]: [&str; 5], levels: usize| {
        let (open, close) = (open.repeat(levels), close.repeat(levels));
        let body = format!("{before}{open}{inside}{close}{after}");
        read_source(&problem, &format!("{entry} {{ {body} }}"))
    };
    for shape in [
        ["C[0] = ", "(", "A[0]", ")", ";"],
        ["C[0] = ", "-", "A[0]", "", ";"],
        ["C[0] = A[0]", " + A[0]", "", "", ";"],
        ["C[", "n + (", "0", ")", "] = A[0];"],
        ["C[0", " + n", "", "", "] = A[0];"],
        [
            "for (int i = 0; i < n",
            " && i < n",
            "",
            "",
            "; i++) C[i] = A[i];",
        ],
        [
            "for (int i = 0; i < n; i++) if (i > 0",
            " || i > 0",
            "",
            "",
            ") C[i] = A[i];",
        ],
        ["if (n > 0) C[0] = ", "n > 0 ? A[0] : ", "A[1]", "", ";"],
        ["", "if (n > 0) ", "C[0] = A[0];", "", ""],
        ["", "{ ", "C[0] = A[0];", " }", ""],
        ["double *p = ", "&*(", "C", ")", "; p[0] = A[0];"],
    ] {
        let found = nested(shape, 10_000);
        let refused = found.expect_err("it is too deep").to_string();
        assert!(
            refused.contains("nested too deeply"),
            "{shape:?}: {refused}"
        );
    }
    // Every `||` splits the domains of the conditions before it.
    let split: Vec<String> = (1..60)
        .map(|k| format!("(n > {k}500 || n < {k}000)"))
        .collect();
    let split = split.join(" && ");
    assert!(nested(["if (", "", &split, "", ") C[0] = A[0];"], 0).is_err());
    let chain: String = (1..400)
        .map(|k| format!("double t{k} = {}t{};", "- ".repeat(40), k - 1))
        .collect();
    let source = format!("{entry} {{ double t0 = A[0]; {chain} C[0] = t399; }}");
    let deepest = read_source(&problem, &source).map_or(0, |program| {
        let depths = program.statements.iter().map(|s| s.value.depth());
        depths.max().unwrap_or(0)
    });
    assert!(deepest <= 300, "{deepest}");
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
