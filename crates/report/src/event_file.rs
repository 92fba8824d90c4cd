//! Records of TensorBoard's event files, with scalars only.
//!
//! A record is TFRecord's frame around an `Event` of TensorFlow's protocol buffers: the length (64 bits, little endian), the
//! masked CRC-32C of these eight bytes, the event, the masked CRC-32C of the event. Five fields of `Event`, two of `Value`
//! and one of `SessionLog` are all that scalars need, so they are encoded here instead of by generated code.

use crc32c::crc32c;

/// The beginning of the name of an event file. TensorBoard reads each file whose name contains `tfevents`.
pub const PREFIX: &str = "events.out.tfevents.";

/// The first record of every event file.
const VERSION: &str = "brain.Event:2";

/// The record with which an event file begins.
pub fn version(unix_ms: u64) -> Vec<u8> {
    let mut event = event(unix_ms, 0);
    bytes(&mut event, 3, VERSION.as_bytes());
    record(&event)
}

/// The record of a run that begins anew at `step`: a reader drops what it read of this step and of later ones.
pub fn restart(unix_ms: u64, step: u64) -> Vec<u8> {
    let mut event = event(unix_ms, step);
    // `SessionLog` with the status START.
    bytes(&mut event, 7, &[0x08, 1]);
    record(&event)
}

/// The record of some numbers of one step. TensorBoard stores numbers in single precision. Tags are separated into groups
/// by a slash.
pub fn scalars<'a>(
    unix_ms: u64,
    step: u64,
    values: impl IntoIterator<Item = (&'a str, f64)>,
) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut of_tag = Vec::new();
        bytes(&mut of_tag, 1, tag.as_bytes());
        // `simple_value`: field 2, four bytes.
        of_tag.push((2 << 3) | 5);
        of_tag.extend((value as f32).to_le_bytes());
        bytes(&mut summary, 1, &of_tag);
    }
    let mut event = event(unix_ms, step);
    bytes(&mut event, 5, &summary);
    record(&event)
}

/// An event's time, in seconds since 1970, and its step.
fn event(unix_ms: u64, step: u64) -> Vec<u8> {
    let mut event = vec![(1 << 3) | 1];
    event.extend((unix_ms as f64 / 1000.0).to_le_bytes());
    event.push(2 << 3);
    varint(&mut event, step);
    event
}

/// Appends a field that is text, bytes or a message.
fn bytes(to: &mut Vec<u8>, field: u8, content: &[u8]) {
    to.push((field << 3) | 2);
    varint(to, content.len() as u64);
    to.extend(content);
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(event.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(event);
    record.extend(masked_crc(event).to_le_bytes());
    record
}

/// The checksum as TFRecord stores it: rotated and moved, since the checksum of data that hold their own is weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CRC-32C by its definition: a division of polynomials, bit by bit, of the reflected bytes.
    fn by_division(bytes: &[u8]) -> u32 {
        let mut rest = u32::MAX;
        for byte in bytes {
            for bit in 0..8 {
                let incoming = u32::from((byte >> bit) & 1);
                let carry = (rest >> 31) ^ incoming;
                rest = (rest << 1) ^ if carry == 1 { 0x1edc_6f41 } else { 0 };
            }
        }
        !rest.reverse_bits()
    }

    /// An event as a reader finds it.
    #[derive(Debug, Default, PartialEq)]
    struct Event {
        seconds: f64,
        step: u64,
        version: Option<String>,
        restarts: bool,
        values: Vec<(String, f32)>,
    }

    fn take<'a>(from: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, rest) = from.split_at(count);
        *from = rest;
        taken
    }

    fn number(from: &mut &[u8]) -> u64 {
        let mut number = 0;
        for place in 0.. {
            let byte = take(from, 1)[0];
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn part<'a>(from: &mut &'a [u8]) -> &'a [u8] {
        let length = number(from) as usize;
        take(from, length)
    }

    fn text(from: &mut &[u8]) -> String {
        String::from_utf8(part(from).to_vec()).unwrap()
    }

    /// Reads the first record, checks its sums, and leaves the rest.
    fn read(file: &mut &[u8]) -> Event {
        let sum = |bytes: &[u8]| {
            let crc = by_division(bytes);
            crc.rotate_right(15).wrapping_add(0xa282_ead8)
        };
        let length = take(file, 8);
        assert_eq!(take(file, 4), sum(length).to_le_bytes());
        let length = u64::from_le_bytes(length.try_into().unwrap());
        let mut data = take(file, length as usize);
        assert_eq!(take(file, 4), sum(data).to_le_bytes());
        let mut event = Event::default();
        while !data.is_empty() {
            match take(&mut data, 1)[0] {
                0x09 => event.seconds = f64::from_le_bytes(take(&mut data, 8).try_into().unwrap()),
                0x10 => event.step = number(&mut data),
                0x1a => event.version = Some(text(&mut data)),
                0x3a => event.restarts = part(&mut data) == [0x08, 1],
                0x2a => {
                    let mut summary = part(&mut data);
                    while !summary.is_empty() {
                        assert_eq!(take(&mut summary, 1), [0x0a]);
                        let mut value = part(&mut summary);
                        assert_eq!(take(&mut value, 1), [0x0a]);
                        let tag = text(&mut value);
                        assert_eq!(take(&mut value, 1), [0x15]);
                        let number = f32::from_le_bytes(value.try_into().unwrap());
                        event.values.push((tag, number));
                    }
                }
                other => unreachable!("field {other:#x}"),
            }
        }
        event
    }

    #[test]
    fn the_checksum_is_the_known_one_of_the_digits() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(by_division(b"123456789"), 0xe306_9283);
    }

    /// The bytes were put together by hand from TensorFlow's `event.proto`, `summary.proto` and the format of TFRecord.
    #[test]
    fn a_scalar_has_the_bytes_of_the_format() {
        let hex = |bytes: &[u8]| -> String {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            digits.collect()
        };
        assert_eq!(hex(&version(1_500)), GOLDEN_VERSION);
        assert_eq!(
            hex(&scalars(1_750_000_000_250, 300, [("learner/loss", 0.5)])),
            GOLDEN_SCALAR
        );
    }

    const GOLDEN_VERSION: &str =
        "1a00000000000000129bd82d09000000000000f83f10001a0d627261696e2e4576656e743a32d3dc531e";
    const GOLDEN_SCALAR: &str = "2300000000000000b09f77430900001060b813da4110ac022a150a130a0c6c6561726e65722f6c6f7373150000003f08f861ee";

    proptest! {
        #[test]
        fn a_reader_finds_what_was_written(
            events in proptest::collection::vec(
                (0u64..4_000_000_000_000, any::<u64>(), proptest::collection::vec((".{0,200}", -1e30f32..1e30), 0..5)),
                0..6
            ),
            again in any::<u64>()
        ) {
            let mut file = version(7_000);
            file.extend(restart(8_000, again));
            for (at, step, values) in &events {
                let values = values.iter().map(|(tag, value)| (tag.as_str(), f64::from(*value)));
                file.extend(scalars(*at, *step, values));
            }
            let mut rest = &file[..];
            let first = Event { seconds: 7.0, version: Some("brain.Event:2".into()), ..Event::default() };
            prop_assert_eq!(read(&mut rest), first);
            let second = Event { seconds: 8.0, step: again, restarts: true, ..Event::default() };
            prop_assert_eq!(read(&mut rest), second);
            for (at, step, values) in events {
                let event = read(&mut rest);
                prop_assert_eq!((event.step, event.values), (step, values));
                prop_assert!((event.seconds - at as f64 / 1000.0).abs() < 1e-6);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn the_checksum_is_the_remainder_of_a_division(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(crc32c(&bytes), by_division(&bytes));
        }
    }
}
