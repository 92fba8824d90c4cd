//! The number formats in which weights are held while a model samples or is trained.

use std::path::Path;

use flopsmith_config::Dtype;
use tch::{Device, Kind};

use crate::config::Config;
use crate::error::Result;
use crate::origin::Origin;

/// The kind for the model in `folder` on `device`: the device's usual one if `dtype` names none. [`Dtype::Auto`] reads
/// the folder's `config.json`.
pub fn kind(dtype: Option<Dtype>, folder: &Path, device: Device) -> Result<Kind> {
    Ok(
        match dtype.unwrap_or_else(|| Dtype::usual(device.is_cuda())) {
            Dtype::Float32 => Kind::Float,
            Dtype::Bfloat16 => Kind::BFloat16,
            Dtype::Auto => {
                let config = Config::load(&Origin::of(folder)?.base)?;
                let says = |field: &str| config.other.get(field).and_then(|v| v.as_str());
                let stored = says("dtype").or_else(|| says("torch_dtype"));
                match stored == Some("bfloat16") && computes_in_half(device) {
                    true => Kind::BFloat16,
                    false => Kind::Float,
                }
            }
        },
    )
}

/// True if the device has instructions for bfloat16. Without them a CPU runs prompts more slowly in bfloat16 than in
/// single precision.
fn computes_in_half(device: Device) -> bool {
    match device {
        Device::Cpu => {
            #[cfg(target_arch = "x86_64")]
            {
                std::arch::is_x86_feature_detected!("avx512bf16")
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                false
            }
        }
        _ => true,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_device_decides_only_where_no_format_is_named() {
        let of = |dtype, device| kind(dtype, Path::new("nowhere"), device).unwrap();
        assert_eq!(of(None, Device::Cpu), Kind::Float);
        assert_eq!(of(None, Device::Cuda(0)), Kind::BFloat16);
        assert_eq!(of(Some(Dtype::Float32), Device::Cuda(0)), Kind::Float);
        assert_eq!(of(Some(Dtype::Bfloat16), Device::Cpu), Kind::BFloat16);
    }
}
