//! Programs of the templates have the techniques that the templates claim.

use std::collections::BTreeMap;

use flopsmith_generator::template::Space;
use flopsmith_problem::Language;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::{PROBLEMS, Program, techniques};

/// Programs of each template.
const PROGRAMS: usize = 60;

#[test]
fn programs_of_templates_have_the_techniques_that_the_templates_claim() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = 0;
    for (name, problem) in PROBLEMS.iter().filter(|(_, p)| p.template.is_some()) {
        let space = Space::of(problem, problem.max_source_bytes).unwrap();
        for point in space.points().choose_multiple(&mut rng, PROGRAMS) {
            let program = Program {
                name: name.clone(),
                kind: "template".into(),
                problem: name.clone(),
                language: Language::C,
                source: space.program(point).unwrap(),
                labels: space.techniques(point),
            };
            let found = techniques(&program);
            if found != program.labels {
                let key = format!("{name}: {} was taken for {found}", program.labels.words());
                wrong.entry(key).or_insert(program.source);
            }
            seen += 1;
        }
    }
    let text: Vec<String> = wrong
        .iter()
        .map(|(key, source)| format!("{key}\n{source}"))
        .collect();
    assert!(wrong.is_empty(), "{}", text.join("\n"));
    assert!(seen >= 5 * PROGRAMS, "{seen}");
}
