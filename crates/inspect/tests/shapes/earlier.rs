//! Programs whose techniques were known before the templates: those of the compile stage's tests, and the schedule space.

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_generator::schedule::Space;
use flopsmith_problem::Language;
use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Program, techniques};

fn product(name: &str, source: String, labels: TechniqueSet) -> Program {
    Program {
        name: name.to_owned(),
        kind: "product".into(),
        problem: "dgemm".into(),
        language: Language::C,
        source,
        labels,
    }
}

#[test]
fn the_honest_programs_of_the_compile_stage_keep_their_techniques() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compile/tests/compile/honest");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let source = std::fs::read_to_string(&file).unwrap();
        let (first, _) = source.split_once('\n').unwrap();
        let labels = first.trim_start_matches("// ").parse().unwrap();
        let program = product(&file.display().to_string(), source, labels);
        // These labels know no techniques of some kinds of problems.
        let found = techniques(&program).intersection(TechniqueSet::general());
        if found != labels {
            wrong.push(format!("{}: {labels} was taken for {found}", program.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The compile stage's tests have many more of these.
#[test]
fn schedules_have_the_techniques_that_the_space_claims() {
    let space = Space::dgemm();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..400 {
        let schedule = space.sample(&mut rng, TechniqueSet::all());
        let program = product("schedule", schedule.render(), schedule.techniques());
        let found = techniques(&program).intersection(TechniqueSet::general());
        if found != program.labels {
            let key = format!("{} was taken for {found}", program.labels);
            wrong.insert(key, program.source);
        }
    }
    let text: Vec<_> = wrong
        .iter()
        .map(|(k, source)| format!("{k}\n{source}"))
        .collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

/// References are what programs are compared with.
#[test]
fn references_use_no_technique() {
    for (name, problem) in super::PROBLEMS.iter() {
        let program = Program {
            name: name.clone(),
            kind: "reference".into(),
            problem: name.clone(),
            language: Language::C,
            source: problem.reference_source.clone(),
            labels: TechniqueSet::EMPTY,
        };
        assert_eq!(techniques(&program), TechniqueSet::EMPTY, "{name}");
    }
}
