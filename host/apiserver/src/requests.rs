//! What clients asked to change: a record for whoever judges them. Kubernetes' own controllers and the owner of the store
//! aren't in it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::resource::Key;

/// How many are kept; who wants more takes them in time.
const KEPT: usize = 1 << 14;

/// A request that was carried out or refused by the rules; one that a fault kept away isn't one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub client: String,
    /// create, replace, merge, apply, delete or evict.
    pub verb: &'static str,
    /// About what.
    pub key: Key,
    /// The answer. A write that changes nothing is a write all the same.
    pub code: u16,
}

/// Those that weren't taken yet.
#[derive(Debug, Default)]
pub struct Requests(Mutex<VecDeque<Request>>);

impl Requests {
    /// One more.
    pub(crate) fn note(&self, request: Request) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(request);
    }

    /// Takes them, oldest first.
    pub fn take(&self) -> Vec<Request> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_taken_once_and_bounded() {
        let requests = Requests::default();
        let request = |code| Request { client: "c".into(), verb: "apply", key: Key::new("pods", "n", "a"), code };
        (0..2).for_each(|code| requests.note(request(code)));
        assert_eq!(requests.take(), [request(0), request(1)]);
        assert!(requests.take().is_empty());
        (0..=KEPT).for_each(|_| requests.note(request(0)));
        assert_eq!(requests.take().len(), KEPT);
    }
}
