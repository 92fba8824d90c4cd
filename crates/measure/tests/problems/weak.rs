//! No shipped problem leaves out a part of its work, or admits a less exact function than possible; and the check names
//! definitions that do.

use super::*;

/// All weaknesses of a definition, except short calls.
fn weaknesses(problem: &Arc<Problem>) -> Vec<String> {
    let bench = Bench::of(problem);
    let found = bench.verifier(5).weaknesses(&bench.toolchain, 3).unwrap();
    for finding in &found {
        eprintln!("{:>16} {finding}", problem.id.as_str());
    }
    let weak = found
        .iter()
        .filter(|finding| finding.is_warning() || finding.is_error());
    weak.map(|finding| format!("{}: {finding}", problem.id))
        .collect()
}

#[test]
fn shipped_problems_leave_no_work_out_and_admit_no_downgrade() {
    let _alone = fixtures::alone();
    let tried = tried_at_their_sizes(1).into_iter();
    let weak: Vec<String> = tried.flat_map(|problem| weaknesses(&problem)).collect();
    assert!(weak.is_empty(), "{}", weak.join("\n"));
}

/// A file, a text in it, and its replacement.
type Change<'a> = (&'a str, &'a str, &'a str);

/// A shipped problem with replaced texts in its files.
fn changed(name: &str, changes: &[Change<'_>]) -> Arc<Problem> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(shipped::problem(name)).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    for (file, from, to) in changes {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name}/{file}: {from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
    }
    Arc::new(Problem::load(&folder).unwrap().only_first())
}

#[test]
fn definitions_that_were_easy_or_loose_are_told_so() {
    let _alone = fixtures::alone();
    const TOML: &str = "problem.toml";
    let distances = r#"{ kind = "distances", high = "1000000000" }"#;
    let steps = r#"{ kind = "steps", low = "-1000000000", high = "1000000000" }"#;
    let sums = "operations = \"sqrt(n)\"";
    let worst_case = "operations = \"n\"";
    let cases: [(&str, &[Change<'_>], &[&str]); 9] = [
        (
            "floyd_warshall",
            &[(
                TOML,
                distances,
                r#"{ kind = "range", low = "1", high = "1000" }"#,
            )],
            &[
                "of the edges in `weight`",
                "fit in 8 bits",
                "of the elements of `weight`",
            ],
        ),
        (
            "prefix_sum",
            &[(
                TOML,
                steps,
                r#"{ kind = "range", low = "-1000", high = "1000" }"#,
            )],
            &["sums of 16 numbers of `in` fit in 16 bits"],
        ),
        (
            "conv2d",
            &[
                (TOML, "graded = 10", "graded = 31"),
                (TOML, "c = 3.0", "c = 5.0"),
            ],
            &["rows of `in` are graded so far apart"],
        ),
        (
            "polybench_jacobi_2d",
            &[(TOML, "tsteps = 40\nn = 90", "tsteps = 2000\nn = 8")],
            &["100 % of the results stay right if `tsteps` is 1000 instead of 2000"],
        ),
        (
            "black_scholes",
            &[(
                TOML,
                r#"low = "0.25", high = "50""#,
                r#"low = "0.1", high = "2""#,
            )],
            &["`exp` for arguments within ±ln(2)/2 only passes"],
        ),
        (
            "softmax",
            &[("magnitude.c", "8 + sqrt(n) / 4", "8 + n")],
            &["`exp` by a polynomial of degree 4 passes"],
        ),
        (
            "nbody",
            &[(TOML, "operations = \"16+sqrt(n)\"", "operations = \"16+n\"")],
            &["`sqrt` by an estimate refined twice passes"],
        ),
        (
            "polybench_nussinov",
            &[(TOML, "easy_inputs = ", "# ")],
            &["so saturating arithmetic of that width suffices"],
        ),
        (
            "dot",
            &[(TOML, sums, worst_case)],
            &["inputs in single precision passes"],
        ),
    ];
    for (name, changes, finds) in cases {
        let weak = weaknesses(&changed(name, changes)).join("\n");
        for part in finds {
            assert!(weak.contains(part), "{name}: {part} in\n{weak}");
        }
    }
}
