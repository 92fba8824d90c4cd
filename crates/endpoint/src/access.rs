//! Decides whether a server refuses everything or single requests.
//!
//! A server that refuses the key refuses every request, and a server that filters prompts refuses some; both answer 403. So a
//! refusal before any answer holds back further requests until those under way have ended. If one of them is answered, the
//! key is good, and the refusal belongs to its request alone. If none is, the server refuses everything.

/// Whether a request may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It may, and has begun.
    Open,
    /// It may once requests under way have shown whether the key is good.
    Wait,
    /// The server refuses every request.
    Closed,
}

/// The permissions and refusals of a server so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    answered_before: bool,
    answered: bool,
    refused: bool,
    under_way: usize,
}

impl Access {
    /// `answered_before` is true if the server answered in an earlier session.
    pub(crate) fn new(answered_before: bool) -> Self {
        Self {
            answered_before,
            ..Self::default()
        }
    }

    /// A request wants to begin. One that may has to [`Self::leave`].
    pub(crate) fn enter(&mut self) -> Gate {
        match (self.answered || !self.refused, self.under_way) {
            (true, _) => {
                self.under_way += 1;
                Gate::Open
            }
            (false, 0) => Gate::Closed,
            (false, _) => Gate::Wait,
        }
    }

    /// A request was answered.
    pub(crate) fn answer(&mut self) {
        self.answered = true;
    }

    /// A request was refused, because of the key (`of_key`) or for a reason that the server does not tell. A key may have been
    /// withdrawn since an earlier session, but what was answered then shows that other refusals do not concern all requests.
    pub(crate) fn refuse(&mut self, of_key: bool) {
        self.refused |= of_key || !self.answered_before;
    }

    /// A request has ended.
    pub(crate) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// True once a request was answered in this session.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered
    }

    /// True if the server refuses every request.
    pub(crate) fn is_closed(&self) -> bool {
        self.refused && !self.answered && self.under_way == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_before_any_answer_waits_for_the_requests_under_way() {
        for answers in [false, true] {
            let mut access = Access::new(false);
            assert_eq!([access.enter(), access.enter()], [Gate::Open; 2]);
            access.refuse(false);
            access.leave();
            assert_eq!(access.enter(), Gate::Wait);
            assert!(!access.is_closed());
            if answers {
                access.answer();
            }
            access.leave();
            assert_eq!(access.is_closed(), !answers);
            let then = if answers { Gate::Open } else { Gate::Closed };
            assert_eq!(access.enter(), then);
        }
    }

    #[test]
    fn a_refusal_after_an_answer_belongs_to_its_request() {
        // In this session, or in an earlier one, unless the key itself is refused.
        for (answered_before, of_key, closed) in [
            (false, false, true),
            (true, false, false),
            (true, true, true),
        ] {
            let mut access = Access::new(answered_before);
            assert_eq!(access.enter(), Gate::Open);
            access.refuse(of_key);
            access.leave();
            assert_eq!(access.is_closed(), closed);
        }
        let mut access = Access::new(false);
        for refused in [false, true] {
            assert_eq!(access.enter(), Gate::Open);
            match refused {
                true => access.refuse(true),
                false => access.answer(),
            }
            access.leave();
        }
        assert!(!access.is_closed());
    }
}
