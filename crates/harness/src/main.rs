//! The program inside the run jail. The library's documentation has its rules.
//!
//! Arguments: control descriptor, buffers descriptor, bytes of the buffers, path of the shared object, name of the
//! entry, permitted threads.
#![expect(unsafe_code, reason = "loads a shared object and calls what is in it")]

use std::ffi::{CStr, CString, OsString, c_void};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use flopsmith_harness::control::{
    CONTROL_BYTES, Control, Element, MAX_ARGUMENTS, MAX_SCALARS, Status,
};
use flopsmith_harness::inputs::Stream;
use flopsmith_harness::memory::{Plain, sleep_on, wake};
use flopsmith_harness::{Argument, Mapping, Order, Plan, Scalars, Waiting, filter, inputs};

/// Called with as many words and floating-point numbers as any entry may take; the calling convention ignores the rest.
///
/// In the conventions of x86-64 (System V psABI, 3.2.3) and of AArch64 (AAPCS64, 6.8.2), words and floating-point numbers
/// have registers of their own, so their order among each other does not matter. Words beyond six (x86-64) or eight
/// (AArch64) follow on the stack in their order, in eight bytes each. Eight floating-point numbers fit their registers
/// in both, so none lies among these words. A `float` is the lower half of its register.
type Entry = unsafe extern "C" fn(
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
    f64,
);

/// The harness could not report an error, or the supervisor broke the protocol.
const BROKEN: u8 = 99;

struct Options {
    control_fd: i32,
    buffers_fd: i32,
    buffer_bytes: usize,
    object: CString,
    entry: CString,
    threads: u32,
}

fn options() -> Option<Options> {
    fn number<T: std::str::FromStr>(text: OsString) -> Option<T> {
        text.to_str()?.parse().ok()
    }
    let mut arguments = std::env::args_os().skip(1);
    Some(Options {
        control_fd: number(arguments.next()?)?,
        buffers_fd: number(arguments.next()?)?,
        buffer_bytes: number(arguments.next()?)?,
        object: CString::new(arguments.next()?.into_vec()).ok()?,
        entry: CString::new(arguments.next()?.into_vec()).ok()?,
        threads: number(arguments.next()?)?,
    })
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        return ExitCode::from(BROKEN);
    };
    let Ok(control) = Mapping::of(options.control_fd, CONTROL_BYTES) else {
        return ExitCode::from(BROKEN);
    };
    // The control block outlives everything else in this process.
    let control_mapping: &'static Mapping = Box::leak(Box::new(control));
    let control = control_mapping.control();
    match start(&options, control) {
        Ok((buffers, entry)) => {
            control.set_status(Status::Ready, "");
            wake(control.done_word());
            obey(control, &buffers, entry)
        }
        Err((status, message)) => {
            control.set_status(status, &message);
            ExitCode::from(BROKEN)
        }
    }
}

fn start(options: &Options, control: &Control) -> Result<(Mapping, Entry), (Status, String)> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| (Status::Failed, format!("{what}: {error}"));
    let buffers = Mapping::of(options.buffers_fd, options.buffer_bytes)
        .map_err(|e| failed("the buffers cannot be mapped", &e))?;
    buffers
        .forbid(&control.forbidden())
        .map_err(|e| failed("guard pages cannot be protected", &e))?;
    for fd in [options.control_fd, options.buffers_fd] {
        // SAFETY: the descriptors were handed to this process and nothing uses them any more.
        unsafe { libc::close(fd) };
    }
    let entry = load(&options.object, &options.entry)?;
    filter::install(options.threads).map_err(|e| (Status::Failed, e.to_string()))?;
    Ok((buffers, entry))
}

fn load(object: &CStr, entry: &CStr) -> Result<Entry, (Status, String)> {
    // SAFETY: the object was audited to have no constructors: loading it runs none of its code.
    let handle = unsafe { libc::dlopen(object.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err((Status::LoadFailed, loader_error()));
    }
    // SAFETY: the handle is valid and the name a C string.
    let symbol = unsafe { libc::dlsym(handle, entry.as_ptr()) };
    if symbol.is_null() {
        return Err((Status::EntryMissing, loader_error()));
    }
    // SAFETY: the compile stage checked the entry's type; its integer and pointer arguments
    // travel as machine words, and its floating-point ones in the registers for these.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Entry>(symbol) })
}

fn loader_error() -> String {
    // SAFETY: dlerror returns null or a C string that lives until the next loader call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// Waits for orders and executes them, until the order to exit.
fn obey(control: &Control, buffers: &Mapping, entry: Entry) -> ExitCode {
    let mut plan = Plan::default();
    let mut words = [0u64; MAX_ARGUMENTS];
    let mut last = 0;
    let mut parked = false;
    loop {
        let (word, seed) = next_order(control, last, parked);
        last = word;
        parked = false;
        match Order::of(word) {
            Some(Order::Plan) => {
                let Some(next) = control.plan(buffers.len()) else {
                    return ExitCode::from(BROKEN);
                };
                plan = next;
                words = call_words(&plan, buffers);
            }
            Some(Order::Prepare) => prepare(&plan, buffers, seed),
            // SAFETY: the plan matches the entry's arguments; the jail confines the candidate's
            // actions inside.
            Some(Order::Call) => unsafe { call(entry, &words, control.scalars()) },
            Some(Order::Park) => parked = true,
            Some(Order::StandBy) => {}
            Some(Order::Chill) => arrays(&plan).for_each(|(at, bytes)| buffers.flush(at, bytes)),
            Some(Order::Fetch) => arrays(&plan).for_each(|(at, bytes)| buffers.fetch(at, bytes)),
            Some(Order::Exit) => {
                answer(control, word);
                // Skips the runtime's own clean-up, whose system calls the filter does not permit.
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) }
            }
            None => return ExitCode::from(BROKEN),
        }
        answer(control, word);
    }
}

fn next_order(control: &Control, last: u64, parked: bool) -> (u64, u64) {
    loop {
        let (word, seed) = control.order();
        if word != last {
            return (word, seed);
        }
        if parked || control.waiting() == Waiting::Sleep {
            sleep_on(control.order_word(), last as u32, None);
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Wakes the supervisor in both cases, asleep or spinning: its way of waiting would reveal the purpose of a call.
fn answer(control: &Control, word: u64) {
    control.answer(word);
    wake(control.done_word());
}

/// The arguments that are passed as machine words, in their order.
fn call_words(plan: &Plan, buffers: &Mapping) -> [u64; MAX_ARGUMENTS] {
    let mut words = [0; MAX_ARGUMENTS];
    let values = plan
        .arguments
        .iter()
        .filter_map(|argument| match *argument {
            Argument::Int(value) => Some(word_of_int(value)),
            Argument::Scalar(_) => None,
            Argument::Input { offset, .. } | Argument::Output { offset, .. } => {
                Some(buffers.as_ptr().wrapping_add(offset) as u64)
            }
        });
    for (word, value) in words.iter_mut().zip(values) {
        *word = value;
    }
    words
}

/// The word of a C `int`. Both conventions leave its upper half undefined, in registers and on the stack, and in practice
/// it is often zero. Here it never is the extension of the lower half, so a program that takes eight bytes gets another
/// number. As an address, the word points to nothing.
fn word_of_int(value: i64) -> u64 {
    const UPPER_HALF: u64 = 0xa5a5_a5a5 << 32;
    UPPER_HALF | u64::from(value as u32)
}

unsafe fn call(entry: Entry, w: &[u64; MAX_ARGUMENTS], scalars: Scalars) {
    let f: [f64; MAX_SCALARS] = scalars.map(f64::from_bits);
    // SAFETY: the caller's.
    unsafe {
        entry(
            w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
            w[14], w[15], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7],
        )
    }
}

/// The arrays in the order in which they are filled: their offsets and bytes.
fn arrays(plan: &Plan) -> impl Iterator<Item = (usize, usize)> {
    plan.arguments
        .iter()
        .filter_map(|argument| match *argument {
            Argument::Int(_) | Argument::Scalar(_) => None,
            Argument::Input {
                element,
                offset,
                count,
                ..
            }
            | Argument::Output {
                element,
                offset,
                count,
            } => Some((offset, count * element.bytes())),
        })
}

fn prepare(plan: &Plan, buffers: &Mapping, seed: u64) {
    for argument in &plan.arguments {
        match *argument {
            Argument::Int(_) | Argument::Scalar(_) => {}
            Argument::Input {
                element,
                offset,
                count,
                stream,
                content,
            } => {
                content.fill(
                    &Stream::new(seed, stream),
                    element,
                    buffers,
                    (offset, count),
                );
            }
            Argument::Output {
                element,
                offset,
                count,
            } => poison(buffers, element, (offset, count)),
        }
    }
}

fn poison(buffers: &Mapping, element: Element, (offset, count): (usize, usize)) {
    fn each<T: Plain>(buffers: &Mapping, offset: usize, count: usize, with: T) {
        buffers.with_slice(offset, count, |x: &mut [T]| x.fill(with));
    }
    match element {
        Element::F64 => each(buffers, offset, count, inputs::POISON_F64),
        Element::F32 => each(buffers, offset, count, inputs::POISON_F32),
        Element::I32 => each(buffers, offset, count, inputs::POISON_I32),
        Element::I64 => each(buffers, offset, count, inputs::POISON_I64),
        Element::U8 => each(buffers, offset, count, inputs::POISON_U8),
        Element::F16 => each(buffers, offset, count, inputs::POISON_F16),
        Element::Bf16 => each(buffers, offset, count, inputs::POISON_BF16),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    static INTS: AtomicI64 = AtomicI64::new(0);
    static LONGS: AtomicI64 = AtomicI64::new(0);

    /// Six words fill the registers of x86-64, so the last one lies on the stack.
    extern "C" fn takes_ints(a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32) {
        let sum = [a, b, c, d, e, f, g].map(i64::from).iter().sum();
        INTS.store(sum, Ordering::Relaxed);
    }

    extern "C" fn takes_a_long(a: i64) {
        LONGS.store(a, Ordering::Relaxed);
    }

    fn call_with(function: *mut c_void, value: i64) {
        // SAFETY: the functions above take what the convention passes to them, and ignore the rest.
        unsafe {
            let entry = std::mem::transmute::<*mut c_void, Entry>(function);
            let words = [word_of_int(value); MAX_ARGUMENTS];
            call(entry, &words, Scalars::default());
        }
    }

    #[test]
    fn only_a_callee_that_takes_an_int_gets_its_number() {
        for value in [0, 1, 256, -1, i64::from(i32::MAX), i64::from(i32::MIN)] {
            call_with(takes_ints as *mut c_void, value);
            assert_eq!(INTS.load(Ordering::Relaxed), 7 * value);
            call_with(takes_a_long as *mut c_void, value);
            let long = LONGS.load(Ordering::Relaxed);
            assert_eq!(long as i32, value as i32);
            assert!(long != value && long != i64::from(value as u32), "{value}");
        }
    }
}
