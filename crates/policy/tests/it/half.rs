//! Sampling with weights in bfloat16.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::Dtype;
use flopsmith_policy::dtype;
use flopsmith_policy::{
    Config, Device, Extras, Kind, LoraConfig, Model, Plan, Request, Tensor, sample,
};
use flopsmith_protocol::Sampling;

fn requests(vocabulary: u32) -> Vec<Request> {
    (0..12u32)
        .map(|i| Request {
            prompt: (0..[1, 7, 20][i as usize % 3])
                .map(|t| (t * 7 + i * 13) % vocabulary)
                .collect(),
            seed: u64::from(i),
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: 24,
            },
            detour: None,
            extras: Extras::default(),
        })
        .collect()
}

/// A model in bfloat16, and the same weights in single precision.
fn models() -> (Model, Model) {
    let mut config = Config::new(60, 64, 96, 3, 4, 2);
    config.initializer_range = 0.1;
    config.max_position_embeddings = 64;
    let half = Model::random(config.clone(), 7, Device::Cpu, Kind::BFloat16).unwrap();
    let single = Model::random(config, 0, Device::Cpu, Kind::Float).unwrap();
    let mut flat = single.base().flat().shallow_clone();
    {
        let _guard = tch::no_grad_guard();
        flat.copy_(half.base().flat());
    }
    (half, single)
}

#[test]
fn log_probabilities_are_near_those_of_the_same_weights_in_single_precision() {
    let (half, single) = models();
    let requests = requests(60);
    let answers = sample(&half, &requests, &[], |_| {}).unwrap();
    let mut offs = Vec::new();
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(answer.tokens.len(), 24);
        let ids: Vec<i64> = request
            .prompt
            .iter()
            .chain(&answer.tokens)
            .map(|t| i64::from(*t))
            .collect();
        let wanted = request.prompt.len()..ids.len();
        let ids = Tensor::from_slice(&ids).unsqueeze(0);
        let scored = single
            .scores(&ids, &[wanted], &[1.0], Plan::LOGPROBS)
            .unwrap();
        let scored: Vec<f32> = scored.logprobs.iter().map(|x| *x as f32).collect();
        let off = answer.logprobs.iter().zip(&scored);
        let worst = off.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Only the keys and values of prompts are rounded, to eight bits; a prompt of one token has none.
        let most = if request.prompt.len() == 1 {
            2e-4
        } else {
            0.05
        };
        assert!(
            worst < most,
            "{worst} with a prompt of {}",
            request.prompt.len()
        );
        offs.push(worst);
    }
    assert!(
        offs.iter().any(|off| *off > 2e-4),
        "nothing was in half precision"
    );
}

/// True if this processor has tiles, which compute prompts in half precision.
fn has_tiles() -> bool {
    let said = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    said.contains("amx_bf16")
}

#[test]
fn many_prompts_are_run_in_single_precision_where_that_is_faster() {
    let (half, single) = models();
    let requests: Vec<Request> = (0..20u32)
        .map(|i| Request {
            prompt: (0..20).map(|t| (t * 7 + i * 13) % 60).collect(),
            seed: u64::from(i),
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: 12,
            },
            detour: None,
            extras: Extras::default(),
        })
        .collect();
    let answers = sample(&half, &requests, &[], |_| {}).unwrap();
    let expected = sample(&single, &requests, &[], |_| {}).unwrap();
    let (mut same, most) = (0, if has_tiles() { 0.05 } else { 2e-4 });
    for (answer, expected) in answers.iter().zip(&expected) {
        // A draw may fall on the other side of a boundary; after that the answers differ completely.
        let pairs = answer.tokens.iter().zip(&expected.tokens);
        let alike = pairs.take_while(|(a, b)| a == b).count();
        same += alike;
        for (a, b) in answer.logprobs[..alike].iter().zip(&expected.logprobs) {
            assert!((a - b).abs() < most, "{a} and {b}");
        }
    }
    assert!(same > 200, "{same} of 240 tokens are the same");
}

#[test]
fn auto_goes_by_what_the_folder_holds() {
    let config = Config::new(60, 16, 24, 1, 2, 1);
    for kind in [Kind::Float, Kind::BFloat16] {
        let folder = tempfile::tempdir().unwrap();
        let model = Model::random(config.clone(), 7, Device::Cpu, kind).unwrap();
        model.save(folder.path()).unwrap();
        let chosen =
            |dtype: Dtype| dtype::kind(Some(dtype), folder.path(), Device::Cuda(0)).unwrap();
        assert_eq!(chosen(Dtype::Auto), kind);
        assert_eq!(chosen(Dtype::Float32), Kind::Float);
        assert_eq!(chosen(Dtype::Bfloat16), Kind::BFloat16);
        // A processor without the instructions uses single precision.
        let here = dtype::kind(Some(Dtype::Auto), folder.path(), Device::Cpu).unwrap();
        assert!(here == kind || here == Kind::Float);
        // For an adapter's folder, the number format of its base model.
        let mut model = Model::load(folder.path(), Device::Cpu, kind).unwrap();
        model.adapt(LoraConfig::default(), 1).unwrap();
        let adapter = tempfile::tempdir().unwrap();
        let base = folder.path().to_str().unwrap();
        model.adapter().unwrap().save(adapter.path(), base).unwrap();
        let chosen = dtype::kind(Some(Dtype::Auto), adapter.path(), Device::Cuda(0)).unwrap();
        assert_eq!(chosen, kind);
    }
    let nowhere = std::path::Path::new("/nowhere");
    assert!(dtype::kind(Some(Dtype::Auto), nowhere, Device::Cpu).is_err());
}
