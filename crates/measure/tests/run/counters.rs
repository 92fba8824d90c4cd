//! Hardware counters of a program in the jail.

use flopsmith_machine::counters::{Counter, Counters};
use flopsmith_measure::time::counters::{count, in_words};

use crate::fixtures::{alone, built_of, cores, harness, sandbox, toolchain, with_timed};

/// It touches fresh pages in each call: the C library maps so large a block anew each time.
const PAGES: &str = "#include <stdlib.h>\n\
void dgemm(int n, const double *A, const double *B, double *C)\n{\n\
volatile char *fresh = malloc(48 << 20); for (int i = 0; i < 48 << 20; i += 4096) fresh[i] = 1; free((char *)fresh);\n\
for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {\n\
double s = 0; for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j]; C[i * n + j] = s; }\n}\n";

/// A machine may have some of the counters, or none: then the reason is told.
#[test]
fn the_calls_of_a_program_in_the_jail_are_counted_or_the_reason_is_told() {
    let _alone = alone();
    let problem = with_timed(
        "dgemm",
        "[[timed]]\nn = 64\n[[timed]]\nname = \"larger\"\nn = 128\n",
    );
    let object = built_of(&problem, PAGES);
    let cores = cores().kernel;
    let counted = count(
        &sandbox(),
        &harness(),
        &problem,
        &toolchain(),
        &cores,
        &object,
    );
    let counted = match (counted, Counters::of(0)) {
        (Err(failure), Err(why)) => {
            assert!(failure.to_string().contains(&why), "{failure}");
            return;
        }
        (counted, _) => counted.unwrap(),
    };
    let names: Vec<&str> = counted.iter().map(|one| one.workload.as_str()).collect();
    assert_eq!(names, ["n=64", "larger"]);
    let text = in_words(&counted);
    for one in &counted {
        assert!((1..=16).contains(&one.calls), "{one:?}");
        if let Some(faults) = one.counts.of(Counter::PageFaults) {
            // Pages may be huge.
            assert!(faults >= 1.0, "{one:?}");
        }
        if let Some(instructions) = one.counts.of(Counter::Instructions) {
            // A few for each multiplication of vectors of eight, at least.
            assert!(instructions > one.operations / 16.0, "{one:?}");
        }
        let counters = Counter::ALL.into_iter();
        let shown = counters.filter(|counter| one.counts.of(*counter).is_some());
        let missing = one.missing.as_deref().unwrap_or_default();
        for counter in shown {
            assert!(text.contains(counter.name()), "{text}");
            assert!(!missing.contains(counter.name()), "{missing}");
        }
        assert!(text.contains(missing), "{text}");
    }
}
