//! The ideas that once fooled the referee, and the programs of the corpus for each of them. One program would show that
//! one instance is refused; several of them, on several problems and with variants, show it for the idea.

use std::collections::BTreeSet;

use flopsmith_problem::Language;

use crate::fixtures;
use crate::mutate::{self, Entry};
use crate::program::{Program, attacks, honest};

/// Each idea has at least so many programs, ...
const PROGRAMS: usize = 5;
/// ... for so many problems.
const PROBLEMS: usize = 3;

/// An idea, and parts of the names of its files.
type Idea = (&'static str, &'static [&'static str]);

const ATTACKS: &[Idea] = &[
    (
        "work while no clock runs",
        &[
            "works_before_the_clock_",
            "works_while_it_should_sleep",
            "helper_wakes_by_itself",
            "answers_a_little_early_",
        ],
    ),
    (
        "inputs from their generator",
        &[
            "from_the_generator_",
            "asks_the_generator_",
            "answers_for_a_known_seed",
        ],
    ),
    (
        "inputs of an easy kind",
        &[
            "_edges_that_matter",
            "_unless_no_way_is_shorter",
            "_two_edges",
            "_in_short_numbers",
            "_less_a_constant",
            "_by_guessing_places",
            "_in_blocks_of_eight",
            "_that_weigh_little",
        ],
    ),
    (
        "fewer digits, where bounds are loose",
        &[
            "_by_five_terms",
            "_refined_twice",
            "_series_without_reduction",
            "_terms_of_a_series",
            "_of_forty_bits",
            "_in_single_precision",
            "_squares_less_the_square",
        ],
    ),
    (
        "wrong at one size",
        &["wrong_at_one_", "_wrong_after_seven_sweeps"],
    ),
    (
        "no build with sanitizers",
        &[
            "folded_away_with_its_table",
            "_too_slow_with_checks",
            "_asks_what_is_known",
            "_asks_how_large_it_is",
            "overflows_at_timed_sizes",
            "races_where_order_is_not_known",
        ],
    ),
    (
        "loops of labels and jumps",
        &["_by_goto", "_by_go_to", "_by_computed_goto"],
    ),
    ("loops of states", &["_states", "_by_a_list_of_functions"]),
    (
        "techniques by other names",
        &[
            "prefetch_",
            "_vectors_of_the_headers",
            "_vectors_by_decltype",
            "_masks_of_vectors",
            "_by_mmx",
        ],
    ),
    (
        BANNED,
        &[
            "sort64_by_the_library",
            "sort64_by_the_reentrant_library",
            "sort64_by_ranges",
            "prefix_sum_by_the_library",
            "_reduced_by_the_library",
            "_by_inner_products",
            "_by_dot_product",
            "_by_matmul",
            "_by_the_language",
        ],
    ),
    ("the baseline's inputs", &["inputs_of_the_baseline_"]),
];

/// The idea that has to be tried in every language.
const BANNED: &str = "the problem's work by a library";

/// Honest programs that were refused.
const HONEST: &[Idea] = &[(
    "more elements in a vector than the roof of their type knew",
    &["_in_bytes", "_in_chars", "_in_shorts"],
)];

/// The programs of an idea. Each part of a name has one at least.
fn of<'p>((what, parts): &Idea, programs: &'p [Program]) -> Vec<&'p Program> {
    let has = |program: &Program, part: &str| {
        let (_, file) = program.name.split_once('/').unwrap_or_default();
        file.contains(part)
    };
    for part in *parts {
        let found = programs.iter().any(|program| has(program, part));
        assert!(found, "{what}: no program is called `{part}`");
    }
    let is_of_idea = |program: &&Program| parts.iter().any(|part| has(program, part));
    programs.iter().filter(is_of_idea).collect()
}

/// Makes the variants of a program.
type Variants = fn(&str, &Entry<'_>) -> Vec<mutate::Variant>;

/// True if there are variants of a program.
fn varies(program: &Program, made: Variants) -> bool {
    let problem = fixtures::shipped(&program.problem);
    let entry = Entry {
        problem: &problem,
        language: program.language,
    };
    !program.language.is_fortran() && !made(&program.source, &entry).is_empty()
}

#[test]
fn each_idea_has_programs_on_several_problems_with_variants() {
    let (attacks, honest) = (attacks(), honest());
    let of_attacks = ATTACKS.iter().map(|idea| (idea, of(idea, &attacks)));
    let of_honest = HONEST.iter().map(|idea| (idea, of(idea, &honest)));
    for ((what, _), programs) in of_attacks.chain(of_honest) {
        let problems: BTreeSet<&str> = programs.iter().map(|p| p.problem.as_str()).collect();
        assert!(
            programs.len() >= PROGRAMS && problems.len() >= PROBLEMS,
            "{what}: {} programs on {problems:?}",
            programs.len()
        );
        let made: Variants = match programs.iter().all(|program| program.ways.is_empty()) {
            true => mutate::honest::variants,
            false => mutate::variants,
        };
        let has_variants = programs.iter().any(|program| varies(program, made));
        assert!(has_variants, "{what}: no program has variants");
    }
}

#[test]
fn libraries_that_do_the_work_are_tried_in_every_language() {
    let attacks = attacks();
    let idea = ATTACKS.iter().find(|(what, _)| *what == BANNED);
    let programs = idea.map(|idea| of(idea, &attacks)).unwrap_or_default();
    for language in [Language::C, Language::Cxx, Language::Fortran] {
        let tried = programs.iter().any(|program| program.language == language);
        assert!(tried, "{}", language.name());
    }
}
