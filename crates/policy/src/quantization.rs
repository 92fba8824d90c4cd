//! Detects quantized weights from a folder's configuration and tensors. This crate cannot use such weights and names
//! the method in its error.

use safetensors::tensor::Dtype;
use serde_json::Value;

use crate::config::Config;

/// The settings that name a quantization: transformers', an older name of compressed-tensors', and MLX's.
const SETTINGS: [&str; 3] = ["quantization_config", "compression_config", "quantization"];

/// Suffixes of the names of tensors that belong to quantized weights, with the programs that write such tensors.
const TENSORS: [(&str, &str); 12] = [
    (".qweight", "GPTQ or AWQ"),
    (".qzeros", "GPTQ or AWQ"),
    (".g_idx", "GPTQ"),
    (".weight_packed", "compressed-tensors"),
    (".weight_scale_inv", "FP8"),
    (".weight_scale", "FP8 or compressed-tensors"),
    (".weight_scale_2", "FP4"),
    (".absmax", "bitsandbytes"),
    (".quant_map", "bitsandbytes"),
    (".SCB", "bitsandbytes"),
    (".biases", "MLX"),
    (".scales", "groups with scales"),
];

/// How the weights of a folder were quantized, given its configuration and the names and kinds of its tensors; `None`
/// if neither shows a quantization.
pub(crate) fn quantization<'a>(
    config: &Config,
    tensors: impl Iterator<Item = (&'a str, Dtype)>,
) -> Option<String> {
    let said = SETTINGS
        .iter()
        .find_map(|field| Some((field, config.other.get(*field)?.as_object()?)));
    if let Some((field, settings)) = said {
        let text = |key: &str| settings.get(key).and_then(Value::as_str);
        let is = |key: &str| settings.get(key) == Some(&Value::Bool(true));
        let method = text("quant_method").or_else(|| text("format"));
        let method = match method {
            // Older files of bitsandbytes name no method.
            None if is("load_in_4bit") || is("load_in_8bit") => Some("bitsandbytes"),
            method => method,
        };
        let method = method.map_or_else(String::new, |method| format!(": {method}"));
        return Some(format!("`{field}` of config.json{method}"));
    }
    let mut eight_bits = None;
    for (name, dtype) in tensors {
        if let Some((_, by)) = TENSORS.iter().find(|(end, _)| name.ends_with(end)) {
            return Some(format!("by {by}, as the tensor {name} shows"));
        }
        let narrow = matches!(
            dtype,
            Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::I8 | Dtype::U8
        );
        if narrow && name.ends_with("_proj.weight") {
            eight_bits.get_or_insert_with(|| format!("{name} has kind {dtype:?}"));
        }
    }
    eight_bits
}
