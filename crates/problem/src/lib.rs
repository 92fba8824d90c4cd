//! Problem definitions: what a kernel shall compute, at which sizes, how exactly, and how it is asked for.
//!
//! A problem of a kernel is a folder with `problem.toml`, `reference.c`, where the plain
//! reference is too slow to be interleaved with candidates `baseline.c`, and
//! where the size of rounding errors is no plain matter `magnitude.c`.
//! The same definition drives prompts, input generation, verification, timing
//! and GFLOPS. This crate reads and checks definitions and renders prompts; it
//! compiles and runs nothing. Of modules of PyTorch ([`module`]) it reads what
//! prompts, archives and messages need.
//!
//! Invariants:
//! - a loaded [`Problem`] is sound as far as that can be told without running it;
//! - every mistake of a definition is reported with its line, several at once.

mod arguments;
mod at_size;
mod bounds;
pub mod check;
mod contents;
mod element;
mod error;
pub mod flags;
pub mod formula;
#[doc(hidden)]
pub mod fuzz;
mod keys;
mod language;
mod load;
mod mistakes;
pub mod module;
mod promise;
pub mod prompt;
mod prototype;
mod sizes;
mod target;
mod template;
mod timed;
mod work;
mod workloads;

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopsmith_protocol::{Digest, ProblemId, Technique, TechniqueSet};
use serde::{Deserialize, Serialize};

pub use check::{Finding, check};
pub use element::{Arithmetic, Element};
pub use error::Error;
pub use flopsmith_protocol::Language;
pub use formula::Formula;
pub use keys::{either, meant, nearest};
pub use language::{CXX_HEADERS, FORTRAN_MODULES};
pub use module::Module;
pub use sizes::HiddenSizes;
pub use target::Target;
pub use template::{Template, row_length};
pub use work::{LibraryWork, WORKS};
pub use workloads::Workload;

/// Parameters of one call, e.g. `n = 256`.
pub type Params = BTreeMap<String, i64>;

/// A problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The name of its folder.
    pub id: ProblemId,
    /// One line for people.
    pub title: String,
    /// The collection of problems it belongs to, e.g. `polybench`; none for one that stands by itself.
    pub suite: Option<String>,
    /// Its folder; empty for one that came from elsewhere.
    pub dir: PathBuf,
    /// The text of `problem.toml`.
    pub definition: String,
    /// Digest of everything the definition says: `problem.toml`, reference and baseline; with the names of the workloads where
    /// some are left out. Numbers that were measured under another one are not comparable.
    pub digest: Digest,
    /// The function a candidate defines.
    pub entry: Entry,
    /// All sizes at which programs are timed, at least one.
    pub workloads: Vec<Workload>,
    /// Parameters of timed calls: those of the workload that this value is timed at ([`Problem::at`]), the first by default.
    pub timed: Params,
    /// Where timed calls find their arrays, at the same workload.
    pub caches: Caches,
    /// How candidates are verified.
    pub verify: VerifyPlan,
    /// Headers a candidate may include.
    pub includes: Vec<String>,
    /// Functions of the C library that may not be called although others may call them: those that do what is asked for.
    pub forbidden: Vec<String>,
    /// Compiler flags of candidate, reference and baseline alike.
    pub flags: Vec<String>,
    /// Flags of candidates in C++, where they are others.
    pub cxx_flags: Option<Vec<String>>,
    /// Flags of candidates in Fortran, where they are others.
    pub fortran_flags: Option<Vec<String>>,
    /// How exact a result must be.
    pub bound: ErrorBound,
    /// Useful floating-point operations of one call.
    pub work: Formula,
    /// Bytes that one call must move at least.
    pub bytes: Formula,
    /// Techniques that make sense here and count in every run: detection looks for them, prompts name them, and a task refuses programs
    /// with those that it does not permit.
    pub techniques: TechniqueSet,
    /// Techniques that make sense here as well, and count only in a run whose pool names them ([`Problem::in_pool`]).
    pub special: TechniqueSet,
    /// Why timed inputs are of an easy kind, where the computation permits no others.
    pub easy_inputs: Option<String>,
    /// The parametric programs that the search writes, where the loops of the reference are not affine.
    pub template: Option<Template>,
    /// Thread counts that may be timed.
    pub threads: Vec<u32>,
    /// Largest source, bytes.
    pub max_source_bytes: usize,
    /// The plain reference, obviously right.
    pub reference_source: String,
    /// A fast fixed kernel that timed calls are interleaved with; the reference where there is none.
    pub baseline_source: Option<String>,
    /// Computes how large the terms of each output element are, for [`ErrorBound::Scaled`].
    pub magnitude_source: Option<String>,
    /// Must the same input give the same bits?
    pub deterministic: bool,
    /// The language candidates are written in.
    pub language: Language,
    /// The text of the full prompt about the task; made from the definition where there is none.
    pub prompt_text: Option<String>,
    /// The definition of a module; none for a kernel. Of a module the fields about arguments, bounds, work and flags of a
    /// kernel say nothing.
    pub module: Option<Module>,
}

/// Do timed calls find their arrays in the caches?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caches {
    /// As far as they fit. A certified number says beside it how long a call takes that finds nothing there.
    #[default]
    Warm,
    /// Nowhere.
    Cold,
    /// As far as they fit; and a certified number has another ratio beside it, of calls that find nothing there.
    Both,
}

impl Caches {
    /// By its word in a definition.
    fn of(word: &str) -> Option<Self> {
        match word {
            "warm" => Some(Self::Warm),
            "cold" => Some(Self::Cold),
            "both" => Some(Self::Both),
            _ => None,
        }
    }
}

/// The function a candidate defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its prototype in C.
    pub prototype: String,
    /// Its arguments in order.
    pub args: Vec<Arg>,
}

/// One argument of the entry function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Its name in the prototype.
    pub name: String,
    /// Its kind.
    pub kind: ArgKind,
}

/// The kind of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgKind {
    /// A C `int`.
    Int {
        /// Its value.
        value: Formula,
    },
    /// A C `double` or `float`. Its value is secret and another one in each verified case and each timed call: uniform
    /// in [low, high).
    Scalar {
        /// [`Element::F64`] or [`Element::F32`].
        element: Element,
        /// Least value.
        low: Formula,
        /// Its value stays below this.
        high: Formula,
    },
    /// A pointer to an array.
    Array {
        /// Element type.
        element: Element,
        /// Read or written.
        role: Role,
        /// Extents; their product is the number of elements.
        shape: Vec<Formula>,
        /// Alignment of its first byte.
        align: usize,
        /// Its content before a call, for arrays that a candidate reads.
        content: Content,
        /// In timed calls, each of its rows is multiplied by a power of two of its own, from 1 down to 2 to the minus this; 0 where
        /// rows stay as they are. Beside the large ones, methods that mix rows lose the digits of the small ones: those of
        /// Strassen and Winograd.
        graded: u32,
    },
}

/// The most arguments that an entry may have. The harness calls every entry with as many machine words.
pub const MAX_ARGUMENTS: usize = 16;

/// The most scalars among them. The calling conventions of x86-64 (System V) and of AArch64 pass so many floating-point
/// arguments in registers of their own; a further one would travel on the stack among the words.
pub const MAX_SCALARS: usize = 8;

/// The content of an array that a candidate reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// Floats uniform in [-0.5, 0.5), signed integers in -8..=7, bytes in 0..=255.
    #[default]
    Uniform,
    /// Floats uniform in [low, high), integers in low..=high.
    Range {
        /// Least value.
        low: Formula,
        /// Greatest value; floats stay below it.
        high: Formula,
    },
    /// Square matrices of floats, uniform in [-0.5, 0.5), with the length of a row added on the diagonal: factorizations
    /// and triangular solves without pivoting are well-conditioned.
    Dominant,
    /// Ascending integers from 0 to `total`: where the rows of a compressed matrix begin.
    Offsets {
        /// The last one.
        total: Formula,
    },
    /// Floats uniform in [low, high), and to all of a row a shift of its own is added, uniform in [-by, by): no constant brings
    /// all rows near zero.
    Shifted {
        /// Least value before the shift.
        low: Formula,
        /// Greatest value before the shift.
        high: Formula,
        /// Largest shift.
        by: Formula,
    },
    /// Of either sign; the logarithms of the sizes are uniform from that of `low` to that of `high`, powers of two.
    Magnitudes {
        /// Least size.
        low: Formula,
        /// Greatest size; all stay below it.
        high: Formula,
    },
    /// Integers whose running sums are uniform in low..=high.
    Steps {
        /// Least running sum.
        low: Formula,
        /// Greatest running sum.
        high: Formula,
    },
    /// Integers in low..=high; one in four repeats one of the three before it.
    Repeating {
        /// Least value.
        low: Formula,
        /// Greatest value.
        high: Formula,
    },
    /// Square matrices: rough distances between random points, integers in 1..=high, floats in [0, high). About half of all shortest
    /// paths are a single edge, and the others have two edges or more.
    Distances {
        /// Greatest value.
        high: Formula,
    },
}

/// A candidate's use of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads it and leaves it as it is.
    Input,
    /// Writes every element; the old content is undefined.
    Output,
    /// Reads it and leaves results in it.
    InOut,
}

impl Role {
    /// Does the content before a call matter?
    pub fn is_read(self) -> bool {
        matches!(self, Self::Input | Self::InOut)
    }

    /// Does it hold results after a call?
    pub fn is_written(self) -> bool {
        matches!(self, Self::Output | Self::InOut)
    }
}

/// How candidates are verified.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyPlan {
    /// Parameters that are always checked.
    pub visible: Vec<Params>,
    /// Where hidden sizes come from: parameters that vary together. Those not named keep their timed value.
    pub hidden: Vec<HiddenSizes>,
    /// The distributions of inputs.
    pub distributions: Vec<Distribution>,
}

/// The distribution of the values of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Uniform in [-0.5, 0.5).
    Uniform,
    /// Uniform, rows of inputs scaled by powers of ten over many decades.
    ScaledRows,
    /// Uniform, columns of inputs scaled by powers of ten over many decades.
    ScaledColumns,
    /// Uniform, and rows and columns are of two kinds, by their numbers and the same for all arrays: where the kinds of an element's
    /// row and column differ, it is times 10⁻⁷. Small elements of a product stand among large ones in their row and in their
    /// column, so that no scaling of rows and columns makes them even.
    Checkered,
    /// Zeros and ones: the result is exact.
    ZeroOne,
    /// Uniform with some rows all zero.
    ZeroRows,
    /// Uniform in (-0.5, 0.5], the negative of another draw.
    Negated,
    /// Uniform times 10⁻⁶⁰; shorter floats times a factor within their range.
    Tiny,
    /// Uniform times 10⁶⁰; shorter floats times a factor within their range. Short of overflow.
    Huge,
    /// Two different values only, so that most are equal.
    Few,
    /// Sorted, least first.
    Ascending,
    /// Sorted, greatest first.
    Descending,
    /// The first input of any floats is uniform times 2⁻¹⁰⁴⁰ in double or 2⁻¹⁴⁰ in single precision, the others are uniform.
    /// For bounds whose `operations` count every product of a sum: each may be off by half the smallest number besides. Only
    /// at small sizes, as processors may take a hundred times as long.
    Denormal,
}

/// How exact a result must be.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorBound {
    /// Matrix product: |error| ≤ c·√k·eps·(|A||B|) for each element, k the length of the sum.
    ///
    /// Rounding errors of a sum are of either sign. With high probability they add up to a multiple of √k and not of k (Higham
    /// and Mary, "A new approach to probabilistic rounding error analysis", 2019). A bound of k would admit numbers with half of
    /// their digits.
    Gemm {
        /// The constant c.
        c: f64,
    },
    /// The same bits as the reference's.
    Exact,
    /// |error| ≤ c·operations·eps·magnitude for each element; `magnitude.c` computes the magnitudes.
    Scaled {
        /// The constant c.
        c: f64,
        /// Roundings on the way to one element, as many as add up: √n where n of them have either sign.
        operations: Formula,
    },
}

impl Distribution {
    /// Do elements of the result differ so much in size that a method which is exact only beside the largest of them
    /// fails? On even inputs such methods (Strassen's, single precision in parts) look right.
    pub fn is_uneven(self) -> bool {
        matches!(
            self,
            Self::ScaledRows | Self::ScaledColumns | Self::Checkered | Self::ZeroRows
        )
    }
}

impl Problem {
    /// The techniques that a run permits which times programs with so many threads. With one thread it refuses programs that
    /// use OpenMP, which gives no speed there. `bench` refuses no technique of the problem, whatever the number of threads.
    pub fn techniques_with(&self, threads: u32) -> TechniqueSet {
        match threads {
            0 | 1 => self.techniques.without(Technique::Openmp),
            _ => self.techniques,
        }
    }

    /// The flags that a program in `language` is built with. Other languages have those of C, but for the standard; all have
    /// their code at known places, whoever wrote the flags.
    pub fn flags_for(&self, language: Language) -> Vec<String> {
        let own = match language {
            Language::C | Language::Python => None,
            Language::Cxx => self.cxx_flags.as_ref(),
            Language::Fortran | Language::Fortran77 => self.fortran_flags.as_ref(),
        };
        if let Some(own) = own {
            return flags::aligned(own.clone());
        }
        let taken = self.flags.iter().filter(|flag| language.takes(flag));
        let mut flags: Vec<String> = taken.cloned().collect();
        let said = flags.iter().any(|flag| flag.starts_with("-std="));
        flags.extend(language.standard().filter(|_| !said).map(str::to_owned));
        flags::aligned(flags)
    }

    /// The problem as a run with this pool of techniques has it: the special ones that the pool names count beside the others. Programs
    /// of such a run have other techniques, so the problem has another digest.
    #[must_use]
    pub fn in_pool(self, pool: TechniqueSet) -> Self {
        let named = self.special.intersection(pool);
        if named.is_empty() {
            return self;
        }
        let words = named.to_string();
        Self {
            digest: load::digest([Some(self.digest.as_str()), Some(words.as_str())]),
            techniques: self.techniques.union(named),
            special: self.special.difference(named),
            ..self
        }
    }

    /// The pool of techniques of a run that names none.
    pub fn usual_pool(&self) -> TechniqueSet {
        match &self.module {
            None => TechniqueSet::general(),
            Some(_) => TechniqueSet::of_modules(),
        }
    }

    /// The same problem with other flags for all its programs, whatever their language: those of a run.
    #[must_use]
    pub fn with_flags(self, flags: Vec<String>) -> Self {
        Self {
            flags,
            cxx_flags: None,
            fortran_flags: None,
            ..self
        }
    }

    /// Floating-point operations of one call with `params`.
    pub fn work_flops(&self, params: &Params) -> f64 {
        self.work.value(params).unwrap_or(f64::NAN)
    }

    /// The numbers that its programs compute with. Whole numbers beside floats say where these stand.
    pub fn arithmetic(&self) -> Arithmetic {
        Arithmetic::of(self.entry.args.iter().filter_map(|arg| match &arg.kind {
            ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
            ArgKind::Array { element, .. } => Some(*element),
        }))
    }

    /// Bytes one call with `params` must move.
    pub fn moved_bytes(&self, params: &Params) -> f64 {
        self.bytes.value(params).unwrap_or(f64::NAN)
    }

    /// The number of elements of an array argument with `params`; none for arguments that are passed by value.
    pub fn elements(&self, arg: &Arg, params: &Params) -> Option<usize> {
        match &arg.kind {
            ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
            ArgKind::Array { shape, .. } => shape
                .iter()
                .map(|f| f.count(params))
                .try_fold(1usize, |product, extent| product.checked_mul(extent?)),
        }
    }
}
