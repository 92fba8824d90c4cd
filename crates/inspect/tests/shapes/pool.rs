//! Each technique that a shipped problem lists is found in a program of that problem, or `pool.txt` says why no program that is made here
//! has it. So a run permits nothing that detection could not tell. Special techniques are found in programs that tests write.

use std::collections::BTreeMap;

use flopsmith_generator::template;
use flopsmith_nest::generate::Space;
use flopsmith_nest::{labels, read, space};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Technique, TechniqueSet};
use flopsmith_test_support::shipped;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Program, programs, spell, techniques};

/// Schedules that are drawn for one technique of a problem at most.
const DRAWS: usize = 48;

/// Programs with a technique whose texts are looked at, at most.
const LOOKS: usize = 8;

const NO_SPACE: &str =
    "the reference is no affine loop nest and names no template, so no program is made for it";
const UNSEEN: &str = "programs that have it are made, and detection does not find it in them";
const NOT_IN_TEMPLATE: &str = "no program of its template has it";
const NO_SUM: &str = "nothing is summed, so no schedule keeps a result in registers";
const ONE_ORDER: &str = "dependences forbid every other order";
const NOT_DRAWN: &str = "no schedule that was drawn is legal and has it";

/// The techniques that detection finds in programs that tests write, by problem. Other tests compare the spellings in other
/// languages.
fn in_written_programs() -> BTreeMap<String, TechniqueSet> {
    let mut found: BTreeMap<String, TechniqueSet> = BTreeMap::new();
    let written = spell::all().into_iter().chain(programs::all());
    for program in written.filter(|p| p.language == Language::C) {
        let of = found.entry(program.problem.clone()).or_default();
        if !program.labels.is_subset(*of) {
            *of = of.union(techniques(&program).intersection(program.labels));
        }
    }
    found
}

/// True if detection finds a technique in a program of a problem that is made with it.
fn is_found(problem: &Problem, source: String, made: TechniqueSet, technique: Technique) -> bool {
    let program = Program {
        name: format!("{} with {made}", problem.id),
        kind: "pool".into(),
        problem: problem.id.to_string(),
        language: Language::C,
        source,
        labels: made,
    };
    techniques(&program).contains(technique)
}

/// Why detection finds a technique in no program of a template; none if it finds it.
fn missing_in_template(
    problem: &Problem,
    space: &template::Space,
    technique: Technique,
) -> Option<&'static str> {
    let points = space.points().iter();
    let points = points.filter(|point| space.techniques(point).contains(technique));
    let mut is_made = false;
    for point in points.take(LOOKS) {
        let source = space.program(point).unwrap();
        if is_found(problem, source, space.techniques(point), technique) {
            return None;
        }
        is_made = true;
    }
    Some(if is_made { UNSEEN } else { NOT_IN_TEMPLATE })
}

/// Why detection finds a technique in no program of a loop nest; none if it finds it.
fn missing_in_nest(problem: &Problem, space: &Space, technique: Technique) -> Option<&'static str> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let alone = TechniqueSet::EMPTY.with(technique);
    let (mut sums, mut looks) = (false, 0);
    for number in 0..DRAWS {
        let may = match number % 2 {
            0 => alone,
            _ => problem.techniques,
        };
        let Ok(rendered) = space.render(&space::draw(space, may, &mut rng)) else {
            continue;
        };
        sums |= rendered.facts.iter().any(|fact| fact.sums);
        let made = labels::techniques(space, &rendered);
        if !made.contains(technique) || looks == LOOKS {
            continue;
        }
        looks += 1;
        if is_found(problem, rendered.text, made, technique) {
            return None;
        }
    }
    Some(match technique {
        _ if looks > 0 => UNSEEN,
        Technique::RegisterBlocking if !sums => NO_SUM,
        _ if space::has_one_order(space, &mut rng) => ONE_ORDER,
        _ => NOT_DRAWN,
    })
}

#[test]
fn each_listed_technique_is_found_in_a_program_of_its_problem_or_has_a_reason() {
    let written = in_written_programs();
    let mut reasons = String::new();
    // For each technique, the problems that list it, and those of them whose programs have it.
    let mut counts: BTreeMap<Technique, (usize, usize)> = BTreeMap::new();
    for folder in shipped::problems() {
        let problem = Problem::load(&folder).unwrap();
        let name = problem.id.to_string();
        let known = written.get(&name).copied().unwrap_or_default();
        let template = template::Space::of(&problem, problem.max_source_bytes);
        let nest = read::read(&problem).ok();
        let nest = nest.map(|nest| Space::new(nest).listing(problem.techniques));
        for technique in problem.techniques.iter() {
            let why = match (&template, &nest) {
                _ if known.contains(technique) => None,
                (Some(space), _) => missing_in_template(&problem, space, technique),
                (None, Some(space)) => missing_in_nest(&problem, space, technique),
                (None, None) => Some(NO_SPACE),
            };
            let (listed, found) = counts.entry(technique).or_default();
            *listed += 1;
            match why {
                None => *found += 1,
                Some(why) => reasons += &format!("{name} {technique}: {why}\n"),
            }
        }
        let unknown = problem.special.difference(known);
        assert!(
            unknown.is_empty(),
            "{name}: no written program shows {unknown}"
        );
    }
    println!("{counts:?}\n{reasons}");
    // Reasons are exceptions.
    for technique in Technique::GENERAL {
        let (listed, found) = counts[&technique];
        assert!(found * 3 > listed, "{technique}: {found} of {listed}");
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shapes/pool.txt");
    if std::env::var_os("FLOPSMITH_BLESS").is_some() {
        std::fs::write(page, &reasons).unwrap();
    }
    let kept = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        kept == reasons,
        "{page} has other reasons; see whether they are good ones: FLOPSMITH_BLESS=1 cargo test -p flopsmith-inspect listed_technique\n{reasons}"
    );
}
