//! Measures the time of filling the inputs of a 256 x 256 matrix product.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use flopsmith_harness::inputs::Stream;
use std::time::Instant;

fn main() {
    let mut a = vec![0.0; 256 * 256];
    let mut b = vec![0.0; 256 * 256];
    let mut best = f64::INFINITY;
    for seed in 0..2000 {
        let start = Instant::now();
        Stream::new(seed, 0).fill_f64(&mut a);
        Stream::new(seed, 1).fill_f64(&mut b);
        best = best.min(start.elapsed().as_secs_f64());
        std::hint::black_box((&a, &b));
    }
    println!("two matrices of 256 x 256 doubles: {:.1} µs", best * 1e6);
}
