//! The trusted processes of a problem: the eager module, which also makes inputs and expected results, and TorchInductor.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::arena::Arena;
use crate::compile::cache;
use crate::environment::Environment;
use crate::error::Error;
use crate::line::{Lines, PATIENT};
use crate::problem::{Problem, Workload};

pub(crate) const SCRIPT: &str = include_str!("../python/reference.py");

/// Longest time for compiling a module by TorchInductor.
const COMPILING: Duration = Duration::from_secs(600);

/// A tensor in shared memory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Place {
    /// Bytes from the begin of the memory.
    pub offset: u64,
    /// The shape.
    pub shape: Vec<u64>,
    /// The data type, such as `float32`.
    pub dtype: String,
}

impl Place {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        let of_element = match self.dtype.as_str() {
            "float64" | "int64" => 8,
            "float32" | "int32" => 4,
            "float16" | "bfloat16" | "int16" => 2,
            _ => 1,
        };
        of_element * self.elements()
    }
}

/// A gradient in shared memory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Gradient {
    /// The input or the parameter.
    pub name: String,
    /// Where the candidate's process puts it.
    #[serde(flatten)]
    pub place: Place,
}

/// The form of inputs that `get_inputs` gives: dense tensors, each its own.
pub(crate) const DENSE: &str = "dense";
/// The form in which one tensor stands for several inputs.
pub(crate) const ALIASED: &str = "aliased";

/// Where the tensors of a workload lie.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Layout {
    pub outputs: Vec<Place>,
    pub expected: Vec<Place>,
    /// The gradients that the problem asks for.
    #[serde(default)]
    pub gradients: Vec<Gradient>,
    /// Their expected values; only the eager process has these.
    #[serde(default)]
    pub expected_gradients: Vec<Place>,
    /// The forms besides [`DENSE`] in which inputs may lie in memory.
    #[serde(default)]
    pub forms: Vec<String>,
    /// Where the parameters begin; the inputs end before.
    pub parameters_at: u64,
    /// Where the upstream gradients begin, and after them the room for inputs of other forms; the parameters end before.
    pub upstream_at: u64,
    /// Where the outputs begin, and the gradients after them.
    pub outputs_at: u64,
    /// Where the expected results begin; only the eager process has these.
    pub expected_at: u64,
    /// Bytes in all.
    pub bytes: u64,
}

impl Layout {
    /// The bytes that each call must write: all results.
    pub fn written_bytes(&self) -> u64 {
        self.outputs.iter().map(Place::bytes).sum()
    }

    /// The length of all results in memory, without the gradients behind them.
    pub fn results_length(&self) -> usize {
        let gradients = self.gradients.first();
        let end = gradients.map_or(self.expected_at, |gradient| gradient.place.offset);
        end.saturating_sub(self.outputs_at) as usize
    }
}

/// A workload as its process describes it.
pub(crate) struct Loaded {
    /// Where its tensors lie.
    pub layout: Layout,
    /// The same as the worker of candidates reads it.
    pub places: Value,
    /// True if the module returns one tensor instead of a tuple.
    pub single: Value,
    /// The arguments of `Model`.
    pub init: Value,
}

/// The expected results or gradients of the present inputs, besides the values in memory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Expected {
    /// Largest error of the eager module, by output or gradient.
    pub eager_error: Vec<f64>,
    /// Root mean square of the values, by output or gradient.
    pub scale: Vec<f64>,
    /// True if all values are finite.
    pub finite: bool,
    /// True if the eager module gives an infinity or a NaN in place of a finite value: its data type is too small.
    pub overflows: bool,
}

/// A trusted process. Dropping it ends it.
pub(crate) struct Reference {
    child: Child,
    lines: Lines,
    /// The shared memory.
    pub arena: Arena,
    stderr: File,
}

impl Reference {
    /// Starts a process on these cores. [`Reference::wait`] waits until it has imported PyTorch.
    pub fn start(environment: &Environment, script: &Path, cores: &[usize]) -> Result<Self, Error> {
        let arena = Arena::new()?;
        let threads = cores.len().max(1).to_string();
        let settings = json!({
            "paths": environment.paths(),
            "threads": cores.len().max(1),
            "cores": cores,
            "arena": format!("/proc/{}/fd/{}", std::process::id(), arena.fd()),
        });
        let inductor = cache().join("inductor");
        std::fs::create_dir_all(&inductor)
            .map_err(Error::system("make the cache of TorchInductor"))?;
        let failed = Error::system("start Python");
        let stderr = tempfile::tempfile().map_err(&failed)?;
        let shown = stderr.try_clone().map_err(&failed)?;
        let mut command = Command::new(&environment.executable);
        command
            .args(["-I", "-S", "-B"])
            .arg(script)
            .arg(settings.to_string())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("OMP_NUM_THREADS", threads)
            // As in the process of the candidate.
            .env("OMP_WAIT_POLICY", "passive")
            .env("TORCHINDUCTOR_CACHE_DIR", &inductor)
            .env("TORCHINDUCTOR_COMPILE_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(shown);
        for name in ["HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut child = command.spawn().map_err(&failed)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Process {
                process: "the reference",
                detail: "it has no pipes".into(),
            });
        };
        Ok(Reference {
            child,
            lines: Lines::new(OwnedFd::from(to), OwnedFd::from(from)),
            arena,
            stderr,
        })
    }

    /// Waits until the process is ready.
    pub fn wait(&mut self) -> Result<(), Error> {
        let answer = self.reply(PATIENT)?;
        match answer.get("ready") {
            Some(_) => Ok(()),
            None => Err(self.broken("it did not start")),
        }
    }

    /// Loads a workload and maps memory for it.
    pub fn load(&mut self, problem: &Problem, workload: &Workload) -> Result<Loaded, Error> {
        let mut answer = self.ask(json!({
            "do": "load",
            "reference": problem.reference(),
            "constants": workload.constants,
            "dtype": workload.dtype,
            "gradients": problem.gradients,
            "strides": problem.strides,
            "aliasing": problem.aliasing,
            "seed": 0,
        }))?;
        let places = answer["layout"].take();
        let layout = Layout::deserialize(&places).map_err(|e| Error::Process {
            process: "the reference",
            detail: format!("its description cannot be read: {e}"),
        })?;
        self.arena.grow(layout.bytes.max(1 << 12))?;
        self.ask(json!({"do": "map"}))?;
        Ok(Loaded {
            layout,
            places,
            single: answer["single"].take(),
            init: answer["init"].take(),
        })
    }

    /// Makes inputs of a distribution and a form in the shared memory, and the upstream gradients if the problem has any.
    pub fn make_inputs(&mut self, seed: u64, distribution: &str, form: &str) -> Result<(), Error> {
        self.ask(json!({
            "do": "make_inputs",
            "seed": seed,
            "distribution": distribution,
            "form": form,
        }))
        .map(drop)
    }

    /// Makes parameters in the shared memory and uses them.
    pub fn make_parameters(&mut self, seed: u64, noise: bool) -> Result<(), Error> {
        self.ask(json!({"do": "make_parameters", "seed": seed, "noise": noise}))
            .map(drop)
    }

    /// Uses the parameters in the shared memory.
    pub fn set_parameters(&mut self) -> Result<(), Error> {
        self.ask(json!({"do": "set_parameters"})).map(drop)
    }

    /// Computes the expected results of the present inputs in float64, in the shared memory.
    pub fn expect(&mut self) -> Result<Expected, Error> {
        self.figures("expect")
    }

    /// Computes the expected gradients of the present inputs and upstream gradients in float64, in the shared memory.
    pub fn expect_gradients(&mut self) -> Result<Expected, Error> {
        self.figures("expect_gradients")
    }

    fn figures(&mut self, order: &str) -> Result<Expected, Error> {
        let answer = self.ask(json!({"do": order}))?;
        Expected::deserialize(&answer).map_err(|e| Error::Process {
            process: "the reference",
            detail: format!("its figures cannot be read: {e}"),
        })
    }

    /// Figures about the outputs for the present inputs.
    pub fn statistics(&mut self) -> Result<Value, Error> {
        self.ask(json!({"do": "statistics"}))
    }

    /// The useful operations of a call on the present inputs and parameters; see `count` in `reference.py`.
    pub fn operations(&mut self) -> Result<f64, Error> {
        let answer = self.ask(json!({"do": "count"}))?;
        Ok(answer["operations"].as_f64().unwrap_or(1.0).max(1.0))
    }

    /// Compiles the module by TorchInductor in a mode of `torch.compile`; later calls use that.
    pub fn compile(&mut self, mode: &str) -> Result<(), Error> {
        self.lines
            .order(&json!({"do": "compile", "mode": mode}))
            .map_err(|_| self.broken("it ended"))?;
        let answer = self.reply(COMPILING)?;
        self.sound(answer).map(drop)
    }

    /// Calls the module once, and returns the time between the order and the answer.
    pub fn call(&mut self) -> Result<Duration, Error> {
        self.round_trip(b"c\n")
    }

    /// An empty call: the hand-shake alone.
    pub fn empty_call(&mut self) -> Result<Duration, Error> {
        self.round_trip(b"e\n")
    }

    fn round_trip(&mut self, order: &[u8]) -> Result<Duration, Error> {
        let began = Instant::now();
        let sent = self.lines.send(order);
        let line = sent.and_then(|()| self.lines.receive(PATIENT));
        let took = began.elapsed();
        match line.as_deref() {
            Ok(b"d") => Ok(took),
            Ok(other) => {
                let text = String::from_utf8_lossy(other).into_owned();
                Err(self.broken(&text))
            }
            Err(_) => Err(self.broken("it ended in a call")),
        }
    }

    fn ask(&mut self, order: Value) -> Result<Value, Error> {
        let sent = self.lines.order(&order);
        sent.map_err(|_| self.broken("it ended"))?;
        let answer = self.reply(PATIENT)?;
        self.sound(answer)
    }

    fn reply(&mut self, limit: Duration) -> Result<Value, Error> {
        let line = self.lines.receive(limit);
        let line = line.map_err(|s| self.broken(&format!("no answer ({s:?})")))?;
        serde_json::from_slice(&line).map_err(|_| self.broken("its answer cannot be read"))
    }

    /// An answer that reports no error.
    fn sound(&mut self, answer: Value) -> Result<Value, Error> {
        match answer["error"].as_str() {
            None => Ok(answer),
            Some(text) => Err(Error::Problem {
                path: "reference.py".into(),
                detail: text.to_owned(),
            }),
        }
    }

    fn broken(&mut self, how: &str) -> Error {
        use std::io::{Seek, SeekFrom};
        let _may_be_gone = self.child.kill();
        let mut said = String::new();
        let read = self
            .stderr
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.stderr.read_to_string(&mut said));
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(6)..].join("\n");
        let detail = match read {
            Ok(_) => format!("{how}\n{last}"),
            Err(_) => how.to_owned(),
        };
        Error::Process {
            process: "the reference",
            detail: detail.trim_end().to_owned(),
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _may_be_gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_without_gradients_and_forms_has_none() {
        let mut layout = json!({
            "outputs": [{ "offset": 0, "shape": [3], "dtype": "float32" }],
            "expected": [],
            "parameters_at": 0,
            "upstream_at": 0,
            "outputs_at": 0,
            "expected_at": 64,
            "bytes": 64,
        });
        let plain = Layout::deserialize(&layout).expect("a layout");
        assert!(plain.gradients.is_empty() && plain.forms.is_empty());
        assert_eq!(plain.results_length(), 64);
        layout["expected_at"] = json!(128);
        layout["gradients"] =
            json!([{ "name": "x", "input": 0, "offset": 64, "shape": [2, 3], "dtype": "float32" }]);
        layout["forms"] = json!(["sliced", ALIASED]);
        let found = Layout::deserialize(&layout).expect("a layout");
        assert_eq!(found.gradients[0].name, "x");
        assert_eq!(found.gradients[0].place.bytes(), 24);
        assert_eq!(found.forms, ["sliced", ALIASED]);
        // Gradients are no results that a timed call must write.
        assert_eq!((found.written_bytes(), found.results_length()), (12, 64));
    }
}
