#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::folder::tests::{answer, config};
use crate::folder::{Config, OfModel};
use crate::outcome::State;
use crate::results::tests::{evaluation, outcome};

fn named(model: &str, evaluation: Evaluation) -> Named {
    Named {
        folder: "no/such/folder".into(),
        evaluation,
        model: model.into(),
    }
}

/// Twenty answers of each model: those of `a` are slow, and those of `b` fast.
fn both() -> Evaluation {
    let answers = (1..=20).flat_map(|number| {
        [
            answer("a", number, Some("slow")),
            answer("b", number, Some("fast")),
        ]
    });
    let outcomes = vec![
        outcome("slow", State::Measured, 0.0),
        outcome("fast", State::Measured, 2f64.ln()),
    ];
    evaluation(answers.collect(), outcomes)
}

#[test]
fn a_real_difference_is_told_and_equal_models_are_not_told_apart() {
    let (a, b) = (named("a", both()), named("b", both()));
    let found = compared(&a, &b).unwrap();
    let of = |found: &Comparisons, metric: &str| {
        let mut all = found.comparisons.iter();
        let c = all.find(|c| c.metric == metric).unwrap();
        (verdict(c), c.difference)
    };
    let (better, difference) = of(&found, "speedup_n@1");
    assert_eq!(better, "B");
    assert!((difference - 2.0).abs() < 1e-9, "{difference}");
    assert_eq!(of(&found, "pass@1"), ("not told apart", 0.0));
    let other = compared(&b, &a).unwrap();
    assert_eq!(of(&other, "speedup_n@1").0, "A");
    let same = compared(&a, &named("a", both())).unwrap();
    assert!(same.comparisons.iter().all(|c| !c.real && c.chance == 1.0));
    // One problem has no rows of its own.
    assert_eq!(found.comparisons.len(), METRICS.len());
}

#[test]
fn pairs_of_one_evaluation_are_corrected_together() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    let mut folder = crate::folder::Folder::open(&path, &config()).unwrap();
    let both = both();
    folder.add_answers(both.answers).unwrap();
    let machine = flopsmith_bench::rows::Machine::new("{}".to_owned());
    for outcome in both.outcomes {
        if let Ok(machine) = &machine {
            folder.add_outcome(outcome, machine).unwrap();
        }
    }
    drop(folder);
    let found = of_pairs(&path, &[("a", "b"), ("b", "a"), ("a", "a")]).unwrap();
    let of = |a: &str, b: &str, metric: &str| {
        let mut all = found.iter();
        let v = all.find(|v| v.a == a && v.b == b && v.metric == metric);
        v.map(|v| (v.real, v.difference > 0.0)).unwrap()
    };
    assert_eq!(found.len(), 6);
    assert_eq!(of("a", "b", "speedup_n@1"), (true, true));
    assert_eq!(of("b", "a", "speedup_n@1"), (true, false));
    assert_eq!(of("a", "a", "speedup_n@1"), (false, false));
    assert_eq!(of("a", "b", "pass@1"), (false, false));
    assert!(of_pairs(&path, &[("a", "c")]).is_err());
}

#[test]
fn another_measurement_of_the_reference_makes_no_difference() {
    let mut later = both();
    for outcome in &mut later.outcomes {
        outcome.reference.log_ratio += 0.3;
    }
    let a = named("a", both());
    let mut b = named("a", later);
    b.folder = "no/other/folder".into();
    let found = compared(&a, &b).unwrap();
    assert!(
        found
            .comparisons
            .iter()
            .all(|c| c.difference == 0.0 && !c.real)
    );
}

#[test]
fn evaluations_that_do_not_compare_are_refused() {
    let a = named("a", both());
    let said = |change: &dyn Fn(&mut Config)| {
        let mut other = both();
        change(&mut other.config);
        compared(&a, &named("b", other)).unwrap_err().to_string()
    };
    let words = said(&|config| config.task = crate::Task::Optimise);
    assert!(words.contains("differ in task"), "{words}");
    let shown = Some(flopsmith_protocol::Digest::of(b"int x;"));
    let words = said(&|config| config.problems[0].program = shown.clone());
    assert!(words.contains("optimise different programs"), "{words}");
    let words = said(&|config| config.threads = vec![2]);
    assert!(words.contains("numbers of threads"), "{words}");
    let words = said(&|config| config.problems[0].problem = "other".into());
    assert!(words.contains("no common problem"), "{words}");
    let words = said(&|config| config.problems[0].permitted = Default::default());
    assert!(words.contains("do not compare at dot"), "{words}");
}

#[test]
fn a_problem_of_one_model_only_is_named() {
    let mut wide = both();
    let mut more = wide.config.problems[0].clone();
    more.problem = "more".into();
    wide.config.problems.push(more);
    let found = compared(&named("a", wide), &named("b", both())).unwrap();
    assert_eq!(found.left_out.len(), 1, "{:?}", found.left_out);
    assert!(
        found.left_out[0].starts_with("more: only a"),
        "{:?}",
        found.left_out
    );
    assert!(
        notes(&found)
            .iter()
            .any(|note| note.contains("not compared: more"))
    );
    let text = csv(&found).unwrap();
    assert_eq!(text.lines().count(), 1 + METRICS.len(), "{text}");
}

#[test]
fn one_of_several_models_must_be_named() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    drop(crate::folder::Folder::open(&path, &config()).unwrap());
    let word = path.display().to_string();
    let error = Named::read(&word).err().unwrap().to_string();
    assert!(error.contains(&format!("{word}#a, {word}#b")), "{error}");
    assert_eq!(Named::read(&format!("{word}#b")).unwrap().model, "b");
    let error = Named::read(&format!("{word}#c")).err().unwrap().to_string();
    assert!(error.contains("no model `c`"), "{error}");
    // A single model needs no name.
    let path = place.path().join("one");
    let models: Vec<OfModel> = config().models.into_iter().take(1).collect();
    let one = Config { models, ..config() };
    drop(crate::folder::Folder::open(&path, &one).unwrap());
    assert_eq!(Named::read(&path.display().to_string()).unwrap().model, "a");
}
