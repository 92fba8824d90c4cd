//! How the process's allocator treats the large, short-lived tensors of libtorch on a CPU.
#![expect(unsafe_code, reason = "mallopt is a C function")]

/// Lets the allocator keep memory that tensors free, instead of returning it to the kernel.
///
/// By default glibc maps every block of some megabytes afresh and unmaps it when freed, so each step of sampling or
/// training has the kernel clear the same pages again. For the whole process; call it once at start where a model
/// runs on a CPU. Freed memory then stays with the process. Does nothing where the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest value that glibc takes on 64-bit machines; larger blocks are still mapped.
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
