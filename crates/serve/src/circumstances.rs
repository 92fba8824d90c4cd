//! Everything beside the program that a speed depends on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flopsmith_evaluate::{Host, Pipeline, cores_to_watch};
use flopsmith_machine::attest::{Attestation, Hardware};
use flopsmith_problem::Problem;
use flopsmith_protocol::Digest;
use flopsmith_run::comparability::ComparabilityKey;
use serde::{Deserialize, Serialize};

/// The circumstances of measurements. Only speeds of equal circumstances are comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Key of the hardware (`flopsmith_machine::attest::Hardware`).
    pub machine: String,
    /// Name of the processor.
    pub processor: String,
    /// Names and versions of the C compiler, or of Python and PyTorch.
    pub compiler: String,
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// Problem, toolchain, harness and method.
    pub key: ComparabilityKey,
}

/// Finds the circumstances in which programs of a problem would be measured now; none if the compiler does not work.
pub type Now = Box<dyn Fn(&Arc<Problem>) -> Option<Circumstances> + Send + Sync>;

impl Circumstances {
    /// The circumstances of stages that time with `threads` threads on this machine.
    pub fn of(pipeline: &Pipeline, threads: u32) -> Self {
        let cores = cores_to_watch(threads).kernel;
        let hardware = Hardware::of(cores.first().copied().unwrap_or(0));
        Self {
            machine: hardware.key(),
            processor: hardware.cpu_model,
            compiler: pipeline.tools(),
            threads,
            key: ComparabilityKey::of(pipeline.problem(), pipeline.fingerprint()),
        }
    }

    /// The circumstances on a machine that measured programs of a problem elsewhere.
    pub fn attested(problem: &Problem, attestation: &Attestation) -> Self {
        let Attestation {
            compiler,
            flags,
            linker,
            other_compilers,
            ..
        } = attestation;
        let hardware = Hardware {
            cpu_model: attestation.cpu_model.clone(),
            cpu_id: attestation.cpu_id.clone(),
            isa: attestation.isa.clone(),
            caches: attestation.caches.clone(),
        };
        let toolchain = format!("{compiler}|{flags:?}|{linker}|{other_compilers:?}");
        Self {
            machine: hardware.key(),
            processor: hardware.cpu_model,
            compiler: compiler.clone(),
            threads: attestation.threads,
            key: ComparabilityKey::of(problem, &Digest::of(toolchain.as_bytes())),
        }
    }

    /// The circumstances on this machine. They are found out once for each problem.
    pub fn now(host: Host) -> Now {
        let known: Mutex<HashMap<Digest, Self>> = Mutex::default();
        Box::new(move |problem| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&problem.digest) {
                return Some(found.clone());
            }
            let pipeline = Pipeline::open(Arc::clone(problem), &host).ok()?;
            let found = Self::of(&pipeline, host.threads);
            known.insert(problem.digest.clone(), found.clone());
            Some(found)
        })
    }

    /// The names of everything that differs.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (key, others) = (&self.key, &other.key);
        let all = [
            (self.machine != other.machine, "processor"),
            (
                key.toolchain != others.toolchain,
                "compiler, its flags, or the instructions of the processor",
            ),
            (self.threads != other.threads, "number of threads"),
            (
                (&key.harness, &key.version) != (&others.harness, &others.version),
                "version of Flopsmith",
            ),
            (key.problem != others.problem, "definition of the problem"),
        ];
        let found = all.into_iter().filter(|(differs, _)| *differs);
        found.map(|(_, name)| name.to_owned()).collect()
    }

    /// Circumstances of a machine that tests invent.
    #[cfg(test)]
    pub fn of_machine(name: &str) -> Self {
        Self {
            machine: name.into(),
            processor: format!("processor of {name}"),
            compiler: "gcc 12".into(),
            threads: 1,
            key: ComparabilityKey {
                problem: Digest::of(b"problem"),
                toolchain: Digest::of(name.as_bytes()),
                harness: "1".into(),
                version: "0.1.0".into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let here = Circumstances::of_machine("a");
        assert_eq!(here.differences(&here), Vec::<String>::new());
        let mut other = here.clone();
        other.threads = 2;
        assert_eq!(here.differences(&other), ["number of threads"]);
        other.key.version = "0.2.0".into();
        let both = ["number of threads", "version of Flopsmith"];
        assert_eq!(here.differences(&other), both);
        let there = here.differences(&Circumstances::of_machine("b"));
        assert_eq!(there.first().map(String::as_str), Some("processor"));
        assert_eq!(there.len(), 2);
    }
}
