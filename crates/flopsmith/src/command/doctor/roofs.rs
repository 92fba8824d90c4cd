//! Measures the roofs of compute and bandwidth of this machine, with one thread and with all.

use std::time::Duration;

use flopsmith_machine::roofline::{MEMORY, Roofs};
use flopsmith_machine::{peak, pinning};

use flopsmith_run::digits::significant;

/// Time spent on the peak, and on every other roof. It is longer than before a run, which has to wait for the
/// measurement.
const BUDGETS: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(50));

/// Measures all roofs. Takes about two seconds.
pub fn measure() -> Roofs {
    // The cores are used in reverse order, since most background work of a machine runs on the first core.
    let cores: Vec<usize> = pinning::allowed_cores().into_iter().rev().collect();
    let threads = u32::try_from(cores.len()).unwrap_or(1);
    let (_, roofs) = peak::measure_all(&cores, threads, BUDGETS.0, BUDGETS.1);
    roofs
}

/// The roofs as text, one line for each number of threads.
pub fn lines(roofs: &Roofs) -> String {
    let lines: Vec<String> = roofs
        .threads()
        .into_iter()
        .map(|threads| line(roofs, threads))
        .collect();
    lines.join("\n")
}

fn line(roofs: &Roofs, threads: u32) -> String {
    let compute: Vec<String> = roofs
        .compute
        .iter()
        .filter(|c| c.threads == threads)
        .map(|c| format!("{} {}", c.name(), significant(c.gflops, 3)))
        .collect();
    let bandwidth: Vec<String> = roofs
        .bandwidth
        .iter()
        .filter(|b| b.threads == threads)
        .map(|b| {
            let partly = b.level == MEMORY && !roofs.beyond_caches(threads);
            format!(
                "{} {}{}",
                b.level,
                significant(b.gb_s, 3),
                if partly { " (partly from a cache)" } else { "" }
            )
        })
        .collect();
    let mut line = format!(
        "{threads} thread{}: {} GFLOPS",
        if threads == 1 { "" } else { "s" },
        compute.join(", "),
    );
    if let Some(integers) = roofs.fastest_integers(threads) {
        let rate = significant(integers.gflops, 3);
        line.push_str(&format!("; whole numbers in bytes {rate} GOP/s"));
    }
    if !bandwidth.is_empty() {
        line.push_str(&format!("; reads {} GB/s", bandwidth.join(", ")));
    }
    if let (Some(peak), Some(memory)) = (roofs.fastest(threads), roofs.memory_gb_s(threads)) {
        let ridge = significant(peak.gflops / memory, 2);
        line.push_str(&format!("; below {ridge} FLOP/byte memory binds"));
    }
    line
}

#[cfg(test)]
mod tests {
    use flopsmith_machine::roofline::{Bandwidth, Ceiling};

    use super::*;

    #[test]
    fn each_number_of_threads_has_a_line() {
        let ceiling = |vector_bits, threads, gflops| Ceiling {
            vector_bits,
            threads,
            gflops,
        };
        let bandwidth = |level: &str, threads, gb_s, holds_bytes| Bandwidth {
            level: level.into(),
            threads,
            gb_s,
            buffer_bytes: 64 << 20,
            holds_bytes,
        };
        let roofs = Roofs {
            compute: vec![
                ceiling(64, 1, 9.81),
                ceiling(512, 1, 78.4),
                ceiling(512, 2, 155.0),
            ],
            bandwidth: vec![
                bandwidth("L3", 1, 61.02, Some(32 << 20)),
                bandwidth(MEMORY, 1, 14.0, None),
            ],
            integer: vec![ceiling(512, 1, 300.0)],
        };
        assert_eq!(
            lines(&roofs),
            "1 thread: scalar 9.81, 512 bits 78.4 GFLOPS; whole numbers in bytes 300 GOP/s; reads L3 61.0, memory 14.0 GB/s; below 5.6 FLOP/byte memory binds\n\
             2 threads: 512 bits 155 GFLOPS"
        );
    }
}
