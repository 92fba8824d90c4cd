//! Programs of the schedule spaces of problems.

use std::collections::BTreeSet;

use anyhow::Result;
use flopsmith_eval::schedules::Programs;
use flopsmith_problem::Problem;
use flopsmith_protocol::Technique;
use flopsmith_run::console::usage;

/// Draws for each program that is wanted: random schedules repeat, and the space of a template is small.
const DRAWS: usize = 4;

/// At most `count` different programs of a problem's space, with all of its techniques but OpenMP: programs are timed on
/// one core. The same seed gives the same programs.
///
/// # Errors
/// Wrong usage: the problem has no space, or the space gives no program.
pub fn draw(problem: &Problem, count: usize, seed: u64) -> Result<Vec<String>> {
    let permitted = problem.techniques.without(Technique::Openmp);
    let space = Programs::of(problem).map_err(|why| without(problem, &why))?;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut missed = None;
    for number in 0..count.saturating_mul(DRAWS) {
        if found.len() == count {
            break;
        }
        match space.draw(problem, permitted, seed.wrapping_add(number as u64)) {
            Ok(program) => {
                if seen.insert(program.clone()) {
                    found.push(program);
                }
            }
            // A space that gives nothing in hundreds of draws gives nothing for another seed either.
            Err(why) => {
                missed = Some(why);
                break;
            }
        }
    }
    match (found.is_empty(), missed) {
        (true, Some(why)) => Err(without(problem, &why)),
        _ => Ok(found),
    }
}

/// Checks that a problem has a space.
///
/// # Errors
/// Wrong usage: it has none.
pub fn has_space(problem: &Problem) -> Result<()> {
    match Programs::of(problem) {
        Ok(_) => Ok(()),
        Err(why) => Err(without(problem, &why)),
    }
}

fn without(problem: &Problem, why: &str) -> anyhow::Error {
    usage(format!(
        "no programs can be drawn for {}: {why}; give programs in a file, or leave the problem out",
        problem.id
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::at(name)).unwrap()
    }

    #[test]
    fn programs_differ_and_follow_from_the_seed() {
        for name in ["dgemm", "dsyrk"] {
            let problem = problem(name);
            let drawn = draw(&problem, 6, 1).unwrap();
            let distinct: BTreeSet<&String> = drawn.iter().collect();
            assert_eq!((drawn.len(), distinct.len()), (6, 6), "{name}");
            assert_eq!(draw(&problem, 6, 1).unwrap(), drawn, "{name}");
            assert_ne!(draw(&problem, 6, 1000).unwrap(), drawn, "{name}");
            assert!(drawn.iter().all(|p| !p.contains("#pragma omp parallel")));
        }
        assert!(draw(&problem("dgemm"), 0, 1).unwrap().is_empty());
    }

    #[test]
    fn a_problem_without_a_space_is_wrong_usage() {
        let mut problem = problem("sort64");
        has_space(&problem).unwrap();
        problem.template = None;
        for error in [
            draw(&problem, 1, 1).unwrap_err(),
            has_space(&problem).unwrap_err(),
        ] {
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains("sort64"), "{error:#}");
        }
    }
}
