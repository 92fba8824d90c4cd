//! The thread that owns a model, used by several callers.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::mpsc;
use std::time::Duration;

use flopsmith_policy::{
    Config, Device, Error, Extras, Handle, Kind, Model, Request, Tokenizer, sample, train_bpe,
};
use flopsmith_protocol::{PolicyVersion, Sampling};

fn model(seed: i64) -> Model {
    let mut config = Config::new(300, 32, 48, 2, 4, 2);
    config.initializer_range = 0.2;
    config.max_position_embeddings = 200_000;
    Model::random(config, seed, Device::Cpu, Kind::Float).unwrap()
}

fn tokenizer() -> Tokenizer {
    train_bpe(&["for (;;) {}".to_owned()], 300, &["<|end|>"]).unwrap()
}

/// A tokenizer with an end token that the model does not have, so that an answer always has its full length.
fn without_end() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    tokenizer().save(folder.path()).unwrap();
    let path = folder.path().join("generation_config.json");
    std::fs::write(path, r#"{"eos_token_id": 999999}"#).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

/// Requests that would take many minutes.
fn endless() -> (Handle, Vec<Request>) {
    let handle = Handle::spawn(|| Ok((model(1), without_end()))).unwrap();
    (handle, requests(2, 190_000))
}

fn handle() -> Handle {
    Handle::spawn(|| Ok((model(1), tokenizer()))).unwrap()
}

fn requests(n: u64, max_tokens: u32) -> Vec<Request> {
    (0..n)
        .map(|seed| Request {
            detour: None,
            extras: Extras::default(),
            prompt: vec![1, 2, 3],
            seed,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens,
            },
        })
        .collect()
}

#[test]
fn commands_are_worked_off_in_order_and_answers_know_their_version() {
    let handle = handle();
    let bytes = model(2).weights_bytes().unwrap();
    let before = handle.sample(requests(4, 12));
    let set = handle.set_weights(PolicyVersion(7), bytes.clone());
    let after = handle.sample(requests(4, 12));
    let version = handle.version();
    let (before, after) = (before.wait().unwrap(), after.wait().unwrap());
    set.wait().unwrap();
    assert_eq!(version.wait().unwrap(), PolicyVersion(7));
    assert_eq!(before.version, PolicyVersion(0));
    assert_eq!(after.version, PolicyVersion(7));
    let direct = |seed| sample(&model(seed), &requests(4, 12), &[0], |_| {}).unwrap();
    assert_eq!(before.samples, direct(1));
    assert_eq!(after.samples, direct(2));
    assert_eq!(handle.weights().wait().unwrap(), bytes);
    assert_eq!(handle.tokenizer().eos(), [0]);
    assert_eq!(handle.config().vocab_size, 300);
}

#[test]
fn weights_that_do_not_fit_leave_the_version_as_it_was() {
    let handle = handle();
    let error = handle.set_weights(PolicyVersion(3), vec![1, 2, 3]).wait();
    assert!(matches!(error, Err(Error::Safetensors { .. })));
    assert_eq!(handle.version().wait().unwrap(), PolicyVersion(0));
}

#[test]
fn many_callers_share_one_model() {
    let handle = handle();
    let wanted = handle.sample(requests(3, 8)).wait().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (handle, wanted) = (handle.clone(), &wanted);
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(&handle.sample(requests(3, 8)).wait().unwrap(), wanted);
                }
            });
        }
    });
}

/// Runs `f` on a thread and fails when it has not ended within a minute.
fn within_a_minute(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        f();
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60)).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_dropped_reply_withdraws_its_command() {
    within_a_minute(|| {
        let (handle, requests) = endless();
        drop(handle.sample(requests));
        assert_eq!(handle.version().wait().unwrap(), PolicyVersion(0));
    });
}

#[test]
fn dropping_the_last_handle_ends_the_thread() {
    within_a_minute(|| {
        let (handle, requests) = endless();
        let reply = handle.sample(requests);
        let waiting = std::thread::spawn(move || reply.wait());
        drop(handle);
        let answer = waiting.join().unwrap();
        assert!(matches!(answer, Err(Error::Stopped | Error::ThreadEnded)));
    });
}

#[test]
fn errors_while_building_are_returned() {
    let error = Handle::spawn(|| Err(Error::Input("no model today".into()))).unwrap_err();
    assert!(error.to_string().contains("no model today"));
}

#[test]
fn a_panic_while_building_is_an_error() {
    #[expect(clippy::panic, reason = "that is the case")]
    let error = Handle::spawn(|| panic!("on purpose")).unwrap_err();
    assert!(matches!(error, Error::ThreadEnded));
}
