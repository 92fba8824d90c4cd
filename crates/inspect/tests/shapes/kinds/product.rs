//! Products: sums over products of two arrays.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Step, add, min, n, range, real, set, stride, v};
use super::specs::{Spec, packed, specs};
use super::tiles::tiled;
use super::{directed, labels, nest, unrolled};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unroll {
    No,
    /// The same sum, several times.
    Repeat(i64),
    /// Several sums.
    Partial(i64),
    /// One statement with several terms.
    Terms(i64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tile {
    No,
    Scalars,
    Array,
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    order: Vec<usize>,
    /// Loops that are blocked, with the size of a block.
    blocks: Vec<(usize, i64)>,
    unroll: Unroll,
    pub tile: Tile,
    pack: bool,
    pub pragma: Option<(&'static str, Technique)>,
    prefetch: bool,
}

fn permutations(of: usize) -> Vec<Vec<usize>> {
    if of == 0 {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for rest in permutations(of - 1) {
        for at in (0..of).rev() {
            let mut next = rest.clone();
            next.insert(at, of - 1);
            found.push(next);
        }
    }
    found
}

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    for spec in specs() {
        let rank = spec.loops.len();
        let plain = Schedule {
            order: (0..rank).collect(),
            blocks: Vec::new(),
            unroll: Unroll::No,
            tile: Tile::No,
            pack: false,
            pragma: None,
            prefetch: false,
        };
        let mut schedules = Vec::new();
        // The kernels of a convolution are small, so that only orders with the image's loops together are written.
        for order in permutations(rank)
            .into_iter()
            .filter(|o| rank < 4 || o[0] == 0)
        {
            schedules.push(Schedule {
                order: order.clone(),
                ..plain.clone()
            });
            schedules.push(Schedule {
                order: order.clone(),
                unroll: Unroll::Repeat(4),
                ..plain.clone()
            });
            let blocked = order.iter().copied().filter(|l| !is_small(&spec, *l));
            let last: Vec<usize> = blocked.collect();
            for block in [
                vec![(last[last.len() - 1], 64)],
                last.iter().map(|l| (*l, 32)).collect(),
            ] {
                schedules.push(Schedule {
                    order: order.clone(),
                    blocks: block,
                    ..plain.clone()
                });
            }
            schedules.push(Schedule {
                order: order.clone(),
                pragma: Some(("omp parallel for", Technique::Openmp)),
                ..plain.clone()
            });
        }
        for unroll in [
            Unroll::Repeat(2),
            Unroll::Partial(4),
            Unroll::Terms(4),
            Unroll::Partial(2),
        ] {
            schedules.push(Schedule {
                unroll,
                ..plain.clone()
            });
            schedules.push(Schedule {
                unroll,
                pack: true,
                ..plain.clone()
            });
        }
        for tile in [Tile::Scalars, Tile::Array] {
            for pack in [false, true] {
                schedules.push(Schedule {
                    tile,
                    pack,
                    ..plain.clone()
                });
            }
            schedules.push(Schedule {
                tile,
                pragma: Some(("GCC unroll 4", Technique::Unroll)),
                ..plain.clone()
            });
        }
        schedules.push(Schedule {
            pack: true,
            ..plain.clone()
        });
        schedules.push(Schedule {
            pragma: Some(("omp simd", Technique::Simd)),
            ..plain.clone()
        });
        schedules.push(Schedule {
            prefetch: true,
            ..plain.clone()
        });
        found.extend(schedules.iter().map(|schedule| kernel(&spec, schedule)));
    }
    found
}

/// True for the loops of a convolution's kernel, and those of small matrices.
fn is_small(spec: &Spec, at: usize) -> bool {
    (spec.problem == "conv2d" && at > 1) || (spec.problem == "batched_dgemm" && at > 0)
}

fn kernel(spec: &Spec, schedule: &Schedule) -> Kernel {
    let reordered = schedule.order.windows(2).any(|w| w[0] > w[1]);
    Kernel {
        kind: "product",
        problem: spec.problem,
        about: format!("{schedule:?}"),
        body: body(spec, schedule),
        labels: labels([
            (reordered, Technique::LoopReorder),
            (schedule.unroll != Unroll::No, Technique::Unroll),
            (!schedule.blocks.is_empty(), Technique::CacheBlocking),
            (schedule.tile != Tile::No, Technique::RegisterBlocking),
            (schedule.pack, Technique::Packing),
            // The others copy a part of a factor for each of several loops, or a vector.
            (
                schedule.pack && matches!(spec.problem, "dgemm" | "sgemm" | "dsyrk"),
                Technique::LayoutChange,
            ),
            (schedule.prefetch, Technique::Prefetch),
            (
                matches!(schedule.unroll, Unroll::Partial(_)),
                Technique::PartialSums,
            ),
        ])
        .union(schedule.pragma.iter().map(|(_, t)| *t).collect()),
    }
}

fn body(spec: &Spec, schedule: &Schedule) -> Vec<S> {
    let (first, mut second) = spec.factors.clone();
    let mut copy = None;
    if schedule.pack {
        let (read, copies, depth) = packed(spec);
        second = read;
        copy = Some((copies, depth));
    }
    if schedule.tile != Tile::No {
        return tiled(spec, schedule, first, second, copy);
    }
    let loops: Vec<_> = schedule
        .order
        .iter()
        .map(|at| spec.loops[*at].clone())
        .collect();
    let sums = loops.iter().rev().take_while(|(_, _, sum)| *sum).count();
    let all_sums = spec.loops.iter().filter(|(_, _, sum)| *sum).count();
    let blocked = |name: &str| {
        let of = schedule
            .blocks
            .iter()
            .find(|(at, _)| spec.loops[*at].0 == name);
        of.map(|(_, size)| *size)
    };
    let sum_blocked = loops
        .iter()
        .any(|(name, _, sum)| *sum && blocked(name).is_some());
    let in_variable = sums == all_sums;
    let bounds = |name: &str, extent: &E| match blocked(name) {
        Some(_) => {
            let block = v(format!("{name}{name}"));
            let size = v(format!("B{}", name.to_uppercase()));
            (block.clone(), min(block + size, extent.clone()))
        }
        None => (n(0), extent.clone()),
    };
    let term = first * second;
    let mut out = Vec::new();
    let mut names: Vec<(String, i64)> = Vec::new();
    for (at, size) in &schedule.blocks {
        names.push((format!("B{}", spec.loops[*at].0.to_uppercase()), *size));
    }
    out.extend(
        names
            .iter()
            .map(|(name, size)| S::Const(name.clone(), *size)),
    );
    if !in_variable || sum_blocked {
        let outputs = spec.loops.iter().filter(|(_, _, sum)| !sum);
        let heads = outputs
            .map(|(name, extent, _)| (format!("{name}0"), n(0), extent.clone(), Step::By(n(1))));
        let heads: Vec<_> = heads.collect();
        let zero = spec
            .loops
            .iter()
            .fold(spec.target.clone(), |t, (name, _, _)| {
                t.with(name, &v(format!("{name}0")))
            });
        out.extend(nest(heads, vec![set(zero, E::R("0.0"))]));
    }
    // The innermost loop, with copies of its statement.
    let (last, extent, _) = loops[loops.len() - 1].clone();
    let (from, to) = bounds(last, &extent);
    let target = if in_variable {
        v("sum")
    } else {
        spec.target.clone()
    };
    let mut partial = 1;
    let mut inner = match schedule.unroll {
        Unroll::No => {
            let mut statements = vec![add(target.clone(), term.clone())];
            if schedule.prefetch {
                let ahead = spec.factors.1.with(last, &(v(last) + n(8)));
                statements.insert(0, S::Prefetch(ahead));
            }
            vec![range(last, from, to, statements)]
        }
        Unroll::Repeat(factor) => unrolled(last, from, to, factor, &|place, _| {
            vec![add(target.with(last, &place), term.with(last, &place))]
        }),
        Unroll::Partial(factor) => {
            partial = factor;
            unrolled(last, from, to, factor, &|place, copy| {
                vec![add(v(format!("sum{copy}")), term.with(last, &place))]
            })
        }
        Unroll::Terms(factor) => {
            let terms = (0..factor).map(|d| term.with(last, &(v(last) + n(d))));
            let all = terms
                .reduce(|a, b| a + b)
                .expect("a factor of at least one");
            vec![stride(
                last,
                from,
                to,
                n(factor),
                vec![add(target.clone(), all)],
            )]
        }
    };
    if let Some((text, Technique::Simd | Technique::Unroll)) = schedule.pragma {
        inner = directed(text, inner);
    }
    // The loops of the sum, and the variable around them.
    let (outer, within) = loops.split_at(loops.len() - if in_variable { sums } else { 1 });
    let heads = |list: &[(&'static str, E, bool)]| -> Vec<(String, E, E, Step)> {
        list.iter()
            .map(|(name, extent, _)| {
                let (from, to) = bounds(name, extent);
                (name.to_string(), from, to, Step::By(n(1)))
            })
            .collect()
    };
    let mut whole = nest(heads(&within[..within.len() - 1]), inner);
    if in_variable {
        let start = if sum_blocked {
            spec.target.clone()
        } else {
            E::R("0.0")
        };
        let mut around = Vec::new();
        if partial > 1 {
            for copy in 0..partial {
                let start = if copy == 0 {
                    start.clone()
                } else {
                    E::R("0.0")
                };
                around.push(real(&format!("sum{copy}"), Some(start)));
            }
        } else {
            around.push(real("sum", Some(start)));
        }
        around.extend(whole);
        let total = match partial {
            1 => v("sum"),
            _ => (0..partial)
                .map(|copy| v(format!("sum{copy}")))
                .reduce(|a, b| a + b)
                .expect("several sums"),
        };
        around.push(set(spec.target.clone(), total));
        whole = around;
    }
    // A copy stands before all loops, or within the outermost one.
    let mut heads = heads(outer);
    let blocks = schedule.blocks.iter().map(|(at, size)| {
        let (name, extent, _) = spec.loops[*at].clone();
        let size = (v(format!("B{}", name.to_uppercase())), size);
        (format!("{name}{name}"), n(0), extent, Step::By(size.0))
    });
    let blocks: Vec<_> = blocks.collect();
    let mut result = match copy {
        Some((copies, 0)) => {
            out.extend(copies);
            nest(heads, whole)
        }
        Some((copies, _)) => {
            let inner = nest(heads.split_off(1), whole);
            nest(heads, copies.into_iter().chain(inner).collect())
        }
        None => nest(heads, whole),
    };
    result = nest(blocks, result);
    if let Some((text, Technique::Openmp)) = schedule.pragma {
        result = directed(text, result);
    }
    out.extend(result);
    out
}
