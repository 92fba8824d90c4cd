//! The allocator of the program.
#![expect(
    unsafe_code,
    reason = "the crate of mimalloc has no safe function for options"
)]

use std::ffi::{c_int, c_long};

/// Each of thousands of messages allocates memory and frees it again, which mimalloc does fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc's header: milliseconds for which a freed page stays with the process, and the variable that sets it.
const PURGE_DELAY: c_int = 15;
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Has the allocator return freed pages to the system at once, unless the user chose a delay; they stay for a second otherwise. Call it before
/// there are other threads.
pub fn return_freed_memory() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: mimalloc is linked, the option is one of its header's, and no other thread reads it meanwhile.
        unsafe { mi_option_set(PURGE_DELAY, 0) };
    }
}
