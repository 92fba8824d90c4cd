//! The rows of a batch, and the requests that wait for a place in the batch.

use std::collections::VecDeque;

use crate::decode::{self, Answer, Ask, Decoder, Prompt};
use crate::draw::{Cut, Drawn, draw, exchange, likeliest, share, uniform};
use crate::ending::{Circles, End};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::sample::{Bounds, Extras, Request, Sample};

/// Below this temperature the likeliest token is taken: a score divided by the temperature leaves the range of single
/// precision long before the temperature reaches 0.
const COLDEST: f32 = 1e-6;

/// Number of probabilities from which a drawing thread of its own pays.
const DRAWS_OF_A_THREAD: usize = 1 << 20;

/// Number of steps after which a request that came while others were written waits no longer for company.
const LONGEST_WAIT: usize = 8;

/// One row of a batch while it is being written.
struct Row {
    index: usize,
    request: Request,
    cut: Cut,
    sample: Sample,
    /// Tokens of the detour's kind so far.
    met: u32,
    circles: Option<Circles>,
    done: bool,
}

impl Row {
    fn new(index: usize, request: Request) -> Self {
        let s = &request.sampling;
        let cut = Cut {
            greedy: s.temperature < COLDEST,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: request.extras.min_p,
        };
        let circles = Circles::new(request.extras.repeats);
        Row {
            index,
            request,
            cut,
            sample: Sample::empty(),
            met: 0,
            circles,
            done: false,
        }
    }

    /// Upper bound of the tokens that the row has yet to draw, which is also the number of steps left for the row.
    fn left(&self) -> usize {
        more(&self.request) - self.sample.tokens.len()
    }

    /// The token to run next.
    fn last(&self) -> u32 {
        let written = self.sample.tokens.last();
        written
            .or(self.request.prompt.last())
            .copied()
            .unwrap_or_default()
    }

    /// True if the row's temperature is applied here and not by the decoder, because the request also wants the model's
    /// own scores.
    fn is_tempered_here(&self) -> bool {
        let Extras { raw, top, .. } = self.request.extras;
        (raw || top > 0) && !self.cut.greedy && self.request.sampling.temperature != 1.0
    }

    /// The factor by which the decoder multiplies the row's scores.
    fn sharpen(&self) -> f32 {
        match self.cut.greedy || self.is_tempered_here() {
            true => 1.0,
            false => 1.0 / self.request.sampling.temperature,
        }
    }

    /// True if the next token is drawn from the whole distribution with a single uniform number, and no other token's
    /// probability is wanted.
    fn is_plain(&self) -> bool {
        let Cut {
            greedy,
            top_k,
            top_p,
            min_p,
        } = self.cut;
        let whole = greedy || top_k == 0 && top_p >= 1.0 && min_p <= 0.0;
        let detour = self.request.detour.as_ref();
        whole && self.request.extras.top == 0 && detour.is_none_or(|detour| self.met > detour.at)
    }

    /// The number at which the next draw inverts the cumulative sum.
    fn u(&self) -> f64 {
        uniform(self.request.seed, self.sample.tokens.len() as u64)
    }

    /// A draw that the decoder makes.
    fn ask(&self) -> Ask {
        Ask {
            sharpen: match self.cut.greedy {
                true => 1.0,
                false => 1.0 / self.request.sampling.temperature,
            },
            greedy: self.cut.greedy,
            u: self.u(),
        }
    }

    /// Draws the next token from the model's scores. The decoder has applied the temperature, unless
    /// [`Row::is_tempered_here`].
    fn draw(&mut self, scores: &[f32], eos: &[u32], room: &mut Room) -> Result<u32> {
        let p = if self.is_tempered_here() {
            // Dividing by the largest probability first keeps p^(1/T) within the range of a float for every token that
            // matters.
            let by = 1.0 / self.request.sampling.temperature;
            let best = scores.iter().copied().fold(0.0, f32::max);
            room.tempered.clear();
            room.tempered
                .extend(scores.iter().map(|p| (p / best).powf(by)));
            &room.tempered
        } else {
            scores
        };
        let mut next = draw(p, self.cut, self.u(), &mut room.kept).ok_or(Error::Scores)?;
        if let Some(detour) = &self.request.detour
            && detour.kind.get(next.token as usize) == Some(&true)
        {
            if self.met == detour.at {
                let position = self.sample.tokens.len() as u64;
                let u = uniform(!self.request.seed, position);
                next = exchange(p, &detour.kind, next, u);
            }
            self.met += 1;
        }
        let raw = match self.request.extras.raw {
            true => share(scores, next.token),
            false => 0.0,
        };
        let top = self.request.extras.top;
        if top > 0 {
            self.sample.top.push(likeliest(scores, top as usize));
        }
        self.take(Answer { drawn: next, raw }, eos)
    }

    /// Appends the drawn token and marks the row as done if this token ends the answer.
    fn take(&mut self, Answer { drawn, raw }: Answer, eos: &[u32]) -> Result<u32> {
        let Drawn { token, logprob } = drawn;
        self.sample.tokens.push(token);
        self.sample.logprobs.push(logprob);
        if self.request.extras.raw {
            self.sample.raw.push(raw);
        }
        let tokens = &self.sample.tokens;
        let stopped = match &self.request.extras.stops {
            Some(stops) => stops.completed(tokens)?,
            None => false,
        };
        let circles = self.circles.as_mut().is_some_and(|c| c.closed(tokens));
        let end = if eos.contains(&token) && !self.request.extras.ignore_eos {
            Some(End::Token)
        } else if stopped {
            Some(End::Stop)
        } else if circles {
            Some(End::Repetition)
        } else {
            (tokens.len() >= self.request.sampling.max_tokens as usize).then_some(End::Length)
        };
        if let Some(end) = end {
            self.sample.end = end;
            self.sample.finished = matches!(end, End::Token | End::Stop);
            self.done = true;
        }
        Ok(token)
    }
}

/// Upper bound of the tokens that are run after the prefix: the last token of the prompt, and all of the answer but its
/// last.
fn more(request: &Request) -> usize {
    request.sampling.max_tokens as usize
}

/// The tokens of a prompt that are run before the row's first step; that step runs the prompt's last token.
fn prefix(request: &Request) -> &[u32] {
    request
        .prompt
        .split_last()
        .map_or(&[], |(_, before)| before)
}

/// The longest prompts first, equal ones next to each other.
fn sort(requests: &mut [(usize, Request)]) {
    requests.sort_by(|(_, a), (_, b)| {
        let (a, b) = (&a.prompt, &b.prompt);
        b.len().cmp(&a.len()).then_with(|| a.cmp(b))
    });
}

/// The beginning of a request's row, beside `rows`, all of which stay.
fn prompt<'r>(rows: &[Option<Row>], request: &'r Request) -> Prompt<'r> {
    let like = |row: &Option<Row>| {
        let row = row.as_ref();
        row.is_some_and(|row| prefix(&row.request) == prefix(request))
    };
    Prompt {
        tokens: prefix(request),
        more: more(request),
        like: rows.iter().position(like),
    }
}

/// Buffers that every draw reuses.
#[derive(Default)]
struct Room {
    kept: Vec<u32>,
    tempered: Vec<f32>,
}

/// Rows that are decoded together.
pub(crate) struct Batch<'a> {
    eos: &'a [u32],
    bounds: Bounds,
    /// Number of tokens for which `bounds.cache_bytes` is enough.
    tokens: usize,
    decoder: Box<dyn Decoder + 'a>,
    /// Requests that have not begun. Those of [`Batch::new`] come the longest first, with equal prompts next to each
    /// other: the rows of a batch then need little masking.
    waiting: VecDeque<(usize, Request)>,
    /// Number of requests that came since the last look at those that wait, and the number of steps since.
    arrived: usize,
    steps: usize,
    /// Rows of the batch. A retired row stays as `None` until enough rows are gone to pay for moving the others.
    rows: Vec<Option<Row>>,
    probabilities: Vec<f32>,
    /// Indices of the requests whose rows drew a token in the last step, with these tokens.
    drawn: Vec<(usize, u32)>,
    rooms: Vec<Room>,
}

impl<'a> Batch<'a> {
    /// A batch without rows. All requests wait, except those that want no token.
    pub fn new(
        model: &'a Model,
        requests: &[Request],
        eos: &'a [u32],
        bounds: Bounds,
    ) -> Result<Self> {
        let waiting = Self::waiting(requests);
        let longest = waiting.iter().map(|(_, r)| prefix(r).len() + more(r)).max();
        let decoder = decode::begin(model, longest.unwrap_or_default())?;
        Ok(Self::over(decoder, model, waiting, eos, bounds))
    }

    /// The requests that want a token, with equal prompts next to each other.
    fn waiting(requests: &[Request]) -> VecDeque<(usize, Request)> {
        let mut waiting: Vec<(usize, Request)> = requests
            .iter()
            .cloned()
            .enumerate()
            .filter(|(_, r)| more(r) > 0)
            .collect();
        sort(&mut waiting);
        waiting.into()
    }

    /// A batch that the given decoder runs.
    pub fn over(
        decoder: Box<dyn Decoder + 'a>,
        model: &Model,
        waiting: VecDeque<(usize, Request)>,
        eos: &'a [u32],
        bounds: Bounds,
    ) -> Self {
        let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1);
        Batch {
            eos,
            bounds,
            tokens: bounds.cache_bytes / decode::bytes_of_token(model).max(1),
            decoder,
            waiting,
            arrived: 0,
            steps: 0,
            rows: Vec::new(),
            probabilities: Vec::new(),
            drawn: Vec::new(),
            rooms: (0..threads).map(|_| Room::default()).collect(),
        }
    }

    /// Admits waiting requests where there is room, and runs the last token of every row. Gives false if nothing is
    /// left to write.
    pub fn advance(&mut self) -> Result<bool> {
        self.turn()?;
        if self.rows.is_empty() {
            return Ok(false);
        }
        // A retired row's place is filled with an arbitrary token; its output is not read.
        let last = |row: &Option<Row>| row.as_ref().map_or(0, Row::last);
        let tokens: Vec<u32> = self.rows.iter().map(last).collect();
        self.decoder.advance(&tokens)?;
        Ok(true)
    }

    /// Removes retired rows and admits waiting requests, if that pays.
    fn turn(&mut self) -> Result<()> {
        let stay: Vec<usize> = (0..self.rows.len())
            .filter(|r| self.rows[*r].is_some())
            .collect();
        // Moving the cache costs about as much as reading the cache in two steps, and prompts run faster the more of
        // them run together.
        let gone = self.rows.len() - stay.len();
        self.steps += 1;
        let company = self.arrived * 8 >= self.rows.len() || self.steps >= LONGEST_WAIT;
        let has_place = stay.len() < self.bounds.rows.max(1);
        let arrivals_pay = self.arrived > 0 && company && has_place;
        if !stay.is_empty() && gone * 8 < self.rows.len() && !arrivals_pay {
            return Ok(());
        }
        (self.arrived, self.steps) = (0, 0);
        self.rows.retain(Option::is_some);
        let more_of_rows = self.rows.iter().flatten().map(Row::left).max();
        let more_of_rows = more_of_rows.unwrap_or_default();
        let joining = self.admit(&stay, more_of_rows);
        if self.rows.is_empty() && joining.is_empty() {
            return Ok(());
        }
        let join: Vec<Prompt<'_>> = joining
            .iter()
            .map(|(_, request)| prompt(&self.rows, request))
            .collect();
        self.decoder.turn(&stay, more_of_rows, &join)?;
        drop(join);
        let new = joining.into_iter();
        self.rows
            .extend(new.map(|(index, request)| Some(Row::new(index, request))));
        Ok(())
    }

    /// Takes those of the waiting requests that there is room for beside the rows that stay, in the decoder's order.
    fn admit(&mut self, stay: &[usize], more_of_rows: usize) -> Vec<(usize, Request)> {
        let count = {
            let mut join: Vec<Prompt<'_>> = Vec::new();
            for (_, request) in &self.waiting {
                if stay.len() + join.len() >= self.bounds.rows.max(1) {
                    break;
                }
                join.push(prompt(&self.rows, request));
                let first = stay.is_empty() && join.len() == 1;
                if !first && self.decoder.room(stay, more_of_rows, &join) > self.tokens {
                    join.pop();
                    break;
                }
            }
            join.len()
        };
        let mut joining: Vec<(usize, Request)> = self.waiting.drain(..count).collect();
        sort(&mut joining);
        joining
    }

    /// Appends a request to those that wait. It wants at least one token, and no other request has its index.
    pub fn push(&mut self, index: usize, request: Request) {
        self.waiting.push_back((index, request));
        self.arrived += 1;
    }

    /// Drops the request with this index, if it waits or is being written.
    pub fn remove(&mut self, index: usize) {
        self.waiting.retain(|(waiting, _)| *waiting != index);
        for slot in &mut self.rows {
            if slot.as_ref().is_some_and(|row| row.index == index) {
                *slot = None;
            }
        }
    }

    /// Number of requests that wait, and number of those that are being written.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.rows.iter().flatten().count())
    }

    /// Calls `each` for every request whose row drew a token in the last step, with its answer so far and, if it is
    /// complete, why it ended. Complete answers then leave.
    pub fn tell(&mut self, mut each: impl FnMut(usize, &Sample, Option<End>)) {
        for slot in &mut self.rows {
            if let Some(row) = slot.as_ref() {
                let end = row.done.then_some(row.sample.end);
                each(row.index, &row.sample, end);
            }
            if slot.as_ref().is_some_and(|row| row.done) {
                *slot = None;
            }
        }
    }

    /// Draws the next token of every row.
    pub fn draw(&mut self) -> Result<()> {
        self.drawn.clear();
        if !self.decoder.draws() {
            return self.draw_here();
        }
        let (mut plain, mut asks) = (Vec::new(), Vec::new());
        let (mut others, mut sharpen) = (Vec::new(), Vec::new());
        for (place, row) in self.rows.iter().enumerate() {
            match row {
                Some(row) if row.is_plain() => {
                    plain.push(place);
                    asks.push(row.ask());
                }
                Some(row) => {
                    others.push(place);
                    sharpen.push(row.sharpen());
                }
                None => {}
            }
        }
        if plain.is_empty() {
            return self.draw_here();
        }
        if !others.is_empty() {
            let p = &mut self.probabilities;
            self.decoder.probabilities_of(&others, &sharpen, p)?;
            let width = p.len() / others.len();
            for (place, p) in others.into_iter().zip(p.chunks_exact(width)) {
                if let (Some(row), Some(room)) = (&mut self.rows[place], self.rooms.first_mut()) {
                    self.drawn.push((row.index, row.draw(p, self.eos, room)?));
                }
            }
        }
        let answers = self.decoder.draw(&plain, &asks)?;
        for (place, answer) in plain.into_iter().zip(answers) {
            if let Some(row) = &mut self.rows[place] {
                self.drawn.push((row.index, row.take(answer, self.eos)?));
            }
        }
        Ok(())
    }

    /// Draws for all rows from the decoder's probabilities.
    fn draw_here(&mut self) -> Result<()> {
        let sharpen = |row: &Option<Row>| row.as_ref().map_or(1.0, Row::sharpen);
        let sharpen: Vec<f32> = self.rows.iter().map(sharpen).collect();
        self.decoder
            .probabilities(&sharpen, &mut self.probabilities)?;
        let width = self.probabilities.len() / self.rows.len();
        let threads = self.probabilities.len() / DRAWS_OF_A_THREAD;
        let threads = threads.clamp(1, self.rooms.len()).min(self.rows.len());
        let each = self.rows.len().div_ceil(threads);
        let eos = self.eos;
        let parts = self
            .rows
            .chunks_mut(each)
            .zip(self.probabilities.chunks(each * width))
            .zip(&mut self.rooms);
        if threads == 1 {
            for ((rows, p), room) in parts {
                let drawn = draw_all(rows, p, width, eos, room)?;
                self.drawn.extend(drawn);
            }
            return Ok(());
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> = parts
                .map(|((rows, p), room)| scope.spawn(move || draw_all(rows, p, width, eos, room)))
                .collect();
            for part in parts {
                let drawn = part
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                self.drawn.extend(drawn?);
            }
            Ok(())
        })
    }

    /// Indices of the requests whose rows drew a token in the last step, with these tokens.
    pub fn drawn(&self) -> &[(usize, u32)] {
        &self.drawn
    }

    /// Moves the finished rows' samples into `answers`.
    pub fn retire(&mut self, answers: &mut [Option<Sample>]) {
        for slot in &mut self.rows {
            if let Some(row) = slot.take_if(|r| r.done) {
                answers[row.index] = Some(row.sample);
            }
        }
    }
}

/// Draws for the given rows; `p` holds the `width` probabilities of each.
fn draw_all(
    rows: &mut [Option<Row>],
    p: &[f32],
    width: usize,
    eos: &[u32],
    room: &mut Room,
) -> Result<Vec<(usize, u32)>> {
    rows.iter_mut()
        .zip(p.chunks_exact(width))
        .filter_map(|(row, p)| Some((row.as_mut()?, p)))
        .map(|(row, p)| Ok((row.index, row.draw(p, eos, room)?)))
        .collect()
}

#[cfg(test)]
mod tests;
