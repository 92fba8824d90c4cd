//! Token ids and log-probabilities.

use super::*;

/// The model's own log-probabilities of the tokens of `answer` behind `prompt`.
fn forced(prompt: &[u32], answer: &[u32], top: usize) -> Vec<flopsmith_policy::Scored> {
    let text = [prompt, answer].concat();
    let mut scored = model().score_prompt(&text, top).unwrap();
    scored.drain(..prompt.len() - 1);
    scored
}

fn near(a: &Value, b: f32) {
    let a = a.as_f64().unwrap();
    assert!((a - f64::from(b)).abs() < 2e-3, "{a} and {b}");
}

fn ids_of(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn log_probabilities_of_a_completion_are_the_models() {
    let server = Server::start(Options::default());
    let prompt = vec![40u32, 41, 42];
    for temperature in [0.0, 0.7] {
        let body = json!({
            "model": "tiny", "prompt": prompt, "max_tokens": 20, "temperature": temperature, "seed": 4, "top_k": 30, "logprobs": 2,
            "return_token_ids": true, "return_tokens_as_token_ids": true,
        });
        let answer = server.answer(COMPLETIONS, &body);
        let choice = &answer["choices"][0];
        let ids = ids_of(&choice["token_ids"]);
        let own = forced(&prompt, &ids, 2);
        let said = &choice["logprobs"];
        let mut offset = 0;
        for (n, (id, own)) in ids.iter().zip(&own).enumerate() {
            let name = format!("token_id:{id}");
            assert_eq!(said["tokens"][n], json!(name));
            near(&said["token_logprobs"][n], own.logprob);
            let top = said["top_logprobs"][n].as_object().unwrap();
            assert!(top.contains_key(&name) && top.len() <= 3, "{top:?}");
            near(&top[&format!("token_id:{}", own.top[0].0)], own.top[0].1);
            assert_eq!(said["text_offset"][n], json!(offset));
            let text = TOKENIZER.decode_with_specials(&[*id]).unwrap();
            offset += text.chars().count();
        }
        assert_eq!(own.len(), ids.len());
    }
}

#[test]
fn a_prompt_is_scored_without_an_answer() {
    let server = Server::start(Options::default());
    let prompt = TOKENIZER.encode_prompt("for (int i = 3;").unwrap();
    let body = json!({
        "model": "tiny", "prompt": "for (int i = 3;", "max_tokens": 0, "echo": true, "logprobs": 0,
        "return_tokens_as_token_ids": true,
    });
    let answer = server.answer(COMPLETIONS, &body);
    assert_eq!(answer["choices"][0]["text"], "for (int i = 3;");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    let said = &answer["choices"][0]["logprobs"];
    let names: Vec<String> = prompt.iter().map(|id| format!("token_id:{id}")).collect();
    assert_eq!(said["tokens"], json!(names));
    assert_eq!(said["token_logprobs"][0], Value::Null);
    assert_eq!(said["top_logprobs"][0], Value::Null);
    let own = model().score_prompt(&prompt, 0).unwrap();
    assert_eq!(own.len() + 1, prompt.len());
    for (n, own) in (1..).zip(&own) {
        near(&said["token_logprobs"][n], own.logprob);
    }
    // The same as a stream, and with an answer behind the prompt.
    let mut body = body;
    body["max_tokens"] = json!(7);
    body["temperature"] = json!(0);
    let whole = server.answer(COMPLETIONS, &body);
    body["stream"] = json!(true);
    let events = server.post(COMPLETIONS, &body).events();
    for list in ["tokens", "text_offset"] {
        let joined: Vec<Value> = events
            .iter()
            .flat_map(|event| {
                let list = &event["choices"][0]["logprobs"][list];
                list.as_array().unwrap().clone()
            })
            .collect();
        assert_eq!(json!(joined), whole["choices"][0]["logprobs"][list]);
        assert!(joined.len() > prompt.len());
    }
}

#[test]
fn log_probabilities_of_a_chat_are_the_models() {
    let server = Server::start(Options::default());
    let mut body = json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "for" }], "max_tokens": 12, "temperature": 1.3, "seed": 9,
        "logprobs": true, "top_logprobs": 3, "return_token_ids": true,
    });
    let answer = server.answer(CHAT, &body);
    let prompt = ids_of(&answer["prompt_token_ids"]);
    let choice = &answer["choices"][0];
    let ids = ids_of(&choice["token_ids"]);
    let own = forced(&prompt, &ids, 3);
    let content = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), ids.len());
    for ((said, own), id) in content.iter().zip(&own).zip(&ids) {
        let text = TOKENIZER.decode_with_specials(&[*id]).unwrap();
        assert_eq!(said["token"], json!(text));
        if !text.contains('\u{fffd}') {
            assert_eq!(said["bytes"], json!(text.as_bytes()));
        }
        near(&said["logprob"], own.logprob);
        let top = said["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        for (said, (_, own)) in top.iter().zip(&own.top) {
            near(&said["logprob"], *own);
        }
    }
    body["stream"] = json!(true);
    let events = server.post(CHAT, &body).events();
    let joined: Vec<Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .map(|said| said["token"].clone())
        .collect();
    let whole: Vec<Value> = content.iter().map(|said| said["token"].clone()).collect();
    assert_eq!(joined, whole);
}
