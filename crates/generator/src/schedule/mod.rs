//! Schedules of matrix multiplication: one point is one program.

mod index;
mod promise;
mod render;
mod search;
mod space;

use flopsmith_protocol::{Technique, TechniqueSet};
use serde::{Deserialize, Serialize};

pub use index::Index;
pub use search::{Child, Search, Share};
pub use space::Space;

/// One program of the space. Every field is a local edit of the text; see [`Schedule::render`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Schedule {
    /// Size of the vector type, bytes; 0 for plain doubles.
    pub vector: u32,
    /// The loop nest.
    pub body: Body,
    /// Unroll factor of the innermost long loop, by pragma; 1 for none.
    pub unroll: u32,
    /// The loop that is blocked for a cache.
    pub block: Option<Block>,
    /// Prefetch distance in iterations of the reduction; 0 for none.
    pub prefetch: u32,
    /// True if threads share the outer loop.
    pub openmp: bool,
}

/// The loop nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Body {
    /// A tile of the output is summed in accumulators and stored once.
    Tile {
        /// Rows of the tile.
        rows: u32,
        /// Columns of the tile, in vectors (or doubles).
        columns: u32,
        /// The outer loop over tiles.
        outer: Outer,
        /// Data that are copied into a contiguous buffer first.
        pack: Pack,
    },
    /// The output is updated in memory.
    Stream(Order),
}

/// A loop that is split in two for a cache: an outermost loop goes from block to block, and the loop itself walks one
/// block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// The loop.
    pub axis: Axis,
    /// Iterations of a block, in elements.
    pub size: u32,
}

/// A dimension of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Axis {
    /// Rows of A and C.
    I,
    /// Columns of B and C.
    J,
    /// The reduction.
    K,
}

impl Axis {
    /// All dimensions.
    pub const ALL: [Axis; 3] = [Axis::I, Axis::J, Axis::K];
}

/// Data that a tiled program copies first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Pack {
    /// Nothing.
    No,
    /// The operand that the inner tile loop uses again and again: rows of A, or columns of B.
    Panel,
    /// All of B, once, in the order the tiles read it.
    Whole,
}

impl Pack {
    /// All kinds of packing.
    pub const ALL: [Pack; 3] = [Pack::No, Pack::Panel, Pack::Whole];
}

/// Choices of the outer loop over tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outer {
    /// Rows outside, as in the reference.
    Row,
    /// Columns outside.
    Column,
}

/// Loop orders in which the reduction is not innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Order {
    /// Row, reduction, column.
    Ikj,
    /// Reduction, row, column.
    Kij,
    /// Column, reduction, row.
    Jki,
    /// Reduction, column, row.
    Kji,
}

impl Order {
    /// All orders.
    pub const ALL: [Order; 4] = [Order::Ikj, Order::Kij, Order::Jki, Order::Kji];

    /// True if the innermost loop is over columns and can use vectors.
    pub fn columns_innermost(self) -> bool {
        matches!(self, Order::Ikj | Order::Kij)
    }
}

/// Sizes are multiples of this (the problem's contract).
pub const GRAIN: u32 = 64;

impl Schedule {
    /// The plain loops.
    pub const PLAIN: Schedule = Schedule {
        vector: 0,
        body: Body::Tile {
            rows: 1,
            columns: 1,
            outer: Outer::Row,
            pack: Pack::No,
        },
        unroll: 1,
        block: None,
        prefetch: 0,
        openmp: false,
    };

    /// Doubles in a vector.
    pub fn lanes(&self) -> u32 {
        (self.vector / 8).max(1)
    }

    /// The techniques this program uses.
    pub fn techniques(&self) -> TechniqueSet {
        let mut set = TechniqueSet::EMPTY;
        let mut note = |used: bool, technique| {
            if used {
                set = set.with(technique);
            }
        };
        note(self.vector > 0, Technique::Simd);
        note(self.unroll > 1, Technique::Unroll);
        note(self.block.is_some(), Technique::CacheBlocking);
        note(self.prefetch > 0, Technique::Prefetch);
        note(self.openmp, Technique::Openmp);
        match self.body {
            Body::Tile {
                rows,
                columns,
                outer,
                pack,
            } => {
                note(rows * columns > 1, Technique::RegisterBlocking);
                note(outer == Outer::Column, Technique::LoopReorder);
                note(pack != Pack::No, Technique::Packing);
            }
            Body::Stream(_) => note(true, Technique::LoopReorder),
        }
        set
    }

    /// The dimension of the outermost loop, not counting blocks.
    pub fn outermost(&self) -> Axis {
        match self.body {
            Body::Tile {
                outer: Outer::Row, ..
            }
            | Body::Stream(Order::Ikj) => Axis::I,
            Body::Tile {
                outer: Outer::Column,
                ..
            }
            | Body::Stream(Order::Jki) => Axis::J,
            Body::Stream(Order::Kij | Order::Kji) => Axis::K,
        }
    }

    /// True if the reduction is blocked; the output is then summed in memory.
    pub fn splits_reduction(&self) -> bool {
        self.block.is_some_and(|b| b.axis == Axis::K)
    }

    /// True if the tiles divide every size; no tile then overlaps the adjacent tile at the edge.
    pub fn divides(&self) -> bool {
        match self.body {
            Body::Tile { rows, columns, .. } => {
                GRAIN.is_multiple_of(rows) && GRAIN.is_multiple_of(columns * self.lanes())
            }
            Body::Stream(_) => true,
        }
    }

    /// True if this point gives a correct program at every size that the problem allows.
    pub fn is_valid(&self) -> bool {
        let vector = matches!(self.vector, 0 | 16 | 32 | 64);
        let unroll = matches!(self.unroll, 1 | 2 | 4 | 8);
        // Blocking the outermost loop has no effect, and a block must be longer than any tile.
        let block = self
            .block
            .is_none_or(|b| matches!(b.size, 32 | 64) && b.axis != self.outermost());
        let body = match self.body {
            Body::Tile {
                rows,
                columns,
                pack,
                ..
            } => {
                let fits = (1..=8).contains(&rows)
                    && (1..=8).contains(&columns)
                    && columns * self.lanes() <= 32;
                // A tile that overlaps the adjacent tile is correct when it stores and wrong when it adds, and OpenMP
                // cannot share its loop.
                let simple = self.block.is_none() && !self.openmp && pack != Pack::Whole;
                fits && (self.divides() || simple)
            }
            Body::Stream(order) => {
                let vector = self.vector == 0 || order.columns_innermost();
                // Threads that share the reduction would race.
                let shared = !self.openmp || self.outermost() != Axis::K;
                vector && shared
            }
        };
        vector && block && unroll && body && self.prefetch <= 16
    }
}
