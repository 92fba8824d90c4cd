//! The spellings of each program of the templates.

use flopsmith_problem::Language;
use flopsmith_protocol::Technique;

use super::c::{self, Constant, Index, Least, Loops, Split};
use super::fortran::{self, Form, Inner};
use super::{PROBLEMS, Program, kinds};

/// Spellings in C.
const C: [c::Style; 12] = {
    const PLAIN: c::Style = c::Style {
        cxx: false,
        loops: Loops::For,
        index: Index::Flat,
        split: Split::Whole,
        least: Least::Ternary,
        constant: Constant::Define,
        heap: false,
    };
    [
        PLAIN,
        c::Style {
            loops: Loops::While,
            heap: true,
            constant: Constant::Literal,
            ..PLAIN
        },
        c::Style {
            index: Index::Rows,
            least: Least::Macro,
            constant: Constant::Enum,
            ..PLAIN
        },
        c::Style {
            index: Index::Macro,
            least: Least::Macro,
            ..PLAIN
        },
        c::Style {
            index: Index::RowPointer,
            least: Least::Clamp,
            ..PLAIN
        },
        c::Style {
            index: Index::Walk,
            least: Least::Function,
            constant: Constant::Static,
            ..PLAIN
        },
        c::Style {
            split: Split::Function,
            least: Least::Function,
            ..PLAIN
        },
        c::Style {
            split: Split::Nest,
            loops: Loops::Unequal,
            ..PLAIN
        },
        c::Style {
            loops: Loops::Old,
            constant: Constant::Enum,
            heap: true,
            ..PLAIN
        },
        c::Style {
            loops: Loops::DoWhile,
            index: Index::RowPointer,
            ..PLAIN
        },
        c::Style {
            split: Split::Function,
            index: Index::Walk,
            loops: Loops::Old,
            least: Least::Clamp,
            ..PLAIN
        },
        c::Style {
            split: Split::Nest,
            index: Index::Rows,
            loops: Loops::While,
            heap: true,
            ..PLAIN
        },
    ]
};

/// Spellings in C++.
const CXX: [c::Style; 6] = {
    const PLAIN: c::Style = c::Style {
        cxx: true,
        loops: Loops::For,
        index: Index::Flat,
        split: Split::Whole,
        least: Least::Std,
        constant: Constant::Static,
        heap: false,
    };
    [
        PLAIN,
        c::Style {
            split: Split::Lambda,
            ..PLAIN
        },
        c::Style {
            split: Split::Template,
            ..PLAIN
        },
        c::Style {
            index: Index::RowPointer,
            heap: true,
            loops: Loops::While,
            ..PLAIN
        },
        c::Style {
            split: Split::Lambda,
            index: Index::Walk,
            loops: Loops::Unequal,
            ..PLAIN
        },
        c::Style {
            split: Split::Nest,
            index: Index::Macro,
            constant: Constant::Enum,
            ..PLAIN
        },
    ]
};

/// Spellings in Fortran.
const FORTRAN: [fortran::Style; 7] = {
    const PLAIN: fortran::Style = fortran::Style {
        form: Form::Free,
        inner: Inner::Do,
        from_one: true,
        split: false,
        heap: false,
    };
    [
        PLAIN,
        fortran::Style {
            from_one: false,
            ..PLAIN
        },
        fortran::Style {
            inner: Inner::Sections,
            ..PLAIN
        },
        fortran::Style {
            split: true,
            heap: true,
            ..PLAIN
        },
        fortran::Style {
            inner: Inner::Concurrent,
            from_one: false,
            ..PLAIN
        },
        fortran::Style {
            form: Form::Fixed,
            ..PLAIN
        },
        fortran::Style {
            inner: Inner::While,
            heap: true,
            ..PLAIN
        },
    ]
};

/// All programs of the templates, each in five spellings.
pub fn all() -> Vec<Program> {
    let mut found = Vec::new();
    for (at, kernel) in kinds::all().iter().enumerate() {
        let problem = &PROBLEMS[kernel.problem];
        let mut push = |spelling: String, language: Language, source: String| {
            found.push(Program {
                name: format!("{} {} [{spelling}]", kernel.problem, kernel.about),
                kind: kernel.kind.into(),
                problem: kernel.problem.into(),
                language,
                source,
                labels: kernel.labels,
            });
        };
        for step in 0..2 {
            let number = (at + 5 * step) % C.len();
            let source = c::print(kernel, problem, C[number]);
            push(format!("C {number}"), Language::C, source);
        }
        let number = at % CXX.len();
        push(
            format!("C++ {number}"),
            Language::Cxx,
            c::print(kernel, problem, CXX[number]),
        );
        // Fortran has no statement that prefetches.
        if kernel.labels.contains(Technique::Prefetch) {
            continue;
        }
        let number = at % FORTRAN.len();
        let style = FORTRAN[number];
        let language = match style.form {
            Form::Free => Language::Fortran,
            Form::Fixed => Language::Fortran77,
        };
        push(
            format!("Fortran {number}"),
            language,
            fortran::print(kernel, problem, style),
        );
    }
    found
}
