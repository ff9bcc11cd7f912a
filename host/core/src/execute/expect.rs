//! Expectations: what must still hold when a step is sent, read again from the servers on the connection that the step will use.
//!
//! # Guarantees
//! 1. What can't be read, or isn't said, doesn't hold.
//! 2. A step whose consent had to be recorded first is asked again afterwards ([`super::step`]).

use vko_model::info::{Info, Role};
use vko_wit::planning::{Expectation, Known, OffsetOf, PairOfPods};

use super::ExecuteError;
use super::step::points_at;
use crate::procedure::{cluster, sentinel};
use crate::site::Site;
use crate::world::{Target, World};

/// Reads what the expectations are about and compares.
///
/// # Errors
/// [`ExecuteError::ExpectationFailed`] names the first that doesn't hold; other errors say that it couldn't be read, which counts
/// as not holding.
pub async fn check<W: World>(site: &Site<W>, expectations: &[Expectation]) -> Result<(), ExecuteError> {
    for expectation in expectations {
        let (name, held) = match expectation {
            Expectation::Epoch(of) => {
                (site.target(&of.pod)?.0, epoch(cluster::info(site, &of.pod).await?.current_epoch, of.epoch))
            }
            Expectation::SentinelEpoch(of) => {
                let now = sentinel::epoch(site, &of.sentinel, &of.name).await?;
                (site.sentinel_target(&of.sentinel)?.0, epoch(now, of.epoch))
            }
            Expectation::RunId(Known { pod, .. })
            | Expectation::Replid(Known { pod, .. })
            | Expectation::RolePrimary(pod)
            | Expectation::DataSetEmpty(pod)
            | Expectation::RoleReplicaOf(PairOfPods { pod, .. })
            | Expectation::OffsetAtLeast(OffsetOf { pod, .. }) => {
                let info = site.look(pod).await?;
                let peer = match expectation {
                    Expectation::RoleReplicaOf(pair) => Some(site.target(&pair.peer)?.1),
                    _ => None,
                };
                (site.target(pod)?.0, holds(expectation, &info, peer.as_ref()))
            }
        };
        held.map_err(|what| ExecuteError::ExpectationFailed(format!("{name} to be {what}")))?;
    }
    Ok(())
}

fn epoch(now: Option<u64>, expected: u64) -> Result<(), String> {
    if now == Some(expected) { Ok(()) } else { Err(format!("in epoch {expected}")) }
}

/// Whether it holds; the error names what was expected. What the server doesn't say doesn't hold.
fn holds(expectation: &Expectation, info: &Info, peer: Option<&Target>) -> Result<(), String> {
    let yes = |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(what()) };
    match expectation {
        Expectation::RunId(known) => {
            yes(info.run_id.as_deref() == Some(&known.value), &|| format!("still in run {}", known.value))
        }
        Expectation::Replid(known) => {
            yes(info.replid.as_deref() == Some(&known.value), &|| format!("in replication history {}", known.value))
        }
        Expectation::RolePrimary(_) => yes(info.role == Some(Role::Primary), &|| "a primary".into()),
        Expectation::RoleReplicaOf(_) => {
            let follows = info.role == Some(Role::Replica) && peer.is_some_and(|peer| points_at(info, peer));
            yes(follows, &|| {
                format!("a replica of {}", peer.map_or_else(|| "a pod that is gone".into(), |peer| peer.ip.to_string()))
            })
        }
        Expectation::OffsetAtLeast(offset) => {
            let now = match info.role {
                Some(Role::Primary) => info.primary_offset,
                _ => info.replica_offset,
            };
            yes(now.is_some_and(|now| now >= offset.offset), &|| format!("at offset {} or beyond", offset.offset))
        }
        Expectation::DataSetEmpty(_) => yes(info.keys == Some(0), &|| "empty".into()),
        Expectation::Epoch(_) | Expectation::SentinelEpoch(_) => Err("in an epoch, which INFO doesn't say".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(ip: &str) -> Target {
        let credential = crate::world::Credential { user: "u".into(), password: crate::secret::Secret::new("p") };
        Target { pod: "q".into(), ip: ip.parse().unwrap(), port: 6379, credential }
    }

    fn known(value: &str) -> Known {
        Known { pod: "p".into(), value: value.into() }
    }

    #[test]
    fn what_is_not_said_does_not_hold() {
        let nothing = Info::default();
        for expectation in [
            Expectation::RunId(known("r")),
            Expectation::Replid(known("r")),
            Expectation::RolePrimary("p".into()),
            Expectation::RoleReplicaOf(PairOfPods { pod: "p".into(), peer: "q".into() }),
            Expectation::OffsetAtLeast(OffsetOf { pod: "p".into(), offset: 0 }),
            Expectation::DataSetEmpty("p".into()),
        ] {
            assert!(holds(&expectation, &nothing, None).is_err(), "{expectation:?}");
        }
    }

    #[test]
    fn a_replica_of_the_named_pod_and_no_other() {
        let expectation = Expectation::RoleReplicaOf(PairOfPods { pod: "p".into(), peer: "q".into() });
        let info = Info::parse("role:slave\r\nmaster_host:fd00::1\r\nmaster_port:6379\r\n");
        assert!(holds(&expectation, &info, Some(&target("fd00:0::1"))).is_ok());
        assert!(holds(&expectation, &info, Some(&target("fd00::2"))).is_err());
        assert!(holds(&expectation, &info, None).is_err());
    }

    #[test]
    fn offsets_are_those_of_the_role() {
        let expectation = Expectation::OffsetAtLeast(OffsetOf { pod: "p".into(), offset: 10 });
        let replica = Info::parse("role:slave\r\nslave_repl_offset:9\r\nmaster_repl_offset:99\r\n");
        assert!(holds(&expectation, &replica, None).is_err());
        let primary = Info::parse("role:master\r\nmaster_repl_offset:10\r\n");
        assert!(holds(&expectation, &primary, None).is_ok());
    }
}
