//! Rules about the pods: annotations, where they run, as whom.

use k8s_openapi::api::core::v1::Toleration;

use super::cel::{number, quote, when};
use super::fields::unless;
use super::forms::{LABEL_VALUE, QUALIFIED_NAME};
use super::{Rule, is_label_value, is_qualified_name};
use crate::pods::Pods;
use crate::valkey::ValkeySpec;

/// Marks a pod template as to be paused, in the operator that people have today.
const PAUSE: &str = "buf.red/pause-timestamp";
/// Largest id of a user or group: Kubernetes takes no larger one.
const ID_MAX: i64 = 2_147_483_647;
/// Affinity policies.
const POLICIES: [&str; 4] = ["SoftAntiAffinity", "AntiAffinityInShard", "AntiAffinity", "CustomAffinity"];

pub(super) fn rules<S: Pods>() -> Vec<Rule<S>> {
    let mut rules = annotations();
    rules.extend(nodes());
    rules.extend(security());
    rules
}

fn annotations<S: Pods>() -> Vec<Rule<S>> {
    vec![
        Rule::new(
            "spec.podAnnotations",
            when("podAnnotations", &format!("!({} in self.podAnnotations)", quote(PAUSE))),
            "",
            "has buf.red/pause-timestamp; pausing is not supported yet, remove the annotation",
            |spec: &S| spec.pod_annotations().contains_key(PAUSE).then(String::new),
        ),
        Rule::new(
            "spec.podAnnotations",
            when("podAnnotations", "!self.podAnnotations.exists(k, k.startsWith('valkey.buf.red/'))"),
            "",
            "has a key under valkey.buf.red/; those belong to the operator, remove it",
            |spec: &S| spec.pod_annotations().keys().any(|key| key.starts_with("valkey.buf.red/")).then(String::new),
        ),
        Rule::new(
            "spec.podAnnotations",
            when("podAnnotations", &format!("self.podAnnotations.all(k, k.matches({}))", quote(QUALIFIED_NAME))),
            "",
            "has a key that is no annotation's; write keys as NAME or DOMAIN/NAME, of letters, digits, '-', '_' and '.'",
            |spec: &S| (!spec.pod_annotations().keys().all(|key| is_qualified_name(key))).then(String::new),
        ),
    ]
}

pub(super) fn affinity() -> Vec<Rule<ValkeySpec>> {
    vec![
        Rule::new(
            "spec.affinityPolicy",
            when(
                "affinityPolicy",
                "self.affinityPolicy in ['SoftAntiAffinity', 'AntiAffinityInShard', 'AntiAffinity', 'CustomAffinity']",
            ),
            "(self.affinityPolicy == '' ? '\"\"' : self.affinityPolicy)",
            "use SoftAntiAffinity, AntiAffinityInShard, AntiAffinity or CustomAffinity, or leave it out for SoftAntiAffinity",
            |spec: &ValkeySpec| unless(spec.affinity_policy.as_deref()?, &POLICIES),
        ),
        Rule::new(
            "spec.customAffinity",
            "has(self.customAffinity) || !has(self.affinityPolicy) || self.affinityPolicy != 'CustomAffinity'",
            "",
            "is missing; set it, because spec.affinityPolicy is CustomAffinity, or choose another policy",
            |spec: &ValkeySpec| (custom(spec) && spec.custom_affinity.is_none()).then(String::new),
        ),
        Rule::new(
            "spec.customAffinity",
            "!has(self.customAffinity) || (has(self.affinityPolicy) && self.affinityPolicy == 'CustomAffinity')",
            "",
            "has no effect unless spec.affinityPolicy is CustomAffinity; set that, or remove customAffinity",
            |spec: &ValkeySpec| (!custom(spec) && spec.custom_affinity.is_some()).then(String::new),
        ),
    ]
}

fn custom(spec: &ValkeySpec) -> bool {
    spec.affinity_policy.as_deref() == Some("CustomAffinity")
}

/// Whether a toleration is one that Kubernetes takes.
fn tolerable(toleration: &Toleration) -> bool {
    let of = |field: &'_ Option<String>| field.clone().unwrap_or_default();
    let (operator, effect) = (of(&toleration.operator), of(&toleration.effect));
    ["", "Equal", "Exists"].contains(&operator.as_str())
        && ["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.as_str())
        && (operator == "Exists") <= of(&toleration.value).is_empty()
        && (!of(&toleration.key).is_empty() || operator == "Exists")
        && (toleration.toleration_seconds.is_none() || effect == "NoExecute")
}

fn nodes<S: Pods>() -> Vec<Rule<S>> {
    let selector = format!(
        "self.nodeSelector.all(k, k.matches({}) && self.nodeSelector[k].matches({}))",
        quote(QUALIFIED_NAME),
        quote(LABEL_VALUE)
    );
    let toleration = "(!has(t.operator) || t.operator in ['', 'Equal', 'Exists']) \
        && (!has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']) \
        && (!(has(t.operator) && t.operator == 'Exists') || !has(t.value) || t.value == '') \
        && ((has(t.key) && t.key != '') || (has(t.operator) && t.operator == 'Exists')) \
        && (!has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))";
    vec![
        Rule::new(
            "spec.nodeSelector",
            when("nodeSelector", &selector),
            "",
            "has a key or value that no node's label can have; use letters, digits, '-', '_' and '.', and values of at most 63 characters",
            |spec: &S| {
                (!spec.node_selector().iter().all(|(key, value)| is_qualified_name(key) && is_label_value(value)))
                    .then(String::new)
            },
        ),
        Rule::new(
            "spec.tolerations",
            when("tolerations", &format!("self.tolerations.all(t, {toleration})")),
            "",
            "has one that Kubernetes refuses; operator is Equal or Exists (then without a value; without a key only Exists), \
             effect is NoSchedule, PreferNoSchedule or NoExecute, tolerationSeconds only with NoExecute",
            |spec: &S| (!spec.tolerations().iter().all(tolerable)).then(String::new),
        ),
    ]
}

fn security<S: Pods>() -> Vec<Rule<S>> {
    let out = |id: i64, least: i64| (!(least..=ID_MAX).contains(&id)).then(|| id.to_string());
    vec![
        Rule::new(
            "spec.securityContext.runAsUser",
            when(
                "securityContext.runAsUser",
                "self.securityContext.runAsUser >= 1 && self.securityContext.runAsUser <= 2147483647",
            ),
            number("securityContext.runAsUser"),
            "use 1 to 2147483647: servers don't run as root",
            move |spec: &S| out(spec.security_context()?.run_as_user?, 1),
        ),
        Rule::new(
            "spec.securityContext.fsGroup",
            when("securityContext.fsGroup", "self.securityContext.fsGroup >= 0 && self.securityContext.fsGroup <= 2147483647"),
            number("securityContext.fsGroup"),
            "use 0 to 2147483647",
            move |spec: &S| out(spec.security_context()?.fs_group?, 0),
        ),
        Rule::new(
            "spec.securityContext.supplementalGroups",
            when(
                "securityContext.supplementalGroups",
                "self.securityContext.supplementalGroups.all(g, g >= 0 && g <= 2147483647)",
            ),
            "",
            "has an id out of range; use 0 to 2147483647",
            move |spec: &S| {
                let groups = spec.security_context()?.supplemental_groups.as_ref()?;
                groups.iter().any(|&group| out(group, 0).is_some()).then(String::new)
            },
        ),
        Rule::new(
            "spec.securityContext.runAsNonRoot",
            when("securityContext.runAsNonRoot", "self.securityContext.runAsNonRoot"),
            "",
            "is false; leave it out: servers don't run as root",
            |spec: &S| (!spec.security_context()?.run_as_non_root?).then(String::new),
        ),
    ]
}
