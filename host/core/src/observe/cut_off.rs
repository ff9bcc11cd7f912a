//! "Am I the one that is cut off?" If more than half of the servers that have answered before are silent together while
//! Kubernetes still says that their pods are ready, the likely reason is the operator's own network, and it must not act on what
//! it sees.

use vko_wit::observation::{Observed, Pod, Reach};

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutOff {
    /// Nothing points to it.
    No,
    /// These pods are ready and silent.
    Yes(Vec<String>),
}

/// Whether the operator itself is cut off: more than half of the servers that have answered before and whose pods are Ready now,
/// at least two, on at least two nodes, are silent. The kubelet's probes reach them, so they live; it is we who don't. There is
/// no time window: the verdict lasts as long as the evidence does.
pub fn cut_off(observed: &Observed) -> CutOff {
    let ready = |uid: &str| observed.pods.iter().find(|pod| pod.uid == uid && pod.ready);
    let known: Vec<(&Reach, &Pod)> = observed
        .servers
        .iter()
        .filter(|server| server.age < u64::MAX)
        .filter_map(|s| ready(&s.pod).map(|pod| (&s.reach, pod)))
        .collect();
    let silent: Vec<&Pod> = known.iter().filter(|(reach, _)| matches!(reach, Reach::Silent(_))).map(|(_, pod)| *pod).collect();
    let mut nodes: Vec<&str> = silent.iter().map(|pod| pod.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if silent.len() >= 2 && nodes.len() >= 2 && silent.len() * 2 > known.len() {
        CutOff::Yes(silent.iter().map(|pod| pod.name.clone()).collect())
    } else {
        CutOff::No
    }
}

#[cfg(test)]
mod tests;
