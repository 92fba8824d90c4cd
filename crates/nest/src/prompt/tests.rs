use std::path::Path;

use flopsmith_protocol::TechniqueSet;

use super::*;
use crate::generate::Space;
use crate::random;

fn shipped(name: &str) -> Problem {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    Problem::load(&root.join(name)).expect("a shipped problem is sound")
}

fn asked(name: &str, techniques: &str) -> String {
    let permitted = techniques.parse().expect("techniques");
    render(&shipped(name), permitted, None, Style::Nest).expect("a nest")
}

#[test]
fn a_prompt_states_loops_bounds_and_subscripts_as_programs_spell_them() {
    for (name, stated) in [
        (
            "dgemm",
            "void dgemm(int n,const double*A,const double*B,double*C)\n\
             i=0;i<=n-1;j=0;j<=n-1;:C[i*n+j]=0;\n\
             i j|k=0;k<=n-1;:C[i*n+j]+=A[i*n+k]*B[k*n+j];\n",
        ),
        (
            "polybench/polybench_syrk",
            "void polybench_syrk(int n,int m,double alpha,double beta,double*C,const double*A)\n\
             i=0;i<=n-1;j=0;j<=i;:C[i*n+j]*=beta;\n\
             i|k=0;k<=m-1;j=0;j<=i;:C[i*n+j]+=alpha*A[i*m+k]*A[j*m+k];\n",
        ),
        (
            "conv2d",
            "void conv2d(int h,int w,int k,const float*in,const float*weight,float*out)\n\
             i=0;i<=h-1;j=0;j<=w-1;:out[i*w+j]=0;\n\
             i j|p=0;p<=k-1;|q=0;q<=k-1;:out[i*w+j]+=weight[p*k+q]*in[(i+p)*(w+k-1)+j+q];\n",
        ),
        (
            "transpose",
            "void transpose(int m,int n,const double*A,double*B)\n\
             i=0;i<=m-1;j=0;j<=n-1;:B[j*m+i]=A[i*n+j];\n",
        ),
    ] {
        assert_eq!(
            asked(name, "unroll+simd"),
            format!("// nest: unroll simd\n{stated}")
        );
    }
    assert!(asked("dgemm", "none").starts_with("// nest: none\nvoid dgemm("));
}

/// A stencil that sweeps shares the loop over sweeps among its statements.
#[test]
fn loops_that_statements_share_are_stated_once() {
    let prompt = asked("polybench/polybench_jacobi_1d", "unroll");
    let lines: Vec<&str> = prompt.lines().skip(2).collect();
    assert_eq!(lines.len(), 2, "{prompt}");
    let first = |line: &str| line.split(';').next().unwrap_or_default().to_owned();
    assert!(first(lines[0]).ends_with("=0"), "{prompt}");
    let iterator = first(lines[0]).replace("=0", "");
    assert!(lines[1].starts_with(&format!("{iterator} ")), "{prompt}");
}

#[test]
fn a_problem_without_a_nest_is_named_with_the_line() {
    let sort = shipped("sort64");
    let error = render(&sort, TechniqueSet::EMPTY, None, Style::Nest).expect_err("it sorts");
    let said = error.to_string();
    for part in ["sort64", "line ", "`full`"] {
        assert!(said.contains(part), "{said}");
    }
    for style in [Style::Compact, Style::Full] {
        assert!(render(&sort, TechniqueSet::EMPTY, None, style).is_ok());
    }
}

/// What a model copies from the prompt stands in the plain program, character by character.
#[test]
fn assignments_of_random_nests_are_spelt_as_in_their_programs() {
    for seed in 0..60 {
        let files = random::problem(seed).expect("the name is an id");
        let problem = Problem::from_files(files).expect("a sound problem");
        let program = program_of(&problem).expect("it is affine");
        let stated = stated(&program).expect("it has bounds");
        let space = Space::new(program);
        let plain = space.render(&space.plain()).expect("the plain order");
        let plain = tight(&plain.text);
        let statements = stated
            .lines()
            .filter(|line| line.contains(';') && line.contains(':'));
        let mut count = 0;
        for line in statements {
            let assignment = line.rsplit(':').next().unwrap_or_default();
            assert!(
                plain.contains(assignment),
                "{assignment} in\n{plain}\nof\n{stated}"
            );
            count += 1;
        }
        assert_eq!(count, space.program.statements.len(), "{stated}");
    }
}
