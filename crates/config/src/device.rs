//! Where a model computes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The device of a model: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The first GPU if libtorch can use one, else the CPU.
    #[default]
    Auto,
    /// The CPU, also where there is a GPU.
    Cpu,
    /// The GPU of this number. An error where there is none.
    Cuda(usize),
}

impl Device {
    /// True for the default, which a saved configuration leaves out.
    pub fn is_auto(&self) -> bool {
        *self == Device::Auto
    }

    /// The device of a run that needs a GPU, or of one that does not.
    #[must_use]
    pub fn or_gpu(self, required: bool) -> Self {
        match self {
            Device::Auto if required => Device::Cuda(0),
            named => named,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(0) => f.write_str("cuda"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// A text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no device; write auto, cpu, cuda, or cuda:N with the number of a GPU")]
pub struct NoDevice(String);

impl FromStr for Device {
    type Err = NoDevice;

    fn from_str(text: &str) -> Result<Self, NoDevice> {
        let wrong = || NoDevice(text.to_owned());
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            other => {
                let digits = other.strip_prefix("cuda:").ok_or_else(wrong)?;
                let number = digits.parse::<u16>().map_err(|_| wrong())?;
                Ok(Device::Cuda(usize::from(number)))
            }
        }
    }
}

impl TryFrom<String> for Device {
    type Error = NoDevice;

    fn try_from(text: String) -> Result<Self, NoDevice> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

impl JsonSchema for Device {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(auto|cpu|cuda(:[0-9]+)?)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for (text, device) in [
            ("auto", Device::Auto),
            ("cpu", Device::Cpu),
            ("cuda", Device::Cuda(0)),
            ("cuda:3", Device::Cuda(3)),
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string(), text);
        }
        assert_eq!("cuda:0".parse(), Ok(Device::Cuda(0)));
        for text in [
            "",
            "gpu",
            "CUDA",
            "cuda:",
            "cuda:-1",
            "cuda:x",
            "cuda:70000",
        ] {
            let error = text.parse::<Device>().expect_err(text).to_string();
            assert!(error.contains("cuda:N"), "{error}");
        }
    }

    #[test]
    fn only_an_open_choice_follows_the_need_of_a_gpu() {
        assert_eq!(Device::Auto.or_gpu(true), Device::Cuda(0));
        assert_eq!(Device::Auto.or_gpu(false), Device::Auto);
        assert_eq!(Device::Cuda(2).or_gpu(true), Device::Cuda(2));
        assert_eq!(Device::Cpu.or_gpu(true), Device::Cpu);
    }
}
