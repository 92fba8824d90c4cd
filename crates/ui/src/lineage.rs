//! Which program was made from which: the families of a problem, and their rows in a drawing.
//!
//! A program's parent is the one before it in a conversation, the one that a search varied, or the one that an agent made it
//! from. A second measurement is no program of its own; it counts for the program that it repeats. One pass over the index
//! finds the programs with parents, and a second one the parents that have none themselves.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;

use crate::index::{Party, Raw, Record, View};

/// Programs with a parent, and second measurements, that are looked at: the newest. It bounds memory to some megabytes.
const MOST: usize = 50_000;

/// Ids are digests, so they are their own hashes.
#[derive(Default)]
struct Own(u64);

impl Hasher for Own {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

type ById<T> = HashMap<u64, T, BuildHasherDefault<Own>>;
type Ids = HashSet<u64, BuildHasherDefault<Own>>;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// The number of its record.
    pub number: u64,
    /// Its parent among the nodes; none for the first of a family.
    pub parent: Option<u32>,
    /// Its speed, of its second measurement if there is one that converged; 0 if it was not measured.
    pub gflops: f32,
    /// The stage of its task.
    pub stage: u16,
    /// The party that its outcome is due to.
    pub party: Party,
    /// True if a second measurement confirmed its speed.
    pub confirmed: bool,
    /// Hash of its own id.
    id: u64,
    /// Hash of the id of its parent; 0 without one.
    made_from: u64,
}

/// A row of the drawing: a program below its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The program among the nodes.
    pub node: u32,
    /// How far to the right it stands.
    pub column: u32,
    /// The row of its parent; none for the first of a family.
    pub parent: Option<u32>,
    /// The last row to which a line leads from it; its own if there is none.
    pub until: u32,
}

/// The families of a problem.
#[derive(Debug, Default)]
pub struct Families {
    nodes: Vec<Node>,
    rows: Vec<Row>,
    place: ById<u32>,
    /// True if there are more programs with parents, or more attempts, than were looked at.
    pub is_cut: bool,
}

impl Families {
    /// The families of a problem, the one with the fastest program first. `attempts` is the index of an agent's attempts.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn of(view: &View, attempts: Option<&View>, problem: u16) -> io::Result<Self> {
        let mut made = Self::default();
        let made_from = made.made_from(attempts)?;
        let again = made.descendants(view, &made_from, problem)?;
        made.ancestors(view)?;
        for node in &mut made.nodes {
            node.parent = made.place.get(&node.made_from).copied();
            if let Some(gflops) = again.get(&node.id) {
                node.gflops = *gflops;
                node.confirmed = true;
            }
        }
        made.lay_out(|_| true);
        Ok(made)
    }

    /// Leaves only the programs of these numbers in the rows, and the ancestors that lead to them.
    pub fn leave(&mut self, wanted: &HashSet<u64>) {
        let mut kept = vec![false; self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            let mut next = Some(place).filter(|_| wanted.contains(&node.number));
            // The ancestors of a program that is kept are kept, too.
            while let Some(place) = next.filter(|place| !kept[*place]) {
                kept[place] = true;
                next = self.nodes[place].parent.map(|parent| parent as usize);
            }
        }
        self.rows.clear();
        self.lay_out(|place| kept[place as usize]);
    }

    /// The numbers of all programs in the rows, the newest first.
    pub fn numbers(&self) -> Vec<u64> {
        let numbers = self.rows.iter().map(|row| self.node(row).number);
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    /// Reads the parent of each of the newest candidates from an agent's attempts, keyed by candidate.
    fn made_from(&mut self, attempts: Option<&View>) -> io::Result<ById<u64>> {
        let mut made = ById::default();
        if let Some(attempts) = attempts {
            attempts.backward(attempts.count, |_, bytes| {
                let raw = Raw(bytes);
                if raw.parent() != 0 {
                    self.is_cut = made.len() == MOST;
                    if !self.is_cut {
                        made.insert(raw.id(), raw.parent());
                    }
                }
                !self.is_cut
            })?;
        }
        Ok(made)
    }

    /// Finds the programs with a parent, and returns the speeds of second measurements by program.
    fn descendants(
        &mut self,
        view: &View,
        made_from: &ById<u64>,
        problem: u16,
    ) -> io::Result<ById<f32>> {
        let mut again = ById::<f32>::default();
        view.backward(view.count, |number, bytes| {
            let raw = Raw(bytes);
            if raw.problem() != problem {
                return true;
            }
            if raw.repeats() {
                let repeat = Record::decode(bytes).filter(|of| of.converged && !of.reused);
                if let Some(repeat) = repeat.filter(|_| again.len() < MOST) {
                    // The newest measurement comes first.
                    again.entry(repeat.parent).or_insert(repeat.gflops);
                }
                return true;
            }
            let id = raw.id();
            let parent = match raw.parent() {
                0 => made_from.get(&id).copied().unwrap_or(0),
                parent => parent,
            };
            if parent != 0 && parent != id {
                match self.nodes.len() < MOST {
                    true => self.add(number, raw, parent),
                    false => self.is_cut = true,
                }
            }
            true
        })?;
        Ok(again)
    }

    /// Finds the parents that have no parent themselves.
    fn ancestors(&mut self, view: &View) -> io::Result<()> {
        let parents = self.nodes.iter().map(|node| node.made_from);
        let mut missing: Ids = parents
            .filter(|parent| !self.place.contains_key(parent))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        view.backward(view.count, |number, bytes| {
            let raw = Raw(bytes);
            if missing.remove(&raw.id()) {
                self.add(number, raw, 0);
            }
            !missing.is_empty()
        })
    }

    fn add(&mut self, number: u64, raw: Raw<'_>, made_from: u64) {
        let place = self.nodes.len() as u32;
        // A candidate with two outcomes in the log counts once.
        if self.place.contains_key(&raw.id()) {
            return;
        }
        self.place.insert(raw.id(), place);
        self.nodes.push(Node {
            number,
            parent: None,
            gflops: raw.gflops(),
            stage: raw.stage(),
            party: raw.party(),
            confirmed: false,
            id: raw.id(),
            made_from,
        });
    }

    /// Puts every program that `is_kept` into a row: families by their fastest programs, a child with the fastest offspring straight below
    /// its parent, and the other children to the right, above it.
    fn lay_out(&mut self, is_kept: impl Fn(u32) -> bool) {
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (place, node) in (0..).zip(&self.nodes) {
            if !is_kept(place) {
                continue;
            }
            match node.parent {
                Some(parent) => children[parent as usize].push(place),
                None => roots.push(place),
            }
        }
        // Programs that a damaged log makes their own ancestors are reached from no root, and are left out.
        let mut order = roots.clone();
        let mut next = 0;
        while let Some(place) = order.get(next).copied() {
            order.extend(&children[place as usize]);
            next += 1;
        }
        let mut best: Vec<f32> = self.nodes.iter().map(|node| node.gflops).collect();
        for place in order.iter().rev() {
            if let Some(parent) = self.nodes[*place as usize].parent {
                let parent = parent as usize;
                best[parent] = best[parent].max(best[*place as usize]);
            }
        }
        // The slowest first: the last one is taken from a stack first.
        let by_speed = |places: &mut Vec<u32>| {
            places.sort_by(|one, other| {
                let speed = best[*one as usize].total_cmp(&best[*other as usize]);
                speed.then(other.cmp(one))
            });
        };
        by_speed(&mut roots);
        // A program, its column, and the row of its parent.
        let mut stack: Vec<(u32, u32, Option<u32>)> = Vec::new();
        stack.extend(roots.into_iter().map(|root| (root, 0, None)));
        while let Some((node, column, parent)) = stack.pop() {
            let row = self.rows.len() as u32;
            self.rows.push(Row {
                node,
                column,
                parent,
                until: row,
            });
            if let Some(parent) = parent {
                self.rows[parent as usize].until = row;
            }
            let mut below = std::mem::take(&mut children[node as usize]);
            by_speed(&mut below);
            // The straight line goes on after all others.
            if let Some(straight) = below.pop() {
                stack.push((straight, column, Some(row)));
            }
            stack.extend(
                below
                    .into_iter()
                    .map(|child| (child, column + 1, Some(row))),
            );
        }
    }

    /// A program.
    pub fn node(&self, row: &Row) -> &Node {
        &self.nodes[row.node as usize]
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The speed of the fastest program.
    pub fn top(&self) -> f32 {
        self.nodes.iter().fold(0.0, |top, of| top.max(of.gflops))
    }

    /// The rows of a program and of its ancestors alone, the first of them first; empty for a program without parents and
    /// children. The program is named by its record or by that of its second measurement.
    pub fn line_of(&self, record: &Record) -> Vec<Row> {
        let id = match record.repeats() {
            true => record.parent,
            false => record.id,
        };
        let mut line = Vec::new();
        let mut next = self.place.get(&id).copied();
        while let Some(node) = next.filter(|_| line.len() <= self.nodes.len()) {
            line.push(node);
            next = self.nodes[node as usize].parent;
        }
        let last = line.len().saturating_sub(1) as u32;
        let rows = (0u32..).zip(line.into_iter().rev());
        let rows = rows.map(|(row, node)| Row {
            node,
            column: 0,
            parent: row.checked_sub(1),
            until: (row + 1).min(last),
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests;
