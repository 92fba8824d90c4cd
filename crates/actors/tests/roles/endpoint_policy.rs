//! A training's policy behind a server that takes adapters and says which tokens it drew.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use flopsmith_actors::Error;
use flopsmith_actors::answer::{Answer, Source};
use flopsmith_actors::node::Context;
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::role::recorder::Keep;
use flopsmith_actors::source::endpoint_policy::EndpointPolicySource;
use flopsmith_config::{Prompt, Settings};
use flopsmith_policy::Tokenizer;
use flopsmith_problem::Problem;
use flopsmith_protocol::{PolicyPublished, PolicyVersion, Purpose, Task, subjects};
use flopsmith_test_support::endpoint::{Act, Asked, ScriptedEndpoint};
use flopsmith_test_support::run_id;
use serde_json::{Value, json};

use crate::endpoint::asking;
use crate::{World, soon, start, task};

const COMPLETIONS: &str = "/v1/completions";
const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::load(&starter()).unwrap());

fn starter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter")
}

fn path(asked: &Asked) -> &str {
    asked.head.split(' ').nth(1).unwrap_or_default()
}

fn body(asked: &Asked) -> Value {
    serde_json::from_str(&asked.body).unwrap()
}

fn is_probe(asked: &Asked) -> bool {
    path(asked) == COMPLETIONS && body(asked)["prompt"].is_string()
}

/// The answer to a request for a sample: token 4, then 5 and 6 where there is room.
fn answer(asked: &Asked) -> Value {
    let body = body(asked);
    let prompt = match body["prompt"].as_str() {
        Some(text) => json!(TOKENIZER.encode_prompt(text).unwrap()),
        None => body["prompt"].clone(),
    };
    let tokens: &[u32] = match body["max_tokens"].as_u64() {
        Some(1) => &[4],
        _ => &[4, 5, 6],
    };
    let logprobs = vec![-0.5; tokens.len()];
    json!({
        "model": body["model"],
        "choices": [{
            "index": 0, "text": "", "finish_reason": "stop", "prompt_token_ids": prompt, "token_ids": tokens,
            "logprobs": { "token_logprobs": logprobs },
        }],
        "usage": { "prompt_tokens": 1, "completion_tokens": tokens.len() },
    })
}

fn said(value: &Value) -> Act {
    Act::Answer(200, "", value.to_string())
}

/// A server that does all that is asked.
fn serves(asked: &Asked) -> Act {
    match path(asked) {
        COMPLETIONS => said(&answer(asked)),
        "/v1/models" => said(&json!({ "data": [{ "id": "m" }] })),
        _ => said(&json!({ "status": "done" })),
    }
}

fn settings(server: &ScriptedEndpoint) -> Settings {
    let mut settings = asking(server, 2);
    settings.generator.prompt = Prompt::Compact;
    settings.generator.model = starter();
    settings
}

async fn open(context: &Arc<Context>) -> Result<EndpointPolicySource, Error> {
    let config = flopsmith_policy::check(&starter()).unwrap();
    let tokenizer = Tokenizer::load(&starter()).unwrap();
    let write: Keep = Arc::new(|target: &Path, weights: &[u8]| {
        std::fs::create_dir_all(target)?;
        std::fs::write(target.join("adapter_model.safetensors"), weights)
    });
    let mut source = EndpointPolicySource::open(context, &config, tokenizer, write)?;
    soon(source.begin()).await?;
    Ok(source)
}

async fn update(
    source: &mut EndpointPolicySource,
    world: &World,
    version: u64,
) -> Result<(), Error> {
    let weights = format!("the weights of version {version}");
    let weights = world.store.put(weights.into_bytes()).await.unwrap();
    soon(source.update(PolicyVersion(version), &weights)).await
}

fn asked_for(samples: u32) -> Task {
    let mut task = Task {
        group_size: samples,
        ..task(1, 0, Purpose::Train)
    };
    task.sampling.max_tokens = 8;
    task
}

async fn answers(
    source: &mut EndpointPolicySource,
    context: &Context,
    samples: u32,
) -> Result<Vec<Vec<Answer>>, Error> {
    let problems: Vec<&Problem> = context.problems().map(|of| &*of.problem).collect();
    soon(source.answer(&problems, &[asked_for(samples)])).await
}

/// The bodies of the requests to a route.
fn bodies(server: &ScriptedEndpoint, route: &str) -> Vec<Value> {
    let asked = server.asked();
    let of_route = asked.iter().filter(|asked| path(asked) == route);
    of_route.map(body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_is_an_adapter_and_writes_its_samples_token_by_token() {
    let world = World::new().await;
    let loaded = format!("{}-v0-01234567", run_id());
    let foreign = "another-run-v0-01234567";
    let listed = [loaded.clone(), foreign.to_owned()];
    let server = ScriptedEndpoint::start(move |asked| match path(asked) {
        "/v1/models" => {
            let rows = listed.iter().map(|id| json!({ "id": id }));
            said(&json!({ "data": rows.collect::<Vec<Value>>() }))
        }
        _ => serves(asked),
    });
    let server = server.unwrap();
    let mut settings = settings(&server);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    endpoint.adapter_path_there = Some("/mnt/adapters/".to_owned());
    let context = world.context(settings);
    let mut source = open(&context).await.unwrap();
    assert_eq!(source.version(), None);
    assert!(answers(&mut source, &context, 1).await.is_err());
    for version in 1..=2 {
        update(&mut source, &world, version).await.unwrap();
        assert_eq!(source.version(), Some(PolicyVersion(version)));
        let groups = answers(&mut source, &context, 2).await.unwrap();
        assert_eq!(groups[0].len(), 2);
        for answer in &groups[0] {
            let sampled = answer.sampled.as_ref().unwrap();
            assert_eq!(sampled.tokens, [4, 5, 6]);
            assert_eq!(sampled.logprobs, [-0.5; 3]);
            assert!(sampled.finished && !sampled.prompt.is_empty());
        }
    }
    let loads = bodies(&server, LOAD);
    let draws: Vec<Value> = bodies(&server, COMPLETIONS);
    // The probe asks the model itself; each sample asks the adapter of its version, by token ids.
    assert_eq!(draws[0]["model"], "m");
    for (n, draw) in draws[1..].iter().enumerate() {
        let load = &loads[n / 2];
        let name = load["lora_name"].as_str().unwrap();
        let begins = format!("{}-v{}-", run_id(), 1 + n / 2);
        assert!(name.starts_with(&begins), "{name}");
        assert_eq!(load["lora_path"], json!(format!("/mnt/adapters/{name}")));
        assert_eq!(draw["model"], json!(name));
        assert!(draw["prompt"].is_array(), "{draw}");
        assert_eq!(draw["return_token_ids"], json!(true));
    }
    assert_eq!((loads.len(), draws.len()), (2, 5));
    // The version before the last one stays; an older one goes, and what is another run's is left alone.
    assert_eq!(bodies(&server, UNLOAD), [json!({ "lora_name": loaded })]);
    let folders = std::fs::read_dir(context.folder.join("adapters")).unwrap();
    assert_eq!(folders.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_samples_cannot_be_trained_on_is_refused_at_the_start() {
    type Spoil = fn(&mut Value);
    let cases: [(Spoil, &str); 5] = [
        (
            |answer| answer["choices"][0]["token_ids"] = Value::Null,
            "return_token_ids",
        ),
        (
            |answer| answer["choices"][0]["logprobs"] = Value::Null,
            "log-probabilities",
        ),
        (
            |answer| answer["choices"][0]["prompt_token_ids"] = Value::Null,
            "prompt_token_ids",
        ),
        (
            |answer| answer["choices"][0]["prompt_token_ids"] = json!([7, 8, 9]),
            "another tokenizer",
        ),
        (
            |answer| answer["usage"]["completion_tokens"] = json!(2),
            "the server counts 2",
        ),
    ];
    for (spoil, part) in cases {
        let world = World::new().await;
        let server = ScriptedEndpoint::start(move |asked| {
            let mut answer = answer(asked);
            spoil(&mut answer);
            said(&answer)
        });
        let server = server.unwrap();
        let context = world.context(settings(&server));
        let error = open(&context).await.err().unwrap();
        assert!(matches!(error, Error::Hopeless(_)), "{part}: {error:?}");
        assert!(error.to_string().contains(part), "{part}: {error}");
        // The tokens of the probe are in the books.
        assert_eq!(server.asked().len(), 1);
        assert_eq!(context.asked().spending.unwrap().requests, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_without_tokens_is_a_failure_of_the_infrastructure() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| {
        let mut answer = answer(asked);
        if !is_probe(asked) && path(asked) == COMPLETIONS {
            answer["choices"][0]["token_ids"] = json!([4, 5]);
            return said(&answer);
        }
        serves(asked)
    });
    let server = server.unwrap();
    let context = world.context(settings(&server));
    let mut source = open(&context).await.unwrap();
    update(&mut source, &world, 1).await.unwrap();
    let error = answers(&mut source, &context, 2).await.unwrap_err();
    let words = error.to_string();
    for part in ["the endpoint gave no sample", "2 token ids and 3 log-prob"] {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_that_is_not_loaded_stops_the_generator_with_the_servers_words() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(|asked| match path(asked) {
        LOAD => Act::error(500, "", "rank 64 is above the limit"),
        _ => serves(asked),
    });
    let server = server.unwrap();
    let mut settings = settings(&server);
    let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
    endpoint.retries.most = 2;
    let context = world.context(settings);
    let source = open(&context).await.unwrap();
    let weights = world.store.put(b"weights".to_vec()).await.unwrap();
    let published = PolicyPublished {
        run: run_id(),
        version: PolicyVersion(1),
        step: 1,
        weights,
        metrics: None,
    };
    let subject = subjects::policy(&run_id());
    world.bus.publish(&subject, &published).await.unwrap();
    let source = Box::new(source);
    let working = start(Generator::new(Arc::clone(&context), source, "endpoint"));
    let error = soon(working.ended).await.unwrap().unwrap_err();
    // The supervisor starts the role again, up to its limit.
    assert!(!error.is_final(), "{error:?}");
    let words = error.to_string();
    for part in [
        "policy version 1",
        "rank 64 is above the limit",
        "--enable-lora",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert!(context.asked().trouble.contains("rank 64"));
    assert_eq!(bodies(&server, LOAD).len(), 3);
    // Nothing was sampled but a probe here and one when the role began.
    assert_eq!(bodies(&server, COMPLETIONS).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgot_its_adapters_gets_them_again() {
    let world = World::new().await;
    let forgot = Arc::new(AtomicBool::new(false));
    let forgets = Arc::clone(&forgot);
    let server = ScriptedEndpoint::start(move |asked| match path(asked) {
        LOAD => {
            forgets.store(false, Ordering::SeqCst);
            serves(asked)
        }
        COMPLETIONS if forgets.load(Ordering::SeqCst) => {
            Act::error(404, "", "there is no such model")
        }
        _ => serves(asked),
    });
    let server = server.unwrap();
    let context = world.context(settings(&server));
    let mut source = open(&context).await.unwrap();
    update(&mut source, &world, 1).await.unwrap();
    forgot.store(true, Ordering::SeqCst);
    let groups = answers(&mut source, &context, 2).await.unwrap();
    assert_eq!(groups[0].len(), 2);
    let loads = bodies(&server, LOAD);
    assert_eq!(loads.len(), 2);
    assert_eq!(loads[0], loads[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_starts_again_pays_for_no_sample_twice() {
    let world = World::new().await;
    let server = ScriptedEndpoint::start(serves).unwrap();
    let context = world.context(settings(&server));
    let mut first = open(&context).await.unwrap();
    update(&mut first, &world, 1).await.unwrap();
    let drawn = answers(&mut first, &context, 3).await.unwrap();
    drop(first);
    let mut second = open(&context).await.unwrap();
    update(&mut second, &world, 1).await.unwrap();
    assert_eq!(answers(&mut second, &context, 3).await.unwrap(), drawn);
    // Two probes, and three samples.
    assert_eq!(bodies(&server, COMPLETIONS).len(), 5);
    // Another version has samples of its own.
    update(&mut second, &world, 2).await.unwrap();
    answers(&mut second, &context, 3).await.unwrap();
    assert_eq!(bodies(&server, COMPLETIONS).len(), 8);
}
