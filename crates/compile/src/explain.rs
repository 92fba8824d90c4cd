//! Explains the build of a program: the compiler's remarks, the hot loop in assembly, and a static analysis of that loop.
//!
//! Programs are untrusted, and these texts repeat parts of them. Each tool runs in the jail of the build, on a source that passed
//! the checks before a build, and each text is cut and has no characters that control a terminal.

use std::collections::BTreeSet;
use std::path::PathBuf;

use flopsmith_inspect::assembly::{InnermostLoop, hot_loop};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, harmless};
use flopsmith_sandbox::Exit;

use super::folder::{Folder, PRELUDE, source_name};
use super::{Compiler, Unit, build_arguments, diagnose, flags, succeeded, text};
use crate::toolchain::find;

/// Most bytes of an explanation.
const KEPT: usize = 8 << 10;
/// Most lines of a loop that is analysed.
const LONGEST_LOOP: usize = 2000;

/// File names inside the jail.
const REMARKS: &str = "remarks.txt";
const ASSEMBLY: &str = "kernel.s";
const LOOP: &str = "loop.s";

/// The models of processors that `llvm-mca` is asked for in turn: an older one has no model of a newer machine's vectors.
const MODELS: [&str; 2] = ["native", "skylake-avx512"];

/// A question about the build of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The loops that the compiler vectorised, and the reasons why it did not vectorise others.
    Remarks,
    /// The assembly of the hot loop.
    Assembly,
    /// The throughput of the hot loop by `llvm-mca`.
    Throughput,
}

impl Question {
    /// All questions.
    pub const ALL: [Self; 3] = [Self::Remarks, Self::Assembly, Self::Throughput];

    /// A sentence on the tool that this machine lacks for an answer; none if it has all.
    pub fn lacks(self) -> Option<&'static str> {
        (self == Self::Throughput && analyser().is_none()).then_some(NO_ANALYSER)
    }
}

impl Compiler {
    /// The answer to a question about a program in this language, in at most 8 KiB and a few bytes. The text repeats parts of the
    /// program.
    ///
    /// # Errors
    /// As [`Compiler::compile_as`], up to the compiler's own verdict.
    pub fn explain(
        &self,
        question: Question,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<String, Failure> {
        let unit = self.unit(language, problem, source)?;
        let scanned = text::first_look(&unit)?;
        let folder = self.folder(&unit)?;
        // A source that these checks refuse may not reach the compiler: it could read files, or write assembly of its own.
        self.techniques_of(&unit, scanned, Some(&folder))?;
        let text = match question {
            Question::Remarks => self.remarks(&unit, &folder)?,
            Question::Assembly => match self.hot_loop(&unit, &folder)? {
                Some(hot) => format!("{}{}", heading(&hot), hot.text),
                None => NO_LOOP.to_owned(),
            },
            Question::Throughput => self.throughput(&unit, &folder)?,
        };
        Ok(harmless(&text, KEPT))
    }

    fn remarks(&self, unit: &Unit, folder: &Folder) -> Result<String, Failure> {
        let mut arguments = build_arguments(unit);
        let is_clang = unit.driver.version.contains("clang");
        let more: &[&str] = match is_clang {
            true => &[
                "-Rpass=(loop|slp)-vectorize",
                "-Rpass-missed=(loop|slp)-vectorize",
                "-Rpass-analysis=loop-vectorize",
                "-fno-caret-diagnostics",
            ],
            // To a file, because messages are bounded and gcc's remarks may be many.
            false => &["-fopt-info-vec-optimized-missed=remarks.txt"],
        };
        arguments.extend(more.iter().map(|flag| (*flag).to_owned()));
        let ended = self.run(&unit.driver, folder, &arguments)?;
        let allowed = self.allowed(folder);
        // The part of the remarks that came is more than an explanation keeps.
        if !(is_clang && ended.exit == Exit::OutputLimit) {
            diagnose::judge(&ended, unit.problem, unit.language, &allowed)?;
        }
        let said = match is_clang {
            true => ended.stderr,
            false => folder.read(REMARKS)?,
        };
        let said = String::from_utf8_lossy(&said);
        let file = source_name(unit.language);
        let mut seen = BTreeSet::new();
        let of_program = said.lines().filter(|line| {
            let place = line.strip_prefix("./").unwrap_or(line);
            let rest = place.strip_prefix(file);
            rest.is_some_and(|rest| rest.starts_with(':')) && seen.insert(*line)
        });
        let lines: Vec<&str> = of_program.collect();
        Ok(match lines.is_empty() {
            true => "The compiler makes no remark about vectors in the lines of this program."
                .to_owned(),
            false => lines.join("\n"),
        })
    }

    fn hot_loop(&self, unit: &Unit, folder: &Folder) -> Result<Option<InnermostLoop>, Failure> {
        let mut arguments = flags(unit);
        let mut add = |more: &[&str]| arguments.extend(more.iter().map(|a| (*a).to_owned()));
        if !unit.language.is_fortran() {
            add(&["-include", PRELUDE]);
        }
        add(&["-S", "-o", ASSEMBLY, source_name(unit.language)]);
        let ended = self.run(&unit.driver, folder, &arguments)?;
        let allowed = self.allowed(folder);
        diagnose::judge(&ended, unit.problem, unit.language, &allowed)?;
        let assembly = folder.read(ASSEMBLY)?;
        Ok(hot_loop(&String::from_utf8_lossy(&assembly)))
    }

    fn throughput(&self, unit: &Unit, folder: &Folder) -> Result<String, Failure> {
        let Some(analyser) = analyser() else {
            return Ok(NO_ANALYSER.to_owned());
        };
        let Some(hot) = self.hot_loop(unit, folder)? else {
            return Ok(NO_LOOP.to_owned());
        };
        if hot.lines > LONGEST_LOOP {
            return Ok(format!(
                "The hot loop has {} lines, and loops of more than {LONGEST_LOOP} are not analysed.",
                hot.lines
            ));
        }
        folder.write(LOOP, format!("{}\n", hot.text))?;
        let mut refusal = String::new();
        for model in MODELS {
            let cpu = format!("-mcpu={model}");
            let views = [
                "-all-views=false",
                "-summary-view",
                "-bottleneck-analysis",
                "-instruction-info",
            ];
            let arguments = std::iter::once(cpu.as_str()).chain(views).chain([LOOP]);
            let arguments: Vec<String> = arguments.map(str::to_owned).collect();
            let ended = self.run_tool(&analyser, folder, &arguments)?;
            let said = String::from_utf8_lossy(&ended.stdout);
            if succeeded(&ended) && !said.trim().is_empty() {
                let of = match model {
                    "native" => "",
                    _ => " of another processor, because llvm-mca does not know this one's vectors",
                };
                return Ok(format!(
                    "{}llvm-mca's model `{model}`{of}, with all data in the first cache:\n{}",
                    heading(&hot),
                    said.trim()
                ));
            }
            refusal = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        }
        Ok(format!("llvm-mca does not analyse the hot loop: {refusal}"))
    }
}

/// The answer where `llvm-mca` is missing.
const NO_ANALYSER: &str = "There is no llvm-mca on this machine (Debian, Ubuntu: `apt install llvm`), so throughput is not analysed.";

/// The answer about a program without a loop.
const NO_LOOP: &str = "The assembly of this program has no loop.";

fn heading(hot: &InnermostLoop) -> String {
    format!(
        "The innermost loop with the most arithmetic ({} lines, nested {} deep):\n",
        hot.lines,
        hot.depth + 1
    )
}

/// The newest analyser on the PATH; packages name it with a number or without.
fn analyser() -> Option<PathBuf> {
    let numbered = (14..=30).rev().map(|number| format!("llvm-mca-{number}"));
    numbered
        .chain(["llvm-mca".to_owned()])
        .find_map(|name| find(&name))
}
