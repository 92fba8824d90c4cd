//! The programs that a candidate is timed against, which a problem names.

/// A program that a candidate is timed against: the reference as it is, or compiled by `torch.compile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// The reference as it is.
    Eager,
    /// The reference compiled by TorchInductor in its default mode.
    Inductor,
    /// TorchInductor with CUDA graphs.
    ReduceOverhead,
    /// TorchInductor with a search among templates of kernels and CUDA graphs.
    MaxAutotune,
}

impl Baseline {
    /// All baselines.
    pub const ALL: [Baseline; 4] = [
        Baseline::Eager,
        Baseline::Inductor,
        Baseline::ReduceOverhead,
        Baseline::MaxAutotune,
    ];
    /// The baselines of a problem that names none.
    pub const DEFAULT: [Baseline; 2] = [Baseline::Eager, Baseline::Inductor];

    /// The name in definitions and outcomes.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Eager => "eager",
            Baseline::Inductor => "inductor",
            Baseline::ReduceOverhead => "reduce-overhead",
            Baseline::MaxAutotune => "max-autotune",
        }
    }

    /// The mode of `torch.compile`; none for the reference as it is.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            Baseline::Eager => None,
            Baseline::Inductor => Some("default"),
            Baseline::ReduceOverhead | Baseline::MaxAutotune => Some(self.name()),
        }
    }

    /// True if it is left out where modules are timed on the CPU.
    pub fn needs_gpu(self) -> bool {
        matches!(self, Baseline::ReduceOverhead | Baseline::MaxAutotune)
    }

    /// The baselines of these names, in the order of [`Baseline::ALL`]; the error is the mistake in the names.
    pub(crate) fn named(names: &[String]) -> Result<Vec<Baseline>, String> {
        if names.is_empty() {
            return Err(
                "`baselines` names nothing; leave it out for `eager` and `inductor`, or name one"
                    .into(),
            );
        }
        let known = |name: &str| Baseline::ALL.iter().any(|one| one.name() == name);
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return Err(format!(
                "unknown baseline `{name}`; there are {}",
                list(&Baseline::ALL)
            ));
        }
        let times = |one: &Baseline| names.iter().filter(|name| *name == one.name()).count();
        if let Some(twice) = Baseline::ALL.iter().find(|one| times(one) > 1) {
            return Err(format!(
                "`baselines` names `{}` more than once",
                twice.name()
            ));
        }
        let mut found = Baseline::ALL.to_vec();
        found.retain(|one| times(one) == 1);
        if found.iter().all(|one| one.needs_gpu()) {
            return Err(format!(
                "`baselines` names only {}, which a GPU alone runs, and modules are timed on the CPU; add `eager` or `inductor`",
                list(&found)
            ));
        }
        Ok(found)
    }
}

/// The names of baselines, for people.
pub(crate) fn list(baselines: &[Baseline]) -> String {
    let names: Vec<&str> = baselines.iter().map(|one| one.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Result<Vec<Baseline>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Baseline::named(&names)
    }

    #[test]
    fn names_give_baselines_in_one_order() {
        let found = named(&["max-autotune", "eager"]);
        assert_eq!(found, Ok(vec![Baseline::Eager, Baseline::MaxAutotune]));
        let all = Baseline::ALL.map(Baseline::name);
        assert_eq!(named(&all), Ok(Baseline::ALL.to_vec()));
        assert!(!Baseline::DEFAULT.iter().any(|one| one.needs_gpu()));
        let modes = Baseline::ALL.map(Baseline::mode);
        let expected = [
            None,
            Some("default"),
            Some("reduce-overhead"),
            Some("max-autotune"),
        ];
        assert_eq!(modes, expected);
    }

    #[test]
    fn each_mistake_in_names_is_told() {
        for (names, part) in [
            (
                &["compile"][..],
                "unknown baseline `compile`; there are eager,",
            ),
            (&[], "names nothing"),
            (&["eager", "eager"], "`eager` more than once"),
            (
                &["reduce-overhead", "max-autotune"],
                "add `eager` or `inductor`",
            ),
        ] {
            let mistake = named(names).expect_err("a mistake");
            assert!(mistake.contains(part), "{mistake}");
        }
    }
}
