//! Templates: kinds of problems for which the search has parametric programs, though their loops are not affine.

use std::fmt;

use crate::keys::meant;
use crate::{Arg, ArgKind, Content, Element, Formula, HiddenSizes, Params, Role};

/// A kind of problem with parametric programs. The `generator` crate writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Template {
    /// Sorts the rows of a matrix of integers by networks of comparisons.
    SortingNetworks,
    /// Counts keys.
    Histogram,
    /// Multiplies a sparse matrix in compressed rows by a vector.
    SparseRows,
    /// Computes a Walsh-Hadamard transform.
    WalshHadamard,
    /// Computes running sums of integers.
    RunningSums,
}

impl Template {
    /// All of them.
    pub const ALL: [Template; 5] = [
        Self::SortingNetworks,
        Self::Histogram,
        Self::SparseRows,
        Self::WalshHadamard,
        Self::RunningSums,
    ];

    /// Its name in `problem.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SortingNetworks => "sorting_networks",
            Self::Histogram => "histogram",
            Self::SparseRows => "sparse_rows",
            Self::WalshHadamard => "walsh_hadamard",
            Self::RunningSums => "running_sums",
        }
    }

    /// By its name.
    ///
    /// # Errors
    /// The known names, and the nearest one.
    pub fn of(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.into_iter().map(Self::name);
        match Self::ALL.into_iter().find(|t| t.name() == name) {
            Some(template) => Ok(template),
            None => {
                let known: Vec<&str> = names().collect();
                let near = meant(name, names())
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                Err(format!(
                    "unknown template `{name}`; known are {}{near}",
                    known.join(", ")
                ))
            }
        }
    }

    /// The arguments that programs of the template take, in words.
    pub fn takes(self) -> &'static str {
        match self {
            Self::SortingNetworks => {
                "an `int` with the number of rows b, an input and an output of `i32` of shape [b, L], L a constant power of two from 4 to 64"
            }
            Self::Histogram => {
                "an `int` n, an `int` bins, an input of n keys (`i32`, content from 0 to bins-1), and an output of bins counts (`i32`)"
            }
            Self::SparseRows => {
                "an `int` n, an `int` m, inputs start (`i32`, [n+1], content `offsets`), column (`i32`, content from 0 to m-1), value and x ([m]), and an output y ([n]); value, x and y of one type, `f64` or `f32`"
            }
            Self::WalshHadamard => {
                "an `int` n that is always a power of two, an input and an output of n elements of one type, `f64` or `f32`"
            }
            Self::RunningSums => {
                "an `int` n, an input and an output of n elements of one type, `i32` or `i64`"
            }
        }
    }

    /// Checks that an entry has the arguments that programs of the template take.
    ///
    /// # Errors
    /// The first difference, and what the template takes.
    pub(crate) fn check(
        self,
        args: &[Arg],
        timed: &Params,
        hidden: &[HiddenSizes],
    ) -> Result<(), String> {
        let fit = Fit {
            args,
            timed,
            hidden,
        };
        let checked = match self {
            Self::SortingNetworks => fit.rows(),
            Self::Histogram => fit.histogram(),
            Self::SparseRows => fit.sparse(),
            Self::WalshHadamard => fit.transform(),
            Self::RunningSums => fit.sums(),
        };
        checked.map_err(|why| format!("{why}, and the template `{self}` takes {}", self.takes()))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An array argument.
struct Array<'a> {
    name: &'a str,
    element: Element,
    shape: &'a [Formula],
    content: &'a Content,
}

/// The comparison of an entry's arguments with those of a template.
struct Fit<'a> {
    args: &'a [Arg],
    timed: &'a Params,
    hidden: &'a [HiddenSizes],
}

impl Fit<'_> {
    fn count(&self, wanted: usize) -> Result<(), String> {
        match self.args.len() {
            found if found == wanted => Ok(()),
            found => Err(format!("the entry has {found} arguments")),
        }
    }

    fn int(&self, at: usize) -> Result<&Formula, String> {
        match &self.args[at].kind {
            ArgKind::Int { value } => Ok(value),
            _ => Err(format!("`{}` is no `int`", self.args[at].name)),
        }
    }

    fn array(&self, at: usize, wanted: Role, elements: &[Element]) -> Result<Array<'_>, String> {
        let name = self.args[at].name.as_str();
        match &self.args[at].kind {
            ArgKind::Array {
                element,
                role,
                shape,
                content,
                ..
            } if *role == wanted && elements.contains(element) => Ok(Array {
                name,
                element: *element,
                shape,
                content,
            }),
            _ => {
                let names: Vec<String> = elements
                    .iter()
                    .map(|e| format!("`{}`", format!("{e:?}").to_lowercase()))
                    .collect();
                let role = match wanted {
                    Role::Input => "input",
                    Role::Output => "output",
                    Role::InOut => "inout array",
                };
                Err(format!("`{name}` is no {role} of {}", names.join(" or ")))
            }
        }
    }

    /// Checks that a shape is one extent with the value of a formula, `more` added.
    fn length(&self, array: &Array<'_>, wanted: &Formula, more: f64) -> Result<(), String> {
        let wanted = self.value(wanted) + more;
        match array.shape {
            [only] if self.value(only) == wanted => Ok(()),
            _ => Err(format!("`{}` does not have {wanted} elements", array.name)),
        }
    }

    fn value(&self, formula: &Formula) -> f64 {
        formula.value(self.timed).unwrap_or(f64::NAN)
    }

    /// Checks that integers lie between 0 and a value less 1.
    fn below(&self, array: &Array<'_>, bound: &Formula) -> Result<(), String> {
        match array.content {
            Content::Range { low, high } | Content::Repeating { low, high }
                if self.value(low) == 0.0 && self.value(high) == self.value(bound) - 1.0 =>
            {
                Ok(())
            }
            _ => Err(format!(
                "the content of `{}` is not from 0 to {bound}-1",
                array.name
            )),
        }
    }

    fn alike(&self, a: &Array<'_>, b: &Array<'_>) -> Result<(), String> {
        if a.element == b.element {
            Ok(())
        } else {
            Err(format!(
                "`{}` and `{}` are of different types",
                a.name, b.name
            ))
        }
    }

    fn rows(&self) -> Result<(), String> {
        self.count(3)?;
        let rows = self.int(0)?;
        for array in [
            self.array(1, Role::Input, &[Element::I32])?,
            self.array(2, Role::Output, &[Element::I32])?,
        ] {
            let [first, last] = array.shape else {
                return Err(format!("`{}` does not have two extents", array.name));
            };
            if self.value(first) != self.value(rows) {
                return Err(format!("`{}` does not have {rows} rows", array.name));
            }
            if row_length(array.shape).is_none() {
                return Err(format!(
                    "the rows of `{}` have {last} elements, which is no constant power of two from 4 to 64",
                    array.name
                ));
            }
        }
        Ok(())
    }

    fn histogram(&self) -> Result<(), String> {
        self.count(4)?;
        let (n, bins) = (self.int(0)?, self.int(1)?);
        let keys = self.array(2, Role::Input, &[Element::I32])?;
        self.length(&keys, n, 0.0)?;
        self.below(&keys, bins)?;
        let counts = self.array(3, Role::Output, &[Element::I32])?;
        self.length(&counts, bins, 0.0)
    }

    fn sparse(&self) -> Result<(), String> {
        self.count(7)?;
        let (n, m) = (self.int(0)?, self.int(1)?);
        let start = self.array(2, Role::Input, &[Element::I32])?;
        self.length(&start, n, 1.0)?;
        let Content::Offsets { total } = start.content else {
            return Err(format!("the content of `{}` is not `offsets`", start.name));
        };
        let column = self.array(3, Role::Input, &[Element::I32])?;
        self.length(&column, total, 0.0)?;
        self.below(&column, m)?;
        let floats = [Element::F64, Element::F32];
        let value = self.array(4, Role::Input, &floats)?;
        self.length(&value, total, 0.0)?;
        let x = self.array(5, Role::Input, &floats)?;
        self.length(&x, m, 0.0)?;
        let y = self.array(6, Role::Output, &floats)?;
        self.length(&y, n, 0.0)?;
        self.alike(&value, &x)?;
        self.alike(&value, &y)
    }

    fn transform(&self) -> Result<(), String> {
        self.count(3)?;
        let n = self.int(0)?;
        let floats = [Element::F64, Element::F32];
        let x = self.array(1, Role::Input, &floats)?;
        self.length(&x, n, 0.0)?;
        let y = self.array(2, Role::Output, &floats)?;
        self.length(&y, n, 0.0)?;
        self.alike(&x, &y)?;
        let whole = self.value(n);
        let timed = whole >= 1.0 && whole.log2().fract() == 0.0;
        let name = n.to_string();
        let varies = self.hidden.iter().find(|h| n.params().contains(&h.param));
        let always = varies.is_none_or(|h| h.power_of_two && h.param == name.trim());
        if timed && always {
            Ok(())
        } else {
            Err(format!(
                "`{name}` is not always a power of two: set `power_of_two = true` in [verify.hidden]"
            ))
        }
    }

    fn sums(&self) -> Result<(), String> {
        self.count(3)?;
        let n = self.int(0)?;
        let whole = [Element::I32, Element::I64];
        let x = self.array(1, Role::Input, &whole)?;
        self.length(&x, n, 0.0)?;
        let y = self.array(2, Role::Output, &whole)?;
        self.length(&y, n, 0.0)?;
        self.alike(&x, &y)
    }
}

/// The length of rows that sorting networks sort: the last of two extents, if it is a constant power of two from 4 to 64.
pub fn row_length(shape: &[Formula]) -> Option<u32> {
    let [_, last] = shape else {
        return None;
    };
    let length = last.count(&Params::new())?;
    let length = u32::try_from(length).ok()?;
    (length.is_power_of_two() && (4..=64).contains(&length)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_templates_and_others_are_refused_with_the_nearest() {
        for template in Template::ALL {
            assert_eq!(Template::of(template.name()), Ok(template));
            assert_eq!(template.to_string(), template.name());
        }
        let error = Template::of("histogramm").expect_err("no such template");
        assert!(error.contains("did you mean `histogram`?"), "{error}");
        assert!(error.contains("sorting_networks, histogram"), "{error}");
    }
}
