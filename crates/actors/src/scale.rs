//! The scale in which a model is told the speeds of a problem's programs. Pure.

use flopsmith_agent::results::{Roof, Scale};
use flopsmith_machine::roofline::{Attested, Bound};
use flopsmith_measure::workload_roofs;
use flopsmith_problem::Problem;
use flopsmith_protocol::{MachineClass, MachineFacts};

/// The scale of a problem on a machine class: its roofs are those of the first of these facts about it. It has none for a
/// problem that states no work, and where no facts of the class have roofs.
pub(crate) fn scale_of(problem: &Problem, facts: &[MachineFacts], class: &MachineClass) -> Scale {
    let first = facts.iter().find(|facts| {
        let is_of_problem = facts.problem.as_ref().is_none_or(|id| *id == problem.id);
        is_of_problem && facts.machine_class == *class
    });
    let roofs = first.and_then(|facts| {
        let attested = Attested::read(&facts.attestation_json)?;
        let roofs = workload_roofs(problem, attested.roof(facts.peak_gflops)).into_iter();
        let roofs = roofs.map(|at| Roof {
            workload: at.workload,
            gflops: at.place.roof_gflops,
            by_memory: at.place.bound == Bound::Memory,
            cached_in: match at.place.may_exceed() {
                true => at.place.cached_in,
                false => None,
            },
        });
        Some(roofs.collect())
    });
    Scale {
        compared_with: problem.compared_with(),
        roofs: roofs.unwrap_or_default(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::ProblemId;
    use flopsmith_test_support::{ATTESTED, machine, machine_class, shipped};

    use super::*;

    /// 1 GB/s from memory, and a cache that holds the arrays of the first workload alone.
    const ROOFS: &str = r#"{"threads": 1,
        "peak": {"gflops": 50.0, "bandwidth_gb_s": 1.0, "vector_bits": 512, "threads": 1},
        "roofs": {"compute": [], "integer": [], "bandwidth": [
            {"level": "L3", "threads": 1, "gb_s": 9.0, "buffer_bytes": 1048576, "holds_bytes": 2097152},
            {"level": "memory", "threads": 1, "gb_s": 1.0, "buffer_bytes": 67108864, "holds_bytes": null}
        ]}}"#;

    fn dgemm() -> Problem {
        Problem::load(&shipped::at("dgemm")).unwrap()
    }

    #[test]
    fn the_roofs_are_those_of_the_first_node_of_the_class() {
        let foreign = MachineFacts {
            machine_class: MachineClass::new("foreign").unwrap(),
            peak_gflops: 9.0,
            ..machine(ROOFS)
        };
        let elsewhere = MachineFacts {
            problem: Some(ProblemId::new("other").unwrap()),
            peak_gflops: 9.0,
            ..machine(ROOFS)
        };
        let later = MachineFacts {
            peak_gflops: 9.0,
            ..machine(ROOFS)
        };
        let facts = [foreign, elsewhere, machine(ROOFS), later];
        let scale = scale_of(&dgemm(), &facts, &machine_class());
        assert_eq!(scale.compared_with, "the plain reference");
        let found: Vec<(&str, bool, Option<&str>)> = scale
            .roofs
            .iter()
            .map(|roof| {
                let cache = roof.cached_in.as_deref();
                (roof.workload.as_str(), roof.by_memory, cache)
            })
            .collect();
        let wanted = [
            ("n=256", true, Some("L3")),
            ("n=512", true, None),
            ("n=1024", false, None),
        ];
        assert_eq!(found, wanted);
        assert!((scale.roofs[0].gflops - 256.0 / 12.0).abs() < 1e-9);
        assert!((scale.roofs[2].gflops - 50.0).abs() < 1e-9);
    }

    #[test]
    fn without_attested_roofs_or_stated_work_there_is_only_the_program_to_compare_with() {
        let class = machine_class();
        for facts in [Vec::new(), vec![machine(ATTESTED)]] {
            assert!(scale_of(&dgemm(), &facts, &class).roofs.is_empty());
        }
        let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
        let scale = scale_of(&module, &[machine(ROOFS)], &class);
        assert!(scale.roofs.is_empty());
        assert_eq!(scale.compared_with, module.compared_with());
    }
}
