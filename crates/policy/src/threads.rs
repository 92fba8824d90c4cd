//! How many threads libtorch computes on.

/// From here on the calling thread's work is shared by this many threads, independently of the number that other
/// threads choose.
///
/// libtorch keeps a number for each thread, and for the whole process the last number that any thread chose. A thread
/// takes over the process's number once, when it first reads its own, even if it has chosen one before. This function
/// therefore reads the number before setting it. On some processors the number of threads that share a product decides
/// how its sums are rounded; a result that has to repeat bit by bit needs the chosen number.
#[expect(
    clippy::disallowed_methods,
    reason = "this is what is used in its place"
)]
pub fn compute_on(threads: usize) {
    let _taken_over = tch::get_num_threads();
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_keeps_its_number_whatever_others_choose_before_it_computes() {
        let (chosen, is_chosen) = channel();
        let (go, may_go) = channel();
        let thread = std::thread::spawn(move || {
            compute_on(3);
            chosen.send(()).unwrap();
            may_go.recv().unwrap();
            tch::get_num_threads()
        });
        is_chosen.recv().unwrap();
        let before = tch::get_num_threads();
        compute_on(5);
        compute_on(usize::try_from(before).unwrap());
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), 3);
    }
}
