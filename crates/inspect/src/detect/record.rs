//! Records the meaning of a write of a value.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::eval::Seen;
use super::facts::{Origin, Place, Write};
use super::walk::Walker;

/// Largest number of elements that are recorded for the value of a variable.
pub(super) const MOST_ELEMENTS: usize = 32;

/// Largest number of recorded writes.
const MOST_WRITES: usize = 4000;

impl<'t> Walker<'t> {
    /// Writes a value to a place and records the write.
    pub fn write(&mut self, target: Place, adds: bool, value: &Seen, node: Node<'t>) {
        if self.facts.writes.len() >= MOST_WRITES {
            self.facts.cut = true;
            return;
        }
        let mut accs = value.accs.clone();
        accs.remove(&target);
        let reads = self.reads_of(&target, value);
        let sources = self.sources_without(&target, value, &reads);
        let guarded = self.conditional > 0 && self.guards.iter().any(|g| g.contains(&target));
        let carries = adds || guarded || value.reads.contains(&target);
        let updates = carries
            && !sources.is_empty()
            && self.crosses_loop(&target)
            && (accs.is_empty() || self.reads_live_elements(value));
        match &target {
            Place::Scalar(id) => {
                let conditional = self.conditional > 0;
                let scalar = &mut self.facts.scalars[*id];
                let elements = value
                    .reads
                    .iter()
                    .filter(|r| matches!(r, Place::Element(..)))
                    .take(MOST_ELEMENTS);
                if carries || conditional {
                    let room = MOST_ELEMENTS.saturating_sub(scalar.reads.len());
                    scalar.reads.extend(elements.take(room).cloned());
                    scalar.sources.extend(&value.sources);
                    scalar.accs.extend(accs.iter().cloned());
                    scalar.computed |= value.computed || carries;
                } else {
                    scalar.reads = elements.cloned().collect();
                    scalar.sources.clone_from(&value.sources);
                    scalar.accs.clone_from(&accs);
                    scalar.computed = value.computed;
                    scalar.set.clone_from(&self.stack);
                }
                scalar.accumulates |= updates;
            }
            Place::Element(id, _) => {
                let array = &mut self.facts.arrays[*id];
                if array.origin == Origin::Local {
                    array.sources.extend(&value.sources);
                    // An array may hold results of reductions before they are stored to the output.
                    array.accumulates |= updates || !accs.is_empty();
                }
            }
        }
        self.charge(value.reads.len() / 8);
        self.facts.writes.push(Write {
            stack: self.stack.clone(),
            copies: !value.computed && !carries && value.has_elements(),
            target,
            carries,
            updates,
            reads,
            sources,
            accs,
            block: false,
            conditional: self.is_branch(),
            line: self.line(node),
        });
    }

    /// Records a call that copies a block of elements.
    pub fn block_copy(&mut self, to: &Seen, from: &Seen, node: Node<'t>) {
        let (Some(to), Some(from)) = (&to.pointer, &from.pointer) else {
            return;
        };
        if self.facts.writes.len() >= MOST_WRITES {
            self.facts.cut = true;
            return;
        }
        let sources = self.facts.arrays[from.array].sources.clone();
        let array = &mut self.facts.arrays[to.array];
        if array.origin == Origin::Local {
            array.sources.extend(&sources);
        }
        let element = |at: &super::walk::Pointer| Place::Element(at.array, at.index.clone());
        self.facts.writes.push(Write {
            stack: self.stack.clone(),
            target: element(to),
            carries: false,
            updates: false,
            reads: vec![element(from)],
            sources,
            accs: BTreeSet::new(),
            copies: true,
            block: true,
            conditional: self.is_branch(),
            line: self.line(node),
        });
    }

    /// True if a loop around the write lies within the last assignment of a scalar, so that its value passes from one
    /// iteration to the next.
    fn crosses_loop(&self, target: &Place) -> bool {
        match target {
            Place::Scalar(id) => {
                let set = &self.facts.scalars[*id].set;
                self.stack.iter().any(|id| !set.contains(id))
            }
            Place::Element(..) => !self.stack.is_empty(),
        }
    }

    /// The places in the value, without the elements that enter it only through the target's previous value.
    fn reads_of(&self, target: &Place, value: &Seen) -> Vec<Place> {
        let mut reads = value.reads.clone();
        if let Place::Scalar(id) = target
            && reads.contains(target)
            && !self.facts.scalars[*id].accumulates
        {
            for old in &self.facts.scalars[*id].reads {
                if let Some(at) = reads.iter().rposition(|read| read == old) {
                    reads.remove(at);
                }
            }
        }
        reads
    }

    /// The arguments in the value, without that of the target unless other elements bring it: those of the same array,
    /// or those of a copy if they bring no other argument. The value that a variable had before brings none: `x = x + y`
    /// has the sources of `x += y`.
    fn sources_without(&self, target: &Place, value: &Seen, reads: &[Place]) -> BTreeSet<usize> {
        let mut sources = value.sources.clone();
        if let Place::Scalar(id) = target
            && reads.contains(target)
        {
            let mut brought = BTreeSet::new();
            for read in reads.iter().filter(|read| *read != target) {
                match read {
                    Place::Scalar(other) => brought.extend(&self.facts.scalars[*other].sources),
                    Place::Element(array, _) => {
                        let array = &self.facts.arrays[*array];
                        brought
                            .extend(array.sources.iter().copied().chain(array.origin.argument()));
                    }
                }
            }
            let before = &self.facts.scalars[*id].sources;
            sources.retain(|source| !before.contains(source) || brought.contains(source));
        }
        if let Place::Element(id, _) = target
            && let Some(own) = self.facts.arrays[*id].origin.argument()
            && sources.contains(&own)
        {
            let alone = sources.len() == 1;
            let another = |read: &Place| match read {
                Place::Element(array, _) if array == id => read != target,
                Place::Element(array, _) => {
                    alone && self.facts.arrays[*array].sources.contains(&own)
                }
                Place::Scalar(_) => false,
            };
            if !value.reads.iter().any(another) {
                sources.remove(&own);
            }
        }
        sources
    }

    /// True if the value contains an element that the innermost loop chooses. The elements behind a finished reduction
    /// were chosen by loops that have ended.
    fn reads_live_elements(&self, value: &Seen) -> bool {
        let Some(innermost) = self.stack.last() else {
            return false;
        };
        let innermost = self.facts.loops[*innermost].symbol;
        value.reads.iter().any(|read| {
            let Place::Element(_, index) = read else {
                return false;
            };
            let mut symbols = index.iter().flat_map(|p| p.symbols());
            let runs = |s| {
                !self.facts.is_loop(s)
                    || self
                        .stack
                        .iter()
                        .any(|id| self.facts.loops[*id].symbol == s)
            };
            index.iter().any(|p| p.contains(innermost)) && symbols.all(runs)
        })
    }
}
