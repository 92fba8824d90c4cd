//! Environment variables stand for options.

use crate::*;

fn set(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = flopsmith();
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_switch_of_a_variable_is_the_typed_one_and_one_that_is_off_excludes_nothing() {
    let prompt = ["problem", "prompt", "dgemm"];
    let typed = run(&[&prompt[..], &["--compact"]].concat());
    let told = set(&prompt, &[("FLOPSMITH_PROBLEM_PROMPT_COMPACT", "yes")]);
    assert!(told.status.success());
    assert_eq!(told.stdout, typed.stdout);
    assert_ne!(told.stdout, run(&prompt).stdout);
    // The two styles exclude each other.
    let nest = [&prompt[..], &["--nest"]].concat();
    let stated = run(&nest);
    for value in ["yes", "0"] {
        let told = set(&nest, &[("FLOPSMITH_PROBLEM_PROMPT_COMPACT", value)]);
        assert_eq!(told.stdout, stated.stdout, "{value}: {told:?}");
    }
}

#[test]
fn a_variable_of_an_option_that_may_be_repeated_holds_a_value_a_line() {
    let check = ["config", "check", "examples/dgemm.toml"];
    let name = "FLOPSMITH_CONFIG_CHECK_SET";
    let told = set(&check, &[(name, "group_size=3\nbudget_seconds=77.0")]);
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(
        said.contains("group_size = 3") && said.contains("budget_seconds = 77.0"),
        "{told:?}"
    );
    let one = set(
        &["dataset", "schedules"],
        &[("FLOPSMITH_DATASET_SCHEDULES_EXAMPLES", "3")],
    );
    assert_eq!(String::from_utf8_lossy(&one.stdout).lines().count(), 3);
}

#[test]
fn a_variable_of_one_command_changes_no_other_and_a_wrong_value_names_its_variable() {
    let wrong = [("FLOPSMITH_SERVE_THREADS", "0")];
    let refused = set(&["serve"], &wrong);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("FLOPSMITH_SERVE_THREADS"), "{said}");
    let other = set(&["problem", "prompt", "dgemm"], &wrong);
    assert!(other.status.success(), "{other:?}");
}
