//! Parametric templates: programs for problems whose loops are not affine.
//!
//! A template is a set of named parameters and a writer of complete C programs. `template` in `problem.toml` names it
//! ([`Template`]). A program is right at every legal point of its space and at every size of the problem: rests of rows,
//! vectors and blocks have code of their own, and no program reads or writes outside of its arrays.
//!
//! [`Space`] lists the points of a problem, and [`Search`] proposes programs by what was measured of earlier ones.

mod histogram;
mod network;
mod running_sums;
mod search;
mod sorting_networks;
mod space;
mod sparse_rows;
mod text;
mod walsh_hadamard;

use flopsmith_problem::{Element, Template};
use flopsmith_protocol::TechniqueSet;

pub use search::{Search, marked, unmarked};
pub use space::{Point, Space};

/// A parameter of a template.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name in the comment behind a program.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its values, each with a rule of thumb: the logarithm of the speed that it gains.
    pub values: &'static [(u32, f64)],
}

/// The function that a program defines.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// Its name, with which the names of all other functions and types of the program begin.
    pub name: String,
    /// Its prototype without the semicolon.
    pub prototype: String,
    /// The names of its arguments.
    pub args: Vec<String>,
    /// The type of the numbers that it computes with.
    pub element: Element,
    /// The elements of a row, for sorting.
    pub row: u32,
}

impl Kernel {
    /// Numbers in a vector of so many bytes; 1 for 0 bytes.
    fn lanes(&self, bytes: u32) -> u32 {
        match bytes {
            0 => 1,
            bytes => bytes / self.element.size() as u32,
        }
    }
}

/// The writer of a template's programs. Functions get the values of the parameters in their order.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub parameters: &'static [Parameter],
    /// True if the values belong together. Of several combinations that give the same program only one is legal.
    pub is_legal: fn(&Kernel, &[u32]) -> bool,
    /// The techniques of the program.
    pub techniques: fn(&Kernel, &[u32]) -> TechniqueSet,
    /// The program.
    pub write: fn(&Kernel, &[u32]) -> String,
}

impl Writer {
    fn of(template: Template) -> Self {
        match template {
            Template::SortingNetworks => sorting_networks::WRITER,
            Template::Histogram => histogram::WRITER,
            Template::SparseRows => sparse_rows::WRITER,
            Template::WalshHadamard => walsh_hadamard::WRITER,
            Template::RunningSums => running_sums::WRITER,
        }
    }
}

/// The parameters of a template.
pub fn parameters(template: Template) -> &'static [Parameter] {
    Writer::of(template).parameters
}

/// Declares the parameters of a template, a type with a field for each, and its writer.
macro_rules! declare {
    ($( #[doc = $meaning:literal] $name:ident = [$(($value:literal, $prior:literal)),+ $(,)?]; )+) => {
        /// The parameters in their order, and the functions of these names in the file.
        pub(super) const WRITER: $crate::template::Writer = $crate::template::Writer {
            parameters: &[
                $($crate::template::Parameter {
                    name: stringify!($name),
                    meaning: $meaning,
                    values: &[$(($value, $prior)),+],
                }),+
            ],
            is_legal,
            techniques,
            write,
        };

        /// A value for each parameter.
        #[derive(Debug, Clone, Copy)]
        struct Values {
            $(#[doc = $meaning] $name: u32),+
        }

        impl Values {
            fn of(values: &[u32]) -> Self {
                let mut all = values.iter().copied();
                $(let $name = all.next().unwrap_or_default();)+
                Self { $($name),+ }
            }
        }
    };
}
use declare;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_has_every_template_with_its_parameters() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/templates.md"
        );
        let page = std::fs::read_to_string(page).expect("the page is there");
        for template in Template::ALL {
            let heading = format!("\n## `{template}`\n");
            let section = page.split(&heading).nth(1).expect("a section");
            let section = section.split("\n## ").next().unwrap_or_default();
            for parameter in parameters(template) {
                let row = format!("| `{}` |", parameter.name);
                assert!(section.contains(&row), "{template}: {}", parameter.name);
            }
            assert!(page.contains(&format!("| `{template}` |")), "{template}");
        }
    }
}
