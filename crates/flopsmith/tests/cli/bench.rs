//! `bench`: one program, timed or refused.

use serde_json::Value;

use crate::{assert_traceable, last_object, run};

/// The result of timing a program, its exit code and what was written of its samples.
fn bench(source: &str) -> (Value, i32, Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    let raw = folder.path().join("raw.json");
    std::fs::write(&file, source).unwrap();
    let output = run(&[
        "bench",
        file.to_str().unwrap(),
        "--problem",
        "dgemm",
        "--purpose",
        "screen",
        "--format",
        "json",
        "--raw",
        raw.to_str().unwrap(),
    ]);
    let raw = std::fs::read(raw)
        .ok()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap());
    (last_object(&output), output.status.code().unwrap(), raw)
}

#[test]
fn bench_measures_a_correct_program_and_says_what_it_uses() {
    let (object, code, raw) = bench(
        "void dgemm(int n,const double*A,const double*B,double*C){\n\
         for(int i=0;i<n*n;i++)C[i]=0;\n\
         for(int i=0;i<n;i++)for(int k=0;k<n;k++)for(int j=0;j<n;j++)C[i*n+j]+=A[i*n+k]*B[k*n+j];}\n",
    );
    assert_eq!(code, 0, "{object}");
    assert_eq!(object["outcome"], "measured");
    assert_eq!(object["techniques"], serde_json::json!(["loop_reorder"]));
    assert!(object["gflops"].as_f64().unwrap() > 0.1);
    for key in ["ratio", "interval", "blocks", "diagnostics", "attestation"] {
        assert!(!object[key].is_null(), "{key} in {object}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(object["vector_bits"].as_u64().unwrap() >= 128, "{object}");
    }
    let raw = raw.unwrap();
    assert_traceable(&raw);
    assert_eq!(raw["measurement"]["gflops"], object["gflops"]);
}

#[test]
fn bench_names_the_candidates_fault_and_exits_with_1() {
    let wrong = |source: &str, reason: &str| {
        let (object, code, raw) = bench(source);
        assert_eq!(code, 1, "{object}");
        assert_eq!(object["outcome"], "rejected", "{object}");
        assert_eq!(object["reason"], reason, "{object}");
        assert_eq!(raw, None, "what was not timed has no samples");
    };
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){}",
        "wrong_result",
    );
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){for(;;);}",
        "timeout",
    );
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){ int x = ; }",
        "compile_error",
    );
    wrong(
        "#include <unistd.h>\nvoid dgemm(int n,const double*A,const double*B,double*C){}",
        "forbidden_include",
    );
    wrong("int other;", "missing_entry");
}
