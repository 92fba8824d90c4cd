//! No mechanical variant of an attack is accepted, and none of an honest module is refused.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use flopsmith_module::Refusal;
use flopsmith_test_support::sample::Part;
use serde::Deserialize;

use crate::corpus::{files, folder, has_python};

/// Rewritings of `variants.py` that keep an honest module honest.
const REWRITINGS: [&str; 26] = [
    "layout",
    "commented",
    "indented",
    "ended_otherwise",
    "renamed",
    "renamed_alike",
    "renamed_in_greek",
    "aliased",
    "imported_otherwise",
    "reordered",
    "joined",
    "shredded",
    "formatted",
    "kept_apart",
    "cpp_lines",
    "cpp_commented",
    "cpp_continued",
    "cpp_spaced",
    "named_result",
    "moved_into_method",
    "moved_into_class",
    "moved_into_loop",
    "moved_into_branch",
    "padded",
    "hidden_by_names",
    "by_walrus",
];

/// Forms that no module may have: they make attacks of honest modules, too.
const FORMS: [&str; 7] = [
    "by_getattr",
    "by_exec",
    "by_eval",
    "by_lambda",
    "by_fallback",
    "by_decorator",
    "by_patch",
];

/// Every commit tries another eighth.
const SAMPLED: usize = 8;

#[derive(Deserialize)]
struct Variant {
    applies: bool,
    #[serde(default)]
    refusals: Vec<Refusal>,
}

fn variants(asked: &[(&str, &Path, bool)]) -> Vec<Variant> {
    let scratch = tempfile::tempdir().unwrap();
    let list = scratch.path().join("list");
    let lines: String = asked
        .iter()
        .map(|(rewriting, file, _)| format!("{rewriting}\t{}\n", file.display()))
        .collect();
    fs::write(&list, lines).unwrap();
    let output = Command::new("python3")
        .args(["-I", "-S", "-B"])
        .arg(folder("tests/module/variants.py"))
        .arg(folder("python"))
        .stdin(File::open(list).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn no_variant_of_an_attack_is_accepted_and_none_of_an_honest_module_is_refused() {
    if !has_python() {
        return;
    }
    let (attacks, honest) = (files("tests/attacks"), files("tests/honest"));
    let all = || REWRITINGS.iter().chain(&FORMS);
    let of_attacks = attacks
        .iter()
        .flat_map(|file| all().map(move |rewriting| (*rewriting, file.as_path(), false)));
    let of_honest = honest.iter().flat_map(|file| {
        let form = |rewriting: &&str| FORMS.contains(rewriting);
        all().map(move |rewriting| (*rewriting, file.as_path(), !form(rewriting)))
    });
    let part = Part::of_commit(SAMPLED);
    let asked: Vec<_> = part.of(of_attacks.chain(of_honest)).collect();
    let found = variants(&asked);
    assert_eq!(found.len(), asked.len());
    let mut tried = [0, 0];
    for ((rewriting, file, is_honest), variant) in asked.iter().zip(&found) {
        if !variant.applies {
            continue;
        }
        tried[usize::from(*is_honest)] += 1;
        let refusals = &variant.refusals;
        assert_eq!(
            refusals.is_empty(),
            *is_honest,
            "{rewriting} of {}: {refusals:?}",
            file.display()
        );
    }
    // Most rewritings apply to most files.
    let least = if part.is_all() { 1000 } else { 1 };
    assert!(tried.iter().all(|count| *count >= least), "{tried:?}");
}
