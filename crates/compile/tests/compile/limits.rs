//! Sources that are too large, too deep or not text, and sources that drive compilers to their limits.

use std::sync::Arc;
use std::time::Duration;

use flopsmith_compile::Compiler;
use flopsmith_protocol::{CandidateFault, Failure, TechniqueSet};
use flopsmith_sandbox::{Options, Sandbox};

use super::{compiler, problem};

fn fault(source: &str) -> CandidateFault {
    fault_by(compiler(), source)
}

fn fault_by(compiler: &Compiler, source: &str) -> CandidateFault {
    match compiler.compile(problem(), source, TechniqueSet::all()) {
        Err(Failure::Candidate { fault, .. }) => fault,
        other => panic!("{:?}", other.map(|b| b.techniques)),
    }
}

#[test]
fn too_large_and_no_text() {
    let large = format!(
        "// {}\n{}",
        "x".repeat(problem().max_source_bytes),
        problem().reference_source
    );
    assert_eq!(fault(&large), CandidateFault::SourceTooLarge);
    for odd in ["\0", "\u{1b}", "\u{7f}", "int x;\rint y;"] {
        assert_eq!(
            fault(&format!("{odd}{}", problem().reference_source)),
            CandidateFault::NotText,
            "{odd:?}"
        );
    }
    let windows = problem().reference_source.replace('\n', "\r\n");
    assert!(
        compiler()
            .compile(problem(), &windows, TechniqueSet::all())
            .is_ok()
    );
}

#[test]
fn deep_nesting_neither_kills_the_stage_nor_passes() {
    let deep = |open: &str, close: &str, n: usize| {
        format!(
            "void dgemm(int n,const double*A,const double*B,double*C){{int x={}1{};C[0]=x;}}",
            open.repeat(n),
            close.repeat(n)
        )
    };
    for n in [300, 3000, 7000] {
        assert_eq!(
            fault(&deep("(", ")", n)),
            CandidateFault::ForbiddenConstruct,
            "{n}"
        );
    }
    assert_eq!(
        fault(&deep("-(", ")", 2000)),
        CandidateFault::ForbiddenConstruct
    );
    let blocks = format!("void f(void){{{}{}}}", "{".repeat(5000), "}".repeat(5000));
    assert_eq!(fault(&blocks), CandidateFault::ForbiddenConstruct);
}

#[test]
fn macros_that_make_megabytes_are_refused_before_the_analysis() {
    let mut macros = "#define M0(x) x+x\n".to_owned();
    for i in 1..19 {
        macros.push_str(&format!("#define M{i}(x) M{}(x)+M{}(x)\n", i - 1, i - 1));
    }
    let entry = "void dgemm(int n,const double*A,const double*B,double*C)";
    let source = format!("{macros}{entry}{{C[0]=M18(1);}}");
    match compiler().compile(problem(), &source, TechniqueSet::all()) {
        Err(Failure::Candidate { fault, detail }) => {
            assert_eq!(fault, CandidateFault::CompileLimit, "{detail}");
            assert!(detail.contains("after preprocessing"), "{detail}");
        }
        other => panic!("{:?}", other.map(|b| b.techniques)),
    }
}

#[test]
fn a_macro_bomb_hits_a_limit() {
    let mut bomb = "#define M0(x) x+x\n".to_owned();
    for i in 1..40 {
        bomb.push_str(&format!("#define M{i}(x) M{}(x) M{}(x)\n", i - 1, i - 1));
    }
    bomb.push_str("int x=M39(1);\n");
    // A tenth of the usual processor time: no limit is enough.
    let sandbox = Arc::new(Sandbox::new(Options::default()).unwrap());
    let (cpu, wall) = (Duration::from_secs(1), Duration::from_secs(60));
    let hurried = Compiler::new(sandbox, compiler().toolchain().clone()).within(cpu, wall);
    assert_eq!(fault_by(&hurried, &bomb), CandidateFault::CompileLimit);
}

#[test]
fn warnings_without_end_hit_a_limit_and_the_first_one_is_told() {
    let source = include_str!("../../../measure/tests/corpus/attacks/warnings_without_end.c");
    match compiler().compile(problem(), source, TechniqueSet::all()) {
        Err(Failure::Candidate { fault, detail }) => {
            assert_eq!(fault, CandidateFault::CompileLimit, "{detail}");
            for part in [
                "more messages than its limit permits: kernel.c:",
                "division by zero",
            ] {
                assert!(detail.contains(part), "{part:?} in {detail}");
            }
            assert!(detail.len() < 400, "{detail}");
        }
        other => panic!("{:?}", other.map(|b| b.diagnostics)),
    }
}

#[test]
fn a_huge_object_hits_a_limit() {
    let huge = "static double X[1<<28]={1};void dgemm(int n,const double*A,const double*B,double*C){C[0]=X[n];}";
    assert_eq!(fault(huge), CandidateFault::CompileLimit);
}

#[test]
fn static_data_that_code_cannot_reach_are_too_much_memory() {
    let far = "static double s[300000000],t[300000000];\
        void dgemm(int n,const double*A,const double*B,double*C){s[n]=A[0];t[n]=B[0];C[0]=s[C[1]>0]+t[C[1]>0];}";
    assert_eq!(fault(far), CandidateFault::MemoryLimit);
}

#[test]
fn large_data_of_each_thread_are_too_much_memory() {
    let source = include_str!("../../../measure/tests/corpus/attacks/too_much_for_each_thread.c");
    assert_eq!(fault(source), CandidateFault::MemoryLimit);
}

#[test]
fn a_source_cannot_make_the_scan_long() {
    let entry = "void dgemm(int n,const double*A,const double*B,double*C)";
    // Each function calls the one before it eight times.
    let mut calls =
        "static void f0(double*C,const double*A,const double*B,int i){C[i]+=A[i]*B[i];}\n"
            .to_owned();
    for i in 1..60 {
        let call = format!("f{}(C,A,B,i);", i - 1);
        calls.push_str(&format!(
            "static void f{i}(double*C,const double*A,const double*B,int i){{{}}}\n",
            call.repeat(8)
        ));
    }
    calls.push_str(&format!("{entry}{{f59(C,A,B,n);}}"));
    // Subscripts that are long polynomials.
    let sum: Vec<String> = (0..40).map(|i| format!("x{i}*n")).collect();
    let names: Vec<String> = (0..40).map(|i| format!("x{i}=n/{}", i + 3)).collect();
    let product = vec![format!("({})", sum.join("+")); 3].join("*");
    let statement = format!("C[{product}]+=A[{product}]*B[{product}];");
    let polys = format!(
        "{entry}{{int {};for(int i=0;i<n;i++){{{}}}}}",
        names.join(","),
        statement.repeat(5)
    );
    // Many sums that flow into each other.
    let mut sums = format!("{entry}{{double s0=0");
    for i in 1..300 {
        sums.push_str(&format!(",s{i}=0"));
    }
    sums.push_str(";for(int k=0;k<n;k++){");
    for i in 0..300 {
        sums.push_str(&format!("s{i}+=A[k*n+{i}]*B[{i}*n+k];"));
    }
    sums.push('}');
    let all: Vec<String> = (0..300).map(|i| format!("s{i}")).collect();
    sums.push_str(&format!("for(int i=0;i<n;i++)C[i]={};}}", all.join("+")));
    // Assignments in assignments, of which each may choose each function that is called behind it.
    let depth = 150;
    let most = problem().max_source_bytes - entry.len() - 10 * depth - 200;
    let assigned = "x=".repeat(most / 2);
    let chosen = format!(
        "{entry}{{int x,(*t[9])(int);{assigned}{}0{};}}",
        "t[".repeat(depth),
        "](0)".repeat(depth)
    );
    for source in [calls, polys, sums, chosen] {
        assert!(
            source.len() <= problem().max_source_bytes,
            "{}",
            source.len()
        );
        let started = std::time::Instant::now();
        let end = compiler().techniques(problem(), &source);
        let took = started.elapsed();
        assert!(
            took.as_secs_f64() < 20.0,
            "{took:?} for {end:?}:\n{source:.200}"
        );
    }
}
