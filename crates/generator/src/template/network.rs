//! Sorting networks: fixed sequences of comparisons and exchanges that sort any input.

use std::collections::BTreeMap;

/// A comparison of the elements at two places, of which the smaller one goes to the first place.
pub type Comparator = (u32, u32);

/// Comparisons of different elements, which may run in any order.
pub type Layer = Vec<Comparator>;

/// The bitonic network for `count` elements, a power of two, with all comparisons upwards: the first layer of a merge
/// meets the second run backwards (Batcher, 1968; Knuth, "The Art of Computer Programming", volume 3, 5.3.4).
pub fn bitonic(count: u32) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut run = 2;
    while run <= count {
        let runs = (0..count).step_by(run as usize);
        layers.push(
            runs.flat_map(|base| (0..run / 2).map(move |i| (base + i, base + run - 1 - i)))
                .collect(),
        );
        let mut gap = run / 4;
        while gap > 0 {
            let parts = (0..count).step_by(2 * gap as usize);
            layers.push(
                parts
                    .flat_map(|base| (base..base + gap).map(move |i| (i, i + gap)))
                    .collect(),
            );
            gap /= 2;
        }
        run *= 2;
    }
    layers
}

/// Batcher's network of odd-even merges for `count` elements, a power of two: fewer comparisons than the bitonic one.
pub fn odd_even(count: u32) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut run = 1;
    while run < count {
        let mut gap = run;
        while gap > 0 {
            let mut layer = Layer::new();
            let mut first = gap % run;
            while first + gap < count {
                for i in first..(first + gap).min(count - gap) {
                    // Only elements of the same pair of runs are merged.
                    if i / (2 * run) == (i + gap) / (2 * run) {
                        layer.push((i, i + gap));
                    }
                }
                first += 2 * gap;
            }
            layers.push(layer);
            gap /= 2;
        }
        run *= 2;
    }
    layers
}

/// Comparisons of a few elements, which can be kept in registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The elements in ascending order.
    pub elements: Vec<u32>,
    /// The comparisons in their order, by places in `elements`.
    pub comparators: Vec<Comparator>,
}

/// The network in parts that run one after the other, each with at most `most` elements. As many consecutive layers as
/// possible are joined: their parts do not share an element.
pub fn parts(layers: &[Layer], count: u32, most: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut begin = 0;
    while begin < layers.len() {
        let mut end = begin + 1;
        while end < layers.len() && largest(&layers[begin..=end], count) <= most {
            end += 1;
        }
        parts.extend(connected(&layers[begin..end], count));
        begin = end;
    }
    parts
}

/// For each element the least one that comparisons connect it with.
fn leaders(layers: &[Layer], count: u32) -> Vec<u32> {
    let mut leaders: Vec<u32> = (0..count).collect();
    for (a, b) in layers.iter().flatten() {
        let (a, b) = (leaders[*a as usize], leaders[*b as usize]);
        let (kept, gone) = (a.min(b), a.max(b));
        for leader in &mut leaders {
            if *leader == gone {
                *leader = kept;
            }
        }
    }
    leaders
}

fn largest(layers: &[Layer], count: u32) -> usize {
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for leader in leaders(layers, count) {
        *sizes.entry(leader).or_default() += 1;
    }
    sizes.into_values().max().unwrap_or_default()
}

fn connected(layers: &[Layer], count: u32) -> Vec<Part> {
    let leaders = leaders(layers, count);
    let mut sets: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (element, leader) in (0..count).zip(&leaders) {
        sets.entry(*leader).or_default().push(element);
    }
    let several = sets.into_iter().filter(|(_, set)| set.len() > 1);
    several
        .map(|(leader, elements)| {
            let own = layers.iter().flatten();
            let own = own.filter(|(a, _)| leaders[*a as usize] == leader);
            let place = |element: u32| elements.partition_point(|e| *e < element) as u32;
            let comparators = own.map(|(a, b)| (place(*a), place(*b))).collect();
            Part {
                elements,
                comparators,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(layers: &[Layer], values: &mut [u32]) {
        for (a, b) in layers.iter().flatten() {
            let (a, b) = (*a as usize, *b as usize);
            if values[a] > values[b] {
                values.swap(a, b);
            }
        }
    }

    fn run_parts(parts: &[Part], values: &mut [u32]) {
        for part in parts {
            for (a, b) in &part.comparators {
                let a = part.elements[*a as usize] as usize;
                let b = part.elements[*b as usize] as usize;
                if values[a] > values[b] {
                    values.swap(a, b);
                }
            }
        }
    }

    /// A network that sorts all zeros and ones sorts everything (Knuth, 5.3.4, theorem Z).
    #[test]
    fn networks_sort_all_zeros_and_ones() {
        for count in [4, 8, 16] {
            for layers in [bitonic(count), odd_even(count)] {
                for bits in 0..1u32 << count {
                    let mut values: Vec<u32> = (0..count).map(|n| (bits >> n) & 1).collect();
                    run(&layers, &mut values);
                    assert!(values.is_sorted(), "{count}: {bits:b}");
                }
            }
        }
    }

    #[test]
    fn layers_compare_every_element_once_and_the_counts_are_the_known_ones() {
        for count in [4, 8, 16, 32, 64] {
            for layers in [bitonic(count), odd_even(count)] {
                for layer in layers {
                    let mut all: Vec<u32> = layer.iter().flat_map(|(a, b)| [*a, *b]).collect();
                    assert!(layer.iter().all(|(a, b)| a < b && *b < count));
                    let len = all.len();
                    all.sort_unstable();
                    all.dedup();
                    assert_eq!(all.len(), len, "{layer:?}");
                }
            }
        }
        let comparisons = |layers: Vec<Layer>| layers.iter().map(Vec::len).sum::<usize>();
        assert_eq!(comparisons(bitonic(64)), 672);
        assert_eq!(comparisons(odd_even(64)), 543);
        assert_eq!(comparisons(odd_even(16)), 63);
    }

    proptest! {
        #[test]
        fn large_networks_and_their_parts_sort(
            seed in prop::collection::vec(0u32..50, 64),
            most in prop::sample::select(vec![4usize, 8, 16]),
        ) {
            for count in [32u32, 64] {
                for layers in [bitonic(count), odd_even(count)] {
                    let mut whole = seed[..count as usize].to_vec();
                    let mut parted = whole.clone();
                    run(&layers, &mut whole);
                    prop_assert!(whole.is_sorted());
                    let parts = parts(&layers, count, most);
                    prop_assert!(parts.iter().all(|p| p.elements.len() <= most));
                    run_parts(&parts, &mut parted);
                    prop_assert_eq!(whole, parted);
                }
            }
        }
    }
}
