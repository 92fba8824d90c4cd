use flopsmith_protocol::TechniqueSet;

use super::*;
use crate::generate::Space;
use crate::{random, shipped};

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
        // A stencil whose sweeps share their loop.
        (
            "polybench/polybench_jacobi_1d",
            "void polybench_jacobi_1d(int tsteps,int n,double*A,double*B)\n\
             :B[0]=A[0];\n\
             :B[n-1]=A[n-1];\n\
             t=0;t<=tsteps-1;i=1;i<=n-2;:B[i]=0.33333*((A[i-1]+A[i])+A[i+1]);\n\
             t i=1;i<=n-2;:A[i]=0.33333*((B[i-1]+B[i])+B[i+1]);\n",
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

#[test]
fn prompts_of_every_style_show_a_program_to_build_on() {
    let dgemm = shipped("dgemm");
    let permitted = "unroll+simd".parse().expect("techniques");
    let elite = EliteHint {
        techniques: "unroll".parse().expect("techniques"),
        source: "void dgemm(int n)\n{\n    int x = 1;\n}\n".to_owned(),
        gflops: 2.5,
    };
    let asked = |elite: Option<&EliteHint>, style| {
        render(&dgemm, permitted, elite, style).expect("a prompt")
    };
    let shown = "// slow:\nvoid dgemm(int n)\n{\n    int x = 1;\n}\n// fast:\n";
    for (style, shown) in [
        (Style::Compact, shown.to_owned()),
        // Blanks are left out as in every program that such a model reads.
        (Style::Nest, shown.replace("    ", "").replace(" = ", "=")),
    ] {
        let plain = asked(None, style);
        assert!(!plain.contains("slow"), "{plain}");
        assert_eq!(asked(Some(&elite), style), plain + &shown);
    }
    assert_eq!(asked(None, Style::Compact), "// dgemm: unroll simd\n");
    let full = asked(Some(&elite), Style::Full);
    assert!(full.contains("reaches 2.5 GFLOPS. Build on it:"), "{full}");
    assert!(full.contains(elite.source.trim()), "{full}");
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

/// The plain program spells assignments as the prompt does, character by character, so a model can copy them.
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
