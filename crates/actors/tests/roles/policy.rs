//! A language model as a source of programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flopsmith_actors::answer::Source;
use flopsmith_actors::answer_line::AnswerLine;
use flopsmith_actors::role::generator;
use flopsmith_actors::role::recorder::{Progress, Recorder, detokenize, files};
use flopsmith_actors::source::policy::PolicySource;
use flopsmith_config::{Generator, Prompt};
use flopsmith_policy::{Device, Handle, Kind, Model, Tokenizer};
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{EliteHint, Exchange, Purpose, Rollout, Task, TechniqueSet, subjects};
use flopsmith_test_support::run_id;
use tokio::sync::watch;

use crate::{World, settings, soon, start};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn starter() -> Handle {
    let folder = root().join("models/starter");
    let handle = Handle::spawn(move || {
        let model = Model::load(&folder, Device::Cpu, Kind::Float)?;
        Ok((model, Tokenizer::load(&folder)?))
    });
    handle.unwrap()
}

/// The answers of the starter to one task with these settings: programs, and whether each ended.
async fn answers(settings: &Generator) -> Vec<(String, bool)> {
    let world = World::new().await;
    let handle = starter();
    let tokenizer = Arc::clone(handle.tokenizer());
    let mut source = PolicySource::new(handle, tokenizer, world.store.clone(), settings);
    let problem = Problem::load(&root().join("problems/dgemm")).unwrap();
    let mut task = crate::task(1, 0, Purpose::Train);
    task.sampling.max_tokens = 320;
    let groups = source.answer(&[&problem], &[task]).await.unwrap();
    let answers = groups.into_iter().flatten();
    answers
        .map(|answer| (answer.source, answer.sampled.unwrap().finished))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_end_at_the_strings_that_were_set_and_are_read_without_them() {
    let plain = answers(&Generator::default()).await;
    let stopped = answers(&Generator {
        stop: vec!["for(".to_owned()],
        // One after the other: this does not change the answers.
        rows: Some(1),
        ..Generator::default()
    })
    .await;
    assert!(!plain.is_empty() && plain.len() == stopped.len());
    for ((whole, _), (cut, finished)) in plain.iter().zip(&stopped) {
        let (before, _) = whole.split_once("for(").unwrap();
        assert_eq!(cut.trim_end(), before.trim_end());
        assert!(finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_follows_what_was_said_before_as_far_as_there_is_room() {
    let world = World::new().await;
    let handle = starter();
    let positions = handle.config().max_position_embeddings as usize;
    let tokenizer = Arc::clone(handle.tokenizer());
    let settings = Generator::default();
    let texts = Arc::clone(&tokenizer);
    let mut source = PolicySource::new(handle, tokenizer, world.store.clone(), &settings);
    let problem = Problem::load(&root().join("problems/dgemm")).unwrap();
    let said = |text: &str| Exchange {
        answer: format!("int {text};\n"),
        request: None,
        result: format!("{text} is slow."),
    };
    let mut prompts = Vec::new();
    let long = "x".repeat(4 * positions);
    for history in [
        vec![],
        vec![said("older"), said("newer")],
        vec![said(&long), said("newer")],
        vec![said(&long)],
    ] {
        let mut task = crate::task(1, 0, Purpose::Train);
        task.group_size = 1;
        task.sampling.max_tokens = 8;
        task.history = history;
        let answers = source.answer(&[&problem], &[task]).await.unwrap();
        let sampled = answers[0][0].sampled.clone().unwrap();
        assert!(sampled.prompt.len() + 8 <= positions);
        prompts.push(texts.decode(&sampled.prompt).unwrap());
    }
    let [plain, whole, newer, none] = prompts.try_into().unwrap();
    assert!(whole.starts_with(plain.trim_end()), "{whole}");
    let order = [
        "int older;",
        "older is slow.",
        "int newer;",
        "newer is slow.",
    ];
    let places: Vec<usize> = order.iter().map(|text| whole.find(text).unwrap()).collect();
    assert!(places.is_sorted(), "{whole}");
    assert!(
        newer.contains("newer is slow.") && !newer.contains("xxx"),
        "{newer}"
    );
    assert_eq!(none, plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_of_small_models_show_an_elite_where_it_leaves_room_for_an_answer() {
    let world = World::new().await;
    let handle = starter();
    let positions = handle.config().max_position_embeddings as usize;
    let texts = Arc::clone(handle.tokenizer());
    let problem = Problem::load(&root().join("problems/dgemm")).unwrap();
    let program = std::fs::read_to_string(root().join("models/starter/corpus_best.c")).unwrap();
    let hint = |source: &str| EliteHint {
        techniques: TechniqueSet::EMPTY,
        source: source.to_owned(),
        gflops: 1.0,
    };
    let long = format!("{program}//{}\n", "x".repeat(4 * positions));
    let said = |text: &str| Exchange {
        answer: format!("int {text};\n"),
        request: None,
        result: format!("{text} is slow."),
    };
    for prompt in [Prompt::Compact, Prompt::Nest] {
        let settings = Generator {
            prompt,
            ..Generator::default()
        };
        let tokenizer = Arc::clone(&texts);
        let store = world.store.clone();
        let mut source = PolicySource::new(handle.clone(), tokenizer, store, &settings);
        let mut prompts = Vec::new();
        for (elite, history) in [
            (None, vec![]),
            (Some(hint(&program)), vec![]),
            (Some(hint(&long)), vec![]),
            // The answers leave no room, so the oldest one makes way, and not the elite.
            (
                Some(hint(&program)),
                vec![said(&"y".repeat(4 * positions)), said("newer")],
            ),
        ] {
            let mut task = crate::task(1, 0, Purpose::Train);
            task.group_size = 1;
            task.sampling.max_tokens = 8;
            task.elite = elite;
            task.history = history;
            let answers = source.answer(&[&problem], &[task]).await.unwrap();
            let sampled = answers[0][0].sampled.clone().unwrap();
            assert!(sampled.prompt.len() + 8 <= positions);
            prompts.push(texts.decode(&sampled.prompt).unwrap());
        }
        let [plain, shown, without, followed] = prompts.try_into().unwrap();
        let added = shown.strip_prefix(plain.as_str()).unwrap();
        let slow = added.strip_prefix("// slow:\n").unwrap();
        let slow = slow.strip_suffix("// fast:\n").unwrap();
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(slow), bare(&program), "{prompt:?}");
        assert_eq!(without, plain, "{prompt:?}");
        let said = followed.strip_prefix(shown.trim_end()).unwrap();
        assert!(
            said.contains("newer is slow.") && !said.contains("yyy"),
            "{prompt:?}: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exploration_sample_begins_as_its_parent_does() {
    let world = World::new().await;
    let handle = starter();
    let tokenizer = Arc::clone(handle.tokenizer());
    let texts = Arc::clone(&tokenizer);
    let settings = Generator::default();
    let mut source = PolicySource::new(handle, tokenizer, world.store.clone(), &settings);
    let problem = Problem::load(&root().join("problems/dgemm")).unwrap();
    let program = std::fs::read_to_string(root().join("models/starter/corpus_best.c")).unwrap();
    let parent = |source: &str| EliteHint {
        techniques: TechniqueSet::all(),
        source: source.to_owned(),
        gflops: 1.0,
    };
    let mut task = crate::task(1, 0, Purpose::Train);
    task.group_size = 4;
    task.exploration_samples = 3;
    task.sampling.max_tokens = 320;
    // The second parent has no number; the last sample has no parent.
    task.parents = vec![parent(&program), parent("void f(void);")];
    let answers = source.answer(&[&problem], &[task.clone()]).await.unwrap();
    let sampled = |sample: usize| answers[0][sample].sampled.clone().unwrap();
    let prompt = sampled(0).prompt;
    for sample in 0..4 {
        let found = sampled(sample);
        assert_eq!(found.prompt, prompt);
        assert_eq!(found.logprobs.len(), found.tokens.len());
        assert!(found.tokens.len() <= 320);
        // Drawn tokens have some probability; those of the parent are noted with a 0.
        let begun = found.logprobs.iter().take(4).all(|p| *p == 0.0);
        assert_eq!(begun, sample == 1, "{sample}: {:?}", found.logprobs);
    }
    let begun = sampled(1).tokens;
    let whole = texts.encode(&program).unwrap();
    let kept = begun.iter().zip(&whole).take_while(|(a, b)| a == b).count();
    let exchanged = texts.decode(&[begun[kept], whole[kept]]).unwrap();
    assert!(exchanged.bytes().all(|b| b.is_ascii_digit()), "{exchanged}");
    let written = texts.decode(&begun).unwrap();
    let answer = answers[0][1].source.trim();
    assert!(
        written.contains(answer) && answer.starts_with("typedef double V"),
        "{written}"
    );

    // A beginning that leaves no room gives an answer of the policy.
    task.sampling.max_tokens = 4;
    let short = source.answer(&[&problem], &[task]).await.unwrap();
    let found = short[0][1].sampled.clone().unwrap();
    assert!(found.tokens.len() <= 4 && found.logprobs.iter().any(|p| *p != 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_the_policy_are_in_the_folder_of_the_run_with_their_prompts() {
    let world = World::new().await;
    let context = world.context(settings());
    let handle = starter();
    let tokenizer = Arc::clone(handle.tokenizer());
    let generator = &context.settings.generator;
    let texts = Arc::clone(&tokenizer);
    let source = PolicySource::new(handle, tokenizer, world.store.clone(), generator);
    let task = Task {
        tasks_in_step: 1,
        ..crate::task(1, 0, Purpose::Search)
    };
    let queue = Queue::generate("policy").of(&run_id());
    world.bus.publish(&queue, &task).await.unwrap();
    let subject = subjects::rollout(&run_id());
    let mut log = world.bus.log::<Rollout>(&subject, 0).await.unwrap();
    let source = Box::new(source);
    let working = start(generator::Generator::new(
        Arc::clone(&context),
        source,
        "policy",
    ));
    let mut rollouts = Vec::new();
    for _ in 0..task.group_size {
        rollouts.push(soon(log.next()).await.unwrap().1);
    }
    working.end().await.unwrap();

    let (progress, _) = watch::channel(Progress::default());
    let recorder = Recorder::new(Arc::clone(&context), progress);
    let recorder = recorder.detokenizing(Some(detokenize(Arc::clone(&texts))));
    start(recorder).end().await.unwrap();
    let text = std::fs::read_to_string(context.folder.join(files::ANSWERS)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<AnswerLine> = lines.collect();
    assert_eq!(lines.len(), task.group_size as usize);
    assert!(lines.iter().any(|line| !line.answer.is_empty()));
    for (line, rollout) in lines.iter().zip(&rollouts) {
        assert_eq!(line.task, task.id);
        assert_eq!(line.sample, rollout.candidate.sample);
        let prompt = texts.decode_with_specials(&rollout.prompt_tokens);
        assert_eq!(line.prompt, prompt.unwrap());
        assert!(!line.prompt.is_empty());
        assert_eq!(line.answer, texts.decode(&rollout.tokens).unwrap());
        assert_eq!(line.amount.output_tokens, rollout.tokens.len() as u64);
    }
}
