//! The one import of a policy. In a component the lines reach the operator's log under the policy's name, at most 16 KiB in a
//! call. Natively the import does not exist: lines go into the capture that the calling thread opened with [`capture`], or
//! nowhere.

pub use vko_wit::valkey::policy::log::Level;

/// Logs at `debug`: what helps to follow a decision.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Logs at `info`: what a person would want to know of a decision.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Logs at `warn`: something in the observation that should not be so.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Logs at `error`: a fault of the policy itself. The last such line of a call that traps becomes the text of the trap.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Makes panics say where and why, by `error`. [`export_policy!`](crate::export_policy) calls it.
pub fn hook_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| error(&panic.to_string())));
}

#[cfg(target_arch = "wasm32")]
fn write(level: Level, message: &str) {
    vko_wit::valkey::policy::log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, message: &str) {
    native::write(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
pub use native::capture;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::cell::RefCell;

    use super::Level;

    thread_local! {
        static LINES: RefCell<Option<Vec<(Level, String)>>> = const { RefCell::new(None) };
    }

    pub(super) fn write(level: Level, message: &str) {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push((level, message.to_owned()));
            }
        });
    }

    /// Runs `call` and returns, beside its result, the lines that it logged on this thread. Captures do not nest: an inner one
    /// takes the lines. For tests of policies.
    pub fn capture<R>(call: impl FnOnce() -> R) -> (R, Vec<(Level, String)>) {
        LINES.set(Some(Vec::new()));
        let result = call();
        (result, LINES.take().unwrap_or_default())
    }

    #[cfg(test)]
    mod tests {
        use super::super::{info, warn};
        use super::*;

        #[test]
        fn lines_are_captured_in_order_and_only_inside() {
            info("before");
            let (result, lines) = capture(|| {
                info("one");
                warn("two");
                7
            });
            info("after");
            assert_eq!(result, 7);
            assert_eq!(lines, [(Level::Info, "one".to_owned()), (Level::Warn, "two".to_owned())]);
            assert_eq!(capture(|| ()).1, []);
        }
    }
}
