//! The attempts of an agent: its conversations, and the tree of its programs by conditions.

use super::*;

/// A turn of the conversation about the fourth program.
fn turn(number: u32, prompt: &str, answer: &str) -> serde_json::Value {
    serde_json::json!({
        "candidate": outcomes()[3].candidate.id, "turn": number, "island": 0,
        "prompt": prompt, "answer": answer,
    })
}

fn write_attempts(place: &TempDir, attempts: &[serde_json::Value]) {
    // An agent's answers are in its attempts.
    std::fs::remove_file(place.path().join("r/answers.jsonl")).unwrap();
    std::fs::write(place.path().join("r/attempts.jsonl"), lines(attempts)).unwrap();
}

const NO_TEXTS: &str = "The run keeps programs, not whole answers";

#[test]
fn a_step_shows_the_conversations_of_an_agent() {
    let place = runs();
    let turns = [
        turn(0, &format!("Write it. {HOSTILE}"), "int first;"),
        turn(1, "Make it faster.", &format!("int second; {HOSTILE}")),
    ];
    write_attempts(&place, &turns);
    let window = Window::open(place.path(), None);
    let reply = window.get("/runs/r/steps/1");
    holds_its_texts("/runs/r/steps/1", &reply);
    let body = &reply.body;
    let at = |part: &str| body.find(part).expect("the part is there");
    assert!(at("turn 0: prompt and answer") < at("Write it."));
    assert!(at("Write it.") < at("int first;") && at("int first;") < at("turn 1: prompt"));
    assert!(at("Make it faster.") < at("int second;"));
    assert_eq!(body.matches("prompt and answer").count(), 2);
    assert!(!body.contains(NO_TEXTS), "{body}");
}

#[test]
fn attempts_without_a_model_have_no_conversation() {
    let place = runs();
    let bred = serde_json::json!({ "candidate": outcomes()[3].candidate.id, "parents": [] });
    write_attempts(&place, &[bred]);
    let window = Window::open(place.path(), None);
    let body = window.page("/runs/r/steps/1");
    assert!(body.contains(NO_TEXTS), "{body}");
    assert!(!body.contains("prompt and answer"), "{body}");
}

#[test]
fn a_step_of_many_turns_shows_some_and_says_so() {
    let place = runs();
    let turns: Vec<_> = (0..130).map(|number| turn(number, "p", "a")).collect();
    write_attempts(&place, &turns);
    let window = Window::open(place.path(), None);
    let body = window.page("/runs/r/steps/1");
    assert_eq!(body.matches("prompt and answer").count(), 128);
    assert!(body.contains("more turns than a page shows"), "{body}");
}

#[test]
fn the_tree_shows_the_programs_that_fit_with_their_ancestors() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let all = window.page("/runs/r/tree");
    assert!(!all.contains("class=\"between\"") && !all.contains("Fitting the conditions"));
    let cases: [(&str, &[&str]); 5] = [
        (
            "reason=jail",
            &[
                "1 to 2 of 2 programs in one family",
                "Fitting the conditions: 1;",
                "<a class=\"between\" href=\"/runs/r/programs/1\"><title>Program 1, the first of its family, an ancestor of one that fits",
                "<a href=\"/runs/r/programs/3#difference\">",
                "<option value=\"jail\" selected>",
            ],
        ),
        (
            "reason=compile_error&technique=simd",
            &[
                "1 to 1 of 1 programs in one family",
                "<a href=\"/runs/r/programs/1\">",
                "<option value=\"simd\" selected>",
            ],
        ),
        (
            "text=int+c",
            &[
                "1 found; searched 4 of 4 programs, the newest first.",
                "<a class=\"between\" href=\"/runs/r/programs/0\">",
                "<a href=\"/runs/r/programs/2#difference\">",
                "value=\"int c\"",
            ],
        ),
        (
            "text=int+c&reason=jail",
            &[
                "0 found; searched 1 of 1 programs",
                "No program of dgemm in a family fits these conditions.",
            ],
        ),
        (
            "reason=nothing",
            &["No program of dgemm in a family fits these conditions."],
        ),
    ];
    for (query, parts) in cases {
        let body = window.page(&format!("/runs/r/tree?{query}"));
        for part in parts {
            assert!(body.contains(part), "{query}: {part}: {body}");
        }
        // The best program need not fit, so its line is not drawn.
        assert!(!body.contains("How the best program came about"), "{query}");
    }
    let hostile = "/runs/r/tree?text=%3Cscript%3E&technique=simd";
    holds_its_texts(hostile, &window.get(hostile));
    for wrong in ["technique=%3Cb%3E", "text=x&from=y"] {
        let reply = window.get(&format!("/runs/r/tree?{wrong}"));
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.body);
    }
}
