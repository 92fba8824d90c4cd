//! Measures a store: puts and gets objects of some size, several at a time.
//!
//! `requests PLACE [--objects 2000] [--bytes 16384] [--at-a-time 16]`; the environment has the credentials of an object
//! store.
#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::error::Error;
use std::time::Instant;

use flopsmith_store::Store;
use futures::{StreamExt, TryStreamExt, stream};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut place = None;
    let (mut objects, mut bytes, mut at_a_time) = (2000usize, 16_384usize, 16usize);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("what of `{word}`?"));
        match word.as_str() {
            "--objects" => objects = value()?.parse()?,
            "--bytes" => bytes = value()?.parse()?,
            "--at-a-time" => at_a_time = value()?.parse()?,
            _ => place = Some(word),
        }
    }
    let place = place.ok_or(
        "which store? usage: requests PLACE [--objects 2000] [--bytes 16384] [--at-a-time 16]",
    )?;
    let store = Store::open(&place)?;
    store.probe().await?;
    let content = |n: usize| {
        let mut content = vec![0u8; bytes];
        for (place, byte) in content.iter_mut().zip(n.to_le_bytes().into_iter().cycle()) {
            *place = byte;
        }
        content
    };
    let began = Instant::now();
    let artifacts: Vec<_> = stream::iter(0..objects)
        .map(|n| store.put(content(n)))
        .buffer_unordered(at_a_time)
        .try_collect()
        .await?;
    let put = objects as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    let mut got = stream::iter(&artifacts)
        .map(|artifact| store.get(artifact))
        .buffer_unordered(at_a_time);
    while got.try_next().await?.is_some() {}
    let got = objects as f64 / began.elapsed().as_secs_f64();
    println!(
        "{objects} objects of {bytes} bytes, {at_a_time} at a time: {put:.0} put/s, {got:.0} got/s"
    );
    Ok(())
}
