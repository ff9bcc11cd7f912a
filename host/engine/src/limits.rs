//! The bounds of a policy, with what each is for.

/// Longest time of a call, in milliseconds. An observation of 640 servers, handed over and read once, takes 6 to 27 ms; the rest
/// is for a machine whose processors are busy or throttled. A policy that passes it twice is replaced, so it must not depend on
/// the machine's mood; and a call that never ends holds its thread, and the look at its instance, for this long.
pub const CALL_DEADLINE_MS: u64 = 1_000;

/// How often the clock ticks that deadlines are counted by, in milliseconds. A deadline is kept to within two ticks.
pub const TICK_MS: u64 = 10;

/// Memory of a call, in bytes: all linear memories together. An observation of 640 servers, read and answered, passes in 3 MiB; a
/// policy's own sets and a long plan come on top. Several calls may run at once, so it is no larger than it must be to never be
/// met by accident.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Elements of a table. Tables hold functions that are called indirectly, a few hundred in a policy.
pub const TABLE_ELEMENTS_MAX: usize = 20_000;

/// Core instances of a component. What wit-component makes has four.
pub const INSTANCES_MAX: usize = 16;

/// Linear memories and tables of a component, each. What wit-component makes has one memory and two tables.
pub const MEMORIES_MAX: usize = 4;

/// An answer, in bytes as it lies in the host's memory. A plan for 640 servers has some hundred thousand; an object in etcd ends
/// at 1.5 MiB, so a larger status could not be stored either.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Log lines of a call, in bytes. What comes after is dropped, and the log says so.
pub const LOG_BYTES_MAX: usize = 16 << 10;

/// How the last line ends of a log that passes [`LOG_BYTES_MAX`].
pub const LOG_CUT: &str = " ... (the rest of this call's log is dropped)";

/// A component, in bytes, before it is compiled: compiling takes 2 to 4 s for each MiB in the dev profile of one processor, needs
/// memory in proportion, and can't be interrupted. A ConfigMap holds 1 MiB; built-in policies and unpacked ones may be larger.
pub const COMPONENT_BYTES_MAX: usize = 8 << 20;
