//! How many threads libtorch computes on.

/// From here on the calling thread's work is shared by so many threads, whatever others choose for theirs.
///
/// libtorch keeps its number for each thread, and the last one that anybody chose for the whole process: a thread takes that over once, when it first looks
/// for its number, even where it has chosen one for itself before. So here it looks first. How many threads share a product decides on some
/// processors how its sums are rounded: what has to repeat bit by bit needs the number it chose.
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
