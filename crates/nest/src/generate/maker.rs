//! The loops of one group, level by level.

use super::*;

/// One level of loops.
#[derive(Debug, Clone, Copy)]
struct Level {
    dimension: usize,
    /// The variable of the loop.
    var: Var,
    /// The size of a tile, for loops over tiles.
    tile: Option<i64>,
}

/// A statement in the coordinates of a group.
#[derive(Debug, Clone)]
struct Placed {
    number: usize,
    statement: Statement,
    /// Constraints on coordinates and tiles.
    domain: System,
    /// Dimensions in which it has a coordinate.
    has: Vec<bool>,
}

/// Keeps a point within its tiles along one dimension, of which `levels` come from the outermost to the innermost. The first tile
/// within an outer one begins with that one, and the last may be cut off by its end.
fn keep_within_tiles<'l>(domain: &mut System, levels: impl Iterator<Item = &'l Level>, point: Var) {
    let point = Affine::var(point);
    let mut first = Affine::default();
    for level in levels {
        if let Some(tile) = level.tile {
            first = first.plus_times(tile, &Affine::var(level.var));
            domain.at_most(&first, &point);
            domain.at_most(&point, &first.offset(tile - 1));
        }
    }
}

pub(super) struct Maker<'a> {
    space: &'a Space,
    pub(super) program: Program,
    group: &'a Group,
    levels: Vec<Level>,
    placed: Vec<Placed>,
    /// Dependences in coordinates: those of the second iteration are renamed.
    ordered: Vec<Dependence>,
    commuting: Vec<Dependence>,
    second: Renamed,
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        space: &'a Space,
        members: &Members,
        group: &'a Group,
    ) -> Result<Self, Error> {
        let mut program = space.program.clone();
        let dimensions = members.dimensions;
        let sorted: BTreeSet<usize> = group.order.iter().copied().collect();
        if group.order.len() != dimensions
            || sorted != (0..dimensions).collect()
            || group.tiles.len() != dimensions
        {
            return Err(Error::Misfit("other dimensions"));
        }
        let outer = groups::outer(group)?;
        let points: Vec<Var> = (0..dimensions)
            .map(|d| {
                let name = program.name(members.main[d]).to_owned();
                program.fresh(&name)
            })
            .collect();
        let mut levels = Vec::new();
        for (sizes, word) in [(&outer, "outer"), (&group.tiles, "tile")] {
            for dimension in group.order.iter().copied().filter(|d| sizes[*d] > 0) {
                let name = format!("{}_{word}", program.name(members.main[dimension]));
                levels.push(Level {
                    dimension,
                    var: program.fresh(&name),
                    tile: Some(i64::from(sizes[dimension])),
                });
            }
        }
        for dimension in group.order.iter().copied() {
            levels.push(Level {
                dimension,
                var: points[dimension],
                tile: None,
            });
        }
        let mut placed = Vec::new();
        let mut next_fill = 0;
        for (rank, number) in members.statements.iter().enumerate() {
            let one = groups::place(
                space,
                members,
                group,
                *number,
                rank,
                &points,
                &mut next_fill,
            )?;
            let mut domain = one.domain;
            for dimension in (0..dimensions).filter(|d| one.has[*d]) {
                let along = levels.iter().filter(|l| l.dimension == dimension);
                keep_within_tiles(&mut domain, along, points[dimension]);
            }
            placed.push(Placed {
                number: *number,
                statement: one.statement,
                domain,
                has: one.has,
            });
        }
        let vars: Vec<Var> = levels.iter().map(|l| l.var).collect();
        let second = Renamed::of_vars(&vars);
        let mut maker = Self {
            space,
            program,
            group,
            levels,
            placed,
            ordered: Vec::new(),
            commuting: Vec::new(),
            second,
        };
        maker.ordered = maker.in_coordinates(members, group, &space.dependences, &points)?;
        maker.commuting = maker.in_coordinates(members, group, &space.commuting, &points)?;
        Ok(maker)
    }

    /// Dependences between the statements of this group, as pairs of coordinates.
    fn in_coordinates(
        &self,
        members: &Members,
        group: &Group,
        all: &[Dependence],
        points: &[Var],
    ) -> Result<Vec<Dependence>, Error> {
        let mut found = Vec::new();
        for dependence in all {
            let (Some(from), Some(to)) = (self.at(dependence.from), self.at(dependence.to)) else {
                continue;
            };
            let mut pairs = groups::pairs(self.space, members, group, dependence, points)?;
            pairs.and(&from.domain);
            pairs.and(&self.second.system(&to.domain));
            if !pairs.is_empty() {
                found.push(Dependence {
                    from: dependence.from,
                    to: dependence.to,
                    pairs,
                });
            }
        }
        Ok(found)
    }

    fn at(&self, number: usize) -> Option<&Placed> {
        self.placed.iter().find(|p| p.number == number)
    }

    fn of(&self, number: usize) -> Result<&Placed, Error> {
        self.at(number)
            .ok_or(Error::Misfit("a statement is missing"))
    }

    /// Both iterations of a pair have the same coordinates in the levels before `level`.
    fn together(&self, dependence: &Dependence, level: usize) -> System {
        let mut pairs = dependence.pairs.clone();
        let (from, to) = (self.at(dependence.from), self.at(dependence.to));
        for l in &self.levels[..level] {
            let both =
                from.is_some_and(|p| p.has[l.dimension]) && to.is_some_and(|p| p.has[l.dimension]);
            if both {
                let var = Affine::var(l.var);
                pairs.equal(&var, &self.second.affine(&var));
            }
        }
        pairs
    }

    /// The dependences among `statements` between iterations with the same coordinates before `level`.
    fn active<'d>(
        &self,
        all: &'d [Dependence],
        level: usize,
        statements: &[usize],
    ) -> Vec<(&'d Dependence, System)> {
        let among = all
            .iter()
            .filter(|d| statements.contains(&d.from) && statements.contains(&d.to));
        among
            .map(|d| (d, self.together(d, level)))
            .filter(|(_, pairs)| !pairs.is_empty())
            .collect()
    }

    /// The loops of `statements` from `level` on. `known` holds wherever these loops run.
    pub(super) fn level(
        &mut self,
        level: usize,
        statements: &[usize],
        known: &System,
    ) -> Result<Vec<Tree>, Error> {
        let here = |n: &usize| {
            let mut all = known.clone();
            all.and(&self.at(*n).map(|p| p.domain.clone()).unwrap_or_default());
            !all.is_empty()
        };
        let statements: Vec<usize> = statements.iter().copied().filter(here).collect();
        let statements = statements.as_slice();
        let active = self.active(&self.ordered, level, statements);
        let edges: Vec<(usize, usize)> = active.iter().map(|(d, _)| (d.from, d.to)).collect();
        let fused = level < self.fused_levels()
            && level < self.levels.len()
            && statements.iter().all(|s| {
                self.at(*s)
                    .is_some_and(|p| p.has[self.levels[level].dimension])
            });
        let circles = if fused {
            vec![statements.to_vec()]
        } else {
            groups::circles(statements, &edges)
        };
        let mut trees = Vec::new();
        for circle in circles {
            let (guard, known) = self.guarded(level, &circle, known)?;
            let inner = self.circle(level, &circle, &known)?;
            if guard.is_empty() {
                trees.extend(inner);
            } else {
                trees.push(Tree::If {
                    any: vec![guard],
                    then: inner,
                    otherwise: Vec::new(),
                });
            }
        }
        Ok(trees)
    }

    /// Number of levels that statements share: tiles of shared dimensions belong to them.
    fn fused_levels(&self) -> usize {
        let tiles = self.levels.iter().filter(|l| l.tile.is_some()).count();
        match self.group.fused {
            0 => 0,
            fused => tiles + fused,
        }
    }

    /// Constraints that a single statement puts on the loops around it and that those do not ensure, and what is known with them.
    fn guarded(
        &self,
        level: usize,
        circle: &[usize],
        known: &System,
    ) -> Result<(Vec<Affine>, System), Error> {
        let [only] = circle else {
            return Ok((Vec::new(), known.clone()));
        };
        let needed = self.projected(*only, level)?.irredundant(known);
        let guard = needed.inequalities();
        let mut known = known.clone();
        known.and(&needed);
        Ok((guard, known))
    }

    /// The constraints of a statement on the levels before `level`.
    fn projected(&self, number: usize, level: usize) -> Result<System, Error> {
        let inner = self.levels[level..].iter().map(|l| l.var);
        self.of(number)?
            .domain
            .projected(inner)
            .ok_or(Error::Bounds)
    }

    fn circle(
        &mut self,
        level: usize,
        circle: &[usize],
        known: &System,
    ) -> Result<Vec<Tree>, Error> {
        let Some(here) = self.levels.get(level).copied() else {
            return match circle {
                [only] => Ok(vec![Tree::Leaf(self.nest(*only, level, known)?)]),
                _ => Err(Error::Apart),
            };
        };
        let with: Vec<bool> = circle
            .iter()
            .map(|s| self.at(*s).is_some_and(|p| p.has[here.dimension]))
            .collect();
        if let [only] = circle {
            if !with[0] {
                return self.circle(level + 1, &[*only], known);
            }
            if here.tile.is_none() && self.is_leaf(*only, level) {
                self.check(level, circle)?;
                return Ok(vec![Tree::Leaf(self.nest(*only, level, known)?)]);
            }
        } else {
            if with.contains(&false) {
                return Err(Error::Apart);
            }
            let first_point =
                here.tile.is_none() && level > 0 && self.levels[level - 1].tile.is_some();
            if first_point && let Some(trees) = self.separated(level, circle, known)? {
                return Ok(trees);
            }
        }
        self.looped(level, circle, known)
    }

    /// A loop over this level.
    fn looped(
        &mut self,
        level: usize,
        circle: &[usize],
        known: &System,
    ) -> Result<Vec<Tree>, Error> {
        let here = self.levels[level];
        self.check(level, circle)?;
        let mut ranges = Vec::new();
        let mut inside = known.clone();
        let mut all = Vec::new();
        for number in circle {
            let bounds = self.projected(*number, level + 1)?;
            let needed = bounds.irredundant(known);
            ranges.push(needed.range(here.var));
            all.push(needed);
        }
        // The loop goes from the least first value to the greatest last one, whether or not a statement has iterations for the
        // values of the outer loops. So a lower bound holds in it only if the lower bounds of each statement imply it.
        let side = |system: &System, below: bool| {
            let mut context = known.clone();
            for constraint in system.inequalities() {
                if (constraint.of(here.var) > 0) == below && constraint.of(here.var) != 0 {
                    context.at_least_zero(constraint);
                }
            }
            context
        };
        for system in &all {
            for constraint in system.inequalities() {
                let factor = constraint.of(here.var);
                let holds = |other: &System| side(other, factor > 0).implies(&constraint);
                if factor != 0 && all.iter().all(holds) {
                    inside.at_least_zero(constraint);
                }
            }
        }
        ranges.dedup();
        let parallel = level == 0 && self.group.openmp && self.is_parallel(level, circle);
        let body = self.level(level + 1, circle, &inside)?;
        Ok(vec![Tree::Loop {
            var: here.var,
            ranges,
            dimension: here.dimension,
            tile: here.tile,
            parallel,
            body,
        }])
    }

    /// Tells tiles in which one statement is alone from the others.
    fn separated(
        &mut self,
        level: usize,
        circle: &[usize],
        known: &System,
    ) -> Result<Option<Vec<Tree>>, Error> {
        let depth = |maker: &Self, n: usize| maker.at(n).map_or(0, |p| p.statement.iterators.len());
        let deepest = circle.iter().map(|n| depth(self, *n)).max().unwrap_or(0);
        let heavy: Vec<usize> = circle
            .iter()
            .copied()
            .filter(|n| depth(self, *n) == deepest)
            .collect();
        let others: Vec<usize> = circle
            .iter()
            .copied()
            .filter(|n| depth(self, *n) < deepest)
            .collect();
        if heavy.len() != 1 || others.is_empty() {
            return Ok(None);
        }
        let mut any = Vec::new();
        for other in &others {
            let needed = self.projected(*other, level)?.irredundant(known);
            let constraints = needed.inequalities();
            if constraints.is_empty() {
                return Ok(None);
            }
            any.push(constraints);
        }
        let mixed = self.looped(level, circle, known)?;
        let (guard, inside) = self.guarded(level, &heavy, known)?;
        let mut alone = self.circle(level, &heavy, &inside)?;
        if !guard.is_empty() {
            alone = vec![Tree::If {
                any: vec![guard],
                then: alone,
                otherwise: Vec::new(),
            }];
        }
        Ok(Some(vec![Tree::If {
            any,
            then: mixed,
            otherwise: alone,
        }]))
    }

    /// Refuses a loop over `level` that would run the second iteration of a pair before the first.
    fn check(&self, level: usize, circle: &[usize]) -> Result<(), Error> {
        let here = self.levels[level];
        let var = Affine::var(here.var);
        for (dependence, mut pairs) in self.active(&self.ordered, level, circle) {
            pairs.less(&self.second.affine(&var), &var);
            if !pairs.is_empty() {
                return Err(Error::Order {
                    from: dependence.from,
                    to: dependence.to,
                });
            }
        }
        Ok(())
    }

    /// True if iterations of the loop may run at the same time.
    fn is_parallel(&self, level: usize, circle: &[usize]) -> bool {
        let var = Affine::var(self.levels[level].var);
        let second = self.second.affine(&var);
        let apart = |pairs: &System| {
            let (mut less, mut more) = (pairs.clone(), pairs.clone());
            less.less(&var, &second);
            more.less(&second, &var);
            less.is_empty() && more.is_empty()
        };
        let ordered = self.active(&self.ordered, level, circle);
        let commuting = self.active(&self.commuting, level, circle);
        ordered
            .iter()
            .chain(&commuting)
            .all(|(_, pairs)| apart(pairs))
    }

    /// True if everything from `level` on is a nest that a leaf can write.
    fn is_leaf(&self, number: usize, level: usize) -> bool {
        let ordered = self.active(&self.ordered, level, &[number]);
        // With dependences of its own, loops in their order are right if every level is checked.
        ordered.is_empty()
            || level + 1 == self.levels.len()
            || self.group.leaf.style == Style::Plain
    }

    /// The nest of a statement from `level` on.
    fn nest(&self, number: usize, level: usize, known: &System) -> Result<Nest, Error> {
        let placed = self.of(number)?;
        let mut loops = Vec::new();
        let mut inside = known.clone();
        for (n, here) in self.levels.iter().enumerate().skip(level) {
            if !placed.has[here.dimension] {
                continue;
            }
            let needed = self.projected(number, n + 1)?.irredundant(&inside);
            inside.and(&needed);
            // Checks the levels within the leaf.
            self.check(n, &[number])?;
            loops.push(leaf::Loop {
                var: here.var,
                dimension: here.dimension,
                range: needed.range(here.var),
            });
        }
        let ordered = self.active(&self.ordered, level, &[number]);
        Ok(Nest {
            number,
            statement: placed.statement.clone(),
            loops,
            free: ordered.is_empty(),
        })
    }
}
