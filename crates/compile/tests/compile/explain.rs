//! Explanations of builds.

use flopsmith_compile::Question;
use flopsmith_compile::toolchain::find;
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};

use super::{compiler, problem};

fn explained(question: Question, language: Language, source: &str) -> Result<String, Failure> {
    compiler().explain(question, language, problem(), source)
}

#[test]
fn remarks_and_the_hot_loop_are_those_of_the_program() {
    let source =
        "void dgemm(int n, const double *restrict A, const double *restrict B, double *restrict C)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                C[i * n + j] += A[i * n + k] * B[k * n + j];
    for (int j = 1; j < n; j++)
        C[j] = C[j - 1] * 0.5;
}
";
    let remarks = explained(Question::Remarks, Language::C, source).unwrap();
    assert!(remarks.contains("kernel.c:5:"), "{remarks}");
    assert!(remarks.contains("kernel.c:7:"), "{remarks}");
    let assembly = explained(Question::Assembly, Language::C, source).unwrap();
    let code: Vec<&str> = assembly.lines().skip(1).collect();
    let label = code[0].trim_end_matches(':');
    assert!(code.len() > 2 && code[0].ends_with(':'), "{assembly}");
    assert!(code[code.len() - 1].contains(label), "{assembly}");
    let throughput = explained(Question::Throughput, Language::C, source).unwrap();
    let numbered = (14..=30).map(|number| format!("llvm-mca-{number}"));
    let mut names = numbered.chain(["llvm-mca".to_owned()]);
    let wanted = match names.any(|name| find(&name).is_some()) {
        true => "Block RThroughput",
        false => "no llvm-mca",
    };
    assert!(throughput.contains(wanted), "{throughput}");
}

#[test]
fn an_explanation_is_bounded_and_a_refused_source_has_none() {
    let body: String = (1..150)
        .map(|n| format!("for (int i = 1; i < n; i++) C[i] = C[i - 1] * {n}.0;\n"))
        .collect();
    let many =
        format!("void dgemm(int n, const double *A, const double *B, double *C) {{\n{body}}}\n");
    let remarks = explained(Question::Remarks, Language::C, &many).unwrap();
    assert!(remarks.len() < 9000 && remarks.ends_with('…'), "{remarks}");
    let include = "#include \"/etc/passwd\"\n";
    for question in Question::ALL {
        match explained(question, Language::C, include) {
            Err(Failure::Candidate { fault, .. }) => {
                assert_eq!(fault, CandidateFault::ForbiddenInclude);
            }
            other => panic!("{question:?}: {other:?}"),
        }
    }
    let unknown = "void dgemm(int n, const double *A, const double *B, double *C) { C[0] = m; }";
    for question in [Question::Remarks, Question::Assembly] {
        let refused = explained(question, Language::C, unknown).unwrap_err();
        assert!(refused.to_string().contains("'m' undeclared"), "{refused}");
    }
    let empty = "void dgemm(int n, const double *A, const double *B, double *C) {}";
    let none = explained(Question::Assembly, Language::C, empty).unwrap();
    assert!(none.contains("no loop"), "{none}");
}
