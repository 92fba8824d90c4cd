//! The stages of either target, and the questions to them that mean the same for both.

use std::path::PathBuf;
use std::sync::Arc;

use flopsmith_compile::{Built, Question};
use flopsmith_module::Environment;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Digest, Failure, InfrastructureCause};
use flopsmith_sandbox::Sandbox;

use crate::{Error, Evaluator, ModuleEvaluator};

/// The reason why no build of a module is explained.
const UNEXPLAINED: &str = "builds of modules are not explained: the remarks, the hot loop and its throughput are those of one function in one \
                           object, and a module is a file of Python with extensions or kernels of its own; `evaluate` says whether it is faster";

/// Everything of a process that the stages of its problems share.
#[derive(Clone)]
pub struct Host {
    /// The C compiler of kernels.
    pub compiler: String,
    /// The jail of kernels.
    pub sandbox: Arc<Sandbox>,
    /// The program in the jail that calls kernels.
    pub harness: PathBuf,
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// True if modules run even where their jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Says what takes long.
    pub progress: fn(&str),
}

/// The stages of one machine for a problem of either target.
#[derive(Clone)]
pub enum Pipeline {
    /// For a kernel.
    Kernel(Box<Evaluator>),
    /// For a module of PyTorch.
    Module(ModuleEvaluator),
}

impl Pipeline {
    /// Finds the tools of a problem on this machine. Nothing of the problem runs.
    ///
    /// # Errors
    /// As [`Evaluator::new`] and [`ModuleEvaluator::open`].
    pub fn open(problem: Arc<Problem>, host: &Host) -> Result<Self, Error> {
        if problem.module.is_some() {
            let (threads, weaker) = (host.threads, host.allow_weaker_jail);
            let evaluator = ModuleEvaluator::open(problem, threads, weaker, host.progress)?;
            return Ok(Self::Module(evaluator));
        }
        let sandbox = Arc::clone(&host.sandbox);
        let evaluator = Evaluator::new(problem, &host.compiler, sandbox, host.harness.clone())?;
        Ok(Self::Kernel(Box::new(evaluator)))
    }

    /// The problem.
    pub fn problem(&self) -> &Arc<Problem> {
        match self {
            Pipeline::Kernel(evaluator) => &evaluator.problem,
            Pipeline::Module(evaluator) => &evaluator.problem,
        }
    }

    /// Digest of the tools that outcomes depend on.
    pub fn fingerprint(&self) -> &Digest {
        match self {
            Pipeline::Kernel(evaluator) => &evaluator.toolchain.fingerprint,
            Pipeline::Module(evaluator) => evaluator.fingerprint(),
        }
    }

    /// Names and versions of the main tools, for people.
    pub fn tools(&self) -> String {
        match self {
            Pipeline::Kernel(evaluator) => evaluator.toolchain.version.clone(),
            Pipeline::Module(evaluator) => evaluator.versions(),
        }
    }

    /// Compiles one program in this language, with the techniques that the stages permit.
    ///
    /// # Errors
    /// The candidate's fault, or an infrastructure failure.
    pub fn compile(&self, language: Language, source: &str) -> Result<Built, Failure> {
        match self {
            Pipeline::Kernel(evaluator) => {
                let (stage, problem) = (&evaluator.compiler, &evaluator.problem);
                stage.compile_as(language, problem, source, evaluator.permitted())
            }
            Pipeline::Module(evaluator) => evaluator.compile(source, evaluator.problem.techniques),
        }
    }

    /// The answer to a question about the build of a program, see [`flopsmith_compile::Compiler::explain`].
    ///
    /// # Errors
    /// As [`Pipeline::compile`]; an infrastructure failure where [`unexplained`] has a reason.
    pub fn explain(
        &self,
        question: Question,
        language: Language,
        source: &str,
    ) -> Result<String, Failure> {
        match self {
            Pipeline::Kernel(evaluator) => {
                let (stage, problem) = (&evaluator.compiler, &evaluator.problem);
                stage.explain(question, language, problem, source)
            }
            Pipeline::Module(_) => Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                UNEXPLAINED,
            )),
        }
    }
}

/// The reason why no question about builds of a problem's programs has an answer; none if they have.
pub fn unexplained(problem: &Problem) -> Option<&'static str> {
    problem.module.as_ref().map(|_| UNEXPLAINED)
}

/// The reason why this machine can evaluate no program of a problem, with what to do about it; none if nothing is known to be
/// missing. Only tools that a service does not check at its start are looked for: those of modules, which takes seconds until
/// they were found once.
pub fn missing(problem: &Problem) -> Option<String> {
    problem.module.as_ref()?;
    Environment::find().err().map(|error| error.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn only_builds_of_kernels_are_explained_and_only_modules_may_lack_tools() {
        let kernel = Problem::load_any(&shipped::at("dgemm")).unwrap();
        let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
        assert_eq!(unexplained(&kernel), None);
        assert!(unexplained(&module).unwrap().contains("not explained"));
        assert_eq!(missing(&kernel), None);
        // Whether PyTorch is missing depends on the machine, the words do not.
        if let Some(why) = missing(&module) {
            assert!(
                why.contains("PyTorch") && why.contains("FLOPSMITH_PYTHON"),
                "{why}"
            );
        }
    }
}
