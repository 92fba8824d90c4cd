//! Unusable weights and missing files: the error names them.

use super::*;

/// The weight of a product of a block, under the names that quantizers use.
const STEM: &str = "model.layers.0.mlp.gate_proj";

#[test]
fn quantized_weights_are_called_so() {
    type Change = fn(&mut Tensors);
    let eight_bits: Change = |tensors| {
        let name = format!("{STEM}.weight");
        let (_, shape, bytes) = tensors.remove(&name).unwrap();
        let bytes = vec![0; bytes.len() / 4];
        tensors.insert(name, (Dtype::F8_E4M3, shape, bytes));
    };
    let with_scales: Change = |tensors| {
        tensors.remove(&format!("{STEM}.weight")).unwrap();
        let mut add = |name: &str, dtype| {
            let name = format!("{STEM}.{name}");
            tensors.insert(name, (dtype, vec![2, 2], vec![0; 16]));
        };
        add("qweight", Dtype::I32);
        add("qzeros", Dtype::I32);
        add("scales", Dtype::F32);
    };
    let beside: Change = |tensors| {
        let name = format!("{STEM}.weight_scale_inv");
        tensors.insert(name, (Dtype::F32, vec![1], vec![0; 4]));
    };
    let bytes: Change = |tensors| {
        let name = format!("{STEM}.weight");
        let (_, shape, _) = tensors.remove(&name).unwrap();
        tensors.insert(
            name,
            (Dtype::I8, shape.clone(), vec![0; shape[0] * shape[1]]),
        );
        let name = format!("{STEM}.SCB");
        tensors.insert(name, (Dtype::F32, vec![1], vec![0; 4]));
    };
    for (settings, change, how) in [
        (
            json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
            eight_bits,
            "fp8",
        ),
        (
            json!({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
            with_scales,
            "gptq",
        ),
        (
            json!({"quantization_config": {"quant_method": "awq"}}),
            with_scales,
            "awq",
        ),
        (
            json!({"quantization_config": {"load_in_8bit": true}}),
            bytes,
            "bitsandbytes",
        ),
        (
            json!({"quantization_config": {"load_in_4bit": true, "quant_method": "bitsandbytes"}}),
            bytes,
            "bitsandbytes",
        ),
        (
            json!({"compression_config": {"format": "pack-quantized"}}),
            with_scales,
            "pack-quantized",
        ),
        (
            json!({"quantization": {"group_size": 64, "bits": 4}}),
            with_scales,
            "`quantization`",
        ),
        // The configuration does not mention it.
        (json!({}), with_scales, "GPTQ or AWQ"),
        (json!({}), beside, "FP8"),
        (json!({}), bytes, "bitsandbytes"),
        (json!({}), eight_bits, "F8_E4M3"),
    ] {
        let folder = folder();
        edit(folder.path(), "config.json", |config| {
            for (name, value) in settings.as_object().unwrap() {
                config[name] = value.clone();
            }
        });
        // Settings alone change nothing: the weights have the right form.
        load(folder.path()).unwrap();
        rewrite(folder.path(), change);
        let error = load(folder.path()).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Quantized { .. }), "{error:?}");
        assert!(
            said.contains("are quantized") && said.contains(how),
            "{said}"
        );
        assert_eq!(check(folder.path()).unwrap_err().to_string(), said);
        assert!(inspect(folder.path()).unwrap().loads.is_err());
        // Some have a file of weights with another name.
        let own = folder.path().join("gptq_model-4bit-128g.safetensors");
        std::fs::rename(folder.path().join(WEIGHTS), own).unwrap();
        let error = load(folder.path()).unwrap_err();
        match settings.as_object().unwrap().is_empty() {
            false => assert!(matches!(error, Error::Quantized { .. }), "{error:?}"),
            true => assert!(matches!(error, Error::Input(_)), "{error:?}"),
        }
    }
}

#[test]
fn weights_in_files_that_are_not_read_are_named() {
    for other in [
        "pytorch_model.bin",
        "qwen.Q4_K_M.gguf",
        "consolidated.00.pth",
    ] {
        let folder = folder();
        let (path, other_path) = (folder.path().join(WEIGHTS), folder.path().join(other));
        std::fs::rename(path, other_path).unwrap();
        let error = load(folder.path()).unwrap_err().to_string();
        for words in [WEIGHTS, other, "save_pretrained"] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[test]
fn a_pointer_in_the_place_of_a_file_is_called_so() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 3554214621\n";
    let sharded = || {
        let folder = folder();
        let shard = "model-00001-of-00001.safetensors";
        std::fs::rename(folder.path().join(WEIGHTS), folder.path().join(shard)).unwrap();
        let index = json!({"weight_map": {EMBEDDING: shard}}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        folder
    };
    let adapted = || {
        let folder = folder();
        let mut model = load(folder.path()).unwrap();
        model.adapt(LoraConfig::default(), 1).unwrap();
        let adapter: &Adapter = model.adapter().unwrap();
        adapter.save(folder.path(), "").unwrap();
        folder
    };
    for (folder, file) in [
        (folder(), WEIGHTS),
        (folder(), "config.json"),
        (folder(), "tokenizer.json"),
        (folder(), "tokenizer_config.json"),
        (folder(), "generation_config.json"),
        (folder(), "chat_template.jinja"),
        (sharded(), "model-00001-of-00001.safetensors"),
        (sharded(), "model.safetensors.index.json"),
        (adapted(), "adapter_model.safetensors"),
        (adapted(), "adapter_config.json"),
    ] {
        check(folder.path()).unwrap();
        std::fs::write(folder.path().join(file), POINTER).unwrap();
        let error = check(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Pointer { .. }), "{file}: {error:?}");
        assert!(error.is_of_the_input());
        let said = error.to_string();
        for words in [
            file,
            "Git LFS pointer",
            "3554214621 bytes",
            "`git lfs pull`",
        ] {
            assert!(said.contains(words), "{said}");
        }
        // Loading gives the same error as inspecting.
        let loaded = load(folder.path()).and_then(|_| Tokenizer::load(folder.path()).map(drop));
        assert_eq!(loaded.unwrap_err().to_string(), said);
    }
}
