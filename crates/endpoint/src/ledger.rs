//! The budget in money and tokens.
//!
//! A request reserves the most that it can cost before it is sent. When it ends, its reservation is replaced by what it
//! cost. Spent and reserved amounts together never exceed the limits, so spent ones do not either, in whatever order
//! requests begin and end.

use flopsmith_config::Money;
use flopsmith_config::endpoint::Price;
use serde::{Deserialize, Serialize};

/// Tokens and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Their cost; 0 without prices.
    pub cost: Money,
}

impl Amount {
    /// Nothing.
    pub const NOTHING: Self = Self {
        input_tokens: 0,
        output_tokens: 0,
        cost: Money::ZERO,
    };

    /// Tokens at these prices.
    pub fn of(input_tokens: u64, output_tokens: u64, price: Option<Price>) -> Self {
        let cost = price.map_or(Money::ZERO, |price| {
            let output = price.output.times_tokens(output_tokens);
            price.input.times_tokens(input_tokens).plus(output)
        });
        Self {
            input_tokens,
            output_tokens,
            cost,
        }
    }

    /// All tokens.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost: self.cost.plus(other.cost),
        }
    }

    #[must_use]
    fn less(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cost: self.cost.less(other.cost),
        }
    }
}

/// Limits on the sum of all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// On the cost.
    pub money: Option<Money>,
    /// On the tokens of prompts and answers.
    pub tokens: Option<u64>,
}

/// A limit that stands against a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// On the cost.
    Money,
    /// On the tokens.
    Tokens,
}

impl Limits {
    /// The limit that `amount` exceeds.
    fn exceeded(&self, amount: Amount) -> Option<Limit> {
        if self.money.is_some_and(|most| amount.cost > most) {
            return Some(Limit::Money);
        }
        let tokens = self.tokens.is_some_and(|most| amount.tokens() > most);
        tokens.then_some(Limit::Tokens)
    }
}

/// The answer to a request that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It may fit once requests under way have ended.
    Later,
    /// It never fits.
    Never(Limit),
}

/// The most that a request under way may cost. It is settled once.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Reservation(Amount);

impl Reservation {
    /// The most that the request may cost.
    pub fn amount(&self) -> Amount {
        self.0
    }
}

/// Spent and reserved amounts.
#[derive(Debug, Clone)]
pub struct Ledger {
    limits: Limits,
    spent: Amount,
    reserved: Amount,
}

impl Ledger {
    /// A ledger of which `spent` is spent already.
    pub fn new(limits: Limits, spent: Amount) -> Self {
        Self {
            limits,
            spent,
            reserved: Amount::NOTHING,
        }
    }

    /// Reserves the most that a request may cost.
    ///
    /// # Errors
    /// It does not fit: the reservations under way leave no room for it, or what is spent does.
    pub fn reserve(&mut self, most: Amount) -> Result<Reservation, Refusal> {
        if let Some(limit) = self.limits.exceeded(self.spent.plus(most)) {
            return Err(Refusal::Never(limit));
        }
        let reserved = self.reserved.plus(most);
        if self.limits.exceeded(self.spent.plus(reserved)).is_some() {
            return Err(Refusal::Later);
        }
        self.reserved = reserved;
        Ok(Reservation(most))
    }

    /// Replaces a reservation by what the request cost.
    pub fn settle(&mut self, reservation: Reservation, cost: Amount) {
        self.reserved = self.reserved.less(reservation.0);
        self.spent = self.spent.plus(cost);
    }

    /// The sum of the requests that ended.
    pub fn spent(&self) -> Amount {
        self.spent
    }

    /// The sum of the reservations under way.
    pub fn reserved(&self) -> Amount {
        self.reserved
    }
}
