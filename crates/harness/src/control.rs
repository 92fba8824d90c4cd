//! The control block: a few shared pages for each harness process.
//!
//! Orders and answers have their own cache lines, two lines apart, because processors fetch lines in pairs.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::content;
pub use crate::content::Content;
pub use crate::plan::{Argument, Element, MAX_ARGUMENTS, MAX_SCALARS, Plan, Scalars};

/// Bytes of the mapping that holds a [`Control`].
pub const CONTROL_BYTES: usize = 8192;
/// Ranges of the buffers the harness makes inaccessible.
const MAX_FORBIDDEN: usize = 32;
const WORDS_PER_ARGUMENT: usize = 4 + content::WORDS;
const MESSAGE_BYTES: usize = 1024;

/// An order to the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// Read the plan of arguments.
    Plan = 1,
    /// Fill all inputs from the seed and poison the outputs.
    Prepare = 2,
    /// Call the entry function once.
    Call = 3,
    /// Sleep until the next order: another process uses this core meanwhile.
    Park = 4,
    /// End the process.
    Exit = 5,
    /// Evict all arrays from all caches.
    Chill = 6,
    /// Do nothing: its time is the cost of any order.
    StandBy = 7,
    /// Take all arrays into the caches of this core, as if they had been written here.
    Fetch = 8,
}

impl Order {
    /// The order in a word of the hand-shake.
    pub fn of(word: u64) -> Option<Order> {
        Some(match word & 0xff {
            1 => Order::Plan,
            2 => Order::Prepare,
            3 => Order::Call,
            4 => Order::Park,
            5 => Order::Exit,
            6 => Order::Chill,
            7 => Order::StandBy,
            8 => Order::Fetch,
            _ => return None,
        })
    }

    /// The word for the `sequence`-th order. Consecutive orders must differ in the lower 24 bits, on which a waiting
    /// side sleeps. The upper bits make the next word impossible to guess.
    pub fn word(self, sequence: u64) -> u64 {
        (sequence << 8) | self as u64
    }
}

/// The way in which a side waits for the other one. A harness with a candidate always sleeps, so that the candidate
/// cannot tell timed calls from verified ones. A harness that makes inputs with the problem's own program may spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Waiting {
    /// Spins on the shared line: takes less than a microsecond, and needs a core for each side.
    Spin = 1,
    /// Sleeps in the kernel: needs one core, where exact times do not matter.
    Sleep = 2,
}

/// Progress of the harness before it takes orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Not yet.
    Starting = 0,
    /// The harness found the entry, installed the filter and takes orders.
    Ready = 1,
    /// The object could not be loaded; the message has the reason.
    LoadFailed = 2,
    /// The object does not have the entry.
    EntryMissing = 3,
    /// Another error; the message names it.
    Failed = 4,
}

impl Status {
    fn of(value: u32) -> Status {
        match value {
            0 => Status::Starting,
            1 => Status::Ready,
            2 => Status::LoadFailed,
            3 => Status::EntryMissing,
            _ => Status::Failed,
        }
    }
}

#[repr(C, align(128))]
struct OrderLine {
    word: AtomicU64,
    seed: AtomicU64,
    waiting: AtomicU32,
    /// The scalars of the next call. They come with the order, as the seed does: no process knows them before.
    scalars: [AtomicU64; MAX_SCALARS],
}

#[repr(C, align(128))]
struct DoneLine {
    word: AtomicU64,
}

/// The shared block. All fields are atomic: any bytes are a valid value.
#[repr(C, align(128))]
pub struct Control {
    order: OrderLine,
    done: DoneLine,
    status: AtomicU32,
    argument_count: AtomicU32,
    forbidden_count: AtomicU32,
    arguments: [AtomicU64; MAX_ARGUMENTS * WORDS_PER_ARGUMENT],
    forbidden: [AtomicU64; MAX_FORBIDDEN * 2],
    message: [AtomicU8; MESSAGE_BYTES],
}

const _: () = assert!(size_of::<Control>() <= CONTROL_BYTES);
// One fetch brings a whole order.
const _: () = assert!(size_of::<OrderLine>() == 128);

impl Control {
    /// Gives an order. A process that sees the order also sees the seed.
    pub fn give(&self, word: u64, seed: u64) {
        self.order.seed.store(seed, Ordering::Relaxed);
        self.order.word.store(word, Ordering::Release);
    }

    /// The last order and its seed.
    pub fn order(&self) -> (u64, u64) {
        let word = self.order.word.load(Ordering::Acquire);
        (word, self.order.seed.load(Ordering::Relaxed))
    }

    /// Answers an order.
    pub fn answer(&self, word: u64) {
        self.done.word.store(word, Ordering::Release);
    }

    /// The last answer.
    pub fn answered(&self) -> u64 {
        self.done.word.load(Ordering::Acquire)
    }

    /// The changing half of the order word, on which the harness sleeps.
    pub fn order_word(&self) -> &AtomicU32 {
        low_half(&self.order.word)
    }

    /// The changing half of the answer word, on which the supervisor sleeps.
    pub fn done_word(&self) -> &AtomicU32 {
        low_half(&self.done.word)
    }

    /// Sets the way in which the harness waits.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.order.waiting.store(waiting as u32, Ordering::Relaxed);
    }

    /// The way in which the harness waits.
    pub fn waiting(&self) -> Waiting {
        if self.order.waiting.load(Ordering::Relaxed) == Waiting::Spin as u32 {
            Waiting::Spin
        } else {
            Waiting::Sleep
        }
    }

    /// Gives the scalars of the calls to come. They are visible to whoever sees the order of a call.
    pub fn set_scalars(&self, scalars: &Scalars) {
        for (place, bits) in self.order.scalars.iter().zip(scalars) {
            place.store(*bits, Ordering::Relaxed);
        }
    }

    /// The scalars of the call that was ordered last.
    pub fn scalars(&self) -> Scalars {
        std::array::from_fn(|n| self.order.scalars[n].load(Ordering::Relaxed))
    }

    /// How far the start came.
    pub fn status(&self) -> Status {
        Status::of(self.status.load(Ordering::Acquire))
    }

    /// Sets the progress of the start, with a message that is cut to fit.
    pub fn set_status(&self, status: Status, message: &str) {
        let bytes = message.as_bytes();
        let n = bytes.len().min(MESSAGE_BYTES - 1);
        for (to, from) in self.message.iter().zip(&bytes[..n]) {
            to.store(*from, Ordering::Relaxed);
        }
        self.message[n].store(0, Ordering::Relaxed);
        self.status.store(status as u32, Ordering::Release);
    }

    /// The message of the status.
    pub fn message(&self) -> String {
        let bytes: Vec<u8> = self
            .message
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .take_while(|b| *b != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes a plan, with the scalars of its calls. At most [`MAX_ARGUMENTS`] arguments are taken.
    pub fn set_plan(&self, plan: &Plan) {
        self.set_scalars(&plan.scalars());
        let count = plan.arguments.len().min(MAX_ARGUMENTS);
        for (argument, words) in plan
            .arguments
            .iter()
            .zip(self.arguments.chunks_exact(WORDS_PER_ARGUMENT))
        {
            let values = match *argument {
                Argument::Int(value) => [0, value as u64, 0, 0, 0, 0, 0, 0],
                Argument::Scalar(_) => [3, 0, 0, 0, 0, 0, 0, 0],
                Argument::Input {
                    element,
                    offset,
                    count,
                    stream,
                    content,
                } => {
                    let (kind, [a, b, c, d]) = content.words();
                    [
                        1 | ((element as u64) << 8) | (kind << 16),
                        offset as u64,
                        count as u64,
                        stream,
                        a,
                        b,
                        c,
                        d,
                    ]
                }
                Argument::Output {
                    element,
                    offset,
                    count,
                } => [
                    2 | ((element as u64) << 8),
                    offset as u64,
                    count as u64,
                    0,
                    0,
                    0,
                    0,
                    0,
                ],
            };
            for (word, value) in words.iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.argument_count.store(count as u32, Ordering::Release);
    }

    /// Reads the plan; none when an array does not lie inside `buffer_bytes` or is misaligned, or when there are more
    /// scalars than registers for them.
    pub fn plan(&self, buffer_bytes: usize) -> Option<Plan> {
        let count = self.argument_count.load(Ordering::Acquire) as usize;
        if count > MAX_ARGUMENTS {
            return None;
        }
        let mut arguments = Vec::with_capacity(count);
        let mut scalars = self.scalars().into_iter();
        for words in self.arguments.chunks_exact(WORDS_PER_ARGUMENT).take(count) {
            let [tag, a, b, c, d, e, f, g]: [u64; WORDS_PER_ARGUMENT] =
                std::array::from_fn(|n| words[n].load(Ordering::Relaxed));
            let by_value = match tag & 0xff {
                0 => Some(Argument::Int(a as i64)),
                3 => Some(Argument::Scalar(scalars.next()?)),
                _ => None,
            };
            if let Some(argument) = by_value {
                arguments.push(argument);
                continue;
            }
            let element = Element::of((tag >> 8) & 0xff)?;
            let (offset, count) = (usize::try_from(a).ok()?, usize::try_from(b).ok()?);
            let end = count.checked_mul(element.bytes())?.checked_add(offset)?;
            if end > buffer_bytes || offset % element.bytes() != 0 {
                return None;
            }
            arguments.push(match tag & 0xff {
                1 => Argument::Input {
                    element,
                    offset,
                    count,
                    stream: c,
                    content: Content::of((tag >> 16) & 0xff, [d, e, f, g])?,
                },
                2 => Argument::Output {
                    element,
                    offset,
                    count,
                },
                _ => return None,
            });
        }
        Some(Plan { arguments })
    }

    /// Ranges (offset, bytes) of the buffers that the harness makes inaccessible before it loads the object.
    pub fn set_forbidden(&self, ranges: &[(usize, usize)]) {
        let count = ranges.len().min(MAX_FORBIDDEN);
        for ((offset, bytes), words) in ranges.iter().zip(self.forbidden.chunks_exact(2)) {
            words[0].store(*offset as u64, Ordering::Relaxed);
            words[1].store(*bytes as u64, Ordering::Relaxed);
        }
        self.forbidden_count.store(count as u32, Ordering::Release);
    }

    /// The inaccessible ranges.
    pub fn forbidden(&self) -> Vec<(usize, usize)> {
        let count = self.forbidden_count.load(Ordering::Acquire) as usize;
        self.forbidden
            .chunks_exact(2)
            .take(count)
            .map(|w| {
                (
                    w[0].load(Ordering::Relaxed) as usize,
                    w[1].load(Ordering::Relaxed) as usize,
                )
            })
            .collect()
    }
}

#[expect(
    unsafe_code,
    reason = "the kernel sleeps on 32-bit words; ours have 64 bits"
)]
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    const {
        assert!(
            cfg!(target_endian = "little"),
            "the low half of a word comes first"
        )
    };
    // SAFETY: the low half lies at the word's own address, is aligned, lives as long, and is
    // only ever accessed atomically.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast::<u32>()) }
}

#[cfg(test)]
mod tests;
