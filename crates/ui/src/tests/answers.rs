//! The answers of the run's own model, in the lines that a recorder writes.

use flopsmith_actors::answer_line::AnswerLine;
use flopsmith_test_support::rollout;

use super::*;

/// Writes the answer of the policy to each of these outcomes.
fn write_answers(place: &TempDir, outcomes: &[Outcome]) {
    let answers: Vec<AnswerLine> = (1..)
        .zip(outcomes)
        .map(|(number, outcome)| {
            let prompt = format!("<|user|>Multiply. {HOSTILE}");
            let answer = format!("Thought {number}. {HOSTILE}\n{}", outcome.source);
            AnswerLine::of_rollout(&rollout(outcome), number, prompt, answer)
        })
        .collect();
    std::fs::write(place.path().join("r/answers.jsonl"), lines(&answers)).unwrap();
}

#[test]
fn a_step_of_a_training_shows_prompts_answers_rewards_and_advantages() {
    let place = runs();
    // The right and the refused program of the first group.
    write_answers(&place, &outcomes()[..2]);
    let window = Window::open(place.path(), None);
    let reply = window.get("/runs/r/steps/1");
    holds_its_texts("/runs/r/steps/1", &reply);
    let body = &reply.body;
    assert_eq!(body.matches("&lt;|user|&gt;Multiply.").count(), 1, "{body}");
    let at = |part: &str| body.find(part).expect("the part is there");
    assert!(at("<summary>Prompt") < at("Multiply."));
    assert!(at("Multiply.") < at("Sample 1: its answer"));
    assert!(at("Sample 1: its answer") < at("Thought 1."));
    assert!(at("Sample 9: its answer") < at("Thought 2."));
    // The reward of the program that no compiler takes, and an advantage below 0.
    assert!(body.contains("<td>-0.400</td><td>-"), "{body}");
    // The machine failed at the other group's sample.
    assert!(body.contains("Sample 0: its program"), "{body}");
    assert!(!body.contains("The run keeps programs"), "{body}");
}

#[test]
fn a_step_whose_answers_gave_way_to_newer_ones_shows_its_programs() {
    let place = runs();
    write_answers(&place, &outcomes()[2..3]);
    let window = Window::open(place.path(), None);
    let old = window.page("/runs/r/steps/1");
    assert!(old.contains("The run keeps programs"), "{old}");
    assert!(old.contains("its program") && !old.contains("its answer"));
    let new = window.page("/runs/r/steps/2");
    assert!(new.contains("Sample 0: its answer"), "{new}");
    assert!(new.contains("Thought 1.") && !new.contains("The run keeps programs"));
}
