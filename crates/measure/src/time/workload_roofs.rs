//! The roofs of a problem at its workloads.

use flopsmith_machine::roofline::{self, Place, Roof};
use flopsmith_problem::Problem;

/// The roof of a problem at one of its workloads.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadRoof {
    /// The name of the workload.
    pub workload: String,
    /// Operations of one call.
    pub flops: f64,
    /// Bytes that one call must move at least; NaN if their number is unknown.
    pub bytes: f64,
    /// The place of a program without any speed, which has the roof and the part of the machine that sets it.
    pub place: Place,
}

/// The roofs of a problem at its workloads, in their order, by [`roofline::place`]. A problem that states no work has none.
pub fn workload_roofs(problem: &Problem, roof: Roof) -> Vec<WorkloadRoof> {
    let stated = problem.workloads.iter().filter(|_| problem.states_work());
    let roofs = stated.zip(problem.each()).filter_map(|(workload, single)| {
        let flops = single.work_flops(&single.timed);
        let bytes = single.moved_bytes(&single.timed);
        let place = roofline::place(flops, bytes, 0.0, roof)?;
        Some(WorkloadRoof {
            workload: workload.name.clone(),
            flops,
            bytes,
            place,
        })
    });
    roofs.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_machine::roofline::{Bandwidth, Bound, MEMORY, Roofs};
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn each_workload_of_a_kernel_has_a_roof_and_a_module_has_none() {
        let measured = Roofs {
            bandwidth: vec![Bandwidth {
                level: MEMORY.into(),
                threads: 1,
                gb_s: 1.0,
                buffer_bytes: 1 << 30,
                holds_bytes: None,
            }],
            ..Roofs::default()
        };
        let roof = Roof {
            peak_gflops: 50.0,
            threads: 1,
            measured: &measured,
        };
        let problem = Problem::load(&shipped::at("dgemm")).unwrap();
        let roofs = workload_roofs(&problem, roof);
        let found: Vec<(&str, f64, Bound)> = roofs
            .iter()
            .map(|at| (at.workload.as_str(), at.flops, at.place.bound))
            .collect();
        let cube = |n: f64| 2.0 * n * n * n;
        let wanted = [
            ("n=256", cube(256.0), Bound::Memory),
            ("n=512", cube(512.0), Bound::Memory),
            ("n=1024", cube(1024.0), Bound::Compute),
        ];
        assert_eq!(found, wanted);
        let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
        assert!(workload_roofs(&module, roof).is_empty());
    }
}
