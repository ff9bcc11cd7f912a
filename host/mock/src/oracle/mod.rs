//! Oracles: what must hold whatever a policy wants and whatever fails. Each is a pure function over what was recorded, with a
//! table of cases; the recorders stand beside them ([`watch`] the objects and requests, [`sample`] the servers).
//!
//! # Guarantees
//! 1. Recorders don't act: they read the store, and send servers a write of nothing (DEL of a key that isn't there), which is
//!    accepted or refused like any other and changes nothing.
//! 2. What a recorder doesn't see is no violation: between two samples nothing is concluded.
//!
//! | oracle | what must hold |
//! | --- | --- |
//! | [`writers`] | never two servers that take writes for a slot beyond the bound; at the end one for each, the primary |
//! | [`keeping`] | no claim and no Secret goes that should stay |
//! | [`vko_script::outcome`] | pods' lives that were to be kept were; events were written as expected |
//! | [`disruption`] | the operator takes at most one ready member of a workload out of service at a time |
//! | [`quiet`] | after the last fault the operator comes to rest; it never asks for one thing again and again |
//! | [`vko_script::ending`] | however an instance got to its spec, it ends the same |
//! | `vko_clients::writer` | no acknowledged write is lost beyond the bound |

pub mod disruption;
pub mod keeping;
pub mod quiet;
pub mod sample;
pub mod watch;
pub mod writers;

pub use vko_script::outcome::{Oracle, Violation};
