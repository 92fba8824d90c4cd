//! Adapters that a server takes, and samples with their tokens.

use super::*;

const NAME: &str = "run-v1-0123abcd";

fn tested(server: &ScriptedEndpoint) -> Tested {
    open(&endpoint(server), &Spending::default())
}

fn list(names: &[&str]) -> Act {
    let rows: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"id":"{name}","object":"model"}}"#))
        .collect();
    let body = format!(r#"{{"object":"list","data":[{}]}}"#, rows.join(","));
    Act::Answer(200, "", body)
}

fn done() -> Act {
    Act::Answer(200, "", "Success".to_owned())
}

#[test]
fn an_adapter_is_loaded_again_after_a_failure_and_costs_nothing() {
    let server = ScriptedEndpoint::acts(vec![
        Act::error(500, "", "busy"),
        Act::Close,
        done(),
        done(),
    ])
    .unwrap();
    let tested = tested(&server);
    let client = &tested.client;
    runtime()
        .block_on(client.load_adapter(NAME, "/adapters/v1"))
        .unwrap();
    runtime().block_on(client.unload_adapter(NAME)).unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert!(
        asked[2].head.starts_with("POST /v1/load_lora_adapter "),
        "{asked:?}"
    );
    assert!(asked[2].head.contains(SECRET), "the server wants its key");
    for part in [NAME, "/adapters/v1", r#""load_inplace":true"#] {
        assert!(asked[2].body.contains(part), "{}", asked[2].body);
    }
    assert!(
        asked[3].head.starts_with("POST /v1/unload_lora_adapter "),
        "{asked:?}"
    );
    assert_eq!(client.spent(), Amount::NOTHING);
    tested.assert_consistent();
}

#[test]
fn a_name_that_the_server_has_is_loaded_and_any_other_refusal_is_told() {
    let refusal = || Act::error(400, "", "no such folder");
    let server = ScriptedEndpoint::acts(vec![refusal(), list(&["m", NAME])]).unwrap();
    let loaded = tested(&server);
    runtime()
        .block_on(loaded.client.load_adapter(NAME, "there"))
        .unwrap();
    let server = ScriptedEndpoint::acts(vec![refusal(), list(&["m"])]).unwrap();
    let refused = tested(&server);
    let error = runtime()
        .block_on(refused.client.load_adapter(NAME, "there"))
        .unwrap_err();
    assert!(error.to_string().contains("no such folder"), "{error}");
    assert_eq!(error.reason(), Some(Reason::Refused));
    assert_eq!(server.asked().len(), 2);
    let server = ScriptedEndpoint::acts(vec![done()]).unwrap();
    let odd = tested(&server);
    let error = runtime().block_on(odd.client.models()).unwrap_err();
    assert_eq!(error.reason(), Some(Reason::Malformed));
}

fn draw(number: u32) -> Draw {
    Draw {
        problem: "task".into(),
        number,
        model: NAME.into(),
        prompt: Prompt::Ids(vec![7, 8, 9]),
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: 100,
        },
        stop: Vec::new(),
        seed: 3,
    }
}

/// A stream of two tokens, of which the server counts `counted`.
fn stream(counted: u32) -> Act {
    let piece = |token: u32, end: &str| {
        format!(
            r#"{{"model":"{NAME}","choices":[{{"index":0,"text":"x","token_ids":[{token}],"logprobs":{{"token_logprobs":[-0.5]}},"finish_reason":{end}}}]}}"#
        )
    };
    Act::Stream(vec![
        piece(4, "null"),
        piece(5, r#""length""#),
        format!(r#"{{"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{counted}}}}}"#),
        "[DONE]".to_owned(),
    ])
}

#[test]
fn samples_come_with_their_tokens_and_are_paid_also_where_they_cannot_be_trained_on() {
    let server = ScriptedEndpoint::acts(vec![Act::error(429, "", "later"), stream(2), stream(3)]);
    let server = server.unwrap();
    let mut settings = endpoint(&server);
    settings.concurrency = 1;
    let tested = open(&settings, &Spending::default());
    let mut ended = Vec::new();
    runtime().block_on(
        tested
            .client
            .draw_all(vec![draw(0), draw(1)], |draw, drawn| {
                ended.push((draw.number, drawn));
                ControlFlow::Continue(())
            }),
    );
    let [(0, Ok(first)), (1, Err(second))] = &ended[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(first.tokens, [4, 5]);
    assert_eq!(first.logprobs, [-0.5, -0.5]);
    assert!(!first.finished);
    assert!(second.to_string().contains("counts 3"), "{second}");
    assert!(matches!(second, Error::Untrainable(_)), "{second:?}");
    // Both answers cost what the server counts: 3 tokens of each prompt, and 2 and 3 of the answers.
    let spent = tested.client.spent();
    assert_eq!((spent.input_tokens, spent.output_tokens), (6, 5));
    let head = &server.asked()[0].head;
    assert!(head.starts_with("POST /v1/completions "), "{head}");
    tested.assert_consistent();
}
