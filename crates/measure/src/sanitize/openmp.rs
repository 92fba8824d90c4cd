//! The OpenMP functions that ThreadSanitizer knows through wrappers, and the programs that call others.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

/// C source of the wrappers between a program and libgomp.
pub(super) const WRAPPERS: &str = include_str!("openmp.c");

/// The functions that `openmp.c` wraps.
const WRAPPED: [&str; 32] = [
    "GOMP_parallel",
    "GOMP_parallel_sections",
    "GOMP_parallel_loop_static",
    "GOMP_parallel_loop_dynamic",
    "GOMP_parallel_loop_guided",
    "GOMP_parallel_loop_nonmonotonic_dynamic",
    "GOMP_parallel_loop_nonmonotonic_guided",
    "GOMP_parallel_loop_runtime",
    "GOMP_parallel_loop_nonmonotonic_runtime",
    "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
    "GOMP_barrier",
    "GOMP_loop_end",
    "GOMP_sections_end",
    "GOMP_single_copy_start",
    "GOMP_single_copy_end",
    "GOMP_critical_start",
    "GOMP_critical_end",
    "GOMP_critical_name_start",
    "GOMP_critical_name_end",
    "GOMP_atomic_start",
    "GOMP_atomic_end",
    "GOMP_ordered_start",
    "GOMP_ordered_end",
    "GOMP_task",
    "GOMP_taskwait",
    "GOMP_taskgroup_end",
    "omp_set_lock",
    "omp_test_lock",
    "omp_unset_lock",
    "omp_set_nest_lock",
    "omp_test_nest_lock",
    "omp_unset_nest_lock",
];

/// The functions of libgomp that establish no order between threads, except those that hand out iterations of loops.
const ORDER_NOTHING: [&str; 7] = [
    "GOMP_loop_end_nowait",
    "GOMP_single_start",
    "GOMP_sections_start",
    "GOMP_sections_next",
    "GOMP_sections_end_nowait",
    "GOMP_taskyield",
    "GOMP_taskgroup_start",
];

/// Flags with which the linker calls the wrappers instead of the functions.
pub(super) fn link_flags() -> impl Iterator<Item = String> {
    WRAPPED.iter().map(|name| format!("-Wl,--wrap={name}"))
}

/// A function of libgomp that a compiled program calls and whose ordering ThreadSanitizer does not know:
/// ThreadSanitizer would take accesses that the function orders for a race.
pub(super) fn unknown(object: &[u8]) -> Option<String> {
    let Ok(file) = ElfFile64::<Endianness>::parse(object) else {
        return Some("an object that cannot be read".to_owned());
    };
    file.symbols()
        .filter(ObjectSymbol::is_undefined)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .find(|name| name.starts_with("GOMP_") && !is_known(name))
}

fn is_known(name: &str) -> bool {
    WRAPPED.contains(&name) || ORDER_NOTHING.contains(&name) || hands_out(name)
}

/// True for `GOMP_loop_ull_dynamic_next` and its like. Loops that wait for other iterations of their own, and loops
/// that share memory of the library's, have other functions.
fn hands_out(name: &str) -> bool {
    let Some(kind) = name.strip_prefix("GOMP_loop_") else {
        return false;
    };
    let kind = kind
        .strip_suffix("_start")
        .or_else(|| kind.strip_suffix("_next"));
    !name.contains("doacross")
        && kind.is_some_and(|kind| {
            ["static", "dynamic", "guided", "runtime"]
                .iter()
                .any(|schedule| kind.ends_with(schedule))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrapper_is_linked_and_every_linked_one_is_there() {
        for name in WRAPPED {
            let lock = name.ends_with("_start") || name.ends_with("_end");
            let own = name
                .strip_prefix("omp_")
                .and_then(|rest| rest.split_once('_'));
            let own = own.is_some_and(|(does, kind)| {
                WRAPPERS.contains(&format!("__wrap_omp_{does}_##kind("))
                    && WRAPPERS.contains(&format!("OWN_LOCK({kind})"))
            });
            let there = WRAPPERS.contains(&format!("__wrap_{name}("))
                || WRAPPERS.contains(&format!("({name})"))
                || (lock && WRAPPERS.contains(name))
                || own;
            assert!(there, "{name}");
        }
        assert_eq!(link_flags().count(), WRAPPED.len());
    }

    #[test]
    fn constructs_that_nobody_knows_are_left_out() {
        for name in [
            "GOMP_loop_dynamic_next",
            "GOMP_loop_ull_nonmonotonic_guided_start",
            "GOMP_loop_ordered_static_start",
            "GOMP_loop_maybe_nonmonotonic_runtime_next",
            "GOMP_barrier",
            "GOMP_single_start",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "GOMP_taskloop",
            "GOMP_parallel_reductions",
            "GOMP_loop_start",
            "GOMP_loop_ull_ordered_start",
            "GOMP_loop_doacross_static_start",
            "GOMP_teams_reg",
        ] {
            assert!(!is_known(name), "{name}");
        }
        assert!(unknown(b"no object").is_some());
    }
}
