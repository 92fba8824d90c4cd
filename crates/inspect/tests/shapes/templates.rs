//! Programs of the templates have the techniques that the templates claim.
//!
//! `FLOPSMITH_NESTS=folder` writes a program for each kind of difference to a folder, with the findings behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopsmith_generator::template::Space;
use flopsmith_problem::Language;
use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::{PROBLEMS, Program, detected};

/// Programs of each template.
const PROGRAMS: usize = 60;

/// Least share of the programs for which claims and findings are the same. It may only rise.
const AGREEMENT: f64 = 0.98;

#[test]
fn programs_of_templates_have_the_techniques_that_the_templates_claim() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
    let (mut seen, mut same) = (0_u32, 0_u32);
    for (name, problem) in PROBLEMS.iter().filter(|(_, p)| p.template.is_some()) {
        // A search leaves as much room for the comment that names the point.
        let largest = problem.max_source_bytes - problem.max_source_bytes / 8;
        let space = Space::of(problem, largest).unwrap();
        for point in space.points().choose_multiple(&mut rng, PROGRAMS) {
            let program = Program {
                name: name.clone(),
                kind: "template".into(),
                problem: name.clone(),
                language: Language::C,
                source: space.program(point).unwrap(),
                labels: space.techniques(point),
            };
            let all = detected(&program).seen;
            let found: TechniqueSet = all.iter().map(|s| s.technique).collect();
            seen += 1;
            if found == program.labels {
                same += 1;
            } else {
                let claimed = program.labels.words();
                if let Some(folder) = std::env::var_os("FLOPSMITH_NESTS") {
                    let file = format!("template_{name}_{claimed}_{found}.c");
                    let text = format!("{}\n/* {all:#?} */\n", program.source);
                    let folder = PathBuf::from(folder);
                    std::fs::create_dir_all(&folder).unwrap();
                    std::fs::write(folder.join(file.replace(", ", "_")), text).unwrap();
                }
                *wrong
                    .entry(format!("{name}: {claimed} was taken for {found}"))
                    .or_default() += 1;
            }
        }
    }
    println!("{same} of {seen} programs\n{wrong:#?}");
    assert!(seen as usize >= 5 * PROGRAMS, "{seen}");
    assert!(
        f64::from(same) >= AGREEMENT * f64::from(seen),
        "{same} of {seen}: {wrong:#?}"
    );
}
