//! The device that a model computes on.

use flopsmith_config::Device as Wanted;
use tch::{Cuda, Device, Kind};

use crate::error::{Error, Result};

/// The device that a setting names.
///
/// # Errors
/// [`Error::Device`] if the setting names a GPU that libtorch cannot use: a model never moves to the CPU silently.
pub fn usable(wanted: Wanted) -> Result<Device> {
    chosen(wanted, count())
}

/// True if libtorch can use a GPU here.
pub fn has_gpu() -> bool {
    count() > 0
}

/// A device and a number format, for people.
pub fn words(device: Device, kind: Kind) -> String {
    let device = match device {
        Device::Cuda(number) => format!("GPU {number}"),
        _ => "the CPU".to_owned(),
    };
    let kind = match kind {
        Kind::Float => "float32",
        Kind::BFloat16 => "bfloat16",
        Kind::Half => "float16",
        _ => "float64",
    };
    format!("on {device} in {kind}")
}

fn count() -> usize {
    match Cuda::is_available() {
        true => usize::try_from(Cuda::device_count()).unwrap_or(0),
        false => 0,
    }
}

fn chosen(wanted: Wanted, gpus: usize) -> Result<Device> {
    match wanted {
        Wanted::Cpu => Ok(Device::Cpu),
        Wanted::Auto if gpus == 0 => Ok(Device::Cpu),
        Wanted::Auto => Ok(Device::Cuda(0)),
        Wanted::Cuda(number) if number < gpus => Ok(Device::Cuda(number)),
        Wanted::Cuda(_) => Err(Error::Device {
            wanted: wanted.to_string(),
            gpus,
        }),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_named_gpu_is_used_or_refused_and_an_open_choice_takes_what_is_there() {
        for (wanted, gpus, device) in [
            (Wanted::Auto, 0, Device::Cpu),
            (Wanted::Auto, 2, Device::Cuda(0)),
            (Wanted::Cpu, 2, Device::Cpu),
            (Wanted::Cuda(0), 1, Device::Cuda(0)),
            (Wanted::Cuda(1), 2, Device::Cuda(1)),
        ] {
            assert_eq!(chosen(wanted, gpus).unwrap(), device, "{wanted} of {gpus}");
        }
        for (wanted, gpus, said) in [
            (Wanted::Cuda(0), 0, "finds no GPU"),
            (Wanted::Cuda(2), 2, "finds GPUs 0 to 1"),
            (Wanted::Cuda(2), 1, "finds GPU 0 only"),
        ] {
            let error = chosen(wanted, gpus).unwrap_err();
            assert!(!error.is_of_the_input());
            let error = error.to_string();
            for part in [said, "flopsmith doctor", &format!("\"{wanted}\"")] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn a_device_is_told_with_its_number_and_format() {
        assert_eq!(words(Device::Cpu, Kind::Float), "on the CPU in float32");
        let gpu = words(Device::Cuda(1), Kind::BFloat16);
        assert_eq!(gpu, "on GPU 1 in bfloat16");
    }
}
