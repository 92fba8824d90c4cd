use std::collections::BTreeSet;

use flopsmith_protocol::Technique;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

/// A blocked product with a hint, a prefetch, a macro, a vector, and numbers in comments and texts.
const BLOCKED: &str = "\
/* tiles of 64 by 64 */
#define TILE 64 // not 65
typedef double vec __attribute__((vector_size(32)));
const char *name = \"tile 64 of for (i = 0; i < 64; i++)\";
void f(int n, const double *a, double *c) {
    for (int ii = 0; ii < n; ii += TILE)
        for (int i = ii; i < ii + TILE && i < n; i++) {
            __builtin_prefetch(&a[i * n], 0, 3);
            #pragma GCC unroll 4
            for (int k = 0; k < 96; k += 8)
                for (int j = 0; j < 96; j++)
                    c[i * 96 + j] += a[k * n + j];
        }
}
";

/// Mutants that a test draws: enough that each of some dozen changes is among them.
const DRAWS: usize = 4000;

fn mutants(source: &str, language: Language, permitted: TechniqueSet) -> Vec<Mutant> {
    let mutable = Mutable::of(source, language, permitted);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    (0..DRAWS)
        .filter_map(|_| mutable.mutant(&mut rng))
        .collect()
}

fn texts(source: &str) -> BTreeSet<String> {
    let all = mutants(source, Language::C, TechniqueSet::all());
    all.into_iter().map(|mutant| mutant.text).collect()
}

/// Checks that a mutant differs from its parent in the places of its edits, and there alone.
fn differs_in_its_edits_alone(source: &str, mutant: &Mutant) -> Result<(), TestCaseError> {
    prop_assert_ne!(source, mutant.text.as_str());
    prop_assert!(!mutant.edits.is_empty());
    let (mut old, mut new) = (0, 0);
    for edit in &mutant.edits {
        prop_assert!(edit.start >= old && edit.end >= edit.start);
        let kept = edit.start - old;
        prop_assert_eq!(
            &source[old..edit.start],
            &mutant.text[new..new + kept],
            "between two edits"
        );
        new += kept;
        prop_assert_eq!(&mutant.text[new..new + edit.text.len()], edit.text.as_str());
        new += edit.text.len();
        old = edit.end;
    }
    prop_assert_eq!(&source[old..], &mutant.text[new..], "behind the last edit");
    Ok(())
}

#[test]
fn mutants_differ_in_their_edits_alone_and_leave_comments_and_texts() {
    let all = mutants(BLOCKED, Language::C, TechniqueSet::all());
    assert_eq!(all.len(), DRAWS, "there is always something to change");
    for mutant in &all {
        differs_in_its_edits_alone(BLOCKED, mutant).expect("only its edits");
        for kept in [
            "/* tiles of 64 by 64 */\n",
            "// not 65\n",
            "\"tile 64 of for (i = 0; i < 64; i++)\"",
        ] {
            assert!(mutant.text.contains(kept), "{}", mutant.text);
        }
    }
    let different: BTreeSet<&str> = all.iter().map(|mutant| mutant.text.as_str()).collect();
    assert!(different.len() > 100, "{}", different.len());
    // Most have one change; a change of equal numbers edits each of them.
    let alike = |mutant: &&Mutant| mutant.edits.iter().all(|e| e.text == mutant.edits[0].text);
    let single = all.iter().filter(alike).count();
    assert!(single > all.len() / 2, "{single}");
}

#[test]
fn sizes_change_alone_and_together() {
    let found = texts(BLOCKED);
    for (old, new) in [
        ("TILE 64", "TILE 32"),
        ("TILE 64", "TILE 128"),
        ("TILE 64", "TILE 72"),
        ("TILE 64", "TILE 63"),
        ("vector_size(32)", "vector_size(64)"),
        ("unroll 4", "unroll 8"),
        ("k += 8", "k += 16"),
        ("k < 96", "k < 48"),
        ("96; ", "48; "),
    ] {
        assert!(found.contains(&BLOCKED.replace(old, new)), "{new}");
    }
    // A subscript is no size.
    assert!(found.iter().all(|text| text.contains("i * 96 + j")));
    assert!(!found.iter().any(|text| text.contains("vector_size(33)")));
}

#[test]
fn hints_are_put_and_taken_off_and_prefetches_removed() {
    let found = texts(BLOCKED);
    let loop_at_start = "    for (int ii = 0; ii < n; ii += TILE)\n";
    for hint in ["GCC unroll 2", "GCC ivdep", "omp simd"] {
        let with = format!("    #pragma {hint}\n{loop_at_start}");
        assert!(
            found.contains(&BLOCKED.replace(loop_at_start, &with)),
            "{hint}"
        );
    }
    for (old, new) in [
        ("            #pragma GCC unroll 4\n", ""),
        ("__builtin_prefetch(&a[i * n], 0, 3);", ";"),
    ] {
        assert!(found.contains(&BLOCKED.replace(old, new)), "{old}");
    }
    // A loop has one hint of a kind, and OpenMP's stands alone.
    assert!(
        !found
            .iter()
            .any(|text| text.contains("4\n            #pragma GCC unroll"))
    );
    let doubled = "#pragma GCC unroll 4\n            #pragma omp";
    assert!(!found.iter().any(|text| text.contains(doubled)));
    let shared =
        "void f(int n) {\n#pragma omp parallel for\nfor (int i = 0; i < n; i++) g(i);\n}\n";
    assert!(Mutable::of(shared, Language::C, TechniqueSet::all()).is_empty());
}

#[test]
fn a_loop_that_begins_within_a_line_has_its_hint_in_a_line_of_its_own() {
    let found = texts("void f(int n) { for (int i = 0; i < n; i++) g(i); }\n");
    let wanted = "void f(int n) { \n#pragma GCC ivdep\nfor (int i = 0; i < n; i++) g(i); }\n";
    assert!(found.contains(wanted), "{found:?}");
}

#[test]
fn two_loops_change_places_if_neither_names_the_variable_of_the_other() {
    let (i, k, j) = (
        "(int i = 0; i < n; i++)",
        "(int k = 0; k < n; k++)",
        "(int j = 0; j < i; j++)",
    );
    let nest = |first: &str, second: &str| {
        format!("for {first} {{\n  for {second} {{ if (x) f(); }}\n}}\n")
    };
    assert!(texts(&nest(i, k)).contains(&nest(k, i)));
    let reordered = |source: &str| {
        let tokens = Tokens::of(source, Language::C);
        loops::orders(&tokens, TechniqueSet::all()).len()
    };
    assert_eq!(reordered(&nest(i, k)), 1);
    assert_eq!(reordered(&nest(i, j)), 0, "a bound names the variable");
    assert_eq!(reordered(&format!("for {i} for {k} f();")), 1);
    for apart in [
        format!("for {i} {{ g(); for {k} f(); }}"),
        format!("for {i} {{ for {k} f(); g(); }}"),
        format!("for {i} {{\n#pragma GCC ivdep\nfor {k} f(); }}"),
        format!("for {i} {{ for {k} if (x) f(); }}"),
        format!("for {i} for {i} f();"),
        format!("#define LOOPS for {i} for {k} f();\n"),
        format!("for {i} {{ for {k} f();"),
    ] {
        assert_eq!(reordered(&apart), 0, "{apart}");
    }
}

#[test]
fn techniques_that_are_not_permitted_are_not_put_into_a_program() {
    let all = mutants(BLOCKED, Language::C, TechniqueSet::EMPTY);
    for mutant in &all {
        let hints = mutant.text.matches("unroll").count();
        assert!(hints <= 1, "{}", mutant.text);
        assert!(!mutant.text.contains("omp simd"), "{}", mutant.text);
    }
    let only = TechniqueSet::EMPTY.with(Technique::LoopReorder);
    let tokens = Tokens::of(BLOCKED, Language::C);
    assert!(loops::orders(&tokens, TechniqueSet::EMPTY).is_empty());
    assert!(!loops::orders(&tokens, only).is_empty());
}

#[test]
fn a_program_without_places_to_change_has_no_mutant() {
    for (source, language) in [
        ("void f(int n) { g(n, 64, \"for (;;)\"); }", Language::C),
        ("", Language::Cxx),
        ("! do i = 1, 64\nx = 64\n", Language::Fortran),
        ("for i in range(64):\n    pass\n", Language::Python),
    ] {
        let mutable = Mutable::of(source, language, TechniqueSet::all());
        assert!(mutable.is_empty(), "{source}");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        assert_eq!(mutable.mutant(&mut rng), None);
    }
}

#[test]
fn programs_in_fortran_have_other_numbers_and_nothing_else() {
    let source = "integer, parameter :: nb = 64 ! 64\ndo i = 1, n, nb\n  do j = 1, n, 4\n    s = '4'\n  end do\nend do\n";
    let all = mutants(source, Language::Fortran, TechniqueSet::all());
    assert_eq!(all.len(), DRAWS);
    let found: BTreeSet<&str> = all.iter().map(|mutant| mutant.text.as_str()).collect();
    for (old, new) in [("nb = 64", "nb = 32"), ("n, 4", "n, 8")] {
        assert!(found.contains(source.replace(old, new).as_str()), "{new}");
    }
    let letters = |text: &str| -> String {
        let kept = text.chars().filter(|c| !c.is_ascii_digit());
        kept.collect()
    };
    assert!(found.iter().all(|text| letters(text) == letters(source)));
    assert!(
        found
            .iter()
            .all(|text| text.contains("! 64\n") && text.contains("'4'"))
    );
}

proptest! {
    #[test]
    fn any_text_has_mutants_that_differ_in_their_edits_alone_or_none(
        parts in prop::collection::vec(
            prop_oneof![
                Just("for (int i = 0; i < 64; i += 8)"),
                Just("\nfor (j = 2; j < m; j++) {"),
                Just("#pragma GCC unroll 4\n"),
                Just("\n#define m 32 /* \u{e9} */\n"),
                Just("double a[16];"),
                Just("__builtin_prefetch(p);"),
                Just("}"),
                Just("\"text"),
                Just("\u{e9}"),
                Just("\n"),
                Just("// 8\n"),
                Just("enum {"),
                Just("do i = 1, n, 8\n"),
                Just("!gcc$ unroll"),
                Just("(4"),
                Just("="),
                Just("#"),
                Just("define"),
            ],
            0..24,
        ),
        seed in any::<u64>(),
    ) {
        let source = parts.concat();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for language in [Language::C, Language::Cxx, Language::Fortran, Language::Fortran77] {
            let mutable = Mutable::of(&source, language, TechniqueSet::all());
            match mutable.mutant(&mut rng) {
                Some(mutant) => differs_in_its_edits_alone(&source, &mutant)?,
                None => prop_assert!(mutable.is_empty()),
            }
        }
    }
}
