//! Shared memory: anonymous files, their mappings, and sleeping on a shared word.
#![expect(unsafe_code, reason = "mapping memory and futexes are system calls")]

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::control::{CONTROL_BYTES, Control};
use crate::huge;

/// True if this processor can evict memory from its caches.
pub const CAN_FLUSH: bool = cfg!(target_arch = "x86_64");
/// Bytes of a cache line; that of some processors is a multiple.
const LINE: usize = 64;
/// True if this processor has `clflushopt`. One `clflush` waits for the previous one: four MiB took 7 to 10 ms on a
/// Sapphire Rapids instead of 0.3. CPUID, leaf 7, EBX, bit 23; the standard library has no name for it.
#[cfg(target_arch = "x86_64")]
static FLUSHES_UNORDERED: LazyLock<bool> = LazyLock::new(|| {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
    __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).ebx & 1 << 23 != 0
});
/// Size and alignment of a huge page on x86-64.
pub const HUGE_PAGE: usize = 2 << 20;

/// A file without a name, and this process's own mapping of it. No other process can truncate it: a candidate has no
/// descriptor of it, since the harness closes both before it loads a candidate, and the run jail permits no call that
/// truncates by descriptor. In small pages its size is sealed as well.
pub struct SharedMemory {
    file: OwnedFd,
    mapping: Mapping,
}

impl SharedMemory {
    /// Makes `bytes` of zeroed shared memory, in huge pages if it fills some and the machine has them. `name` is for
    /// people who look at open files.
    pub fn create(name: &str, bytes: usize) -> Result<Self, Error> {
        if bytes >= HUGE_PAGE
            && let Some(memory) = Self::in_huge_pages(bytes)
        {
            return Ok(memory);
        }
        Self::sealed(name, bytes)
    }

    /// None if the machine gives no huge pages, or gives small pages instead.
    fn in_huge_pages(bytes: usize) -> Option<Self> {
        let file = huge::file()?;
        // SAFETY: a plain system call on our own descriptor.
        let sized = unsafe { libc::ftruncate(file.as_raw_fd(), bytes.try_into().ok()?) };
        let mapping = (sized == 0).then(|| Mapping::of(file.as_raw_fd(), bytes).ok())??;
        mapping.huge().then_some(Self { file, mapping })
    }

    fn sealed(name: &str, bytes: usize) -> Result<Self, Error> {
        let name = std::ffi::CString::new(name).map_err(Error::other)?;
        // SAFETY: the name is a C string that outlives the call.
        let fd = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let length = libc::off_t::try_from(bytes).map_err(Error::other)?;
        // SAFETY: plain system calls on our own descriptor.
        let sized = unsafe {
            libc::ftruncate(fd, length) == 0
                && libc::fcntl(
                    fd,
                    libc::F_ADD_SEALS,
                    libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
                ) == 0
        };
        if !sized {
            return Err(Error::last_os_error());
        }
        let mapping = Mapping::of(fd, bytes)?;
        Ok(Self { file, mapping })
    }

    /// The descriptor to hand to another process.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// This process's mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

/// A shared, writable, populated mapping. Large ones start on a huge-page boundary.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
    reserved: *mut libc::c_void,
    reserved_bytes: usize,
    huge: bool,
}

// SAFETY: the mapping is plain memory that belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access goes through atomics or volatile copies only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of the file behind `fd`.
    pub fn of(fd: RawFd, bytes: usize) -> Result<Self, Error> {
        let large = bytes >= HUGE_PAGE;
        let reserved_bytes = if large { bytes + HUGE_PAGE } else { bytes };
        // SAFETY: an anonymous reservation touches nothing that exists.
        let reserved = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if reserved == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let shift = if large {
            reserved.cast::<u8>().align_offset(HUGE_PAGE)
        } else {
            0
        };
        // SAFETY: `shift` is less than a huge page, so the range stays inside the reservation,
        // which is ours to replace.
        let start = unsafe {
            libc::mmap(
                reserved.cast::<u8>().wrapping_add(shift).cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                fd,
                0,
            )
        };
        let mut mapping = Self {
            start: start.cast(),
            bytes,
            reserved,
            reserved_bytes,
            huge: false,
        };
        if start == libc::MAP_FAILED {
            // The reservation goes with `mapping`.
            mapping.start = std::ptr::null_mut();
            return Err(Error::last_os_error());
        }
        if large {
            // With huge pages the physical layout, and so the time of a call, repeats better. The advice is optional:
            // many machines refuse it for shared memory.
            // SAFETY: advice on our own mapping.
            unsafe {
                libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
                libc::madvise(start, bytes, libc::MADV_COLLAPSE);
            }
        }
        // SAFETY: our own mapping; where the kernel does not know the advice pages come by fault.
        unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_WRITE) };
        if large {
            // All pages exist now. Checks whether they are huge or can become so; kernels before 6.1 do not know that
            // advice.
            // SAFETY: advice on our own mapping.
            mapping.huge = unsafe { libc::madvise(start, bytes, libc::MADV_COLLAPSE) } == 0
                || mapped_by_huge_pages(mapping.start) == Some(bytes);
        }
        Ok(mapping)
    }

    /// True if the kernel gave huge pages.
    pub fn huge(&self) -> bool {
        self.huge
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The start of the mapping.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// The control block at the start of the mapping.
    ///
    /// # Panics
    /// If the mapping is too small for a control block, which is an error of the caller.
    pub fn control(&self) -> &Control {
        assert!(
            self.bytes >= CONTROL_BYTES,
            "this mapping holds no control block"
        );
        // SAFETY: large enough, page-aligned, lives as long as `self`, and every field is atomic.
        unsafe { &*self.start.cast::<Control>() }
    }

    /// Makes ranges (byte offset, bytes) inaccessible in this process.
    pub fn forbid(&self, ranges: &[(usize, usize)]) -> Result<(), Error> {
        for &(offset, bytes) in ranges {
            if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
                return Err(Error::other("a range lies outside the buffers"));
            }
            // SAFETY: inside our own mapping.
            let done =
                unsafe { libc::mprotect(self.start.add(offset).cast(), bytes, libc::PROT_NONE) };
            if done != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Evicts a range from all caches, if the processor has an instruction for it ([`CAN_FLUSH`]).
    ///
    /// # Panics
    /// If the range lies outside the mapping, which is an error of the caller.
    pub fn flush(&self, offset: usize, bytes: usize) {
        self.check::<u8>(offset, bytes);
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_clflush, _mm_mfence};
            let lines = (0..bytes).step_by(LINE).chain(bytes.checked_sub(1));
            let unordered = *FLUSHES_UNORDERED;
            // SAFETY: the lines lie inside the mapping; flushing changes no content, and the processor has the instructions.
            unsafe {
                _mm_mfence();
                for at in lines {
                    let line = self.start.add(offset + at);
                    if unordered {
                        std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    } else {
                        _mm_clflush(line);
                    }
                }
                _mm_mfence();
            }
        }
    }

    /// Takes a range into the caches of this core, where it then lies as if it had been written here. No content changes.
    /// Only for a process without concurrent writers.
    ///
    /// # Panics
    /// If the range lies outside the mapping, which is an error of the caller.
    pub fn fetch(&self, offset: usize, bytes: usize) {
        self.check::<u8>(offset, bytes);
        for at in (0..bytes).step_by(LINE).chain(bytes.checked_sub(1)) {
            // SAFETY: inside the mapping; the byte gets the value that it has.
            unsafe {
                let byte = self.start.add(offset + at);
                byte.write_volatile(byte.read_volatile());
            }
        }
    }

    fn check<T>(&self, offset: usize, count: usize) {
        let end = count
            .checked_mul(size_of::<T>())
            .and_then(|b| b.checked_add(offset));
        assert!(
            end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(align_of::<T>()),
            "an array lies outside the shared memory"
        );
    }

    /// Copies `out.len()` elements that start at byte `offset` out of the shared memory. Another process may write
    /// meanwhile: the result is then a mixture of old and new.
    ///
    /// # Panics
    /// If the range lies outside the mapping, which is an error of the caller.
    pub fn read<T: Plain>(&self, offset: usize, out: &mut [T]) {
        self.check::<T>(offset, out.len());
        // SAFETY: the range is inside the mapping; every bit pattern is a valid `T`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.add(offset).cast::<T>(),
                out.as_mut_ptr(),
                out.len(),
            );
        }
    }

    /// Reads one element from memory, without the compiler's caching.
    ///
    /// # Panics
    /// As [`Mapping::read`].
    pub fn get<T: Plain>(&self, offset: usize) -> T {
        self.check::<T>(offset, 1);
        // SAFETY: inside the mapping and aligned; every bit pattern is a valid `T`.
        unsafe { self.start.add(offset).cast::<T>().read_volatile() }
    }

    /// Copies `data` into the shared memory at byte `offset`.
    ///
    /// # Panics
    /// As [`Mapping::read`].
    pub fn write<T: Plain>(&self, offset: usize, data: &[T]) {
        self.check::<T>(offset, data.len());
        // SAFETY: the range is inside the mapping.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data.as_ptr(),
                self.start.add(offset).cast::<T>(),
                data.len(),
            );
        }
    }

    /// Runs `f` over a part of the memory as a slice. Only for a process without concurrent writers: the harness while
    /// it prepares, the supervisor while the harness waits for an order.
    ///
    /// # Panics
    /// As [`Mapping::read`].
    pub fn with_slice<T: Plain, R>(
        &self,
        offset: usize,
        count: usize,
        f: impl FnOnce(&mut [T]) -> R,
    ) -> R {
        self.check::<T>(offset, count);
        // SAFETY: inside the mapping and aligned. The hand-shake gives the memory to one side at a time; a
        // hostile candidate that breaks it can change plain numbers, for which every value is valid.
        f(unsafe { std::slice::from_raw_parts_mut(self.start.add(offset).cast::<T>(), count) })
    }
}

/// Bytes of this process's mapping at this address that the kernel reports as mapped by huge pages; none if the kernel
/// does not permit the question.
fn mapped_by_huge_pages(start: *const u8) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let begins = format!("{:x}-", start.addr());
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&begins));
    let kib = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:"))?;
    let kib: usize = kib.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the reservation holds the mapping and both are ours.
        unsafe { libc::munmap(self.reserved, self.reserved_bytes) };
    }
}

/// Plain numbers: every bit pattern is a value.
pub trait Plain: Copy + sealed::Sealed {}
mod sealed {
    pub trait Sealed {}
}
macro_rules! plain {
    ($($t:ty),*) => { $(impl Plain for $t {} impl sealed::Sealed for $t {})* };
}
plain!(u8, u16, u32, i32, u64, i64, f32, f64);

/// Sleeps while `word` is `value`, at most for `limit`. May wake without reason.
pub fn sleep_on(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let time = limit.map(|d| libc::timespec {
        tv_sec: d.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: d.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives while we sleep; the kernel only reads it. Not private: the waker is another process.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            time,
        );
    }
}

/// Wakes the process that sleeps on `word`; true if one slept.
pub fn wake(word: &AtomicU32) -> bool {
    // SAFETY: waking touches no memory.
    let woken =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    woken > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_see_each_other() {
        let memory = SharedMemory::create("both", 4 << 20).expect("shared memory");
        let other = Mapping::of(memory.fd(), 4 << 20).expect("second mapping");
        assert_eq!(other.as_ptr().align_offset(HUGE_PAGE), 0);
        memory.mapping().write(4096, &[1.5f64, 2.5]);
        let mut seen = [0.0; 2];
        other.read(4096, &mut seen);
        assert_eq!(seen, [1.5, 2.5]);
        assert_eq!(other.get::<f64>(4104), 2.5);
    }

    #[test]
    fn flushing_and_fetching_change_no_content() {
        let memory = SharedMemory::create("flushed", 8192).expect("shared memory");
        let bytes: [u8; 8192] = std::array::from_fn(|n| n as u8);
        memory.mapping().write(0, &bytes);
        for (offset, count) in [(0, 8192), (64, 0), (1, 1), (63, 130), (8191, 1)] {
            memory.mapping().flush(offset, count);
            memory.mapping().fetch(offset, count);
        }
        let mut seen = [0; 8192];
        memory.mapping().read(0, &mut seen);
        assert_eq!(seen, bytes);
    }

    #[test]
    fn large_memory_lies_in_huge_pages_where_there_are_some() {
        let bytes = 8 << 20;
        let memory = SharedMemory::create("large", bytes).expect("shared memory");
        let other = Mapping::of(memory.fd(), bytes).expect("second mapping");
        for mapping in [memory.mapping(), &other] {
            let huge = mapped_by_huge_pages(mapping.as_ptr()).expect("there is a /proc");
            assert_eq!(mapping.huge(), huge == bytes, "{huge} bytes");
        }
        // Kernels without huge pages, and machines that permit none.
        let about = |name: &str| {
            std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"))
        };
        let permitted = |name: &str, not: &str| about(name).is_ok_and(|text| !text.contains(not));
        let size_of_huge_pages = || about("hpage_pmd_size").ok()?.trim().parse::<usize>().ok();
        if huge::file().is_some()
            && permitted("enabled", "[never]")
            && permitted("shmem_enabled", "[deny]")
            && size_of_huge_pages() == Some(HUGE_PAGE)
        {
            assert!(memory.mapping().huge());
        }
        let small = SharedMemory::create("small", 8192).expect("shared memory");
        assert!(!small.mapping().huge());
    }

    #[test]
    fn the_size_is_sealed() {
        let memory = SharedMemory::create("sealed", 8192).expect("shared memory");
        // SAFETY: a plain system call on our own descriptor.
        let cut = unsafe { libc::ftruncate(memory.fd(), 0) };
        assert_eq!(cut, -1);
    }

    #[test]
    fn a_sleeper_wakes() {
        let memory = SharedMemory::create("futex", CONTROL_BYTES).expect("shared memory");
        let control = memory.mapping().control();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while control.order().0 == 0 {
                    sleep_on(control.order_word(), 0, Some(Duration::from_secs(5)));
                }
                control.order().0
            });
            control.give(0x103, 0);
            wake(control.order_word());
            assert_eq!(sleeper.join().expect("sleeper"), 0x103);
        });
    }

    #[test]
    #[should_panic(expected = "outside the shared memory")]
    fn reading_beyond_the_end_is_refused() {
        let memory = SharedMemory::create("end", 4096).expect("shared memory");
        memory.mapping().read(4096, &mut [0u8]);
    }
}
