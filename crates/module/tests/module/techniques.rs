//! The techniques of the shipped solutions, and of small kernels with and without each.

use std::path::PathBuf;

use crate::corpus::{check_all, folder, has_python};

/// The techniques of each shipped solution in Triton.
const IN_TRITON: [(&str, &str); 32] = [
    ("argmax", "cache_blocking+simd+partial_sums"),
    ("batched_matmul", "cache_blocking+simd+dot"),
    ("bias_silu", "simd+fusion"),
    ("causal_attention", "cache_blocking+simd+dot"),
    ("conv2d", "cache_blocking+simd+dot"),
    ("conv_norm_relu", "cache_blocking+simd+fusion+dot"),
    ("conv_transpose_relu", "cache_blocking+simd+fusion+dot"),
    ("cross_entropy", "cache_blocking+simd+partial_sums"),
    ("cumsum", "cache_blocking+simd"),
    (
        "decode_attention",
        "cache_blocking+simd+partial_sums+fusion",
    ),
    ("depthwise_conv2d", "simd"),
    ("embedding_bag", "simd"),
    ("expert_router", "unroll+simd+fusion"),
    ("gated_silu", "simd+fusion"),
    ("group_norm", "cache_blocking+simd+partial_sums"),
    ("gru_cell", "cache_blocking+simd+dot"),
    ("layernorm_gelu", "cache_blocking+simd+partial_sums+fusion"),
    ("linear_gelu", "cache_blocking+simd+fusion+dot"),
    ("linear_scale_residual", "cache_blocking+simd+fusion+dot"),
    ("log_softmax", "simd"),
    ("matmul", "cache_blocking+simd+dot"),
    ("max_pool2d", "simd"),
    ("multi_head_attention", "cache_blocking+simd+dot"),
    (
        "residual_rms_norm",
        "cache_blocking+simd+partial_sums+fusion",
    ),
    ("rms_norm", "simd+fusion"),
    ("rms_norm_linear", "cache_blocking+simd+fusion+dot"),
    ("rope_attention", "cache_blocking+simd+fusion+dot"),
    ("segment_sum", "cache_blocking+simd"),
    ("softmax", "simd+autotuned"),
    (
        "squeeze_excitation",
        "cache_blocking+simd+partial_sums+fusion",
    ),
    ("swiglu", "simd+fusion"),
    ("swiglu_mlp", "cache_blocking+simd+fusion+dot"),
];

/// The techniques of each shipped solution in C++.
const IN_CPP: [(&str, &str); 19] = [
    ("argmax", "cache_blocking+simd+openmp+partial_sums"),
    ("bias_silu", "simd+openmp+fusion"),
    ("cross_entropy", "simd+partial_sums"),
    ("cumsum", "unroll+simd+openmp+partial_sums+shared_memory"),
    ("decode_attention", "simd+partial_sums+fusion+shared_memory"),
    (
        "depthwise_conv2d",
        "unroll+cache_blocking+simd+openmp+shared_memory",
    ),
    ("embedding_bag", "simd+openmp"),
    ("expert_router", "openmp+fusion"),
    ("gated_silu", "simd+fusion+shared_memory"),
    ("group_norm", "simd+openmp+partial_sums"),
    ("layernorm_gelu", "simd+partial_sums+fusion"),
    ("log_softmax", "simd+openmp+shared_memory"),
    ("max_pool2d", "simd+openmp+shared_memory"),
    ("residual_rms_norm", "simd+partial_sums+fusion"),
    ("rms_norm", "simd+partial_sums+fusion"),
    ("segment_sum", "simd+openmp"),
    ("softmax", "simd+partial_sums"),
    (
        "squeeze_excitation",
        "simd+openmp+partial_sums+fusion+shared_memory",
    ),
    ("swiglu", "simd+fusion"),
];

/// The techniques of each shipped solution in CUDA C++.
const IN_CUDA: [(&str, &str); 3] = [
    ("rms_norm", "partial_sums+fusion+shared_memory"),
    ("softmax", "partial_sums"),
    ("swiglu", "fusion+persistent"),
];

#[test]
fn the_shipped_solutions_have_these_techniques() {
    if !has_python() {
        return;
    }
    let named = |rows: &[(&'static str, &'static str)], file: &str| {
        let modules = folder("../../problems/modules");
        let rows = rows.iter();
        let files = rows.map(|(name, expected)| (modules.join(name).join(file), *expected));
        files.collect::<Vec<(PathBuf, &str)>>()
    };
    let mut all = named(&IN_TRITON, "solution_triton.py");
    all.extend(named(&IN_CPP, "solution_cpp.py"));
    all.extend(named(&IN_CUDA, "solution_cuda.py"));
    let files: Vec<PathBuf> = all.iter().map(|(file, _)| file.clone()).collect();
    for ((file, expected), checked) in all.iter().zip(check_all(&files)) {
        let found = checked.techniques().to_string();
        assert_eq!(found, *expected, "{}", file.display());
    }
}

/// A program with one kernel: the line above `triton.jit`, its body, and the options of its launch.
fn program(decorator: &str, body: &str, options: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!(
        "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n{decorator}@triton.jit\ndef kernel(x, out, n, BLOCK: tl.constexpr):\n    {body}\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        out = torch.empty_like(x)\n        kernel[(8,)](x, out, x.numel(), BLOCK=64{options})\n        return out\n"
    )
}

const AT: &str = "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n";
const LANES: &str = "total = tl.zeros((BLOCK,), dtype=tl.float32)\nfor start in range(0, n, BLOCK):\n    total += tl.load(x + start + tl.arange(0, BLOCK))\n";

/// Techniques, each with a kernel that has it and one that almost has it.
fn pairs() -> Vec<(&'static str, String, String)> {
    let plain = |body: String| program("", &body, "");
    let tuned = |configs: &str| {
        let decorator = format!("@triton.autotune(configs=[{configs}], key=[\"n\"])\n");
        let body = format!("{AT}tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)");
        program(&decorator, &body, "").replace(", BLOCK=64", "")
    };
    let config = "triton.Config({\"BLOCK\": 64}, num_warps=4)";
    let with_options = |options: &str| {
        let body = format!("{LANES}tl.store(out + tl.arange(0, BLOCK), total)");
        program("", &body, options)
    };
    vec![
        (
            "simd",
            plain(format!("{AT}tl.store(out + at, tl.load(x + at))")),
            plain(format!("{AT}tl.store(out + 2 * at, tl.load(x + 2 * at))")),
        ),
        (
            "cache_blocking",
            plain(format!("{LANES}tl.store(out + tl.arange(0, BLOCK), total)")),
            plain("total = 0.0\nfor i in range(n):\n    total += tl.load(x + i)\ntl.store(out, total)".into()),
        ),
        (
            "cache_blocking",
            plain("total = 0.0\nfor b in range(tl.cdiv(n, BLOCK)):\n    total += tl.sum(tl.load(x + b * BLOCK + tl.arange(0, BLOCK)))\ntl.store(out, total)".into()),
            plain("total = 0.0\nfor b in range(n):\n    total += tl.load(x + b * n)\ntl.store(out, total)".into()),
        ),
        (
            "partial_sums",
            plain(format!("{LANES}tl.store(out, tl.sum(total))")),
            plain(format!("{LANES}tl.store(out + tl.arange(0, BLOCK), total)")),
        ),
        (
            "partial_sums",
            plain(format!("{AT}tl.atomic_add(out, tl.sum(tl.load(x + at)))")),
            plain(format!("{AT}tl.store(out, tl.sum(tl.load(x + at)))")),
        ),
        (
            "partial_sums",
            plain("part = tl.program_id(1)\ntotal = 0.0\nfor k in range(part * n, (part + 1) * n, BLOCK):\n    total += tl.sum(tl.load(x + k + tl.arange(0, BLOCK)))\ntl.store(out + part, total)".into()),
            plain("part = tl.program_id(1)\ntotal = 0.0\nfor k in range(0, n, BLOCK):\n    total += tl.sum(tl.load(x + k + tl.arange(0, BLOCK)))\ntl.store(out + part, total)".into()),
        ),
        (
            "persistent",
            plain("for tile in range(tl.program_id(0), n, tl.num_programs(0)):\n    tl.store(out + tile, tl.load(x + tile))".into()),
            plain("for tile in range(0, n, 2):\n    tl.store(out + tile, tl.load(x + tile))".into()),
        ),
        (
            "persistent",
            plain("tile = tl.program_id(0)\nwhile tile < n:\n    tl.store(out + tile, tl.load(x + tile))\n    tile += tl.num_programs(0)".into()),
            plain("tile = 0\nwhile tile < n:\n    tl.store(out + tile, tl.load(x + tile))\n    tile += 1".into()),
        ),
        (
            "dot",
            plain("i = tl.arange(0, BLOCK)\nat = i[:, None] * BLOCK + i[None, :]\na = tl.load(x + at)\ntl.store(out + at, tl.dot(a, a))".into()),
            plain("i = tl.arange(0, BLOCK)\nat = i[:, None] * BLOCK + i[None, :]\na = tl.load(x + at)\ntl.store(out + at, a * a)".into()),
        ),
        (
            "shared_memory",
            with_options(", num_stages=3"),
            with_options(", num_warps=4"),
        ),
        (
            "shared_memory",
            plain("p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))\ntl.store(out + tl.arange(0, BLOCK), tl.load(p))".into()),
            plain("p = x + tl.arange(0, BLOCK)\ntl.store(out + tl.arange(0, BLOCK), tl.load(p))".into()),
        ),
        (
            "warp_specialized",
            plain("for i in tl.range(0, n, BLOCK, warp_specialize=True):\n    tl.store(out + i, tl.load(x + i))".into()),
            plain("for i in tl.range(0, n, BLOCK, warp_specialize=False):\n    tl.store(out + i, tl.load(x + i))".into()),
        ),
        (
            "unroll",
            plain("for i in tl.static_range(4):\n    tl.store(out + i, tl.load(x + i))".into()),
            plain("for i in range(4):\n    tl.store(out + i, tl.load(x + i))".into()),
        ),
        (
            "autotuned",
            tuned(&format!("{config}, {}", config.replace("64", "128"))),
            tuned(config),
        ),
    ]
}

#[test]
fn each_technique_is_seen_in_a_kernel_and_not_in_one_that_lacks_it() {
    if !has_python() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let pairs = pairs();
    for (number, (_, with, without)) in pairs.iter().enumerate() {
        for (kind, text) in [("with", with), ("without", without)] {
            let file = place.path().join(format!("{number}_{kind}.py"));
            std::fs::write(&file, text).unwrap();
            files.push(file);
        }
    }
    let checked = check_all(&files);
    for ((technique, ..), both) in pairs.iter().zip(checked.chunks(2)) {
        for (checked, expected) in both.iter().zip([true, false]) {
            assert!(checked.refusals.is_empty(), "{technique}: {checked:?}");
            let found = checked.techniques().to_string();
            let is_there = found.split('+').any(|name| name == *technique);
            assert_eq!(is_there, expected, "{technique} in {found}");
        }
    }
}

/// A program with these launches, and the reference whose operators it replaces.
fn fused(launches: &str, reference: &str) -> (String, String) {
    let text = program("", "tl.store(out, tl.load(x))", "");
    let one = "kernel[(8,)](x, out, x.numel(), BLOCK=64)";
    assert!(text.contains(one));
    let reference = format!(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n        self.layer = nn.Linear(n, n)\n        self.two = nn.Sequential(nn.Linear(n, n), nn.ReLU())\n\n    def twice(self, x):\n        return x + x\n\n    def forward(self, x):\n        return {reference}\n"
    );
    (text.replace(one, launches), reference)
}

#[test]
fn a_kernel_is_fused_if_there_are_fewer_launches_than_operators() {
    if !has_python() {
        return;
    }
    let launch = "kernel[(8,)](x, out, x.numel(), BLOCK=64)";
    let again = format!("{launch}\n        {launch}");
    let looped = format!("for _ in range(2):\n            {launch}");
    let (again, looped) = (again.as_str(), looped.as_str());
    let cases = [
        (launch, "torch.relu(self.layer(x))", true),
        (again, "torch.relu(self.layer(x))", false),
        (again, "torch.relu(self.layer(x)) * 2", true),
        (launch, "self.layer(x)", false),
        (launch, "self.two(x)", true),
        (launch, "self.twice(x)", false),
        (launch, "self.twice(self.twice(x))", true),
        // Shapes and numbers are no operators.
        (launch, "self.layer(x.view(-1, self.n * 2 // 2))", false),
        (launch, "self.layer(x) / x.shape[-1] ** 0.5", true),
        // How often a loop launches is not known.
        (looped, "torch.relu(self.layer(x)) * 2 + 1", false),
    ];
    let place = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (number, (launches, reference, _)) in cases.iter().enumerate() {
        let folder = place.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let (text, reference) = fused(launches, reference);
        std::fs::write(folder.join("reference.py"), reference).unwrap();
        files.push(folder.join("program.py"));
        std::fs::write(&files[number], text).unwrap();
    }
    for ((_, reference, expected), checked) in cases.iter().zip(check_all(&files)) {
        assert!(checked.refusals.is_empty(), "{reference}: {checked:?}");
        let found = checked.techniques().to_string();
        let is_fused = found.split('+').any(|name| name == "fusion");
        assert_eq!(is_fused, *expected, "{reference}: {found}");
    }
}
