//! The stages of either target, and the questions to them that mean the same for both.

use std::path::PathBuf;
use std::sync::Arc;

use flopsmith_compile::Built;
use flopsmith_module::Environment;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Digest, Failure, InfrastructureCause, Question};
use flopsmith_sandbox::Sandbox;

use crate::question::of_build;
use crate::{Error, Evaluator, ModuleEvaluator};

/// The reason why no build of a module is explained, and the question that fits.
const UNEXPLAINED: &str = "builds of modules are not explained: remarks, the hot loop, its throughput and hardware counters are those of one \
                           function in one object, and a module is a file of Python with extensions or kernels of its own; ask for its \
                           profile (`profile`, in conversations of a search `PROFILE`)";
/// The reason why no kernel is profiled, and the questions that fit.
const UNPROFILED: &str = "kernels have no profile: it is by operators of PyTorch, and a kernel is one function; ask for the remarks, the \
                          assembly or the throughput of its build, and in conversations of a search for its `COUNTERS`";

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

    /// The answer to a question about a program, see [`flopsmith_compile::Compiler::explain`], [`Evaluator::count`] and
    /// [`ModuleEvaluator::profile`]. `threads` are those of calls. A caller that asks for counters has verified the program.
    ///
    /// # Errors
    /// As [`Pipeline::compile`], and those of calls; an infrastructure failure where [`unexplained`] has a reason.
    pub fn explain(
        &self,
        question: Question,
        language: Language,
        source: &str,
        threads: u32,
    ) -> Result<String, Failure> {
        if let Some(why) = unexplained(self.problem(), question) {
            return Err(Failure::infrastructure(InfrastructureCause::Compiler, why));
        }
        match self {
            Pipeline::Kernel(evaluator) => match of_build(question) {
                Some(asked) => {
                    let (stage, problem) = (&evaluator.compiler, &evaluator.problem);
                    stage.explain(asked, language, problem, source)
                }
                None => evaluator.count(language, source, threads),
            },
            Pipeline::Module(evaluator) => evaluator.profile(source),
        }
    }
}

/// The reason why a question about a problem's programs has no answer, with the questions that have one; none if it has.
pub fn unexplained(problem: &Problem, question: Question) -> Option<&'static str> {
    match (&problem.module, question) {
        (None, Question::Profile) => Some(UNPROFILED),
        (None, _) | (Some(_), Question::Profile) => None,
        (Some(_), _) => Some(UNEXPLAINED),
    }
}

/// The reason why this machine can evaluate no program of a problem, with what to do about it; none if nothing is known to be
/// missing. Only tools that a service does not check at its start are looked for: those of modules, which takes seconds until
/// they were found once.
pub fn missing(problem: &Problem) -> Option<String> {
    problem.module.as_ref()?;
    without_pytorch()
}

/// The reason why this machine can evaluate no module, with what to do about it; none if it has Python with PyTorch.
pub fn without_pytorch() -> Option<String> {
    Environment::find().err().map(|error| error.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn kernels_are_explained_and_modules_profiled_and_only_these_may_lack_tools() {
        let kernel = Problem::load_any(&shipped::at("dgemm")).unwrap();
        let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
        for question in Question::ALL {
            let (of_kernel, of_module) = match question {
                Question::Profile => (Some(UNPROFILED), None),
                _ => (None, Some(UNEXPLAINED)),
            };
            assert_eq!(unexplained(&kernel, question), of_kernel, "{question:?}");
            assert_eq!(unexplained(&module, question), of_module, "{question:?}");
        }
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
