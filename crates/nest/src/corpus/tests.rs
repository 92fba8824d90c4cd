use flopsmith_protocol::Technique;

use super::*;
use crate::{read, shipped};

/// Nests that a test makes.
const NESTS: u64 = 60;

fn config() -> Config {
    Config {
        examples: 100,
        programs: 2,
        hold_out: vec!["dgemm".into(), "dgemv".into()],
        problems: vec!["dsyrk".into()],
        problem_share: 0.1,
        renamed: 0.8,
        techniques: TechniqueSet::general().without(Technique::Openmp),
        hold_out_techniques: vec!["simd+register_blocking".parse().expect("techniques")],
        largest_tile: 4,
        largest_bytes: 1500,
        exact_prompts: 0.6,
        improve_share: 0.0,
    }
}

fn corpus(seed: u64, held_out: &[&str]) -> Corpus {
    corpus_of(config(), seed, held_out)
}

fn corpus_of(config: Config, seed: u64, held_out: &[&str]) -> Corpus {
    let held_out: Vec<Problem> = held_out.iter().map(|name| shipped(name)).collect();
    Corpus::new(config, seed, vec![shipped("dsyrk")], &held_out).expect("it can be made")
}

/// The examples of a nest; none of one that is held out.
fn of_nest(corpus: &Corpus, number: u64) -> Vec<Example> {
    corpus.of_nest(number).unwrap_or_default()
}

/// The techniques that a prompt permits.
fn permitted(prompt: &str) -> TechniqueSet {
    let line = prompt.lines().next().unwrap_or_default();
    let names = line.strip_prefix("// nest:").unwrap_or_default();
    let names: Vec<&str> = names.split_whitespace().collect();
    names.join("+").parse().expect("techniques")
}

#[test]
fn a_nest_follows_from_the_seed_and_its_number() {
    let [one, again, other] = [1, 1, 2].map(|seed| corpus(seed, &["dgemm"]));
    let of =
        |corpus: &Corpus| -> Vec<Vec<Example>> { (0..12).map(|n| of_nest(corpus, n)).collect() };
    let examples = of(&one);
    // In any order.
    let mut backwards: Vec<Vec<Example>> = (0..12).rev().map(|n| of_nest(&again, n)).collect();
    backwards.reverse();
    assert_eq!(examples, backwards);
    assert_ne!(examples, of(&other));
    assert!(examples.iter().flatten().count() > 12, "{examples:#?}");
}

#[test]
fn programs_stay_within_their_prompts_and_the_configuration() {
    let corpus = corpus(3, &["dgemm"]);
    let config = config();
    let (mut count, mut sets) = (0, std::collections::BTreeSet::new());
    for example in (0..NESTS).flat_map(|n| of_nest(&corpus, n)) {
        let permitted = permitted(&example.prompt);
        assert!(example.techniques.is_subset(permitted), "{example:?}");
        assert!(permitted.is_subset(config.techniques), "{example:?}");
        let held_out = |set: &TechniqueSet| set.is_subset(example.techniques);
        assert!(
            !config.hold_out_techniques.iter().any(held_out),
            "{example:?}"
        );
        assert!(example.program.len() <= config.largest_bytes, "{example:?}");
        // The program defines the function that the prompt names.
        let prototype = example.prompt.lines().nth(1).unwrap_or_default();
        assert!(example.program.contains(prototype), "{example:?}");
        sets.insert(example.techniques);
        count += 1;
    }
    assert!(count as u64 > NESTS && sets.len() > 10, "{count}: {sets:?}");
}

/// Shown programs change nothing else of a corpus, so its other prompts are those of a corpus without them.
#[test]
fn some_prompts_show_a_program_with_fewer_techniques_to_improve() {
    let share = |improve_share| Config {
        improve_share,
        ..config()
    };
    let of = |share: Config| -> Vec<Example> {
        let corpus = corpus_of(share, 3, &["dgemm"]);
        (0..NESTS).flat_map(|n| of_nest(&corpus, n)).collect()
    };
    let (none, half, all) = (of(share(0.0)), of(share(0.5)), of(share(1.0)));
    let mut counts = [0; 2];
    for (examples, count) in [&half, &all].into_iter().zip(&mut counts) {
        assert_eq!(examples.len(), none.len());
        for (example, plain) in examples.iter().zip(&none) {
            assert_eq!(example.program, plain.program);
            assert_eq!(example.techniques, plain.techniques);
            let Some(shown) = example.prompt.strip_prefix(&plain.prompt) else {
                unreachable!("{example:?} begins otherwise than {plain:?}");
            };
            if shown.is_empty() {
                continue;
            }
            let slow = shown.strip_prefix("// slow:\n");
            let slow = slow.and_then(|slow| slow.strip_suffix("// fast:\n"));
            let slow = slow.unwrap_or_default();
            // It is a whole program of the nest, and another one than the answer.
            let prototype = plain.prompt.lines().nth(1).unwrap_or_default();
            assert!(slow.contains(prototype), "{shown}");
            assert_ne!(slow, plain.program);
            assert!(!plain.techniques.is_empty(), "{example:?}");
            let bytes = slow.len() + plain.program.len();
            assert!(bytes <= config().largest_bytes, "{bytes}: {example:?}");
            *count += 1;
        }
    }
    assert!(counts[0] > 0 && counts[0] < counts[1], "{counts:?}");
    assert!(counts[1] < none.len(), "{counts:?}");
}

/// Programs that are plain C are read back: they compute the nest that their prompt states.
#[test]
fn programs_compute_the_nest_of_their_prompt() {
    let corpus = corpus(4, &["dgemm"]);
    let plain: TechniqueSet = "loop_reorder+unroll".parse().expect("techniques");
    let mut compared = 0;
    for number in 0..NESTS {
        let mut rng = ChaCha8Rng::seed_from_u64(corpus.seed);
        rng.set_stream(number);
        let Some((problem, program)) = corpus.nest(&mut rng) else {
            continue;
        };
        for example in of_nest(&corpus, number) {
            let stated = stated(&program).expect("it was stated");
            assert!(example.prompt.ends_with(&stated), "{example:?}");
            if !example.techniques.is_subset(plain) {
                continue;
            }
            // Bounds of skewed loops are no affine expressions to the reader.
            let Ok(again) = read::read_source(&problem, &example.program) else {
                continue;
            };
            // A form keeps the number and the order of the statements.
            let targets = |of: &Program| -> Vec<usize> {
                of.statements.iter().map(|s| s.target.array).collect()
            };
            if is_transformed(&example.program, &again) || targets(&again) != targets(&program) {
                continue;
            }
            assert_eq!(canonical(&again), canonical(&program), "{example:?}");
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}

/// True if a program runs its loops in a skewed order, or a statement in loops that its nest does not have: such a program
/// has other subscripts or depths than the nest that it computes.
fn is_transformed(text: &str, program: &Program) -> bool {
    let starts = text.split("for(long ").skip(1);
    let starts = starts.filter_map(|line| line.split_once('=')?.1.split_once(';'));
    let is_skewed = |(start, _): (&str, &str)| start.contains(char::is_alphabetic);
    let has_more_loops = |statement: &crate::program::Statement| {
        statement.kind().is_none() && statement.iterators.len() != statement.target.subscripts.len()
    };
    starts.into_iter().any(is_skewed) || program.statements.iter().any(has_more_loops)
}

#[test]
fn a_held_out_nest_never_occurs() {
    let nests = |corpus: &Corpus| -> Vec<(Problem, Program)> {
        let nests = (0..300).filter_map(|number| {
            let mut rng = ChaCha8Rng::seed_from_u64(corpus.seed);
            rng.set_stream(number);
            corpus.nest(&mut rng)
        });
        nests.collect()
    };
    let all = nests(&corpus(5, &[]));
    // Nests that occur are held out, the shown problem aside; names do not matter.
    let shown = canonical(&program_of(&shipped("dsyrk")).expect("a nest"));
    let of = |(_, program): &(Problem, Program)| canonical(program);
    let held_out: Vec<&(Problem, Program)> = all
        .iter()
        .filter(|nest| of(nest) != shown)
        .step_by(40)
        .collect();
    let forms: Vec<String> = held_out.iter().map(|nest| of(nest)).collect();
    let problems: Vec<Problem> = held_out.iter().map(|nest| nest.0.clone()).collect();
    assert!(problems.len() > 3, "{}", problems.len());
    let without = Corpus::new(config(), 5, vec![shipped("dsyrk")], &problems);
    let kept = nests(&without.expect("it can be made"));
    assert!(kept.iter().all(|nest| !forms.contains(&of(nest))));
    assert!(kept.len() + problems.len() <= all.len() && kept.len() > all.len() / 2);
}

/// A nest that is held out is told from one without a program that may be shown, so the former can be counted.
#[test]
fn a_held_out_nest_is_told_from_one_without_programs() {
    let random = Config {
        problem_share: 0.0,
        ..config()
    };
    let of = |config: Config, held_out: &[Problem]| {
        Corpus::new(config, 6, Vec::new(), held_out).expect("it can be made")
    };
    let free = of(random.clone(), &[]);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    rng.set_stream(0);
    let (first, _) = free.nest(&mut rng).expect("nothing is held out");
    assert!(free.of_nest(0).is_some());
    assert_eq!(of(random.clone(), &[first]).of_nest(0), None);
    let no_room = Config {
        largest_bytes: 1,
        ..random
    };
    assert_eq!(of(no_room, &[]).of_nest(0), Some(Vec::new()));
}

#[test]
fn contradictions_and_values_out_of_range_are_named() {
    let with = |change: &dyn Fn(&mut Config), problems: &[&str], held_out: &[&str]| {
        let mut config = config();
        change(&mut config);
        let load = |names: &[&str]| names.iter().map(|name| shipped(name)).collect::<Vec<_>>();
        let made = Corpus::new(config, 1, load(problems), &load(held_out));
        made.expect_err("it is refused").to_string()
    };
    let same = with(&|_| {}, &["sgemm"], &["dgemm"]);
    assert!(same.contains("sgemm") && same.contains("dgemm"), "{same}");
    let sorts = with(&|_| {}, &[], &["sort64"]);
    assert!(
        sorts.contains("sort64") && sorts.contains("line "),
        "{sorts}"
    );
    let share = with(&|c| c.renamed = 1.5, &[], &[]);
    assert!(
        share.contains("`renamed` must be between 0 and 1"),
        "{share}"
    );
    let improved = with(&|c| c.improve_share = -0.1, &[], &[]);
    assert!(improved.contains("`improve_share`"), "{improved}");
    let none = with(&|c| c.programs = 0, &[], &[]);
    assert!(none.contains("`programs`"), "{none}");
}
