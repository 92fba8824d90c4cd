//! Techniques that single words show: intrinsics, built-ins and vector types, including the internal names in headers.

use flopsmith_protocol::Technique;

/// Intrinsics with the prefix of vector intrinsics that do not use vectors: memory, fences, single numbers.
const SCALAR: &[&str] = &[
    "_mm_malloc",
    "_mm_free",
    "_mm_pause",
    "_mm_sfence",
    "_mm_lfence",
    "_mm_mfence",
    "_mm_popcnt_u32",
    "_mm_popcnt_u64",
    "_mm_crc32_u8",
    "_mm_crc32_u16",
    "_mm_crc32_u32",
    "_mm_crc32_u64",
    "_mm_stream_si32",
    "_mm_stream_si64",
    "_mm_getcsr",
    "_mm_clflush",
    "__builtin_ia32_pause",
    "__builtin_ia32_sfence",
    "__builtin_ia32_lfence",
    "__builtin_ia32_mfence",
];

/// Prefixes of built-ins that work on single numbers: bits, carries, checksums.
const SCALAR_BUILTINS: &[&str] = &[
    "__builtin_ia32_crc32",
    "__builtin_ia32_bzhi",
    "__builtin_ia32_bextr",
    "__builtin_ia32_pdep",
    "__builtin_ia32_pext",
    "__builtin_ia32_lzcnt",
    "__builtin_ia32_tzcnt",
    "__builtin_ia32_addcarry",
    "__builtin_ia32_sbb",
    "__builtin_ia32_bsr",
    "__builtin_ia32_ro",
    "__builtin_ia32_movnti",
];

/// Words that define or change vector types.
const VECTORS: &[&str] = &[
    "vector_size",
    "__vector_size__",
    "ext_vector_type",
    "__ext_vector_type__",
    "neon_vector_type",
    "__builtin_shuffle",
    "__builtin_shufflevector",
    "__builtin_convertvector",
    "__builtin_assemble_vector",
];

/// The technique that a word of the program shows.
pub(super) fn technique_of(word: &str) -> Option<Technique> {
    if is_prefetch(word) {
        Some(Technique::Prefetch)
    } else if is_of_vectors(word) {
        Some(Technique::Simd)
    } else if word.starts_with("omp_get_") || word == "omp_in_parallel" {
        Some(Technique::Openmp)
    } else {
        None
    }
}

/// True for `__builtin_prefetch` and for names that expand to it or to another instruction that only prefetches:
/// `_mm_prefetch`, `_m_prefetchw`, `_mm512_prefetch_i32gather_pd`, `__builtin_ia32_gatherpfdps`.
fn is_prefetch(word: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
    let names = ["prefetch", "gatherpf", "scatterpf"];
    begins(&["_m_", "_mm", "__builtin_", "__pld", "__pli"])
        && (names.iter().any(|name| word.contains(name)) || begins(&["__pld", "__pli"]))
}

fn is_of_vectors(word: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
    if SCALAR.contains(&word) || begins(SCALAR_BUILTINS) {
        return false;
    }
    VECTORS.contains(&word)
        || is_vector_type(word)
        || is_mask_function(word)
        // Intrinsics of MMX begin with `_m_`, those of matrix tiles with `_tile_`.
        || begins(&["_mm", "_m_", "_tile_", "__tile", "__builtin_ia32_"])
}

/// True for `__m256d`, `__mmask8`, and the internal names of headers: `__v4df`, `__v16sf`, `__v32qu`.
fn is_vector_type(word: &str) -> bool {
    if ["__m64", "__m128", "__m256", "__m512", "__mmask"]
        .iter()
        .any(|start| word.starts_with(start))
    {
        return true;
    }
    let Some(rest) = word.strip_prefix("__v") else {
        return false;
    };
    let kind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let kind = kind.strip_suffix("_u").unwrap_or(kind);
    kind.len() < rest.len() && kind.len() == 2 && kind.bytes().all(|c| c.is_ascii_lowercase())
}

/// True for functions on AVX-512 masks: `_kand_mask8`, `_cvtu32_mask16`, `_load_mask64`.
fn is_mask_function(word: &str) -> bool {
    word.starts_with('_') && !word.starts_with("__") && word.contains("mask") && {
        ["_k", "_cvt", "_load_mask", "_store_mask"]
            .iter()
            .any(|start| word.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intrinsics_are_known_by_all_their_names() {
        for word in [
            "__builtin_prefetch",
            "_mm_prefetch",
            "_m_prefetch",
            "_m_prefetchw",
            "_m_prefetchit0",
            "__builtin_ia32_prefetchi",
            "_mm512_mask_prefetch_i32gather_pd",
            "__builtin_ia32_scatterpfqps",
        ] {
            assert_eq!(technique_of(word), Some(Technique::Prefetch), "{word}");
        }
        for word in [
            "_mm256_add_pd",
            "__builtin_ia32_addpd512_mask",
            "_m_paddb",
            "__m512i",
            "__m128_u",
            "__v16sf",
            "__v64qu",
            "__v4df_u",
            "__mmask16",
            "_kand_mask8",
            "_cvtmask16_u32",
            "_tile_loadconfig",
            "vector_size",
            "__vector_size__",
            "__builtin_shuffle",
        ] {
            assert_eq!(technique_of(word), Some(Technique::Simd), "{word}");
        }
    }

    #[test]
    fn similar_names_are_no_techniques() {
        for word in [
            "prefetch",
            "my_prefetch",
            "_mm_malloc",
            "_mm_free",
            "_mm_pause",
            "_mm_popcnt_u64",
            "__builtin_ia32_pause",
            "__builtin_ia32_bzhi_di",
            "_bzhi_u64",
            "__v",
            "__value",
            "__v2",
            "__vf",
            "_mask",
            "_k",
            "vector",
        ] {
            assert_eq!(technique_of(word), None, "{word}");
        }
    }
}
