//! The optimization techniques that stages permit and archive cells are keyed by.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One optimization technique (our own Staged Quality-Diversity).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Technique {
    /// The loop nest runs in another order than the reference's.
    LoopReorder,
    /// Loop bodies are repeated, by hand or by pragma.
    Unroll,
    /// Loops are tiled so that a block stays in a cache.
    CacheBlocking,
    /// A small tile of the output is kept in local accumulators.
    RegisterBlocking,
    /// Operands are copied into a contiguous buffer first.
    Packing,
    /// Vector types, vector intrinsics or `omp simd`.
    Simd,
    /// Work is shared among OpenMP threads.
    Openmp,
    /// Data is prefetched explicitly.
    Prefetch,
    /// Several accumulators take the terms of one result.
    PartialSums,
    /// The elements that a sweep runs over depend on the sweep.
    Skewing,
    /// One kernel does the work of several operators, or statements of several loops run in one loop.
    Fusion,
    /// Blocks are kept in memory that the threads of a kernel share.
    SharedMemory,
    /// Blocks are multiplied by an instruction for whole blocks.
    Dot,
    /// A kernel has several configurations, of which the fastest is used.
    Autotuned,
    /// A program of a grid works on several blocks, one after the other.
    Persistent,
    /// Groups of threads of one kernel have different work.
    WarpSpecialized,
    /// Statements of one loop run in several loops over the same range.
    Fission,
    /// Values that the reference keeps in an array are computed again where they are used.
    Recomputation,
    /// A whole argument is copied once into memory of the program, with another order or distance of its elements.
    LayoutChange,
    /// A statement that the reference runs under a condition runs without one.
    BranchRemoval,
}

impl Technique {
    /// All techniques in the order of their bits. New ones come last, so that numbers in files keep their meaning. A set
    /// has room for 32.
    pub const ALL: [Technique; 20] = [
        Technique::LoopReorder,
        Technique::Unroll,
        Technique::CacheBlocking,
        Technique::RegisterBlocking,
        Technique::Packing,
        Technique::Simd,
        Technique::Openmp,
        Technique::Prefetch,
        Technique::PartialSums,
        Technique::Skewing,
        Technique::Fusion,
        Technique::SharedMemory,
        Technique::Dot,
        Technique::Autotuned,
        Technique::Persistent,
        Technique::WarpSpecialized,
        Technique::Fission,
        Technique::Recomputation,
        Technique::LayoutChange,
        Technique::BranchRemoval,
    ];

    /// The techniques of modules of PyTorch, whatever language their kernels are written in.
    pub const OF_MODULES: [Technique; 12] = [
        Technique::Unroll,
        Technique::CacheBlocking,
        Technique::Simd,
        Technique::Openmp,
        Technique::Prefetch,
        Technique::PartialSums,
        Technique::Fusion,
        Technique::SharedMemory,
        Technique::Dot,
        Technique::Autotuned,
        Technique::Persistent,
        Technique::WarpSpecialized,
    ];

    /// The techniques that make sense for loop nests of most kinds: the pool of a run that names none. The others are
    /// for problems that list them.
    pub const GENERAL: [Technique; 8] = [
        Technique::LoopReorder,
        Technique::Unroll,
        Technique::CacheBlocking,
        Technique::RegisterBlocking,
        Technique::Packing,
        Technique::Simd,
        Technique::Openmp,
        Technique::Prefetch,
    ];

    /// The name in prompts, files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Technique::LoopReorder => "loop_reorder",
            Technique::Unroll => "unroll",
            Technique::CacheBlocking => "cache_blocking",
            Technique::RegisterBlocking => "register_blocking",
            Technique::Packing => "packing",
            Technique::Simd => "simd",
            Technique::Openmp => "openmp",
            Technique::Prefetch => "prefetch",
            Technique::PartialSums => "partial_sums",
            Technique::Skewing => "skewing",
            Technique::Fusion => "fusion",
            Technique::SharedMemory => "shared_memory",
            Technique::Dot => "dot",
            Technique::Autotuned => "autotuned",
            Technique::Persistent => "persistent",
            Technique::WarpSpecialized => "warp_specialized",
            Technique::Fission => "fission",
            Technique::Recomputation => "recomputation",
            Technique::LayoutChange => "layout_change",
            Technique::BranchRemoval => "branch_removal",
        }
    }

    /// True if only modules of PyTorch can have it: no loop nest of a kernel has it.
    pub fn is_of_modules_only(self) -> bool {
        matches!(
            self,
            Technique::SharedMemory
                | Technique::Dot
                | Technique::Autotuned
                | Technique::Persistent
                | Technique::WarpSpecialized
        )
    }

    fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a technique.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown technique `{0}`; known are {known}", known = Technique::ALL.map(Technique::name).join(", "))]
pub struct UnknownTechnique(pub String);

impl FromStr for Technique {
    type Err = UnknownTechnique;
    fn from_str(name: &str) -> Result<Self, UnknownTechnique> {
        Technique::ALL
            .into_iter()
            .find(|t| t.name() == name)
            .ok_or_else(|| UnknownTechnique(name.to_owned()))
    }
}

/// A set of techniques: an archive cell, or what a task permits.
///
/// On the wire it is a sorted list of names, so that a technique added later
/// does not change the meaning of older messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Technique>", into = "Vec<Technique>")]
pub struct TechniqueSet(u32);

impl TechniqueSet {
    /// No technique at all.
    pub const EMPTY: TechniqueSet = TechniqueSet(0);

    /// All techniques.
    pub fn all() -> Self {
        Technique::ALL.into_iter().collect()
    }

    /// The techniques of [`Technique::GENERAL`].
    pub fn general() -> Self {
        Technique::GENERAL.into_iter().collect()
    }

    /// The techniques of [`Technique::OF_MODULES`].
    pub fn of_modules() -> Self {
        Technique::OF_MODULES.into_iter().collect()
    }

    /// The bits, one per technique in the order of [`Technique::ALL`].
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The set that has these bits. Bits of no technique are left out.
    pub fn of_bits(bits: u32) -> Self {
        let all = Technique::ALL.into_iter();
        all.filter(|technique| bits & technique.bit() != 0)
            .collect()
    }

    /// Number of techniques in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if `technique` is in the set.
    pub fn contains(self, technique: Technique) -> bool {
        self.0 & technique.bit() != 0
    }

    /// This set and `technique`.
    #[must_use]
    pub fn with(self, technique: Technique) -> Self {
        Self(self.0 | technique.bit())
    }

    /// This set less `technique`.
    #[must_use]
    pub fn without(self, technique: Technique) -> Self {
        Self(self.0 & !technique.bit())
    }

    /// True if every technique of this set is in `other`.
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The techniques that both sets have.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The techniques that either set has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The techniques of this set that `other` lacks.
    #[must_use]
    pub fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The set for people: `none` for the empty one.
    pub fn words(self) -> String {
        if self.is_empty() {
            "none".into()
        } else {
            self.to_string()
        }
    }

    /// The techniques in the order of [`Technique::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Technique> {
        Technique::ALL
            .into_iter()
            .filter(move |t| self.contains(*t))
    }

    /// Every subset of this set with exactly `size` techniques, in the order of their bits.
    pub fn subsets_of_size(self, size: usize) -> Vec<TechniqueSet> {
        // The next subset in the order of bits: the bits that the set lacks pass the carry on.
        let next = |subset: &u32| Some(subset.wrapping_sub(self.0) & self.0).filter(|s| *s != 0);
        std::iter::successors(Some(0), next)
            .map(TechniqueSet)
            .filter(|s| s.len() == size)
            .collect()
    }
}

impl FromIterator<Technique> for TechniqueSet {
    fn from_iter<I: IntoIterator<Item = Technique>>(techniques: I) -> Self {
        techniques
            .into_iter()
            .fold(TechniqueSet::EMPTY, TechniqueSet::with)
    }
}

impl From<Vec<Technique>> for TechniqueSet {
    fn from(techniques: Vec<Technique>) -> Self {
        techniques.into_iter().collect()
    }
}

impl From<TechniqueSet> for Vec<Technique> {
    fn from(set: TechniqueSet) -> Self {
        set.iter().collect()
    }
}

impl JsonSchema for TechniqueSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TechniqueSet".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Vec<Technique>>::json_schema(generator)
    }
}

impl fmt::Display for TechniqueSet {
    /// `{}` for the empty set, else the names joined by `+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("{}");
        }
        for (i, t) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            f.write_str(t.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for TechniqueSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TechniqueSet {
    type Err = UnknownTechnique;
    /// Reads the output of [`fmt::Display`]; commas and spaces separate names, like `+`.
    fn from_str(text: &str) -> Result<Self, UnknownTechnique> {
        let text = text.trim();
        if text.is_empty() || text == "{}" || text == "none" {
            return Ok(Self::EMPTY);
        }
        text.split(['+', ',', ' '])
            .filter(|p| !p.is_empty())
            .map(Technique::from_str)
            .collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The names in the order of their bits. An index on disk holds the numbers, so a name may be added at the end only.
    const NAMES: &str = "loop_reorder+unroll+cache_blocking+register_blocking+packing+simd+openmp+prefetch+partial_sums+skewing+fusion+shared_memory+dot+autotuned+persistent+warp_specialized+fission+recomputation+layout_change+branch_removal";

    #[test]
    fn numbers_keep_their_meaning() {
        assert_eq!(TechniqueSet::all().to_string(), NAMES);
        let names: Vec<&str> = NAMES.split('+').collect();
        for (place, name) in names.iter().enumerate() {
            let set = TechniqueSet::of_bits(1 << place);
            assert_eq!(set, name.parse().unwrap());
            assert_eq!(set.bits(), 1 << place);
        }
        // The numbers of 16 bits that were written before a set had more.
        for old in [0_u16, 1, 0x00ff, 0x0221, 0x8000, u16::MAX] {
            let set = TechniqueSet::of_bits(u32::from(old));
            assert_eq!(set.bits(), u32::from(old));
            assert!(set.is_subset(TechniqueSet::of_bits(0xffff)));
        }
        assert_eq!(TechniqueSet::of_bits(u32::MAX), TechniqueSet::all());
    }

    #[test]
    fn subsets_come_in_the_order_of_their_bits() {
        let set: TechniqueSet = "loop_reorder+simd+fission".parse().unwrap();
        let of = |size| -> Vec<String> {
            let all = set.subsets_of_size(size).into_iter();
            all.map(|s| s.to_string()).collect()
        };
        assert_eq!(of(0), ["{}"]);
        assert_eq!(of(1), ["loop_reorder", "simd", "fission"]);
        assert_eq!(
            of(2),
            ["loop_reorder+simd", "loop_reorder+fission", "simd+fission"]
        );
        assert_eq!(of(3), ["loop_reorder+simd+fission"]);
        assert!(of(4).is_empty());
        assert_eq!(TechniqueSet::EMPTY.subsets_of_size(0).len(), 1);
        let whole = TechniqueSet::of_bits(u32::MAX);
        assert_eq!(whole.subsets_of_size(whole.len()), [whole]);
        // As a search through all numbers finds them.
        let general = TechniqueSet::general();
        for size in 0..=general.len() {
            let numbers = (0..=general.bits()).map(TechniqueSet);
            let all = numbers.filter(|s| s.is_subset(general) && s.len() == size);
            assert_eq!(general.subsets_of_size(size), all.collect::<Vec<_>>());
        }
    }
}
