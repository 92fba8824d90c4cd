//! The elements that a statement reads.

use flopsmith_problem::Role;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::super::model::{Access, Loop, Subscript};
use super::{Draw, pick, plain_extents};

impl<R: Rng> Draw<'_, R> {
    /// The targets of the statements whose loops the next statement shares.
    fn shared_targets(&self, shares: bool) -> Vec<Access> {
        let mut all = Vec::new();
        for statement in self.nest.statements.iter().rev().take_while(|_| shares) {
            all.push(statement.target.clone());
            if !statement.shares {
                break;
            }
        }
        all
    }

    /// An element with the iterators of these loops: of an array that fits, or of a new input.
    pub(super) fn access(
        &mut self,
        loops: &[Loop],
        which: &[usize],
        used: &[Access],
        shares: bool,
    ) -> Access {
        let extents = plain_extents(loops, which);
        let subscripts: Vec<Subscript> = which.iter().map(|l| Subscript::of(*l)).collect();
        // In shared loops only the element that was just written is finished.
        let targets = self.shared_targets(shares);
        let finished = |access: &Access| {
            let mut same = targets.iter().filter(|t| t.array == access.array);
            same.all(|target| target == access)
        };
        let fitting = self.nest.arrays.iter().enumerate();
        let fitting: Vec<(Role, Access)> = fitting
            .filter(|(_, array)| array.extents == extents)
            .map(|(number, array)| {
                let access = Access {
                    array: number,
                    subscripts: subscripts.clone(),
                };
                (array.role, access)
            })
            .filter(|(_, access)| finished(access) && !used.contains(access))
            .collect();
        if let Some((role, access)) = fitting.choose(self.rng) {
            let share = match role {
                Role::Input => 0.2,
                Role::Output | Role::InOut => 0.7,
            };
            if self.rng.random_bool(share) {
                return access.clone();
            }
        }
        Access {
            array: self.new_array(Role::Input, extents),
            subscripts,
        }
    }

    /// An element of a result of an earlier statement, if one fits these loops.
    pub(super) fn chained(&mut self, loops: &[Loop], shares: bool) -> Option<Access> {
        let targets = self.shared_targets(shares);
        if let Some(target) = targets.first() {
            return Some(target.clone());
        }
        let mut all = Vec::new();
        for statement in &self.nest.statements {
            let array = statement.target.array;
            let mut which: Vec<usize> = Vec::new();
            for extent in &self.nest.arrays[array].extents {
                let mut free = (0..loops.len()).filter(|l| !which.contains(l));
                match free.find(|l| loops[*l].size == extent.size) {
                    Some(found) => which.push(found),
                    None => break,
                }
            }
            if which.len() == self.nest.arrays[array].extents.len() {
                let subscripts = which.into_iter().map(Subscript::of).collect();
                all.push(Access { array, subscripts });
            }
        }
        all.choose(self.rng).cloned()
    }

    /// Some of the loops, with those that must be among them.
    fn some_loops(&mut self, count: usize, must: &[usize]) -> Vec<usize> {
        let wanted: usize = pick(self.rng, [(2, 1), (6, 2), (2, 3)]);
        let mut others: Vec<usize> = (0..count).filter(|l| !must.contains(l)).collect();
        others.shuffle(self.rng);
        let more = wanted.saturating_sub(must.len());
        let mut which: Vec<usize> = must
            .iter()
            .copied()
            .chain(others.into_iter().take(more))
            .collect();
        which.sort_unstable();
        if self.chance(0.3) {
            which.shuffle(self.rng);
        }
        which
    }

    /// So many elements, or one more, that together move with every loop. No two are the same.
    pub(super) fn factors(&mut self, loops: &[Loop], count: usize, shares: bool) -> Vec<Access> {
        let mut all: Vec<Access> = Vec::new();
        if self.chance(0.75) {
            all.extend(self.chained(loops, shares));
        }
        loop {
            let left: Vec<usize> = (0..loops.len())
                .filter(|l| !all.iter().any(|access| access.moves(*l)))
                .collect();
            if all.len() >= count && left.is_empty() {
                return all;
            }
            let must = match all.len() + 1 >= count {
                true => left,
                false => Vec::new(),
            };
            let which = self.some_loops(loops.len(), &must);
            let access = self.access(loops, &which, &all, shares);
            all.push(access);
        }
    }
}
