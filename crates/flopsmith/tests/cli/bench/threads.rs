//! Programs timed with several counts of threads.

use std::collections::BTreeMap;

use flopsmith_test_support::skipped;
use serde_json::Value;

use super::{assert_timed, programs, quick, said};

/// Rows are shared among the threads.
const SHARED: &str = "void dgemm(int n,const double*A,const double*B,double*C){\n\
    #pragma omp parallel for\n\
    for(int i=0;i<n;i++){for(int j=0;j<n;j++)C[i*n+j]=0;\n\
    for(int k=0;k<n;k++)for(int j=0;j<n;j++)C[i*n+j]+=A[i*n+k]*B[k*n+j];}}\n";

#[test]
fn a_list_of_threads_times_a_program_with_each() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skipped("two threads cannot be timed on one core");
        return;
    }
    let folder = programs(&[("shared.c", SHARED)]);
    let file = folder.path().join("shared.c");
    let output = quick(&[&file], &["--threads", "1,2", "--format", "json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 2, "{text}");
    let by_threads: BTreeMap<u64, &Value> = rows
        .iter()
        .map(|row| (row["threads"].as_u64().unwrap(), row))
        .collect();
    assert_eq!(by_threads.keys().collect::<Vec<_>>(), [&1, &2], "{text}");
    for row in by_threads.values() {
        assert_timed(row);
        assert!(row["file"].as_str().unwrap().ends_with("shared.c"), "{row}");
        assert!(row["gflops"].as_f64().unwrap() > 0.1, "{row}");
        let techniques = row["techniques"].as_array().unwrap();
        assert!(techniques.contains(&"openmp".into()), "{row}");
    }
}
