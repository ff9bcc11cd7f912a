//! The mock host: the operator without Kubernetes. The API server is in memory ([`vko_apiserver`]), pods are real server
//! processes on loopback addresses, started, probed and stopped by the real agent; the operator is the real one, from its watches
//! to its connections.
//!
//! # Guarantees
//! 1. The operator can't tell it from a cluster: it speaks HTTP to the API server and dials pods by their addresses.
//! 2. Each pod has an address of its own; a new pod has a new one. All use the same ports, as in a cluster.
//! 3. A pod's end is as in a cluster: hook, SIGTERM, grace, SIGKILL. What crashes is started again, with growing pauses.
//! 4. Processes end with the value that stands for them, also when a test panics, and with this process, even if it is killed.
//!
//! # Time
//! Time is real. Servers, Sentinels and gossip have clocks of their own that can't be made to jump, and a virtual clock beside
//! them would show orders of events that can't happen. Where only Kubernetes is in the world, [`vko_apiserver::Store`] takes the
//! time from its owner.
//!
//! # Assumptions
//! 1. Linux: the whole of 127.0.0.0/8 is this machine's, and processes have file descriptors.
//! 2. A pod has one container beside its init containers; of its security context, resources and environment only plain values
//!    and fields of the pod count.
//! 3. There is no DNS: where a mounted file names a Service, the kubelet here writes its addresses.
//!
//! # Rooms
//! [`bed`] is a world to be in, one that lasts where it is asked for; [`operator`] the operator in it; [`kubelet`] makes
//! processes of pods, [`process`] owns one; [`services`] makes addresses of Services; [`cut`] and [`burden`] are faults.
//! [`scenario`] runs what folders say, under the eyes of the [`oracle`]s.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod address;
pub mod bed;
pub mod burden;
pub mod cut;
pub mod images;
pub mod kubelet;
mod lasting;
pub mod operator;
pub mod oracle;
pub mod process;
pub mod scenario;
pub mod services;

pub use bed::Bed;
pub use images::Images;
pub use operator::Operator;
pub use rustix::process::Signal;
pub use services::Services;
