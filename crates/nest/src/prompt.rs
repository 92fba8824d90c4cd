//! Prompts for problems, of every style, and the loop nest that one of them states.
//!
//! The nest is stated as generated programs spell it ([`crate::spelling`]), so a model that answers copies subscripts and
//! bounds instead of translating them:
//!
//! ```text
//! // nest: unroll simd
//! void dgemm(int n,const double*A,const double*B,double*C)
//! i=0;i<=n-1;j=0;j<=n-1;:C[i*n+j]=0;
//! i j|k=0;k<=n-1;:C[i*n+j]+=A[i*n+k]*B[k*n+j];
//! ```
//!
//! The first line permits techniques, the second is the function. Each scratch array has a line with its declaration. Then each
//! statement has a line: its loops, the outermost first, a colon, and the assignment. A loop with a start begins anew; a
//! loop without one is that of the line before, and a narrower range follows as `i>=1;i<=n-2;`. A bar stands before each
//! loop that updates one element again and again, in any order.
//!
//! A program to build on follows a prompt for a small model in the form of [`prompt::improve`], which prompts of other
//! trainings have as well: a line `// slow:`, the program, and a line `// fast:`.

use flopsmith_problem::{Problem, prompt};
use flopsmith_protocol::{EliteHint, ProblemId, TechniqueSet};

use crate::generate::{Code, Error, is_used, poly};
use crate::program::{Access, Origin, Program, Statement};
use crate::read;
use crate::spelling::tight;

pub use flopsmith_problem::prompt::Style;

/// Why the nest of a problem cannot be stated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the reference of {problem} is no affine loop nest that a prompt can state: {why}; leave the problem out, or ask in another style (`full`)"
)]
pub struct Unstated {
    /// The problem.
    pub problem: ProblemId,
    /// The construct and its line.
    pub why: String,
}

/// The prompt for a problem with some techniques permitted, perhaps with a program to build on. Without one, a prompt is the
/// same whatever models have read. In the style of nests the program has no blank that C does not need, as programs have
/// that such a model reads.
///
/// # Errors
/// In the style of nests, a reference that is no affine loop nest.
pub fn render(
    problem: &Problem,
    permitted: TechniqueSet,
    elite: Option<&EliteHint>,
    style: Style,
) -> Result<String, Unstated> {
    match style {
        Style::Compact => {
            let asked = prompt::one_line(problem, permitted);
            Ok(match elite {
                Some(elite) => prompt::improve(&asked, &elite.source, None),
                None => asked,
            })
        }
        Style::Full => Ok(prompt::full(problem, permitted, elite)),
        Style::Nest => {
            let program = program_of(problem)?;
            let stated = stated(&program).map_err(|e| Unstated::of(problem, &e))?;
            let asked = about(&stated, permitted);
            Ok(match elite {
                Some(elite) => prompt::improve(&asked, &tight(&elite.source), None),
                None => asked,
            })
        }
    }
}

/// The nest of a problem.
///
/// # Errors
/// A reference that is no affine loop nest.
pub fn program_of(problem: &Problem) -> Result<Program, Unstated> {
    read::read(problem).map_err(|e| Unstated::of(problem, &e))
}

impl Unstated {
    fn of(problem: &Problem, why: &impl std::error::Error) -> Self {
        Self {
            problem: problem.id.clone(),
            why: why.to_string(),
        }
    }
}

/// The prompt for a nest that [`stated`] gave.
pub fn about(stated: &str, permitted: TechniqueSet) -> String {
    prompt::compact("nest", permitted) + stated
}

/// The nest of a program, as prompts state it.
///
/// # Errors
/// A loop without an end, or bounds that are too complicated.
pub fn stated(program: &Program) -> Result<String, Error> {
    let mut code = Code::new(program);
    let mut text = format!("{}\n", program.prototype);
    for (number, array) in program.arrays.iter().enumerate() {
        if array.origin == Origin::Scratch && is_used(program, number) {
            text += &declaration(&code, program, number);
        }
    }
    // The statement of the line before, and the ranges of its loops.
    let mut before: Option<(&Statement, Vec<String>)> = None;
    for statement in &program.statements {
        let shared = before.as_ref().map_or(0, |b| statement.common(b.0));
        let domain = program.domain(statement);
        let mut inside = program.context.clone();
        let mut ranges: Vec<String> = Vec::new();
        for (n, var) in statement.iterators.iter().enumerate() {
            let inner = statement.iterators[n + 1..].iter().copied();
            let needed = domain.projected(inner).ok_or(Error::Bounds)?;
            let needed = needed.irredundant(&inside);
            inside.and(&needed);
            let range = needed.range(*var);
            let (low, high) = (code.low(program, &range)?, code.high(program, &range)?);
            let name = program.name(*var);
            let moves = |access: &Access| access.subscripts.iter().any(|s| s.of(*var) != 0);
            if statement.kind().is_some() && !moves(&statement.target) {
                text.push('|');
            }
            let range = format!("{low}; {name} <= {high};");
            let known = before.as_ref().filter(|_| n < shared);
            text += &match known.map(|b| b.1[n] == range) {
                None => format!("{name} = {range} "),
                Some(true) => format!("{name} "),
                Some(false) => format!("{name} >= {range} "),
            };
            ranges.push(range);
        }
        text += &format!(": {}\n", code.assignment(program, statement));
        before = Some((statement, ranges));
    }
    Ok(tight(&text))
}

/// The declaration of a scratch array or number.
fn declaration(code: &Code, program: &Program, number: usize) -> String {
    let array = &program.arrays[number];
    let whole = Access {
        array: number,
        subscripts: Vec::new(),
    };
    let name = code.access(program, &whole);
    let count = array.count().filter(|_| !array.extents.is_empty());
    let size = count.map(|count| format!("[{}]", poly(program, &count)));
    format!("{} {name}{};\n", array.c_type, size.unwrap_or_default())
}

#[cfg(test)]
mod tests;
