//! What a pod mounts: the agent, its configuration, its accounts, its data, and a little memory.

use serde_json::{Value, json};
use vko_api::names;

use super::agent::{ACCOUNTS_DIR, AGENT_DIR, CONF_DIR, DATA_DIR, RUN_DIR};
use super::metadata::labels;
use super::spec::{PodSpec, storage};
use super::{Part, RenderError, Topology};
use crate::object::Object;

const AGENT: &str = "agent";
const CONF: &str = "conf";
const ACCOUNTS: &str = "accounts";
const RUN: &str = "run";

/// Key of the `user` lines, in the Secret and in the mounted folder.
pub(super) const USERS_ACL: &str = "users.acl";

/// The password of the user that `sentinels` names, for Sentinels that exist elsewhere.
const SENTINELS_PASSWORD: &str = "sentinels";

/// Readable by the pod's group (`fsGroup`), by nobody else.
const MODE_GROUP: u32 = 0o440;
/// Nothing secret in it.
const MODE_ALL: u32 = 0o444;
/// The agent is a few MiB; the bound keeps a node's disk from a runaway writer.
const AGENT_SIZE: &str = "64Mi";
/// One run id.
const RUN_SIZE: &str = "1Mi";
/// What a Sentinel knows: some hundred bytes for each data set, member and other Sentinel, twice while it is written. It counts
/// against the pod's memory limit only as far as it is used.
const SENTINEL_RUN_SIZE: &str = "16Mi";

/// Volumes of the pod. Data on a claim comes from the claim template.
pub(super) fn volumes(topology: &Topology, part: Part, spec: &PodSpec) -> Value {
    let run_size = if part == Part::Sentinels { SENTINEL_RUN_SIZE } else { RUN_SIZE };
    let mut volumes = vec![
        json!({ "name": AGENT, "emptyDir": { "sizeLimit": AGENT_SIZE } }),
        json!({ "name": CONF, "configMap": { "name": part.config_map(&topology.name), "defaultMode": MODE_ALL } }),
        json!({ "name": ACCOUNTS, "projected": { "sources": account_sources(topology, part), "defaultMode": MODE_GROUP } }),
        json!({ "name": RUN, "emptyDir": { "medium": "Memory", "sizeLimit": run_size } }),
    ];
    if part != Part::Sentinels && !spec.has_claim() {
        // No size limit: the kubelet would evict the pod, and its data with it.
        volumes.push(json!({ "name": names::CLAIM_TEMPLATE, "emptyDir": {} }));
    }
    Value::Array(volumes)
}

fn account_sources(topology: &Topology, part: Part) -> Vec<Value> {
    let users = json!({ "secret": {
        "name": part.users(&topology.name),
        "items": [{ "key": USERS_ACL, "path": USERS_ACL }],
    } });
    let passwords = part.accounts().iter().map(|account| {
        json!({ "secret": {
            "name": names::account_secret(topology.kind.component(), &topology.name, account),
            "items": [{ "key": "password", "path": account }],
        } })
    });
    // A person's Secret that isn't there must not keep the server from starting.
    let elsewhere = topology.login_elsewhere().filter(|_| part == Part::Data).map(|login| {
        json!({ "secret": {
            "name": login.secret,
            "items": [{ "key": "password", "path": SENTINELS_PASSWORD }],
            "optional": true,
        } })
    });
    std::iter::once(users).chain(passwords).chain(elsewhere).collect()
}

/// Mounts of the init container.
pub(super) fn init_mounts() -> Value {
    json!([{ "name": AGENT, "mountPath": AGENT_DIR }])
}

/// Mounts of the server's container. It can change its data and the memory volume, nothing else.
pub(super) fn mounts(part: Part) -> Value {
    let mut mounts = vec![
        json!({ "name": AGENT, "mountPath": AGENT_DIR, "readOnly": true }),
        json!({ "name": CONF, "mountPath": CONF_DIR, "readOnly": true }),
        json!({ "name": ACCOUNTS, "mountPath": ACCOUNTS_DIR, "readOnly": true }),
        json!({ "name": RUN, "mountPath": RUN_DIR }),
    ];
    if part != Part::Sentinels {
        mounts.push(json!({ "name": names::CLAIM_TEMPLATE, "mountPath": DATA_DIR }));
    }
    Value::Array(mounts)
}

/// Claim templates of the workload; empty if data lives and dies with the pod.
///
/// The API server refuses any change of them, so what the live StatefulSet says stays: a claim grows by its own size, a restored
/// instance keeps the labels of its former life.
///
/// # Errors
/// Storage without a capacity.
pub(super) fn claim_templates(topology: &Topology, part: Part, live: Option<&Object>) -> Result<Vec<Value>, RenderError> {
    let Some(storage) = storage(topology, part) else { return Ok(Vec::new()) };
    let kept = |pointer: &str| live.and_then(|live| live.0.pointer("/spec/volumeClaimTemplates/0")?.pointer(pointer)).cloned();
    let capacity = kept("/spec/resources/requests/storage")
        .or_else(|| storage.get("capacity").cloned().filter(|capacity| !capacity.is_null()))
        .ok_or_else(|| topology.missing("storage.capacity"))?;
    let class = if live.is_some() { kept("/spec/storageClassName") } else { storage.get("storageClassName").cloned() };

    let mut claim = json!({
        "metadata": {
            "name": names::CLAIM_TEMPLATE,
            "labels": kept("/metadata/labels").unwrap_or_else(|| json!(labels(topology, Some(part)))),
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
    use super::super::testing::{every_part, mk_cluster, mk_failover, mk_referring, mk_sentinel, mk_topology, template_of};
    use super::*;

    #[test]
    fn a_pod_has_only_the_passwords_that_it_needs() {
        let data: &[&str] = &["replication", "probe", "hook"];
        for (topology, part, prefix, needed) in [
            (mk_topology(), Part::Data, "failover", data),
            (mk_failover(), Part::Data, "failover", data),
            (mk_cluster(), Part::Shard(1), "cluster", data),
            (mk_failover(), Part::Sentinels, "failover", &["sentinel", "probe"]),
            (mk_sentinel(), Part::Sentinels, "failover", &["sentinel", "probe"]),
        ] {
            let sources = Value::Array(account_sources(&topology, part)).to_string();
            for account in names::account::ALL {
                let secret = names::account_secret(prefix, "demo", account);
                assert_eq!(sources.contains(&secret), needed.contains(&account), "{part:?} {account}");
            }
        }
    }

    #[test]
    fn the_hook_has_what_logs_in_to_sentinels_elsewhere() {
        let mut topology = mk_referring();
        assert!(!Value::Array(account_sources(&topology, Part::Data)).to_string().contains(SENTINELS_PASSWORD));
        topology.spec["sentinel"]["sentinelReference"]["auth"] = json!({ "username": "u", "passwordSecret": "theirs" });
        let last = account_sources(&topology, Part::Data).pop().unwrap();
        let items = json!([{ "key": "password", "path": "sentinels" }]);
        assert_eq!(last, json!({ "secret": { "name": "theirs", "items": items, "optional": true } }));
    }

    #[test]
    fn a_server_writes_to_its_data_and_to_memory_only() {
        for (topology, part) in every_part() {
            let spec = template_of(&topology, part)["spec"].clone();
            let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap().clone();
            let written: Vec<_> = mounts.iter().filter(|m| m["readOnly"] != true).map(|m| m["name"].as_str().unwrap()).collect();
            let expected: &[&str] = if part == Part::Sentinels { &["run"] } else { &["run", "valkey-data"] };
            assert_eq!(written, expected, "{part:?}");
            let run = spec["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "run").unwrap();
            assert_eq!(run["emptyDir"]["medium"], "Memory", "{part:?}");
        }
    }

    #[test]
    fn claims_ask_for_what_the_instance_asks_for() {
        let claims = claim_templates(&mk_topology(), Part::Data, None).unwrap();
        assert_eq!(claims[0]["spec"]["resources"]["requests"]["storage"], "2Gi");
        assert_eq!(claims[0]["spec"]["storageClassName"], "local");
        assert_eq!(claims[0]["metadata"]["labels"], json!(labels(&mk_topology(), Some(Part::Data))));
    }

    #[test]
    fn the_default_class_is_left_to_the_cluster() {
        let mut topology = mk_topology();
        for class in [Value::Null, json!("")] {
            topology.spec["storage"]["storageClassName"] = class;
            assert_eq!(claim_templates(&topology, Part::Data, None).unwrap()[0]["spec"].get("storageClassName"), None);
        }
    }

    #[test]
    fn a_live_claim_template_stays_as_it_is() {
        let live = Object::new(json!({ "spec": { "volumeClaimTemplates": [{
            "metadata": { "name": "valkey-data", "labels": { "of": "a former life" } },
            "spec": { "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "old" },
        }] } }));
        let claims = claim_templates(&mk_topology(), Part::Data, Some(&live)).unwrap();
        assert_eq!(claims[0]["metadata"]["labels"], json!({ "of": "a former life" }));
        assert_eq!(claims[0]["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert_eq!(claims[0]["spec"]["storageClassName"], "old");
    }

    #[test]
    fn without_storage_there_is_no_claim_and_without_capacity_an_error() {
        let mut topology = mk_topology();
        topology.spec["storage"] = json!({});
        assert_eq!(claim_templates(&topology, Part::Data, None).unwrap_err(), topology.missing("storage.capacity"));
        topology.spec["storage"] = Value::Null;
        assert_eq!(claim_templates(&topology, Part::Data, None).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn sentinels_have_no_claims_whatever_the_spec_says() {
        let mut alone = mk_sentinel();
        alone.spec["storage"] = json!({ "capacity": "1Gi" });
        for topology in [mk_failover(), alone] {
            assert_eq!(claim_templates(&topology, Part::Sentinels, None).unwrap(), Vec::<Value>::new());
        }
    }

    #[test]
    fn a_shards_claims_carry_its_labels() {
        let claims = claim_templates(&mk_cluster(), Part::Shard(2), None).unwrap();
        assert_eq!(claims[0]["metadata"]["labels"][names::STATEFUL_SET], "drc-demo-2");
    }
}
