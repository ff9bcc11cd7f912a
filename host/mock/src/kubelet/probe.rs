//! Probes of a container: when each is due, and what its answers mean.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::kubelet::list;

/// What a probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Ready,
    Live,
}

/// Until the first yes a container is asked whether it is ready so often: real kubelets ask at once when it starts, and then by
/// the period, which would only make tests wait.
const STARTING: Duration = Duration::from_millis(250);

/// A probe of a container.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) question: Question,
    pub(super) words: Vec<String>,
    pub(super) timeout: Duration,
    period: Duration,
    /// So many equal answers in a row change what is thought.
    failures_needed: u64,
    failures: u64,
    holds: bool,
    pub(super) due: Instant,
    pub(super) asking: bool,
}

impl Probe {
    /// The container's probes; one that isn't there always holds and is none.
    pub(super) fn of(container: &Value, now: Instant) -> Vec<Self> {
        let probe = |(name, question): (&str, Question)| {
            let spec = container.get(name)?;
            let words: Vec<String> =
                list(spec, "/exec/command").iter().filter_map(|word| word.as_str().map(str::to_owned)).collect();
            let number = |name: &str, default: u64| spec[name].as_u64().unwrap_or(default);
            Some(Self {
                question,
                words,
                timeout: Duration::from_secs(number("timeoutSeconds", 1)),
                period: Duration::from_secs(number("periodSeconds", 10)),
                failures_needed: number("failureThreshold", 3),
                failures: 0,
                holds: question == Question::Live,
                due: now + Duration::from_secs(number("initialDelaySeconds", 0)),
                asking: false,
            })
        };
        [("readinessProbe", Question::Ready), ("livenessProbe", Question::Live)].into_iter().filter_map(probe).collect()
    }

    /// Whether what it asks for holds, as far as is known.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// Takes an answer in; returns whether what is thought has changed.
    pub(super) fn take(&mut self, yes: bool, now: Instant) -> bool {
        let before = self.holds;
        self.failures = if yes { 0 } else { self.failures + 1 };
        if yes || self.failures >= self.failures_needed {
            self.holds = yes;
        }
        self.asking = false;
        let starting = self.question == Question::Ready && !self.holds;
        self.due = now + if starting { self.period.min(STARTING) } else { self.period };
        before != self.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn answers_by_table() {
        let now = Instant::now();
        let container = json!({
            "readinessProbe": {"exec": {"command": ["a"]}, "periodSeconds": 2, "failureThreshold": 3},
            "livenessProbe": {"exec": {"command": ["b"]}, "failureThreshold": 2},
        });
        for (index, before, answers, expected) in [
            (0, false, vec![true], true),
            (0, false, vec![false, false, false], false),
            (0, false, vec![true, false, false], true),
            (0, false, vec![true, false, false, false], false),
            (0, false, vec![true, false, true, false, false], true),
            (1, true, vec![false], true),
            (1, true, vec![false, false], false),
        ] {
            let mut probe = Probe::of(&container, now).remove(index);
            assert_eq!(probe.holds(), before);
            for answer in &answers {
                probe.take(*answer, now);
            }
            assert_eq!(probe.holds(), expected, "{answers:?}");
        }
        assert!(Probe::of(&json!({}), now).is_empty());
    }
}
