//! The pages of nodes, of a cluster, and of the tree of programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use flopsmith_run::cluster::{Board, Health, Letter, Node, OfProblem, Queue, Run};

use super::*;
use crate::cluster::{Seen, State};

/// A cluster with a run of this name, whose other texts are hostile.
fn seen(run: &str) -> Seen {
    let text = || HOSTILE.to_owned();
    let board = Board {
        server: text(),
        runs: vec![Run {
            run: run.into(),
            job: "training",
            class: text(),
            step: Some(7),
            max_steps: None,
            phase: None,
            stage: None,
            best_gflops: None,
            worst: None,
            worst_interval: None,
            problems: vec![OfProblem {
                problem: problem_id(),
                judged: 0,
                correct: 0,
                best_ratio: None,
                best_interval: None,
            }],
            correct_rate: Some(0.5),
            left_seconds: None,
            silent_seconds: None,
            health: Health::Ill(text()),
        }],
        queues: vec![Queue {
            stage: text(),
            class: text(),
            waiting: 12,
            in_hand: 3,
            oldest_seconds: Some(600.0),
        }],
        verdicts: BTreeMap::from([("measured", 41)]),
        nodes: vec![Node {
            node: text(),
            class: text(),
            last_minute: 5,
            failures: 1,
            silent_seconds: 30.0,
            best_gflops: Some(40.0),
            noise: Some(0.0125),
            imprecise: Some(0.5),
        }],
        dead_letters: 1,
        outcomes: 900,
    };
    let letter = Letter {
        number: 77,
        queue: text(),
        about: Some(text()),
        reason: text(),
        attempts: 3,
        died_unix_ms: 1_750_000_000_000,
    };
    Seen {
        board,
        letters: vec![letter],
        at: Instant::now(),
    }
}

#[test]
fn the_page_of_a_cluster_shows_what_top_and_dead_print() {
    let place = runs();
    let state = State {
        seen: Some(Arc::new(seen("r"))),
        error: None,
    };
    let window = Window::beside(place.path(), None, Some(Cluster::showing(state)));
    let reply = window.get("/cluster");
    holds_its_texts("/cluster", &reply);
    for part in [
        "&lt;script&gt;alert(1)",
        "<a href=\"&#x2f;runs&#x2f;r\">r</a>",
        "10 min",
        "40.00",
        "1.25 %",
        "not tried",
        "<dd>41</dd>",
        "77",
        "data-again=\"2\"",
    ] {
        assert!(reply.body.contains(part), "{part}: {}", reply.body);
    }
    for page in ["/", "/runs/r/nodes"] {
        assert!(
            window.page(page).contains("cluster\">Cluster</a>"),
            "{page}"
        );
    }
}

#[test]
fn a_cluster_that_cannot_be_seen_says_why() {
    let place = runs();
    let state = State {
        seen: None,
        error: Some(HOSTILE.into()),
    };
    let window = Window::beside(place.path(), None, Some(Cluster::showing(state)));
    let reply = window.get("/cluster");
    holds_its_texts("/cluster", &reply);
    assert!(
        reply.body.contains("The cluster cannot be seen: &lt;"),
        "{}",
        reply.body
    );
    drop(window);
    let cluster = Cluster::showing(State::default());
    let window = Window::beside(place.path(), None, Some(cluster));
    assert!(window.page("/cluster").contains("is being read"));
}

#[test]
fn the_page_of_nodes_tells_what_the_log_knows() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let body = window.page("/runs/r/nodes");
    for part in [
        // Of 1000 s, 12 % was quarantine, and a quarter idle.
        "<dd>2:00</dd>",
        "quarantine</th><td>12 %</td><td>2:00</td>",
        "idle</th><td>25 %</td>",
        "<th scope=\"row\">n</th><td class=\"words\">local</td>",
        // Three of five programs were measured.
        "<td>3</td><td>1</td><td>1</td><td>0</td>",
        "programs?reason=jail\">jail</a></th><td>1</td>",
        "the first",
        "cpu model, threads",
        "calm",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
}

#[test]
fn the_tree_leads_to_the_differences_in_the_order_of_the_drawing() {
    let place = runs();
    let log = place.path().join("r/outcomes.jsonl");
    let mut text = std::fs::read_to_string(&log).unwrap();
    text += &lines(&[again(&outcomes()[2], Measured::at(19.0).verdict())]);
    std::fs::write(&log, text).unwrap();
    let window = Window::open(place.path(), None);
    let body = window.page("/runs/r/tree");
    for part in [
        "1 to 4 of 4 programs in 2 families",
        "The fastest program, at the end, and its 1 ancestor.",
        "<title>Program 3, made from program 1</title>",
        "<title>Program 1, the first of its family</title>",
        "2 · 19.0 GFLOPS, confirmed",
        "role=\"group\"",
        "tabindex=\"0\"",
        "GFLOPS</li>",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let (_, families) = body.split_once("Families of dgemm").unwrap();
    let at = |link: &str| {
        let link = format!("href=\"/runs/r/programs/{link}\"");
        families.find(&link).expect("the link is there")
    };
    assert!(at("0") < at("2#difference") && at("2#difference") < at("1"));
    assert!(at("1") < at("3#difference"));
    // The program of an agent has its parent on its page, too.
    let bred = window.page("/runs/r/programs/3");
    assert!(bred.contains("From its parent, "), "{bred}");
    let parent = window.page("/runs/r/programs/1");
    assert!(parent.contains("follow-ups and children"), "{parent}");
    let stages = window.page("/runs/r/tree?colour=stage");
    assert!(stages.contains("class=\"f1\"") && stages.contains("stage 0"));
}

#[test]
fn the_tree_tells_a_request_from_a_failure() {
    let place = runs();
    let follows = |sample| CandidateRef {
        follows: Some(outcomes()[0].candidate.id.clone()),
        ..candidate(3, 0, sample)
    };
    let request = Request::Read {
        document: "gemm.md".to_owned(),
    };
    let more = [asked(follows(0), request), outcome(follows(1), unknown())];
    let all = [outcomes(), more.to_vec()].concat();
    std::fs::write(place.path().join("r/outcomes.jsonl"), lines(&all)).unwrap();
    let window = Window::open(place.path(), None);
    for page in ["/runs/r/tree", "/runs/r/tree?colour=stage"] {
        let body = window.page(page);
        // One circle stands in the legend.
        let circles = |class: &str| body.matches(&format!("<circle class=\"{class}\"")).count();
        assert_eq!((circles("asked"), circles("lost")), (2, 3), "{body}");
        assert!(body.contains("a request instead of a program"), "{body}");
    }
}

#[test]
fn a_tree_of_many_programs_has_pages() {
    let place = runs();
    let root = first(1, "a", "simd", measured(1.0));
    let child = |sample: u32| {
        let candidate = CandidateRef {
            follows: Some(root.candidate.id.clone()),
            ..candidate(2, 0, sample)
        };
        outcome(candidate, measured(f64::from(sample + 2)))
    };
    let mut all = vec![root.clone()];
    all.extend((0..399).map(child));
    std::fs::write(place.path().join("r/outcomes.jsonl"), lines(&all)).unwrap();
    let window = Window::open(place.path(), None);
    let page = |number: u32| window.page(&format!("/runs/r/tree?page={number}"));
    let (one, three) = (page(1), page(3));
    assert!(
        one.contains("1 to 150 of 400 programs in one family"),
        "{one}"
    );
    assert!(one.contains("rel=\"next\"") && !one.contains("rel=\"prev\""));
    assert!(three.contains("301 to 400 of 400"), "{three}");
    assert!(!three.contains("rel=\"next\"") && three.contains("rel=\"prev\""));
    // The legend has seven colours.
    assert_eq!(three.matches("<circle class=\"h").count(), 100 + 7);
    assert_eq!(page(9), three);
    // The straight child of the root is the last program, so its line leads through the second page.
    let line = "<path class=\"edge\" d=\"M10.8 0 V3900\"/>";
    assert!(page(2).contains(line) && !three.contains(line));
}

#[test]
fn a_conversation_of_many_turns_hides_no_other_child() {
    let place = runs();
    let outcomes = outcomes();
    let turn = |child: &Outcome| {
        let candidate = &child.candidate.id;
        serde_json::json!({ "candidate": candidate, "parent": outcomes[1].candidate.id })
    };
    let mut turns = vec![turn(&outcomes[2]); 60];
    turns.push(turn(&outcomes[3]));
    std::fs::write(place.path().join("r/attempts.jsonl"), lines(&turns)).unwrap();
    let window = Window::open(place.path(), None);
    let body = window.page("/runs/r/programs/1");
    let (_, children) = body.split_once("follow-ups and children").unwrap();
    assert!(children.contains("programs&#x2f;3\""), "{children}");
}

#[test]
fn names_in_a_log_that_no_node_would_write_stay_texts() {
    let place = runs();
    let log = place.path().join("r/outcomes.jsonl");
    let mut odd = Vec::new();
    for outcome in outcomes() {
        let mut line = serde_json::to_value(&outcome).unwrap();
        line["candidate"]["problem"] = HOSTILE.into();
        line["node"] = HOSTILE.into();
        odd.push(line);
    }
    std::fs::write(&log, lines(&odd)).unwrap();
    let window = Window::open(place.path(), None);
    for path in ["/runs/r/nodes", "/runs/r/tree"] {
        let reply = window.get(path);
        holds_its_texts(path, &reply);
        assert!(reply.body.contains("&lt;script&gt;alert(1)"), "{path}");
    }
}
