//! Amounts of memory, as typed.

/// The memory of a GPU as typed: a number with GiB, GB, MiB or MB.
pub fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no amount of memory; write e.g. 80GiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "GiB" | "G" => 1u64 << 30,
        "GB" => 1_000_000_000,
        "MiB" | "M" => 1 << 20,
        "MB" => 1_000_000,
        _ => return Err(wrong()),
    };
    let number: u32 = digits.trim().parse().map_err(|_| wrong())?;
    match number {
        0 => Err(wrong()),
        number => Ok(u64::from(number) * unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_gpu_has_a_unit() {
        assert_eq!(memory("80GiB"), Ok(80 << 30));
        assert_eq!(memory("24 GB"), Ok(24_000_000_000));
        assert_eq!(memory("512MiB"), Ok(512 << 20));
        for text in ["", "80", "GiB", "-1GiB", "0GiB", "80TiB", "8é"] {
            assert!(memory(text).is_err_and(|e| e.contains("80GiB")), "{text}");
        }
    }
}
