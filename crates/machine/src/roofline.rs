//! The roofline model: the upper bound that arithmetic intensity sets for a program's speed on this machine.
//!
//! A program that does `I` operations for each byte it moves cannot be faster than `min(peak, I · bandwidth)`
//! (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
//! Communications of the ACM 52(4), 2009). The bytes are the least number that a call must move, as the problem's byte
//! formula counts them. The roof is therefore the best speed that any program could reach from memory. Data that fit a
//! cache need not come from memory in every call: such programs may be faster than the memory roof, and
//! [`Place::cached_in`] then names the cache.
//!
//! This module only computes; [`crate::peak`] measures.

use std::fmt;

use flopsmith_protocol::geometric;
use serde::{Deserialize, Serialize};

use crate::peak::Peak;

/// The name of the [`Bandwidth`] level whose data no cache holds.
pub const MEMORY: &str = "memory";

/// The vector width that stands for scalar code: one element.
pub const SCALAR_BITS: u32 = 64;

/// The measured roofs of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Roofs {
    /// Floating-point ceilings, by number of threads and width of vectors.
    pub compute: Vec<Ceiling>,
    /// Ceilings of integer operations by number of threads: additions and minima of bytes, the narrowest integers that
    /// a program can pack.
    pub integer: Vec<Ceiling>,
    /// Read bandwidths of memory and of the caches before it, by number of threads.
    pub bandwidth: Vec<Bandwidth>,
}

/// The highest rate of double-precision multiply-adds with vectors of one width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Width of the vectors, bits; [`SCALAR_BITS`] for scalar code.
    pub vector_bits: u32,
    /// Number of threads that ran at once.
    pub threads: u32,
    /// Operations a second, 10⁹/s; a multiply-add counts as two.
    pub gflops: f64,
}

/// The highest rate of reading from one level of the memory hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// `L2`, `L3` or [`MEMORY`].
    pub level: String,
    /// Number of threads that read at once.
    pub threads: u32,
    /// Bytes a second of all threads together, 10⁹/s.
    pub gb_s: f64,
    /// Size of the data that all threads together read again and again, bytes.
    pub buffer_bytes: u64,
    /// Size of one cache of this level, bytes; none for memory.
    pub holds_bytes: Option<u64>,
}

/// The limit of a program's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The floating-point units.
    Compute,
    /// The bandwidth of memory.
    Memory,
}

impl Bound {
    /// The name of the bound in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Memory => "memory",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The roofs that a program's speed is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Roof<'a> {
    /// The floating-point peak for the elements the program works on, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Threads of the program.
    pub threads: u32,
    /// The measured bandwidths.
    pub measured: &'a Roofs,
}

/// The part of an [`Attestation`](crate::attest::Attestation) that describes the roofs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Attested {
    /// Number of threads that a program may use.
    pub threads: u32,
    /// The measured peak.
    pub peak: Peak,
    /// All measured roofs.
    pub roofs: Roofs,
}

impl Attested {
    /// Reads the JSON of an attestation. None if this part of it cannot be read.
    pub fn read(attestation_json: &str) -> Option<Self> {
        serde_json::from_str(attestation_json).ok()
    }

    /// The roofs of a program for whose elements this is the peak, 10⁹ operations a second.
    pub fn roof(&self, peak_gflops: f64) -> Roof<'_> {
        Roof {
            peak_gflops,
            threads: self.threads,
            measured: &self.roofs,
        }
    }
}

/// The place of a program under the roofs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Operations for each byte that must be moved, FLOP/byte; none if the number of bytes is unknown.
    pub intensity: Option<f64>,
    /// Roof at this intensity, 10⁹ operations a second.
    pub roof_gflops: f64,
    /// Share of the roof that the program reaches. Above 1 only beyond a memory roof, if a cache holds the data.
    pub share: f64,
    /// The limit that makes the roof.
    pub bound: Bound,
    /// The smallest measured cache that holds all bytes that a call must move. If there is one, a program may exceed
    /// the memory roof.
    pub cached_in: Option<String>,
}

impl Place {
    /// The place of a program over several workloads, each of which has a place of its own: geometric means of intensity, roof
    /// and share, the bound of most workloads (compute if as many have either), and the cache that all of them fit. None
    /// without any; one stays as it is.
    pub fn over(places: &[Place]) -> Option<Place> {
        let (first, rest) = places.split_first()?;
        if rest.is_empty() {
            return Some(first.clone());
        }
        let memory = places.iter().filter(|p| p.bound == Bound::Memory).count();
        let intensities: Option<Vec<f64>> = places.iter().map(|p| p.intensity).collect();
        let same = places.iter().all(|p| p.cached_in == first.cached_in);
        Some(Place {
            intensity: intensities.and_then(|all| geometric(all.into_iter())),
            roof_gflops: geometric(places.iter().map(|p| p.roof_gflops))?,
            share: geometric(places.iter().map(|p| p.share))?,
            bound: if 2 * memory > places.len() {
                Bound::Memory
            } else {
                Bound::Compute
            },
            cached_in: first.cached_in.clone().filter(|_| same),
        })
    }

    /// True if the program may be faster than its roof, because its data need not come from memory.
    pub fn may_exceed(&self) -> bool {
        self.bound == Bound::Memory && self.cached_in.is_some()
    }
}

/// Computes the place of a program that does `flops` operations and must move `bytes` in each call, at a speed of
/// `gflops` · 10⁹ operations a second. Without a count of bytes, or without a bandwidth for its number of threads, the
/// roof is the peak alone. None where the peak or the work is not positive.
pub fn place(flops: f64, bytes: f64, gflops: f64, roof: Roof) -> Option<Place> {
    let (peak, flops) = (positive(roof.peak_gflops)?, positive(flops)?);
    let intensity = positive(bytes).and_then(|bytes| positive(flops / bytes));
    let memory = roof.measured.memory_gb_s(roof.threads);
    let slope = intensity
        .zip(memory)
        .and_then(|(intensity, gb_s)| positive(intensity * gb_s));
    let (roof_gflops, bound) = match slope {
        Some(slope) if slope < peak => (slope, Bound::Memory),
        _ => (peak, Bound::Compute),
    };
    Some(Place {
        intensity,
        roof_gflops,
        share: gflops / roof_gflops,
        bound,
        cached_in: roof.measured.holding(bytes).map(str::to_owned),
    })
}

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

impl Roofs {
    /// Bandwidth of memory with `threads` threads, 10⁹ bytes/s.
    pub fn memory_gb_s(&self, threads: u32) -> Option<f64> {
        self.bandwidth
            .iter()
            .find(|b| b.level == MEMORY && b.threads == threads)
            .and_then(|b| positive(b.gb_s))
    }

    /// The smallest measured cache that holds `bytes` bytes.
    pub fn holding(&self, bytes: f64) -> Option<&str> {
        let bytes = positive(bytes)?;
        self.bandwidth
            .iter()
            .filter_map(|b| Some((b.holds_bytes?, b.level.as_str())))
            .filter(|(holds, _)| *holds as f64 >= bytes)
            .min()
            .map(|(_, level)| level)
    }

    /// True if the buffer of the memory measurement with `threads` threads was at least twice as large as every
    /// measured cache. Otherwise part of the buffer may have come from a cache, and memory is slower than the measured
    /// bandwidth.
    pub fn beyond_caches(&self, threads: u32) -> bool {
        let held = self.bandwidth.iter().filter_map(|b| b.holds_bytes).max();
        self.bandwidth
            .iter()
            .filter(|b| b.level == MEMORY && b.threads == threads)
            .all(|b| b.buffer_bytes / 2 >= held.unwrap_or(0))
    }

    /// The numbers of threads that have measurements, the smallest first.
    pub fn threads(&self) -> Vec<u32> {
        let compute = self.compute.iter().map(|c| c.threads);
        let mut counts: Vec<u32> = compute
            .chain(self.bandwidth.iter().map(|b| b.threads))
            .collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The fastest ceiling with `threads` threads.
    pub fn fastest(&self, threads: u32) -> Option<&Ceiling> {
        fastest(&self.compute, threads)
    }

    /// The fastest whole-number ceiling with `threads` threads.
    pub fn fastest_integers(&self, threads: u32) -> Option<&Ceiling> {
        fastest(&self.integer, threads)
    }
}

fn fastest(ceilings: &[Ceiling], threads: u32) -> Option<&Ceiling> {
    ceilings
        .iter()
        .filter(|c| c.threads == threads)
        .max_by(|a, b| a.gflops.total_cmp(&b.gflops))
}

impl Ceiling {
    /// `scalar`, or the width of the vectors.
    pub fn name(&self) -> String {
        match self.vector_bits {
            SCALAR_BITS => "scalar".into(),
            bits => format!("{bits} bits"),
        }
    }

    /// The ceiling for a problem whose vectors hold `lanes` times as many elements as they hold doubles (see
    /// `Problem::arithmetic`), in 10⁹ operations a second. Scalar code processes one element at a time, whatever the
    /// element's size.
    pub fn gflops_for(&self, lanes: f64) -> f64 {
        match self.vector_bits {
            SCALAR_BITS => self.gflops,
            _ => self.gflops * lanes,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ceiling(vector_bits: u32, threads: u32, gflops: f64) -> Ceiling {
        Ceiling {
            vector_bits,
            threads,
            gflops,
        }
    }

    fn bandwidth(level: &str, threads: u32, gb_s: f64, holds_bytes: Option<u64>) -> Bandwidth {
        Bandwidth {
            level: level.into(),
            threads,
            gb_s,
            buffer_bytes: 1 << 20,
            holds_bytes,
        }
    }

    fn roofs(memory: f64) -> Roofs {
        Roofs {
            compute: vec![
                ceiling(64, 1, 10.0),
                ceiling(512, 1, 80.0),
                ceiling(512, 2, 160.0),
            ],
            integer: Vec::new(),
            bandwidth: vec![
                bandwidth("L3", 1, 50.0, Some(32 << 20)),
                bandwidth("L2", 1, 100.0, Some(1 << 20)),
                bandwidth(MEMORY, 1, memory, None),
                bandwidth(MEMORY, 2, 1.5 * memory, None),
            ],
        }
    }

    fn at(flops: f64, bytes: f64, threads: u32) -> Place {
        let measured = roofs(20.0);
        let roof = Roof {
            peak_gflops: 80.0,
            threads,
            measured: &measured,
        };
        place(flops, bytes, 8.0, roof).unwrap()
    }

    #[test]
    fn the_lower_roof_binds() {
        // 1/8 operation a byte from 20 GB/s permits 2.5 GFLOPS.
        let dot = at(2e6, 16e6, 1);
        assert_eq!((dot.intensity, dot.roof_gflops), (Some(0.125), 2.5));
        assert_eq!((dot.bound, dot.share), (Bound::Memory, 3.2));
        assert_eq!(dot.cached_in.as_deref(), Some("L3"));
        assert!(dot.may_exceed());
        let product = at(1e9, 1e6, 1);
        assert_eq!((product.bound, product.roof_gflops), (Bound::Compute, 80.0));
        assert_eq!(product.share, 0.1);
        assert_eq!(product.cached_in.as_deref(), Some("L2"));
        assert!(!product.may_exceed());
        // Two threads have a separate memory bandwidth, and data that no cache holds come from memory.
        let large = at(1e9, 1e9, 2);
        assert_eq!((large.bound, large.roof_gflops), (Bound::Memory, 30.0));
        assert!(!large.may_exceed());
    }

    #[test]
    fn several_workloads_have_one_place_in_the_mean() {
        let (dot, product) = (at(2e6, 16e6, 1), at(1e9, 1e6, 1));
        assert_eq!(Place::over(&[]), None);
        assert_eq!(Place::over(std::slice::from_ref(&dot)), Some(dot.clone()));
        let both = Place::over(&[dot.clone(), product.clone()]).unwrap();
        assert_eq!(both.bound, Bound::Compute);
        assert_eq!(both.cached_in, None);
        assert!((both.roof_gflops - (2.5f64 * 80.0).sqrt()).abs() < 1e-9);
        assert!((both.share - (3.2f64 * 0.1).sqrt()).abs() < 1e-9);
        assert!((both.intensity.unwrap() - 125f64.sqrt()).abs() < 1e-9);
        let most = Place::over(&[dot.clone(), product, dot.clone()]).unwrap();
        assert_eq!(most.bound, Bound::Memory);
        let all = Place::over(&[dot.clone(), dot]).unwrap();
        assert!(all.may_exceed());
    }

    #[test]
    fn without_bytes_or_bandwidth_there_is_only_the_peak() {
        for (bytes, threads) in [(f64::NAN, 1), (0.0, 1), (-1.0, 1), (16e6, 7)] {
            let place = at(2e6, bytes, threads);
            assert_eq!((place.bound, place.roof_gflops), (Bound::Compute, 80.0));
            assert_eq!(place.intensity.is_some(), bytes > 0.0);
        }
        let nothing = Roofs::default();
        let roof = |peak_gflops| Roof {
            peak_gflops,
            threads: 1,
            measured: &nothing,
        };
        assert_eq!(place(1.0, 1.0, 1.0, roof(0.0)), None);
        assert_eq!(place(1.0, 1.0, 1.0, roof(f64::NAN)), None);
        assert_eq!(place(f64::NAN, 1.0, 1.0, roof(1.0)), None);
        assert!(place(1.0, 1.0, 1.0, roof(1.0)).is_some());
    }

    #[test]
    fn ceilings_have_names_and_follow_the_size_of_elements() {
        let all = roofs(20.0);
        let named: Vec<String> = all.compute.iter().map(Ceiling::name).collect();
        assert_eq!(named, ["scalar", "512 bits", "512 bits"]);
        let floats: Vec<f64> = all.compute.iter().map(|c| c.gflops_for(2.0)).collect();
        assert_eq!(floats, [10.0, 160.0, 320.0]);
        assert_eq!(all.threads(), [1, 2]);
        assert_eq!(all.fastest(1).unwrap().vector_bits, 512);
        assert_eq!(all.fastest(3), None);
    }

    #[test]
    fn a_buffer_that_a_cache_could_hold_is_known() {
        let mut all = roofs(20.0);
        assert!(!all.beyond_caches(1));
        for memory in all.bandwidth.iter_mut().filter(|b| b.level == MEMORY) {
            memory.buffer_bytes = 64 << 20;
        }
        assert!(all.beyond_caches(1) && all.beyond_caches(2));
    }

    #[test]
    fn roofs_that_were_written_can_be_read() {
        let all = roofs(20.0);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Roofs>(&text).unwrap(), all);
    }

    #[test]
    fn an_attestation_has_the_roofs_of_its_threads() {
        let attested = r#"{"threads": 2, "cpu_model": "any",
            "peak": {"gflops": 25.0, "bandwidth_gb_s": 10.0, "vector_bits": 256, "threads": 2},
            "roofs": {"compute": [], "integer": [], "bandwidth": [
                {"level": "memory", "threads": 2, "gb_s": 10.0, "buffer_bytes": 65536, "holds_bytes": null}
            ]}}"#;
        let attested = Attested::read(attested).unwrap();
        let memory = place(4000.0, 2000.0, 10.0, attested.roof(50.0)).unwrap();
        assert_eq!((memory.roof_gflops, memory.share), (20.0, 0.5));
        let single = place(8000.0, 1000.0, 10.0, attested.roof(50.0)).unwrap();
        assert_eq!((single.roof_gflops, single.bound), (50.0, Bound::Compute));
        assert_eq!(Attested::read("words"), None);
        assert_eq!(Attested::read(r#"{"threads": 2}"#), None);
    }

    proptest! {
        #[test]
        fn a_roof_is_no_higher_than_peak_and_slope(
            flops in 1.0..1e12f64, bytes in 1.0..1e12f64, gflops in 0.0..1e4f64, peak in 0.1..1e4f64, memory in 0.1..1e3f64,
        ) {
            let measured = roofs(memory);
            let placed = place(flops, bytes, gflops, Roof { peak_gflops: peak, threads: 1, measured: &measured }).unwrap();
            let slope = flops / bytes * memory;
            prop_assert!((placed.roof_gflops / peak.min(slope) - 1.0).abs() < 1e-9);
            prop_assert!((placed.share * placed.roof_gflops - gflops).abs() <= 1e-9 * gflops.max(1.0));
            prop_assert_eq!(placed.bound == Bound::Memory, slope < peak);
        }

        #[test]
        fn fewer_bytes_and_more_bandwidth_never_lower_a_roof(
            flops in 1.0..1e12f64, bytes in 1.0..1e12f64, memory in 0.1..1e3f64, more in 1.0..100.0f64,
        ) {
            let of = |bytes: f64, memory: f64| {
                let measured = roofs(memory);
                place(flops, bytes, 1.0, Roof { peak_gflops: 80.0, threads: 1, measured: &measured }).unwrap().roof_gflops
            };
            prop_assert!(of(bytes / more, memory) >= of(bytes, memory) * (1.0 - 1e-12));
            prop_assert!(of(bytes, memory * more) >= of(bytes, memory) * (1.0 - 1e-12));
        }

        #[test]
        fn any_numbers_have_a_place_or_none(numbers in prop::collection::vec(prop::num::f64::ANY, 5)) {
            let measured = roofs(numbers[4]);
            let roof = Roof { peak_gflops: numbers[3], threads: 1, measured: &measured };
            if let Some(placed) = place(numbers[0], numbers[1], numbers[2], roof) {
                prop_assert!(placed.roof_gflops > 0.0 && placed.roof_gflops.is_finite());
                prop_assert!(placed.roof_gflops <= numbers[3]);
                prop_assert!(placed.intensity.is_none_or(|i| i > 0.0));
            }
        }
    }
}
