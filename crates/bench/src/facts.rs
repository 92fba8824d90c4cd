//! The facts of a machine that decide whether two results compare, and that a reader of a result needs.

use std::collections::BTreeMap;

use flopsmith_machine::attest::Attestation;
use serde::{Deserialize, Serialize};

use crate::rows::Machine;

/// The part of an attestation that makes times of two machines comparable, or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Processor model, as it names itself.
    pub cpu_model: String,
    /// Vendor, family, model and stepping.
    pub cpu_id: String,
    /// Instruction sets that matter for numerical kernels.
    pub isa: Vec<String>,
    /// Data caches of a core: level → bytes.
    pub caches: BTreeMap<String, u64>,
    /// Compiler and its version.
    pub compiler: String,
    /// Its flags.
    pub flags: Vec<String>,
    /// Language, version and flags of the other compilers.
    pub other_compilers: Vec<String>,
    /// Version of the harness and its hand-shake.
    pub harness: String,
    /// The way in which supervisor and harness wait for each other.
    pub hand_shake: String,
}

impl Facts {
    /// The facts of an attested machine. A fact that the attestation lacks stays empty.
    pub fn of(machine: &Machine) -> Self {
        serde_json::from_value(machine.attestation.clone()).unwrap_or_default()
    }

    /// The differences that keep times measured here from times measured under `now`, a sentence each. `others` says
    /// whether the compilers of C++ and Fortran matter.
    pub fn differences(&self, now: &Facts, others: bool) -> Vec<String> {
        let differ = self.differing(now, others).into_iter();
        differ
            .map(|(what, then, now)| format!("{what}: saved with `{then}`, now `{now}`"))
            .collect()
    }

    /// The same differences: each with its name, its value here and its value in `now`.
    pub fn differing(&self, now: &Facts, others: bool) -> Vec<(&'static str, String, String)> {
        let words = |list: &[String]| list.join(" ");
        let caches = |facts: &Facts| {
            let caches = facts.caches.iter();
            let caches: Vec<String> = caches
                .map(|(level, bytes)| format!("{level} {bytes}"))
                .collect();
            caches.join(", ")
        };
        let mut all = vec![
            ("processor", self.cpu_model.clone(), now.cpu_model.clone()),
            (
                "stepping of the processor",
                self.cpu_id.clone(),
                now.cpu_id.clone(),
            ),
            ("instruction sets", words(&self.isa), words(&now.isa)),
            ("caches", caches(self), caches(now)),
            ("compiler", self.compiler.clone(), now.compiler.clone()),
            ("compiler flags", words(&self.flags), words(&now.flags)),
            ("harness", self.harness.clone(), now.harness.clone()),
            (
                "hand-shake",
                self.hand_shake.clone(),
                now.hand_shake.clone(),
            ),
        ];
        if others {
            let (then, now) = (&self.other_compilers, &now.other_compilers);
            all.push((
                "compilers of C++ and Fortran",
                then.join("; "),
                now.join("; "),
            ));
        }
        all.retain(|(_, then, now)| then != now);
        all
    }
}

/// The key of hardware and toolchain; empty if the attestation is incomplete.
pub fn class(machine: &Machine) -> String {
    let attestation = serde_json::from_str::<Attestation>(&machine.json);
    attestation.map_or_else(|_| String::new(), |attestation| attestation.class_key())
}

/// Names and values that a reader of a result needs: machine, compiler, flags.
pub fn named(machine: &Machine) -> Vec<(String, String)> {
    let facts = Facts::of(machine);
    let word = |key: &str| machine.attestation[key].as_str();
    let mut about = vec![facts.cpu_model];
    let processors = machine.attestation["processors"].as_u64();
    about.extend(processors.map(|n| format!("{n} processors")));
    about.extend(word("kernel").map(|kernel| format!("Linux {kernel}")));
    about.extend(word("hypervisor").map(str::to_owned));
    about.retain(|fact| !fact.is_empty());
    let all = [
        ("machine", about.join(", ")),
        ("compiler", facts.compiler),
        ("flags", facts.flags.join(" ")),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    known
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(attestation: &serde_json::Value) -> Machine {
        Machine::new(attestation.to_string()).unwrap()
    }

    #[test]
    fn differing_facts_are_named_with_both_values() {
        let attested = |compiler: &str, cxx: &str| {
            Facts::of(&machine(&json!({
                "cpu_model": "m",
                "caches": { "L1": 32768 },
                "compiler": compiler,
                "flags": ["-O3", "-march=native"],
                "other_compilers": [cxx],
                "memory_bytes": 5,
            })))
        };
        let then = attested("gcc 12", "g++ 12");
        assert_eq!(then.differences(&then, true), Vec::<String>::new());
        let now = attested("gcc 13", "g++ 13");
        let expected = "compiler: saved with `gcc 12`, now `gcc 13`";
        assert_eq!(then.differences(&now, false), [expected]);
        let all = then.differences(&now, true);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[1].contains("`g++ 12`, now `g++ 13`"), "{all:?}");
    }

    #[test]
    fn a_reader_is_told_the_machine_the_compiler_and_the_flags() {
        let known = machine(&json!({
            "cpu_model": "m",
            "processors": 2,
            "kernel": "6.1",
            "hypervisor": null,
            "compiler": "gcc 12",
            "flags": ["-O3", "-g"],
        }));
        let pairs = named(&known);
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let expected = [
            ("machine", "m, 2 processors, Linux 6.1"),
            ("compiler", "gcc 12"),
            ("flags", "-O3 -g"),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(class(&known), "");
        assert_eq!(named(&machine(&json!({ "cpu_model": "m" }))).len(), 1);
    }
}
