//! What is refused, and with which words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{least, validate_topologies, with};
use crate::rules;
use crate::translate::read;
use crate::validate::validate;

/// Name of the case, patch on the spec, start of the message.
fn bad() -> Vec<(&'static str, Value, String)> {
    let own = bad_fields().into_iter().chain(bad_pods()).chain(unserved());
    own.map(|(case, patch, message)| (case, patch, message.to_owned())).chain(validate_topologies::of_valkey()).collect()
}

fn bad_fields() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("a line that is superseded", json!({"version": "8.0"}), "spec.version is 8.0; use 7.2, 8.1 or 9.1"),
        ("a line that does not exist", json!({"version": "9.1.2"}), "spec.version is 9.1.2; use"),
        ("no line at all", json!({"version": ""}), "spec.version is \"\"; use"),
        ("another architecture", json!({"arch": "standalone"}), "spec.arch is standalone; use cluster, failover or replica"),
        ("no member", json!({"replicas": {"replicasOfShard": 0}}), "spec.replicas.replicasOfShard is 0; use 1 to 5"),
        ("too many members", json!({"replicas": {"replicasOfShard": 6}}), "spec.replicas.replicasOfShard is 6; use 1 to 5"),
        ("negative members", json!({"replicas": {"replicasOfShard": -1}}), "spec.replicas.replicasOfShard is -1; use 1 to 5"),
        ("no limits", json!({"resources": {"limits": null}}), "spec.resources.limits names no memory; set"),
        (
            "no memory limit",
            json!({"resources": {"limits": {"memory": null, "cpu": 1}}}),
            "spec.resources.limits names no memory; set",
        ),
        (
            "too little memory",
            json!({"resources": {"limits": {"memory": "63Mi"}}}),
            "spec.resources.limits.memory is 63Mi; use at least 64Mi",
        ),
        (
            "memory as a number",
            json!({"resources": {"limits": {"memory": 1024}}}),
            "spec.resources.limits.memory is 1024; use at least 64Mi",
        ),
        (
            "memory that is no amount",
            json!({"resources": {"limits": {"memory": "lots"}}}),
            "spec.resources.limits.memory is lots; use",
        ),
        (
            "another resource",
            json!({"resources": {"limits": {"example.com/gpu": 1}}}),
            "spec.resources.limits may name amounts of cpu, memory",
        ),
        (
            "an amount that is none",
            json!({"resources": {"requests": {"cpu": "some"}}}),
            "spec.resources.requests may name amounts of cpu, memory",
        ),
        (
            "a request above the limit",
            json!({"resources": {"requests": {"memory": "1Gi"}}}),
            "spec.resources.requests.memory is 1Gi; use at most spec.resources.limits.memory",
        ),
        (
            "a CPU request above the limit",
            json!({"resources": {"requests": {"cpu": "501m"}, "limits": {"cpu": 0.5}}}),
            "spec.resources.requests.cpu is 501m; use at most spec.resources.limits.cpu",
        ),
        (
            "a volume for many",
            json!({"storage": {"accessMode": "ReadWriteMany"}}),
            "spec.storage.accessMode is ReadWriteMany; use ReadWriteOnce",
        ),
        ("a size that is none", json!({"storage": {"capacity": "big"}}), "spec.storage.capacity is big; use an amount like 2Gi"),
        ("no size", json!({"storage": {"capacity": 0}}), "spec.storage.capacity is 0; use an amount like 2Gi"),
        ("node ports", json!({"access": {"serviceType": "NodePort"}}), "spec.access.serviceType is NodePort; use ClusterIP"),
        ("no family", json!({"access": {"ipFamilyPrefer": "ipv6"}}), "spec.access.ipFamilyPrefer is ipv6; use IPv4 or IPv6"),
    ]
}

fn bad_pods() -> Vec<(&'static str, Value, &'static str)> {
    let custom = json!({"podAntiAffinity": {}});
    vec![
        (
            "pause",
            json!({"podAnnotations": {"buf.red/pause-timestamp": "now"}}),
            "spec.podAnnotations has buf.red/pause-timestamp; pausing is",
        ),
        (
            "our annotation",
            json!({"podAnnotations": {"valkey.buf.red/software": "1"}}),
            "spec.podAnnotations has a key under valkey.buf.red/",
        ),
        ("no annotation", json!({"podAnnotations": {"a b": "1"}}), "spec.podAnnotations has a key that is no annotation's"),
        ("no policy", json!({"affinityPolicy": "Hard"}), "spec.affinityPolicy is Hard; use SoftAntiAffinity"),
        ("no affinity", json!({"affinityPolicy": "CustomAffinity"}), "spec.customAffinity is missing; set it"),
        ("affinity alone", json!({"customAffinity": custom}), "spec.customAffinity has no effect unless"),
        ("a value that no label has", json!({"nodeSelector": {"disk": "very fast"}}), "spec.nodeSelector has a key or value"),
        (
            "an operator that is none",
            json!({"tolerations": [{"key": "a", "operator": "In"}]}),
            "spec.tolerations has one that Kubernetes",
        ),
        (
            "Exists with a value",
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
            "spec.tolerations has one that",
        ),
        ("neither key nor Exists", json!({"tolerations": [{"effect": "NoSchedule"}]}), "spec.tolerations has one that"),
        (
            "seconds without NoExecute",
            json!({"tolerations": [{"key": "a", "tolerationSeconds": 3}]}),
            "spec.tolerations has one that",
        ),
        ("root", json!({"securityContext": {"runAsUser": 0}}), "spec.securityContext.runAsUser is 0; use 1 to"),
        (
            "maybe root",
            json!({"securityContext": {"runAsNonRoot": false}}),
            "spec.securityContext.runAsNonRoot is false; leave it out",
        ),
        ("a negative group", json!({"securityContext": {"fsGroup": -1}}), "spec.securityContext.fsGroup is -1; use 0 to"),
        (
            "a huge group",
            json!({"securityContext": {"supplementalGroups": [1, 2147483648i64]}}),
            "spec.securityContext.supplementalGroups has",
        ),
    ]
}

fn unserved() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("directives", json!({"customConfigs": {"save": "\"\""}}), "spec.customConfigs is not supported yet; remove it"),
        ("modules", json!({"modules": [{"path": "/x.so"}]}), "spec.modules is not supported yet; remove it"),
        ("device claims", json!({"resources": {"claims": [{"name": "d"}]}}), "spec.resources.claims is not supported yet"),
        ("claim annotations", json!({"storage": {"annotations": {"a": "b"}}}), "spec.storage.annotations is not supported yet"),
        ("Service annotations", json!({"access": {"annotations": {"a": "b"}}}), "spec.access.annotations is not supported yet"),
        ("fixed ports", json!({"access": {"ports": "30001:30001"}}), "spec.access.ports is not supported yet"),
        ("TLS", json!({"access": {"enableTLS": true}}), "spec.access.enableTLS is not supported yet"),
        ("an issuer", json!({"access": {"certIssuer": "ca"}}), "spec.access.certIssuer is not supported yet"),
        ("an issuer's kind", json!({"access": {"certIssuerType": "Issuer"}}), "spec.access.certIssuerType is not supported yet"),
        (
            "AppArmor",
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            "spec.securityContext.appArmorProfile is",
        ),
        (
            "fsGroup policy",
            json!({"securityContext": {"fsGroupChangePolicy": "Always"}}),
            "spec.securityContext.fsGroupChangePolicy is",
        ),
        ("group", json!({"securityContext": {"runAsGroup": 1}}), "spec.securityContext.runAsGroup is not supported yet"),
        (
            "SELinux policy",
            json!({"securityContext": {"seLinuxChangePolicy": "Recursive"}}),
            "spec.securityContext.seLinuxChangePolicy is",
        ),
        (
            "SELinux",
            json!({"securityContext": {"seLinuxOptions": {}}}),
            "spec.securityContext.seLinuxOptions is not supported yet",
        ),
        (
            "seccomp",
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            "spec.securityContext.seccompProfile is",
        ),
        (
            "groups policy",
            json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}),
            "spec.securityContext.supplementalGroupsPolicy",
        ),
        (
            "sysctls",
            json!({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}),
            "spec.securityContext.sysctls is not supported",
        ),
        (
            "Windows",
            json!({"securityContext": {"windowsOptions": {}}}),
            "spec.securityContext.windowsOptions is not supported yet",
        ),
        ("an exporter", json!({"exporter": {"image": "x"}}), "spec.exporter is not supported yet; remove it, or set"),
    ]
}

#[test]
fn each_refusal_names_field_value_and_remedy() {
    for (case, patch, message) in bad() {
        let found: Vec<String> = validate(&with(patch)).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|text| text.starts_with(&message)), "{case}: {found:?}");
    }
}

#[test]
fn one_fault_is_one_refusal() {
    // A memory limit that is no amount breaks two rules, about itself and about the list that it is in.
    for (case, patch, _) in bad().into_iter().filter(|(case, ..)| *case != "memory that is no amount") {
        let found: Vec<String> = validate(&with(patch)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1, "{case}: {found:?}");
    }
}

#[test]
fn every_rule_refuses_some_case() {
    let refused: BTreeSet<(String, String)> =
        bad().into_iter().flat_map(|(_, patch, _)| validate(&with(patch))).map(|found| (found.field, found.remedy)).collect();
    for rule in rules::valkey() {
        assert!(refused.contains(&(rule.field.clone(), rule.remedy.clone())), "no case for {}: {}", rule.field, rule.remedy);
    }
}

#[test]
fn what_says_nothing_passes() {
    for (case, patch) in [
        ("the least", json!({})),
        ("each line", json!({"version": "7.2"})),
        ("each line", json!({"version": "8.1"})),
        ("one data set", json!({"replicas": {"shards": 1, "shardsConfig": []}})),
        ("numbers as amounts", json!({"resources": {"limits": {"memory": 67108864, "cpu": 2}, "requests": {"cpu": 2}}})),
        (
            "empty fields",
            json!({"customConfigs": {}, "modules": [], "podAnnotations": {}, "nodeSelector": {}, "tolerations": []}),
        ),
        ("exporter off", json!({"exporter": {"disable": true, "image": "x"}})),
        ("default volume", json!({"storage": {}})),
        ("no TLS", json!({"access": {"enableTLS": false, "certIssuer": "", "certIssuerType": "ClusterIssuer", "ports": ""}})),
        (
            "a user",
            json!({"securityContext": {"runAsUser": 1000, "fsGroup": 0, "supplementalGroups": [5], "runAsNonRoot": true}}),
        ),
        ("tolerate all", json!({"tolerations": [{"operator": "Exists"}]})),
        ("tolerate for a while", json!({"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}]})),
    ] {
        assert_eq!(validate(&with(patch)), [], "{case}");
    }
}

#[test]
fn names_that_do_not_fit_are_refused() {
    for (name, message) in [
        ("a".repeat(48), ""),
        ("a".repeat(49), "use at most 48"),
        ("a.b".into(), "use lower-case letters"),
        (String::new(), "use lower-case letters"),
    ] {
        let mut object = least();
        object["metadata"]["name"] = json!(name);
        let found: Vec<String> = validate(&read(&object).unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(!message.is_empty()), "{name}: {found:?}");
        assert!(found.iter().all(|text| text.contains(message)), "{name}: {found:?}");
    }
}
