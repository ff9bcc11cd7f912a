//! The host's side of one call: its only import, and its bounds of memory. Made for a call, dropped with it.

use std::sync::Arc;

use wasmtime::{Error, ResourceLimiter, Result};

use super::bindings::valkey::policy::{common, log, observation, planning};
use crate::limits::{INSTANCES_MAX, LOG_BYTES_MAX, LOG_CUT, MEMORIES_MAX, MEMORY_BYTES_MAX, TABLE_ELEMENTS_MAX};

/// State of a store.
pub(crate) struct Host {
    /// Name and version of the policy.
    label: Arc<str>,
    /// Bytes of all linear memories.
    memory: usize,
    /// Bytes that may still be logged; `None` after the cut was told.
    log_left: Option<usize>,
    /// The last line at `error`: what a panic's hook said.
    pub(super) last_error: String,
}

/// The call asked for more memory than [`MEMORY_BYTES_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("the policy's memory is full")]
pub(super) struct MemoryFull;

impl Host {
    /// For a call of that policy.
    pub(super) fn new(label: Arc<str>) -> Self {
        Self { label, memory: 0, log_left: Some(LOG_BYTES_MAX), last_error: String::new() }
    }

    /// What of this line goes to the log; `None` when nothing does.
    fn admit_line(&mut self, mut line: String) -> Option<String> {
        let left = self.log_left?;
        if line.len() > left {
            self.log_left = None;
            line.truncate(line.floor_char_boundary(left));
            line.push_str(LOG_CUT);
        } else {
            self.log_left = Some(left - line.len());
        }
        // One line is one line: a policy can't forge others.
        Some(line.replace(char::is_control, " "))
    }
}

impl log::Host for Host {
    fn log(&mut self, level: log::Level, message: String) {
        let Some(line) = self.admit_line(message) else { return };
        let policy = &*self.label;
        match level {
            log::Level::Debug => tracing::debug!(policy, "{line}"),
            log::Level::Info => tracing::info!(policy, "{line}"),
            log::Level::Warn => tracing::warn!(policy, "{line}"),
            log::Level::Error => {
                tracing::error!(policy, "{line}");
                self.last_error = line;
            }
        }
    }
}

impl common::Host for Host {}
impl observation::Host for Host {}
impl planning::Host for Host {}

impl ResourceLimiter for Host {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > MEMORY_BYTES_MAX {
            return Err(Error::new(MemoryFull));
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        if desired > TABLE_ELEMENTS_MAX {
            return Err(Error::new(MemoryFull));
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        MEMORIES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_call_is_cut_once_and_at_a_character() {
        let mut host = Host::new("p 1".into());
        let long = "ä".repeat(LOG_BYTES_MAX / 2 - 1);
        assert_eq!(host.admit_line(long.clone()).as_deref(), Some(long.as_str()), "what fits is whole");
        let cut = host.admit_line("äää".into()).unwrap_or_default();
        assert!(cut.starts_with("ä ...") && cut.contains("dropped"), "{cut}");
        assert_eq!(host.admit_line("x".into()), None, "the cut is told once");
    }

    #[test]
    fn a_line_stays_one_line() {
        let mut host = Host::new("p 1".into());
        assert_eq!(host.admit_line("a\nERROR forged\u{1b}[0m".into()).as_deref(), Some("a ERROR forged [0m"));
    }

    #[test]
    fn memories_are_counted_together() {
        let mut host = Host::new("p 1".into());
        let half = MEMORY_BYTES_MAX / 2;
        assert!(host.memory_growing(0, half, None).is_ok_and(|granted| granted));
        assert!(host.memory_growing(0, half, None).is_ok_and(|granted| granted), "a second memory");
        let refused = host.memory_growing(half, half + (64 << 10), None);
        assert!(refused.is_err_and(|error| error.is::<MemoryFull>()), "one page more");
    }
}
