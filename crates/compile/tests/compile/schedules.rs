//! Detection agrees with the techniques that the schedule space claims for its own programs.

use std::collections::BTreeMap;

use flopsmith_generator::schedule::Space;
use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{compiler, problem};

#[test]
fn detection_agrees_with_the_schedule_space() {
    let space = Space::dgemm();
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut wrong: BTreeMap<String, (u32, String)> = BTreeMap::new();
    let mut sets = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let schedule = space.sample(&mut rng, TechniqueSet::all());
        let source = schedule.render();
        let found = compiler().techniques(problem(), &source).unwrap();
        // Schedules say nothing of the other techniques.
        let found = found.intersection(TechniqueSet::general());
        let claimed = schedule.techniques();
        sets.insert(claimed);
        if found != claimed {
            let key = format!("{claimed} was taken for {found}");
            wrong.entry(key).or_insert((0, source)).0 += 1;
        }
    }
    assert!(sets.len() > 50, "the sample is too narrow: {}", sets.len());
    let text: Vec<_> = wrong
        .iter()
        .map(|(key, (n, source))| format!("{n}× {key}\n{source}"))
        .collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}
