//! What a pod mounts: the agent, its configuration, its accounts, its data, and a little memory.

use serde_json::{Value, json};
use vko_api::names;

use super::agent::{ACCOUNTS_DIR, AGENT_DIR, CONF_DIR, DATA_DIR, RUN_DIR};
use super::metadata::labels;
use super::spec::{PodSpec, storage};
use super::{RenderError, Topology};
use crate::object::Object;

const AGENT: &str = "agent";
const CONF: &str = "conf";
const ACCOUNTS: &str = "accounts";
const RUN: &str = "run";

/// Key of the `user` lines, in the Secret and in the mounted folder.
pub(super) const USERS_ACL: &str = "users.acl";
/// Accounts whose passwords a pod needs: it follows a primary, is probed, and hands its role over. The operator's stays outside.
const POD_ACCOUNTS: [&str; 3] = [names::account::REPLICATION, names::account::PROBE, names::account::HOOK];

/// Readable by the pod's group (`fsGroup`), by nobody else.
const MODE_GROUP: u32 = 0o440;
/// Nothing secret in it.
const MODE_ALL: u32 = 0o444;
/// The agent is a few MiB; the bound keeps a node's disk from a runaway writer.
const AGENT_SIZE: &str = "64Mi";
/// One run id.
const RUN_SIZE: &str = "1Mi";

/// Volumes of the pod. Data on a claim comes from the claim template.
pub(super) fn volumes(instance: &str, spec: &PodSpec<'_>) -> Value {
    let mut volumes = vec![
        json!({ "name": AGENT, "emptyDir": { "sizeLimit": AGENT_SIZE } }),
        json!({ "name": CONF, "configMap": { "name": names::data_workload(instance), "defaultMode": MODE_ALL } }),
        json!({ "name": ACCOUNTS, "projected": { "sources": account_sources(instance), "defaultMode": MODE_GROUP } }),
        json!({ "name": RUN, "emptyDir": { "medium": "Memory", "sizeLimit": RUN_SIZE } }),
    ];
    if !spec.has_claim() {
        // No size limit: the kubelet would evict the pod, and its data with it.
        volumes.push(json!({ "name": names::CLAIM_TEMPLATE, "emptyDir": {} }));
    }
    Value::Array(volumes)
}

fn account_sources(instance: &str) -> Vec<Value> {
    let users = json!({ "secret": {
        "name": names::data_users(instance),
        "items": [{ "key": USERS_ACL, "path": USERS_ACL }],
    } });
    let passwords = POD_ACCOUNTS.map(|account| {
        json!({ "secret": {
            "name": names::account_secret(names::component::FAILOVER, instance, account),
            "items": [{ "key": "password", "path": account }],
        } })
    });
    std::iter::once(users).chain(passwords).collect()
}

/// Mounts of the init container.
pub(super) fn init_mounts() -> Value {
    json!([{ "name": AGENT, "mountPath": AGENT_DIR }])
}

/// Mounts of the server's container. It can change its data and the memory volume, nothing else.
pub(super) fn mounts() -> Value {
    json!([
        { "name": AGENT, "mountPath": AGENT_DIR, "readOnly": true },
        { "name": CONF, "mountPath": CONF_DIR, "readOnly": true },
        { "name": ACCOUNTS, "mountPath": ACCOUNTS_DIR, "readOnly": true },
        { "name": RUN, "mountPath": RUN_DIR },
        { "name": names::CLAIM_TEMPLATE, "mountPath": DATA_DIR },
    ])
}

/// Claim templates of the workload; empty if data lives and dies with the pod.
///
/// The API server refuses any change of them, so what the live StatefulSet says stays: a claim grows by its own size, a restored
/// instance keeps the labels of its former life.
///
/// # Errors
/// Storage without a capacity.
pub(super) fn claim_templates(topology: &Topology, live: Option<&Object>) -> Result<Vec<Value>, RenderError> {
    let Some(storage) = storage(&topology.spec) else { return Ok(Vec::new()) };
    let kept = |pointer: &str| live.and_then(|live| live.0.pointer("/spec/volumeClaimTemplates/0")?.pointer(pointer)).cloned();
    let capacity = kept("/spec/resources/requests/storage")
        .or_else(|| storage.get("capacity").cloned().filter(|capacity| !capacity.is_null()))
        .ok_or(RenderError::SpecFieldMissing { field: "storage.capacity" })?;
    let class = if live.is_some() { kept("/spec/storageClassName") } else { storage.get("storageClassName").cloned() };

    let mut claim = json!({
        "metadata": {
            "name": names::CLAIM_TEMPLATE,
            "labels": kept("/metadata/labels").unwrap_or_else(|| json!(labels(topology))),
        },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": capacity } } },
    });
    // An absent class is the cluster's default one; an empty one would mean "no class".
    if let Some(class) = class.filter(|class| class.as_str().is_some_and(|name| !name.is_empty())) {
        claim["spec"]["storageClassName"] = class;
    }
    Ok(vec![claim])
}

#[cfg(test)]
mod tests {
    use super::super::testing::mk_topology;
    use super::*;

    #[test]
    fn a_pod_has_only_the_passwords_that_it_needs() {
        let sources = Value::Array(account_sources("demo")).to_string();
        for (account, needed) in [("replication", true), ("probe", true), ("hook", true), ("operator", false), ("default", false)]
        {
            assert_eq!(
                sources.contains(&names::account_secret(names::component::FAILOVER, "demo", account)),
                needed,
                "{account}"
            );
        }
    }

    #[test]
    fn claims_ask_for_what_the_instance_asks_for() {
        let claims = claim_templates(&mk_topology(), None).unwrap();
        assert_eq!(claims[0]["spec"]["resources"]["requests"]["storage"], "2Gi");
        assert_eq!(claims[0]["spec"]["storageClassName"], "local");
        assert_eq!(claims[0]["metadata"]["labels"], json!(labels(&mk_topology())));
    }

    #[test]
    fn the_default_class_is_left_to_the_cluster() {
        let mut topology = mk_topology();
        for class in [Value::Null, json!("")] {
            topology.spec["storage"]["storageClassName"] = class;
            assert_eq!(claim_templates(&topology, None).unwrap()[0]["spec"].get("storageClassName"), None);
        }
    }

    #[test]
    fn a_live_claim_template_stays_as_it_is() {
        let live = Object::new(json!({ "spec": { "volumeClaimTemplates": [{
            "metadata": { "name": "valkey-data", "labels": { "of": "a former life" } },
            "spec": { "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "old" },
        }] } }));
        let claims = claim_templates(&mk_topology(), Some(&live)).unwrap();
        assert_eq!(claims[0]["metadata"]["labels"], json!({ "of": "a former life" }));
        assert_eq!(claims[0]["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert_eq!(claims[0]["spec"]["storageClassName"], "old");
    }

    #[test]
    fn without_storage_there_is_no_claim_and_without_capacity_an_error() {
        let mut topology = mk_topology();
        topology.spec["storage"] = json!({});
        assert_eq!(claim_templates(&topology, None).unwrap_err(), RenderError::SpecFieldMissing { field: "storage.capacity" });
        topology.spec["storage"] = Value::Null;
        assert_eq!(claim_templates(&topology, None).unwrap(), Vec::<Value>::new());
    }
}
