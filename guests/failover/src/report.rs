//! What people see of the Sentinels: nodes, the monitor, what keeps the instance from being ready, entries that nobody needs.

use serde_json::{Map, Value, json};
use vko_replica::status::{Node, Shortfall};
use vko_replica::view::{Member, View};
use vko_sdk::observation::{Monitor, Reach, Upstream};

use crate::group::{Group, Seat, State, idle};
use crate::monitors::{drift, names};
use crate::spec::Settings;

/// Port of own Sentinels.
const PORT: u16 = 26_379;

/// The Sentinels that are pods of this instance.
pub fn nodes(group: &Group<'_>) -> Vec<Node> {
    let own = group.seats.iter().filter_map(|seat| seat.pod);
    own.map(|pod| Node {
        role: "Sentinel",
        ip: pod.addresses.first().cloned().unwrap_or_default(),
        port: "26379",
        pod_name: pod.name.clone(),
        stateful_set: group.workload.clone(),
        node_name: pod.node.clone(),
        master_ref: String::new(),
    })
    .collect()
}

/// How the data set is watched, as `monitor` of the status.
pub fn details(group: &Group<'_>, settings: &Settings) -> Map<String, Value> {
    let nodes: Vec<Value> = match &settings.sentinel_reference {
        Some(reference) => reference.nodes.iter().map(|n| json!({"ip": n.ip, "port": n.port})).collect(),
        None => {
            let addresses = group.seats.iter().filter_map(|s| s.pod?.addresses.first());
            addresses.map(|ip| json!({"ip": ip, "port": PORT})).collect()
        }
    };
    let mut details = Map::new();
    details.insert("monitor".into(), json!({"policy": "sentinel", "name": group.name, "nodes": nodes}));
    details
}

/// What keeps the instance from being ready, as far as Sentinels go; the first of it.
pub fn shortfall(view: &View<'_>, group: &Group<'_>, primary: Option<&Member<'_>>) -> Option<Shortfall> {
    let of = |reason: &str, message: String| Some(Shortfall { reason: reason.into(), message });
    if let Some(unwell) = unwell(group) {
        return Some(unwell);
    }
    let busy = listed(group, |s| s.monitor.is_some_and(|m| !idle(&m.failover_state)));
    if !busy.is_empty() {
        return of("FailoverUnderWay", format!("Sentinels carry a failover out: {busy}"));
    }
    // Without a primary the data set itself isn't ready.
    let primary = primary?;
    let wrong = listed(group, |s| !s.monitor.is_some_and(|m| names(m, primary)));
    if !wrong.is_empty() {
        return of("SentinelsDisagree", format!("Sentinels that don't watch {}: {wrong}", primary.name));
    }
    // By what was last heard: what is too old to act on is asked for soon once it keeps the instance from being ready.
    let drifted = listed(group, |s| s.monitor.is_some_and(|m| !drift(group, m).is_empty()));
    if !drifted.is_empty() {
        return of("SentinelsNotConfigured", format!("Sentinels whose options differ from what is declared: {drifted}"));
    }
    let deaf = listed(group, |s| s.monitor.is_some_and(|m| m.subjectively_down || m.objectively_down));
    if !deaf.is_empty() {
        let message =
            format!("Sentinels that hold {} for down, which answers: {deaf}; see what cuts them off from it", primary.name);
        return of("SentinelsCutOff", message);
    }
    if let Some(message) = unmeshed(view, group, primary) {
        return of("SentinelsNotMeshed", message);
    }
    let without = listed(group, |s| s.monitor.is_some_and(|m| m.quorum_reached == Some(false)));
    if !without.is_empty() {
        return of(
            "QuorumNotReached",
            format!("Sentinels that see too few others for a failover: {without}; {}", ghosts(view, group)),
        );
    }
    None
}

/// Sentinels that don't answer or do nothing.
pub fn unwell(group: &Group<'_>) -> Option<Shortfall> {
    let twins = listed(group, |s| s.state == State::Twin);
    if !twins.is_empty() {
        let message = format!(
            "Sentinels that say they are one that is listed before them: {twins}; list each once, give each an id of its own"
        );
        return Some(Shortfall { reason: "SentinelsTwice".into(), message });
    }
    let away: Vec<String> = group.seats.iter().filter(|s| !s.answers()).map(why_away).collect();
    if !away.is_empty() {
        let message = format!("Sentinels that don't answer: {}", away.join(", "));
        return Some(Shortfall { reason: "SentinelsAway".into(), message });
    }
    let tilted = listed(group, |s| s.state == State::Tilt);
    let message = format!("Sentinels in TILT, which act on nothing until their clock is steady for 30 s: {tilted}");
    (!tilted.is_empty()).then(|| Shortfall { reason: "SentinelsInTilt".into(), message })
}

fn why_away(seat: &Seat<'_>) -> String {
    match seat.sentinel.map(|s| &s.reach) {
        Some(Reach::Refused(failure)) => format!("{} ({})", seat.name, failure.reason),
        _ => seat.name.clone(),
    }
}

/// The first Sentinel that doesn't see all replicas and all other Sentinels, and what.
pub fn unmeshed(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>) -> Option<String> {
    group.seats.iter().find_map(|s| Some(format!("Sentinel {} {}", s.name, missing(view, group, primary, s)?)))
}

/// What a Sentinel doesn't see of the data set or of the other Sentinels; nothing if it sees all.
fn missing(view: &View<'_>, group: &Group<'_>, primary: &Member<'_>, seat: &Seat<'_>) -> Option<String> {
    let monitor = seat.monitor?;
    let mut replicas = view.members.iter().filter(|m| m.ordinal < view.spec.replicas && m.ordinal != primary.ordinal);
    let hidden = |m: &&Member<'_>| !m.uid().is_some_and(|uid| sees_replica(monitor, uid));
    if let Some(unseen) = replicas.find(hidden) {
        return Some(format!("doesn't see {} as a replica", unseen.name));
    }
    let others = group.seats.iter().filter(|other| other.name != seat.name);
    let mut known = others.filter_map(|other| other.sentinel.map(|s| (other, s.id.as_str())));
    let found = known.find(|(_, id)| !monitor.peers.iter().any(|p| p.id == *id && !p.down))?;
    Some(format!("doesn't see Sentinel {}", found.0.name))
}

fn sees_replica(monitor: &Monitor, uid: &str) -> bool {
    monitor.replicas.iter().any(|r| !r.down && matches!(&r.pod, Upstream::Pod(pod) if pod == uid))
}

/// Entries of servers and Sentinels that exist no more. They do no harm to a data set whose Sentinels keep their ids, and are
/// only said.
pub fn ghosts(view: &View<'_>, group: &Group<'_>) -> String {
    let ours = |pod: &Upstream| matches!(pod, Upstream::Pod(uid) if view.by_pod(uid).is_some());
    let ids: Vec<&str> = group.seats.iter().filter_map(|s| s.sentinel).map(|s| s.id.as_str()).collect();
    let monitors = || group.seats.iter().filter_map(|s| s.monitor);
    let replicas = monitors().map(|m| m.replicas.iter().filter(|r| !ours(&r.pod)).count()).max().unwrap_or(0);
    let peers = monitors().map(|m| m.peers.iter().filter(|p| !ids.contains(&p.id.as_str())).count()).max().unwrap_or(0);
    if replicas == 0 && peers == 0 {
        return String::new();
    }
    format!("Sentinels list {replicas} replica(s) and {peers} Sentinel(s) that are none of this instance's")
}

/// Names of the seats that fit.
pub fn listed(group: &Group<'_>, fits: impl Fn(&Seat<'_>) -> bool) -> String {
    group.seats.iter().filter(|s| fits(s)).map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Watched;

    type Change = fn(&mut Watched) -> &mut Watched;

    #[test]
    fn what_keeps_it_from_being_ready() {
        let table: &[(&str, Change, &str)] = &[
            ("all is right", |w| w, "-"),
            ("one is silent", |w| w.mute(1), "SentinelsAway"),
            ("one is gone", |w| w.drop_sentinel(2), "SentinelsAway"),
            ("one in tilt", |w| w.tilt(0), "SentinelsInTilt"),
            ("one watches nothing", |w| w.blank(0), "SentinelsDisagree"),
            ("one watches another", |w| w.says(0, 1, 5), "SentinelsDisagree"),
            ("a failover goes on", |w| w.failing_over(0, "reconf_slaves"), "FailoverUnderWay"),
            ("an option differs", |w| w.option(0, "parallel-syncs", "2"), "SentinelsNotConfigured"),
            ("the same by an older word", |w| w.option(0, "parallel-syncs", "2").aged(0, 4_000), "SentinelsNotConfigured"),
            ("one holds the primary for down", |w| w.subjectively_down(0), "SentinelsCutOff"),
            ("two are one", |w| w.twin(1), "SentinelsTwice"),
            ("one refuses the login", |w| w.refuse_login(1), "SentinelsAway"),
            ("one sees no replicas", |w| w.knows_none(0), "SentinelsNotMeshed"),
            ("one sees no others", |w| w.lonely(0), "SentinelsNotMeshed"),
            ("no quorum", |w| w.no_quorum(0), "QuorumNotReached"),
            ("a ghost is no obstacle", |w| w.ghost(0), "-"),
        ];
        for (case, change, expected) in table {
            let mut watched = Watched::healthy("x", 3);
            change(&mut watched);
            let view = watched.view();
            let found = shortfall(&view, &watched.group(), Some(&view.members[0]));
            assert_eq!(found.map_or("-".to_owned(), |s| s.reason), *expected, "{case}");
        }
    }

    #[test]
    fn why_one_is_away_is_said() {
        let mut watched = Watched::healthy("x", 3);
        watched.refuse_login(1);
        let found = unwell(&watched.group()).expect("a shortfall");
        assert!(found.message.contains("rfs-x-1 (WRONGPASS"), "{}", found.message);
    }

    #[test]
    fn ghosts_are_counted() {
        let mut watched = Watched::healthy("x", 3);
        assert_eq!(ghosts(&watched.view(), &watched.group()), "");
        watched.ghost(1);
        assert!(ghosts(&watched.view(), &watched.group()).contains("1 replica(s) and 1 Sentinel(s)"));
    }
}
