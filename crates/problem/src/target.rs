//! Questions that the rest of the program may ask of a problem without knowing its target: with which program its programs are
//! compared, in which languages they are, and whether its definition counts work.

use std::fmt;
use std::path::PathBuf;

use flopsmith_protocol::{Technique, TechniqueSet};
use serde::{Deserialize, Serialize};

use crate::module::BOTH;
use crate::{Language, Module, Problem};

/// The shipped solution of a module, if it has one in C++: that can be timed on the CPU.
const SOLUTION: &str = "solution_cpp.py";

/// Kinds of candidates, for lists that people and programs read. Code that evaluates never branches on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A function in C, C++ or Fortran on arrays and scalars.
    Kernel,
    /// A module of PyTorch in a file of Python.
    Module,
}

impl Target {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Module => "module",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Problem {
    /// The kind of its candidates.
    pub fn target(&self) -> Target {
        match self.module {
            None => Target::Kernel,
            Some(_) => Target::Module,
        }
    }

    /// The techniques that are detected in programs of its kind, whatever its definition lists.
    pub fn detectable(&self) -> TechniqueSet {
        if self.module.is_some() {
            return TechniqueSet::of_modules();
        }
        let all = Technique::ALL.into_iter();
        all.filter(|technique| !technique.is_of_modules_only())
            .collect()
    }

    /// The languages that its programs may be in. That of programs that name none is [`Problem::language`].
    pub fn languages(&self) -> &'static [Language] {
        match self.module {
            None => &Language::ALL,
            Some(_) => &[Language::Python],
        }
    }

    /// The language of its reference. References of kernels are in C, whatever the language of the answers.
    pub fn reference_language(&self) -> Language {
        match self.module {
            None => Language::C,
            Some(_) => Language::Python,
        }
    }

    /// True if its definition states the operations and bytes of a call, from which the roofline model tells how fast
    /// programs can be.
    pub fn states_work(&self) -> bool {
        self.module.is_none()
    }

    /// True if the run's compiler builds its programs, whole and before any of them runs. A module of PyTorch builds its extensions itself.
    pub fn takes_the_compiler(&self) -> bool {
        self.module.is_none()
    }

    /// True if machines evaluate its programs with PyTorch, which few machines of a cluster need to have.
    pub fn needs_pytorch(&self) -> bool {
        !self.takes_the_compiler()
    }

    /// A shipped program to begin a search with that has no space of programs; none if the folder has none. Kernels have a
    /// space.
    pub fn shipped_program(&self) -> Option<PathBuf> {
        self.module.as_ref()?;
        let file = self.dir.join(SOLUTION);
        file.is_file().then_some(file)
    }

    /// The program whose time a ratio divides by that of the candidate, in words that follow "as fast as".
    pub fn compared_with(&self) -> &'static str {
        match self.module.as_ref().map(Module::baselines) {
            None => "the plain reference",
            Some(BOTH) => "the faster of eager PyTorch and TorchInductor",
            Some(one) => one,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn a_problem_says_what_its_programs_are_and_what_they_are_compared_with() {
        let kernel = Problem::load_any(&shipped::at("softmax")).unwrap();
        let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
        assert_eq!(
            (kernel.target(), module.target()),
            (Target::Kernel, Target::Module)
        );
        for problem in [&kernel, &module] {
            assert!(problem.languages().contains(&problem.language));
        }
        assert_eq!(module.languages(), [Language::Python]);
        assert!(!kernel.languages().contains(&Language::Python));
        assert_eq!(kernel.reference_language(), Language::C);
        assert_eq!(module.reference_language(), Language::Python);
        assert!(kernel.states_work() && !module.states_work());
        assert!(module.needs_pytorch() && !kernel.needs_pytorch());
        assert_ne!(kernel.compared_with(), module.compared_with());
        assert!(
            module
                .shipped_program()
                .is_some_and(|file| file.ends_with(SOLUTION))
        );
        assert_eq!(kernel.shipped_program(), None);
    }
}
