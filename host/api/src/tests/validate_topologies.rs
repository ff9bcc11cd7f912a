//! What is refused about shards and Sentinels, and with which words.

use serde_json::{Value, json};

use super::{alone, cluster, failover, merge, with};
use crate::rules;
use crate::validate::{validate, validate_sentinel};

/// Name of the case, patch on the least Valkey, start of the message.
type Case = (&'static str, Value, &'static str);

fn bad_shards() -> Vec<Case> {
    let slots = |texts: &[&str]| {
        let items: Vec<Value> = texts.iter().map(|text| json!({"slots": text})).collect();
        cluster(json!({"replicas": {"shards": texts.len(), "shardsConfig": items}}))
    };
    vec![
        ("several data sets", json!({"replicas": {"shards": 3}}), "spec.replicas.shards is 3; use 1"),
        ("no data set", json!({"replicas": {"shards": 0}}), "spec.replicas.shards is 0; use 1"),
        ("several under Sentinels", json!({"arch": "failover", "replicas": {"shards": 3}}), "spec.replicas.shards is 3; use 1"),
        ("no shards said", cluster(json!({"replicas": {"shards": null}})), "spec.replicas.shards is missing; set it to 3 to 128"),
        ("two shards", cluster(json!({"replicas": {"shards": 2}})), "spec.replicas.shards is 2; use 3 to 128: with fewer"),
        (
            "too many shards",
            cluster(json!({"replicas": {"shards": 129}})),
            "spec.replicas.shards is 129; use 3 to 128: no larger",
        ),
        ("an empty shard", cluster(json!({"replicas": {"replicasOfShard": 0}})), "spec.replicas.replicasOfShard is 0; use"),
        (
            "slots without shards",
            json!({"replicas": {"shardsConfig": [{"slots": "0-5"}]}}),
            "spec.replicas.shardsConfig has no effect unless spec.arch is cluster",
        ),
        (
            "fewer lists than shards",
            cluster(
                json!({"replicas": {"shards": 4, "shardsConfig": [{"slots": "0-5460"}, {"slots": "5461-10922"}, {"slots": "10923-16383"}]}}),
            ),
            "spec.replicas.shardsConfig is a list of 3; write one item for each",
        ),
        ("no slots", slots(&["0-5460", "", "10923-16383"]), "spec.replicas.shardsConfig has slots that are none; write"),
        (
            "a slot too many",
            slots(&["0-5460", "5461-10922", "10923-16384"]),
            "spec.replicas.shardsConfig is a list with 10923-16384; write slots from 0 to 16383",
        ),
        (
            "a slot twice",
            slots(&["0-5461", "5461-10922", "10923-16383"]),
            "spec.replicas.shardsConfig is a list that has slot 5461 twice; give each",
        ),
        (
            "a gap",
            slots(&["0-5460", "5462-10922", "10923-16383"]),
            "spec.replicas.shardsConfig is a list that lacks slot 5461; give each of the slots",
        ),
        (
            "backwards",
            slots(&["5460-0", "5461-10922", "10923-16383"]),
            "spec.replicas.shardsConfig is a list with 5460-0; write slots from 0 to 16383",
        ),
    ]
}

/// What is refused about Sentinels wherever they are; the fields' place is put before the message.
fn bad_sentinels() -> Vec<Case> {
    vec![
        ("two", json!({"replicas": 2}), "replicas is 2; use 3, 5, 7 or 9"),
        ("an even number", json!({"replicas": 4}), "replicas is 4; use 3, 5, 7 or 9"),
        ("too many", json!({"replicas": 11}), "replicas is 11; use 3, 5, 7 or 9"),
        ("node ports", json!({"access": {"serviceType": "NodePort"}}), "access.serviceType is NodePort; use ClusterIP"),
        ("no family", json!({"access": {"ipFamilyPrefer": "ipv4"}}), "access.ipFamilyPrefer is ipv4; use IPv4 or IPv6"),
        ("little memory", json!({"resources": {"limits": {"memory": "16Mi"}}}), "resources.limits.memory is 16Mi; use at least"),
        ("another resource", json!({"resources": {"limits": {"gpu": 1}}}), "resources.limits may name amounts of"),
        ("no amount", json!({"resources": {"requests": {"cpu": "some"}}}), "resources.requests may name amounts of"),
        (
            "a CPU request above the limit",
            json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}),
            "resources.requests.cpu is 2; use at most",
        ),
        (
            "a memory request above the limit",
            json!({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}),
            "resources.requests.memory is 2Gi; use at most",
        ),
        ("pause", json!({"podAnnotations": {"buf.red/pause-timestamp": "now"}}), "podAnnotations has buf.red/pause-timestamp;"),
        (
            "our annotation",
            json!({"podAnnotations": {"valkey.buf.red/x": "1"}}),
            "podAnnotations has a key under valkey.buf.red/",
        ),
        ("no annotation", json!({"podAnnotations": {"a b": "1"}}), "podAnnotations has a key that is no annotation's"),
        ("no label", json!({"nodeSelector": {"disk": "very fast"}}), "nodeSelector has a key or value"),
        ("no toleration", json!({"tolerations": [{"key": "a", "operator": "In"}]}), "tolerations has one that Kubernetes"),
        ("root", json!({"securityContext": {"runAsUser": 0}}), "securityContext.runAsUser is 0; use 1 to"),
        ("maybe root", json!({"securityContext": {"runAsNonRoot": false}}), "securityContext.runAsNonRoot is false;"),
        ("a negative group", json!({"securityContext": {"fsGroup": -1}}), "securityContext.fsGroup is -1; use 0 to"),
        ("a negative other", json!({"securityContext": {"supplementalGroups": [-1]}}), "securityContext.supplementalGroups has"),
        ("directives", json!({"customConfigs": {"loglevel": "debug"}}), "customConfigs is not supported yet; remove it"),
        ("an exporter", json!({"exporter": {"image": "x"}}), "exporter is not supported yet; remove it, or set"),
        ("device claims", json!({"resources": {"claims": [{"name": "d"}]}}), "resources.claims is not supported yet"),
        ("Service annotations", json!({"access": {"annotations": {"a": "b"}}}), "access.annotations is not supported yet"),
        ("fixed ports", json!({"access": {"ports": "30001:30001"}}), "access.ports is not supported yet"),
        ("TLS", json!({"access": {"enableTLS": true}}), "access.enableTLS is not supported yet"),
        ("an issuer", json!({"access": {"certIssuer": "ca"}}), "access.certIssuer is not supported yet"),
        ("an issuer's kind", json!({"access": {"certIssuerType": "Issuer"}}), "access.certIssuerType is not supported yet"),
        ("a certificate", json!({"access": {"externalTLSSecret": "tls"}}), "access.externalTLSSecret is not supported yet"),
        ("AppArmor", json!({"securityContext": {"appArmorProfile": {"type": "x"}}}), "securityContext.appArmorProfile is"),
        ("policy", json!({"securityContext": {"fsGroupChangePolicy": "Always"}}), "securityContext.fsGroupChangePolicy is"),
        ("group", json!({"securityContext": {"runAsGroup": 1}}), "securityContext.runAsGroup is not supported yet"),
        ("SELinux policy", json!({"securityContext": {"seLinuxChangePolicy": "x"}}), "securityContext.seLinuxChangePolicy is"),
        ("SELinux", json!({"securityContext": {"seLinuxOptions": {}}}), "securityContext.seLinuxOptions is not supported yet"),
        ("seccomp", json!({"securityContext": {"seccompProfile": {"type": "x"}}}), "securityContext.seccompProfile is"),
        ("groups", json!({"securityContext": {"supplementalGroupsPolicy": "x"}}), "securityContext.supplementalGroupsPolicy"),
        ("sysctls", json!({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}), "securityContext.sysctls is not"),
        ("Windows", json!({"securityContext": {"windowsOptions": {}}}), "securityContext.windowsOptions is not supported yet"),
    ]
}

/// Referenced Sentinels, with a patch on the settings.
fn referenced(patch: Value) -> Value {
    let nodes: Vec<Value> = (1..=3).map(|n| json!({"ip": format!("10.0.0.{n}"), "port": 26379})).collect();
    let mut settings = json!({"sentinelReference": {"nodes": nodes}});
    merge(&mut settings, patch);
    failover(settings)
}

fn bad_settings() -> Vec<Case> {
    let node = |ip: &str, port: i32| json!({"ip": ip, "port": port});
    let nodes = |nodes: Vec<Value>| referenced(json!({"sentinelReference": {"nodes": nodes}}));
    let (a, b, c) = (node("10.0.0.1", 1), node("10.0.0.2", 1), node("fd00::1", 1));
    let secret = "spec.sentinel.sentinelReference.auth.passwordSecret is missing; name";
    vec![
        (
            "Sentinels of a replica set",
            json!({"sentinel": {"replicas": 3}}),
            "spec.sentinel has no effect unless spec.arch is failover",
        ),
        ("Sentinels of a cluster", cluster(json!({"sentinel": {}})), "spec.sentinel has no effect unless spec.arch is failover"),
        (
            "another family",
            failover(json!({"access": {"ipFamilyPrefer": "IPv6"}})),
            "spec.sentinel.access.ipFamilyPrefer is IPv6; use the one",
        ),
        (
            "another option",
            failover(json!({"monitorConfig": {"auth-pass": "x"}})),
            "spec.sentinel.monitorConfig may have down-after",
        ),
        (
            "hasty",
            failover(json!({"monitorConfig": {"down-after-milliseconds": "2999"}})),
            "spec.sentinel.monitorConfig is down-after-milliseconds: 2999; use 3000 or more",
        ),
        (
            "no number",
            failover(json!({"monitorConfig": {"down-after-milliseconds": "5s"}})),
            "spec.sentinel.monitorConfig is down-after-milliseconds: 5s; use",
        ),
        (
            "seconds",
            failover(json!({"monitorConfig": {"failover-timeout": "60"}})),
            "spec.sentinel.monitorConfig is failover-timeout: 60; use 1000",
        ),
        (
            "no replica at a time",
            failover(json!({"monitorConfig": {"parallel-syncs": "0"}})),
            "spec.sentinel.monitorConfig is parallel-syncs: 0; use 1",
        ),
        ("no quorum", failover(json!({"quorum": 0})), "spec.sentinel.quorum is 0; use 1 to"),
        ("a quorum of more than there are", failover(json!({"quorum": 4})), "spec.sentinel.quorum is 4; use 1 to"),
        (
            "a quorum of more than are listed",
            referenced(json!({"quorum": 4, "replicas": 5})),
            "spec.sentinel.quorum is 4; use 1 to",
        ),
        ("two referenced", nodes(vec![a.clone(), b.clone()]), "spec.sentinel.sentinelReference.nodes has fewer than 3"),
        ("a name", nodes(vec![a.clone(), b.clone(), node("sentinel-0", 1)]), "spec.sentinel.sentinelReference.nodes has an ip"),
        ("no port", nodes(vec![a.clone(), b.clone(), node("10.0.0.3", 0)]), "spec.sentinel.sentinelReference.nodes has a port"),
        (
            "one twice",
            nodes(vec![a.clone(), b.clone(), a.clone()]),
            "spec.sentinel.sentinelReference.nodes has one Sentinel twice",
        ),
        (
            "flags",
            nodes(vec![a, b, {
                let mut c = c;
                c["flags"] = json!("x");
                c
            }]),
            "spec.sentinel.sentinelReference.nodes has flags",
        ),
        (
            "certificates",
            referenced(json!({"sentinelReference": {"auth": {"tlsSecret": "x"}}})),
            "spec.sentinel.sentinelReference.auth.tlsSecret is not",
        ),
        ("no password", referenced(json!({"sentinelReference": {"auth": {"username": "x"}}})), secret),
        ("resources of others", referenced(json!({"resources": {}})), "spec.sentinel.resources has no effect beside"),
        ("affinity of others", referenced(json!({"affinity": {}})), "spec.sentinel.affinity has no effect beside"),
        (
            "user of others",
            referenced(json!({"securityContext": {"runAsUser": 5}})),
            "spec.sentinel.securityContext has no effect beside",
        ),
        (
            "tolerations of others",
            referenced(json!({"tolerations": [{"operator": "Exists"}]})),
            "spec.sentinel.tolerations has no effect",
        ),
        ("nodes of others", referenced(json!({"nodeSelector": {"a": "b"}})), "spec.sentinel.nodeSelector has no effect beside"),
        (
            "annotations of others",
            referenced(json!({"podAnnotations": {"a": "b"}})),
            "spec.sentinel.podAnnotations has no effect",
        ),
        (
            "password of others",
            referenced(json!({"access": {"defaultPasswordSecret": "x"}})),
            "spec.sentinel.access.defaultPasswordSecret has",
        ),
        (
            "family of others",
            referenced(json!({"access": {"ipFamilyPrefer": "IPv4"}})),
            "spec.sentinel.access.ipFamilyPrefer has no effect",
        ),
        ("a line", failover(json!({"version": "9.1"})), "spec.sentinel.version has no effect; remove it"),
        ("an image", failover(json!({"image": "a:1"})), "spec.sentinel.image has no effect; remove it"),
        (
            "a pull policy",
            failover(json!({"imagePullPolicy": "Always"})),
            "spec.sentinel.imagePullPolicy has no effect; remove it",
        ),
        ("pull secrets", failover(json!({"imagePullSecrets": [{"name": "a"}]})), "spec.sentinel.imagePullSecrets has no effect;"),
    ]
}

fn bad_alone() -> Vec<Case> {
    vec![
        ("a line that is superseded", json!({"version": "8.0"}), "spec.version is 8.0; use 7.2, 8.1 or 9.1"),
        ("an image of any line", json!({"image": "valkey/valkey:9.1"}), "spec.version is missing; set it to the line of"),
        ("an image without tag", json!({"version": "9.1", "image": "valkey"}), "spec.image is valkey; write it as"),
        ("a port is no tag", json!({"version": "9.1", "image": "a:5000/valkey"}), "spec.image is a:5000/valkey; write it as"),
        ("no pull policy", json!({"imagePullPolicy": "Sometimes"}), "spec.imagePullPolicy is Sometimes; use Always"),
    ]
}

/// The cases of a Valkey, those about Sentinels in its `spec.sentinel`.
pub(super) fn of_valkey() -> Vec<(&'static str, Value, String)> {
    let own = bad_shards().into_iter().chain(bad_settings()).map(|(case, patch, message)| (case, patch, message.to_owned()));
    let placed =
        bad_sentinels().into_iter().map(|(case, patch, message)| (case, failover(patch), format!("spec.sentinel.{message}")));
    own.chain(placed).collect()
}

fn of_sentinel() -> Vec<(&'static str, Value, String)> {
    let own = bad_alone().into_iter().map(|(case, spec, message)| (case, spec, message.to_owned()));
    let common = bad_sentinels().into_iter().map(|(case, spec, message)| (case, spec, format!("spec.{message}")));
    own.chain(common).collect()
}

#[test]
fn each_refusal_of_a_sentinel_names_field_value_and_remedy() {
    for (case, spec, message) in of_sentinel() {
        let found: Vec<String> = validate_sentinel(&alone(spec)).iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].starts_with(&message), "{case}: {found:?}");
    }
}

#[test]
fn every_rule_of_a_sentinel_refuses_some_case() {
    let refused: Vec<_> = of_sentinel().into_iter().flat_map(|(_, spec, _)| validate_sentinel(&alone(spec))).collect();
    for rule in rules::sentinel() {
        assert!(refused.iter().any(|v| v.field == rule.field && v.remedy == rule.remedy), "{}: {}", rule.field, rule.remedy);
    }
}

#[test]
fn what_says_nothing_passes() {
    let slots = json!([{"slots": "0-5460"}, {"slots": "5461-10000,10001,10002-10922"}, {"slots": "10923-16383"}]);
    for (case, patch) in [
        ("a cluster", cluster(json!({}))),
        ("the smallest", cluster(json!({"replicas": {"replicasOfShard": 1}}))),
        ("the largest", cluster(json!({"replicas": {"shards": 128, "replicasOfShard": 5}}))),
        ("own slots", cluster(json!({"replicas": {"shardsConfig": slots}}))),
        ("no own slots", cluster(json!({"replicas": {"shardsConfig": []}}))),
        ("Sentinels by default", json!({"arch": "failover"})),
        ("nothing said of them", failover(json!({}))),
        ("five", failover(json!({"replicas": 5, "quorum": 5}))),
        (
            "as the webhook wrote it",
            failover(json!({"replicas": 3, "access": {"serviceType": "ClusterIP"}, "monitorConfig": {
            "down-after-milliseconds": "30000", "failover-timeout": "180000", "parallel-syncs": "1"}})),
        ),
        ("empty", failover(json!({"image": "", "imagePullPolicy": "", "exporter": {"disable": true}, "customConfigs": {}}))),
        ("others", referenced(json!({}))),
        (
            "others, by login",
            referenced(json!({"sentinelReference": {"auth": {"username": "", "passwordSecret": "x", "tlsSecret": ""}}})),
        ),
        ("others, as it had to be", referenced(json!({"replicas": 3, "quorum": 2, "access": {"serviceType": "ClusterIP"}}))),
    ] {
        assert_eq!(validate(&with(patch)), [], "{case}");
    }
    for (case, spec) in [
        ("nothing", json!({})),
        ("an image", json!({"version": "8.1", "image": "a:5000/b:8.1@sha256:c", "imagePullSecrets": [{"name": "x"}]})),
        ("empty", json!({"access": {"ports": "", "certIssuerType": "ClusterIssuer"}, "exporter": {"disable": true}})),
    ] {
        assert_eq!(validate_sentinel(&alone(spec)), [], "{case}");
    }
}

#[test]
fn names_of_clusters_leave_room_for_the_shard() {
    for (name, message) in [
        ("a".repeat(44), ""),
        ("a".repeat(45), "use at most 44 in the cluster architecture"),
        ("9-lives".into(), "begin with a letter in the cluster architecture"),
        ("a".repeat(49), "use at most 48"),
    ] {
        let mut valkey = with(cluster(json!({})));
        valkey.metadata.name = Some(name.clone());
        let found: Vec<String> = validate(&valkey).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(!message.is_empty()), "{name}: {found:?}");
        assert!(found.iter().all(|text| text.contains(message)), "{name}: {found:?}");
    }
}
