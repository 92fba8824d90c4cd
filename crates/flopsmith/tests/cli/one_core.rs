//! One processor core for a test that needs programs measured, whatever their numbers are, or that trains.
//!
//! On two cores the timer spins on one of them while the measured program has the other. Beside other tests it seldom has both at
//! once, and measurements take many times as long. On one core both sides sleep while they wait. So a run on one core works
//! beside other tests, and a second one on another core beside it. The threads of libtorch also spin for one another.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use flopsmith_machine::pinning::{allowed_cores, pin_this_thread};

thread_local! {
    /// The lock of the core that the test of this thread has.
    static HELD: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Restricts this test, and all programs that it starts from here on, to one core that no other such test has. Waits for a core
/// if there is none.
pub fn on_one_core() {
    if HELD.with_borrow(Option::is_some) {
        return;
    }
    let file = |core: usize| {
        let name = format!("core-{core}.lock");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        (core, File::create(path).unwrap())
    };
    let mut cores: Vec<(usize, File)> = allowed_cores().into_iter().map(file).collect();
    let free = cores.iter().position(|(_, lock)| lock.try_lock().is_ok());
    let (core, lock) = cores.swap_remove(free.unwrap_or(0));
    if free.is_none() {
        lock.lock().unwrap();
    }
    pin_this_thread(&[core]).unwrap();
    HELD.set(Some(lock));
}

#[test]
fn a_program_that_is_started_on_one_core_has_that_core_only() {
    let told = || {
        let mut grep = Command::new("grep");
        let output = grep.args(["Cpus_allowed_list", "/proc/self/status"]);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    on_one_core();
    let [core] = allowed_cores()[..] else {
        panic!("{:?}", allowed_cores());
    };
    let only = format!("Cpus_allowed_list:\t{core}\n");
    assert_eq!(told(), only);
    on_one_core();
    assert_eq!(told(), only, "a test has one core, however often it asks");
}
