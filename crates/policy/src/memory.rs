//! How the process's allocator treats the large, short-lived tensors of libtorch on a CPU.
#![expect(unsafe_code, reason = "mallopt is a C function")]

/// Lets the allocator keep memory that tensors free, instead of returning it to the kernel.
///
/// By default glibc maps every block of some megabytes afresh and unmaps it when freed, and each step of sampling or
/// training has the kernel clear the same pages again. The setting holds for the whole process, and freed memory stays
/// with the process. Call this once at start if a model runs on a CPU. Without glibc it does nothing.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest value that glibc takes on 64-bit machines; glibc still maps larger blocks.
        const MAP_FROM: libc::c_int = 32 << 20;
        const TRIM_FROM: libc::c_int = 1 << 30;
        // SAFETY: mallopt takes two integers and changes parameters of the allocator under its own lock.
        let (mapped, trimmed) = unsafe {
            (
                libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_FROM),
                libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_FROM),
            )
        };
        if mapped == 0 || trimmed == 0 {
            tracing::debug!("the allocator kept its own thresholds");
        }
    }
}
