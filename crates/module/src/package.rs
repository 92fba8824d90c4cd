//! Candidates that were checked and compiled, in one piece that can be stored and sent to another node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use flopsmith_protocol::{CandidateFault, TechniqueSet};
use flopsmith_sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::check::{self, Extension, Permitted, Triton};
use crate::compile::{Built, Compiler};
use crate::cuda::{self, Toolkit};
use crate::environment::Environment;
use crate::error::Error;
use crate::evaluate::Options;
use crate::gpu::{Architecture, CompiledKernel};
use crate::outcome::{Failure, Outcome, Verdict};
use crate::problem::Problem;

/// A candidate that was accepted and compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// Its techniques.
    pub techniques: TechniqueSet,
    pub(crate) source: String,
    pub(crate) extensions: Vec<Built>,
    pub(crate) triton: Option<Triton>,
    /// True for CUDA C++. It was compiled, and no object of it is here, because no stage could run one.
    pub(crate) in_cuda: bool,
    /// The kernels in CUDA C++. Their figures and the time stay where they were compiled.
    #[serde(skip)]
    pub(crate) kernels: Vec<CompiledKernel>,
    /// Seconds that its extensions took to compile.
    #[serde(skip)]
    pub(crate) compile_seconds: f64,
}

impl Package {
    /// True if only a GPU can time it: it has kernels of Triton or of CUDA C++.
    pub fn needs_gpu(&self) -> bool {
        self.triton.is_some() || self.in_cuda
    }

    /// The package as bytes.
    ///
    /// # Errors
    /// [`Error::Package`], which no candidate can cause.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        rmp_serde::to_vec_named(self).map_err(|e| Error::Package {
            detail: e.to_string(),
        })
    }

    /// A package that was written by [`Package::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Package`] if the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        rmp_serde::from_slice(bytes).map_err(|e| Error::Package {
            detail: e.to_string(),
        })
    }
}

/// Checks and compiles candidates for one problem. Several threads may share one.
pub struct Builder {
    environment: Environment,
    source_may: Permitted,
    architectures: Vec<Architecture>,
    compiler: Mutex<Option<Arc<Compiler>>>,
    progress: fn(&str),
    scripts: TempDir,
    // Dropped last: it removes the folder of the jails.
    sandbox: Sandbox,
}

impl Builder {
    /// A builder; the compiler is not used yet.
    ///
    /// # Errors
    /// [`Error::Python`] without an interpreter that has PyTorch, [`Error::Jail`] without a jail.
    pub fn new(problem: &Problem, options: &Options) -> Result<Self, Error> {
        let environment = Environment::find()?;
        let sandbox = Sandbox::new(flopsmith_sandbox::Options {
            allow_weaker: options.allow_weaker_jail,
            ..Default::default()
        })?;
        let scripts = tempfile::Builder::new()
            .prefix("check-")
            .tempdir_in(sandbox.scratch())
            .map_err(Error::system("make a folder for the check"))?;
        check::write_scripts(scripts.path(), &problem.reference())?;
        Ok(Self {
            environment,
            source_may: Permitted::by(problem),
            architectures: options.architectures.clone(),
            compiler: Mutex::new(None),
            progress: options.progress,
            scripts,
            sandbox,
        })
    }

    /// The Python environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Checks a source without executing any of it, and compiles its extensions. Kernels of Triton are compiled when they
    /// were verified, since their launches decide how.
    ///
    /// # Errors
    /// If the compiler, the jail, Python, a package of it or nvcc is missing. `Ok(Err(_))` is the outcome of a candidate that
    /// is refused, also because it uses a technique that is not permitted.
    pub fn build(
        &self,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Result<Package, Outcome>, Error> {
        let built = self.build_with(source, permitted)?;
        if built.is_err() {
            // It may have been refused for the lack of a package.
            self.environment.still_there()?;
        }
        Ok(built)
    }

    fn build_with(
        &self,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Result<Package, Outcome>, Error> {
        let scripts = self.scripts.path();
        let may = self.source_may;
        let checked = check::check(&self.sandbox, &self.environment, scripts, source, may)?;
        if let Some(refusal) = checked.refusals.first() {
            return Ok(Err(Outcome {
                verdict: Verdict::Refused(refusal.clone().into()),
                ..Outcome::unevaluated()
            }));
        }
        let mut package = Package {
            techniques: checked.techniques(),
            source: source.to_owned(),
            extensions: Vec::new(),
            in_cuda: checked.has_cuda(),
            triton: checked.triton,
            kernels: Vec::new(),
            compile_seconds: 0.0,
        };
        let forbidden = package.techniques.difference(permitted);
        let compiled = match forbidden.is_empty() {
            true => self.compile(&mut package, &checked.extensions)?,
            false => Err(Failure::new(
                CandidateFault::ForbiddenTechnique,
                format!(
                    "it uses {}, which the task does not permit",
                    forbidden.words()
                ),
            )),
        };
        Ok(match compiled {
            Ok(()) => Ok(package),
            Err(failure) => Err(Outcome {
                verdict: Verdict::Refused(failure),
                ..package.unjudged()
            }),
        })
    }

    /// Compiles the extensions of a package. Of CUDA C++ no object is kept.
    fn compile(
        &self,
        package: &mut Package,
        extensions: &[Extension],
    ) -> Result<Result<(), Failure>, Error> {
        if package.triton.is_some() {
            return self.environment.needs_triton().map(Ok);
        }
        if !package.in_cuda {
            let (built, seconds) = self.compiler()?.build(&self.sandbox, extensions)?;
            package.compile_seconds = seconds;
            return Ok(built.map(|built| package.extensions = built));
        }
        let toolkit = Toolkit::find(&self.environment)?;
        let compiler = self.compiler()?;
        (self.progress)("compiling CUDA C++ (a minute or two)");
        let began = Instant::now();
        let architectures = &self.architectures;
        let built = cuda::compile(
            &self.sandbox,
            &compiler,
            &toolkit,
            extensions,
            architectures,
        )?;
        package.compile_seconds = began.elapsed().as_secs_f64();
        Ok(built.map(|kernels| package.kernels = kernels))
    }

    /// The compiler, which is made when it is first needed.
    fn compiler(&self) -> Result<Arc<Compiler>, Error> {
        let mut made = self.compiler.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiler) = &*made {
            return Ok(Arc::clone(compiler));
        }
        (self.progress)("preparing PyTorch's headers (a minute or two, once for each machine)");
        let compiler = Arc::new(Compiler::new(&self.sandbox, &self.environment)?);
        *made = Some(Arc::clone(&compiler));
        Ok(compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_read_as_it_was_written() {
        let package = Package {
            techniques: "simd+fusion".parse().expect("a set"),
            source: "class ModelNew: pass".into(),
            extensions: vec![Built {
                name: "rows".into(),
                functions: vec!["one".into(), "two".into()],
                object: (0..=255).collect(),
            }],
            triton: None,
            in_cuda: false,
            kernels: Vec::new(),
            compile_seconds: 0.0,
        };
        let bytes = package.to_bytes().expect("bytes");
        assert_eq!(Package::from_bytes(&bytes).expect("a package"), package);
        assert!(!package.needs_gpu());
        let in_cuda = Package {
            in_cuda: true,
            ..package
        };
        assert!(in_cuda.needs_gpu());
        let cut = Package::from_bytes(&bytes[..bytes.len() - 1]);
        assert!(matches!(cut, Err(Error::Package { .. })));
    }
}
