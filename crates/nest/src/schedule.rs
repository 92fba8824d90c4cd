//! Schedules: in which order a program runs, and how its innermost loops are written.

use serde::{Deserialize, Serialize};

/// The order of a whole program: one for each group of statements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Schedule {
    /// How statements are put into groups.
    pub grouping: Grouping,
    /// The order of each group, in the order in which the groups run.
    pub groups: Vec<Group>,
}

/// How statements are put into groups, which share loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Grouping {
    /// As few statements as dependences permit (Allen and Kennedy, 1987).
    Apart,
    /// All statements of an outermost loop of the reference.
    AsRead,
}

/// The order of a group of statements.
///
/// The group has as many dimensions as its deepest statement has iterators.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group {
    /// The dimensions from the outermost loop to the innermost one.
    pub order: Vec<usize>,
    /// The size of the tiles in each dimension; 0 for none.
    pub tiles: Vec<u32>,
    /// The size of the outer tiles in each dimension; 0 for none. An outer tile is larger than the tile of its dimension and need not
    /// be a multiple of it: the last tile within is cut off. Empty if no dimension has outer tiles; then text leaves the field out,
    /// as texts without the field have always been.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outer: Vec<u32>,
    /// A dimension that is skewed by another one.
    pub skew: Option<Skew>,
    /// For each statement and dimension that it lacks, its place there: a number of [`crate::generate::Space::fills`].
    pub fills: Vec<usize>,
    /// Number of loops, from the outermost one, that statements share although dependences permit to split them.
    pub fused: usize,
    /// True if threads share the outermost loop.
    pub openmp: bool,
    /// How the innermost loops are written.
    pub leaf: Leaf,
}

/// `dimension` becomes `dimension + factor · by`, so that tiles may go along both.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skew {
    /// The dimension.
    pub dimension: usize,
    /// The dimension that is added.
    pub by: usize,
    /// How often.
    pub factor: i64,
    /// A shift of the n-th statement along the dimension by n times this.
    pub shift: i64,
}

/// How the innermost loops are written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leaf {
    /// Bytes of a vector; 0 for none.
    pub vector: u32,
    /// The dimension of the vectors.
    pub along: usize,
    /// How the vectors are written.
    pub style: Style,
    /// A dimension whose iterations are computed several at a time, and how many: rows of a register tile.
    pub rows: Option<(usize, u32)>,
    /// Columns of a register tile: vectors where vectors lie along an output, otherwise elements of another dimension.
    pub columns: (usize, u32),
    /// True if what the columns of a register tile read is copied to a contiguous buffer first, for all rows.
    pub pack: bool,
    /// Unroll factor of the innermost loop, by pragma; 1 for none.
    pub unroll: u32,
    /// Prefetch distance in iterations of the innermost loop; 0 for none.
    pub prefetch: u32,
}

/// How vectors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Style {
    /// Loops as the reference has them; the compiler finds vectors where it can.
    Plain,
    /// `#pragma omp simd` over the innermost loop.
    Simd,
    /// Register tiles of GNU vectors.
    Tile,
}

impl Leaf {
    /// Loops as the reference has them.
    pub const PLAIN: Leaf = Leaf {
        vector: 0,
        along: 0,
        style: Style::Plain,
        rows: None,
        columns: (0, 1),
        pack: false,
        unroll: 1,
        prefetch: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group as programs of archives have it in their comments.
    const ONE_LEVEL: &str = r#"{"order":[1,0],"tiles":[32,0],"skew":null,"fills":[],"fused":0,"openmp":false,"leaf":{"vector":0,"along":0,"style":"Plain","rows":null,"columns":[0,1],"pack":false,"unroll":1,"prefetch":0}}"#;

    #[test]
    fn a_group_without_outer_tiles_has_the_text_that_it_always_had() {
        let group: Group = serde_json::from_str(ONE_LEVEL).expect("a group");
        assert!(group.outer.is_empty());
        let text = serde_json::to_string(&group).expect("text");
        assert_eq!(text, ONE_LEVEL);
    }

    #[test]
    fn a_group_with_outer_tiles_comes_back_from_its_text() {
        let group: Group = serde_json::from_str(ONE_LEVEL).expect("a group");
        let group = Group {
            outer: vec![80, 0],
            ..group
        };
        let text = serde_json::to_string(&group).expect("text");
        assert!(text.contains(r#""tiles":[32,0],"outer":[80,0],"#), "{text}");
        assert_eq!(serde_json::from_str::<Group>(&text).expect("text"), group);
    }
}
