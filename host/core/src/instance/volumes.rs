//! What is known of volumes whose node is gone: whether they were disks of it.
//!
//! # Guarantees
//! 1. A quiet instance costs no request: a volume is asked for when the node that it was made for is gone, and once, since where
//!    it can be reached from doesn't change.
//! 2. What can't be told is unknown: a volume that isn't found, one of another kind than a disk, a right that is missing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use vko_api::names;

use crate::object::{Kind, Object, ObjectId};
use crate::world::World;

/// Host names of the nodes whose disk it is; `None`: it may be reached from elsewhere.
type Disk = Option<Vec<String>>;

/// Volumes that were asked for, by the UID of their claim.
#[derive(Default)]
pub(super) struct Volumes(Mutex<BTreeMap<String, Disk>>);

impl Volumes {
    /// The disks among the claims' volumes, by the UID of the claim, as far as their node is gone.
    pub(super) async fn disks<W: World>(&self, world: &W, claims: &[Object], nodes: &[Object]) -> BTreeMap<String, Vec<String>> {
        let mut known = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        known.retain(|uid, _| claims.iter().any(|claim| claim.uid() == uid));
        for claim in claims.iter().filter(|claim| is_adrift(claim, nodes)) {
            if known.contains_key(claim.uid()) {
                continue;
            }
            let id = ObjectId::new(Kind::PersistentVolume, "", claim.text("/spec/volumeName"));
            match world.get(&id).await {
                Ok(Some(volume)) => {
                    known.insert(claim.uid().to_owned(), disk(&volume));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(volume = id.name, %error, "whether the volume went with its node is unknown"),
            }
        }
        let disks = known.iter().filter_map(|(uid, disk)| Some((uid.clone(), disk.clone()?))).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
        disks
    }
}

/// Whether a claim is bound to a volume that was made for a node which isn't there.
fn is_adrift(claim: &Object, nodes: &[Object]) -> bool {
    let node = claim.annotation(names::SELECTED_NODE);
    !node.is_empty() && !claim.text("/spec/volumeName").is_empty() && !nodes.iter().any(|known| known.name() == node)
}

/// Whose disk a volume is. Only the two kinds that are a path on a node count: of all others the node affinity says from where
/// they can be reached, and they outlive those nodes.
fn disk(volume: &Object) -> Disk {
    let spec = volume.0.get("spec")?;
    if !spec["local"].is_object() && !spec["hostPath"].is_object() {
        return None;
    }
    let mut hosts = Vec::new();
    // One of the terms is enough for a node, so each of them must name its hosts.
    for term in volume.list("/spec/nodeAffinity/required/nodeSelectorTerms") {
        let all = term["matchExpressions"].as_array()?;
        let named = all.iter().find(|one| one["key"] == names::HOSTNAME && one["operator"] == "In")?;
        hosts.extend(named["values"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    (!hosts.is_empty()).then_some(hosts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::FakeWorld;

    fn on(values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": values}]})
    }

    fn volume(source: &str, terms: &[Value]) -> Value {
        let affinity = json!({"required": {"nodeSelectorTerms": terms}});
        let spec = json!({source: {"path": "/disk"}, "nodeAffinity": affinity});
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": spec})
    }

    #[test]
    fn only_a_path_on_named_nodes_is_a_disk() {
        let zone = json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]});
        let not = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["a"]}]});
        let both = json!({"matchExpressions": [zone["matchExpressions"][0], on(&["a"])["matchExpressions"][0]]});
        let by_field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
        for (case, object, expected) in [
            ("local", volume("local", &[on(&["a"])]), Some(vec!["a"])),
            ("a path of the host", volume("hostPath", &[on(&["a"])]), Some(vec!["a"])),
            ("of several nodes", volume("local", &[on(&["a", "b"]), on(&["c"])]), Some(vec!["a", "b", "c"])),
            ("more than the host", volume("local", &[both]), Some(vec!["a"])),
            ("a network volume", volume("csi", &[on(&["a"])]), None),
            ("a network volume of a zone", volume("csi", std::slice::from_ref(&zone)), None),
            ("of a zone, or of a host", volume("local", &[on(&["a"]), zone]), None),
            ("not on a host", volume("local", &[not]), None),
            ("by a field", volume("local", &[by_field]), None),
            ("a path of any node", volume("hostPath", &[]), None),
            ("nothing is said", json!({}), None),
        ] {
            let expected = expected.map(|hosts| hosts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(disk(&Object::new(object)), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn a_volume_is_asked_for_once_and_only_when_its_node_is_gone() {
        let world = FakeWorld::default();
        let claim = Object::new(json!({
            "metadata": {"uid": "claim-1", "annotations": {"volume.kubernetes.io/selected-node": "node-1"}},
            "spec": {"volumeName": "pv-1"},
        }));
        let node = Object::new(json!({"metadata": {"name": "node-1"}}));
        let volumes = Volumes::default();
        let ask = async |nodes: &[Object]| {
            let before = world.state().requests;
            let disks = volumes.disks(&world, std::slice::from_ref(&claim), nodes).await;
            (disks.get("claim-1").cloned(), world.state().requests - before)
        };
        assert_eq!(ask(std::slice::from_ref(&node)).await, (None, 0), "its node is there");
        assert_eq!(ask(&[]).await, (None, 1), "the volume isn't found");
        world.state().put(volume("local", &[on(&["node-1"])]));
        let disk = Some(vec!["node-1".to_owned()]);
        assert_eq!(ask(&[]).await, (disk.clone(), 1), "so it is asked for again");
        assert_eq!(ask(&[]).await, (disk, 0), "and no more");
        assert_eq!(volumes.disks(&world, &[], &[]).await, BTreeMap::new(), "the claim is gone");
    }

    #[tokio::test]
    async fn without_an_answer_it_stays_unknown() {
        let world = FakeWorld::default();
        world.state().put(volume("local", &[on(&["node-1"])]));
        world.state().ends_after = Some(0);
        let claim = Object::new(json!({
            "metadata": {"uid": "claim-1", "annotations": {"volume.kubernetes.io/selected-node": "node-1"}},
            "spec": {"volumeName": "pv-1"},
        }));
        assert_eq!(Volumes::default().disks(&world, &[claim], &[]).await, BTreeMap::new());
    }
}
