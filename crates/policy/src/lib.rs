//! The language model: Qwen2 and Llama in libtorch, its tokenizer, its sampler and its files.
//!
//! A [`Model`] opens a Hugging Face folder and writes one that transformers opens again. [`sample()`] writes text with
//! a model in batches, and [`Live`] lets requests join and leave a batch while it is written. [`Handle`] keeps a model
//! on a thread of its own for many callers. [`Model::pass`] gives the
//! learner the tensors to differentiate and runs the backward pass. An [`Adapter`] is trained in the place of a large
//! model's weights. With `learner`, this is the only crate that knows tch.
//!
//! Left out on purpose: no losses and no optimizer (`learner`), no prompts (`problem`), no knowledge of runs or tasks,
//! no download of models.
//!
//! Invariants:
//! - token ids and log-probabilities of a sample are those that were drawn, under the distribution they were drawn
//!   from; text is made from ids, never ids from that text;
//! - the same seed gives the same tokens for every composition of the batch, up to rounding in the matrix products (a
//!   draw that falls within rounding error of a boundary may differ);
//! - a model's tensors are used by one thread at a time;
//! - a file in a model folder is complete or absent.

mod added;
mod batch;
mod block;
mod bpe;
pub mod chat;
mod checkpoint;
mod class;
pub mod config;
mod decode;
pub mod device;
mod draw;
pub mod dtype;
mod ending;
pub mod error;
mod files;
mod forward;
mod inspect;
pub mod layout;
mod live;
mod lora;
mod memory;
mod model;
mod origin;
mod parameters;
mod pass;
pub mod plan;
mod prompt;
mod quantization;
mod rope;
mod rotary;
mod sample;
mod shards;
mod template;
mod thread;
pub mod threads;
mod tokenizer;
mod vocabulary;

pub use bpe::{train_bpe, train_words};
pub use checkpoint::{Reading, TensorBytes, dtype_of};
pub use config::{Config, Scalar};
pub use ending::{End, Stops};
pub use error::{Error, Result};
pub use forward::Entropy;
pub use inspect::{Inspection, TokenizerFacts, check, fitting_tokenizer, inspect};
pub use live::Live;
pub use lora::{Adapter, LoraConfig};
pub use memory::keep_freed_memory;
pub use model::Model;
pub use parameters::Parameters;
pub use pass::{Pass, Plan, Scores, Slopes};
pub use prompt::Scored;
pub use rope::{Rope, Yarn};
pub use sample::{Bounds, Detour, Extras, Request, Sample, sample, sample_stream, sample_while};
pub use tch::{Device, Kind, Tensor};
pub use thread::{Handle, Reply, Sampled};
pub use tokenizer::Tokenizer;
