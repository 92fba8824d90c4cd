//! Candidates that were checked and compiled, in one piece that can be stored and sent to another node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use flopsmith_protocol::TechniqueSet;
use flopsmith_sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::check::{self, Checked, Extension, Triton};
use crate::compile::{Built, Compiler};
use crate::cuda::{self, Toolkit};
use crate::environment::Environment;
use crate::error::Error;
use crate::gpu::Architecture;
use crate::outcome::Failure;
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
    permit_torch: bool,
    compiler: Mutex<Option<Arc<Compiler>>>,
    progress: fn(&str),
    scripts: TempDir,
    // Dropped last: it removes the folder of the jails.
    sandbox: Sandbox,
}

impl Builder {
    /// A builder; the compiler is not used yet. `progress` says what happens now.
    ///
    /// # Errors
    /// [`Error::Python`] without an interpreter that has PyTorch, [`Error::Jail`] without a jail.
    pub fn new(
        problem: &Problem,
        allow_weaker_jail: bool,
        progress: fn(&str),
    ) -> Result<Self, Error> {
        let environment = Environment::find()?;
        let sandbox = Sandbox::new(flopsmith_sandbox::Options {
            allow_weaker: allow_weaker_jail,
            ..Default::default()
        })?;
        let scripts = tempfile::Builder::new()
            .prefix("check-")
            .tempdir_in(sandbox.scratch())
            .map_err(Error::system("make a folder for the check"))?;
        check::write_scripts(scripts.path(), &problem.reference())?;
        Ok(Self {
            environment,
            permit_torch: problem.permit_torch,
            compiler: Mutex::new(None),
            progress,
            scripts,
            sandbox,
        })
    }

    /// The Python environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Checks a source without executing any of it.
    ///
    /// # Errors
    /// If the jail fails. `Ok(Err(_))` is the candidate's fault.
    pub fn check(&self, source: &str) -> Result<Result<Checked, Failure>, Error> {
        let scripts = self.scripts.path();
        let permit = self.permit_torch;
        let checked = check::check(&self.sandbox, &self.environment, scripts, source, permit)?;
        Ok(match checked.refusals.first() {
            Some(refusal) => Err(refusal.clone().into()),
            None => Ok(checked),
        })
    }

    /// Compiles a source that was accepted, and returns the seconds that its extensions took. Kernels of Triton are compiled
    /// when they were verified, since their launches decide how. CUDA C++ is compiled for [`Architecture::DEFAULT`].
    ///
    /// # Errors
    /// If the compiler, the jail, Triton or nvcc is missing. `Ok((Err(_), _))` is the candidate's fault.
    pub fn compile(
        &self,
        source: &str,
        checked: Checked,
    ) -> Result<(Result<Package, Failure>, f64), Error> {
        let techniques = checked.techniques();
        let in_cuda = checked.has_cuda();
        let (extensions, seconds) = match &checked.triton {
            Some(_) => {
                self.environment.needs_triton()?;
                (Ok(Vec::new()), 0.0)
            }
            None if in_cuda => self.compile_cuda(&checked.extensions)?,
            None => self.compiler()?.build(&self.sandbox, &checked.extensions)?,
        };
        let package = extensions.map(|extensions| Package {
            techniques,
            source: source.to_owned(),
            extensions,
            triton: checked.triton,
            in_cuda,
        });
        Ok((package, seconds))
    }

    /// Compiles CUDA C++ and keeps no object of it.
    fn compile_cuda(
        &self,
        extensions: &[Extension],
    ) -> Result<(Result<Vec<Built>, Failure>, f64), Error> {
        let toolkit = Toolkit::find(&self.environment)?;
        let compiler = self.compiler()?;
        let began = Instant::now();
        let compiled = cuda::compile(
            &self.sandbox,
            &compiler,
            &toolkit,
            extensions,
            &Architecture::DEFAULT,
        )?;
        let seconds = began.elapsed().as_secs_f64();
        Ok((compiled.map(|_| Vec::new()), seconds))
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
