//! Rules about what the instance is: version, architecture, size, storage, access.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::cel::{number, present, shown, when};
use super::{LINES, MEMORY_LIMIT_MIN, Rule};
use crate::pods::Pods;
use crate::quantity;
use crate::valkey::ValkeySpec;

pub(super) fn rules() -> Vec<Rule<ValkeySpec>> {
    let mut rules = instance();
    rules.push(memory_there());
    rules.push(memory_enough(
        MEMORY_LIMIT_MIN,
        "use at least 64Mi, written like 128Mi or 1Gi: the server needs room beside the data",
    ));
    rules.extend(resources());
    rules.extend(storage());
    rules.extend(access());
    rules
}

/// The text, if it is none of those allowed.
pub(super) fn unless(text: &str, allowed: &[&str]) -> Option<String> {
    (!allowed.contains(&text)).then(|| if text.is_empty() { "\"\"".into() } else { text.into() })
}

fn instance() -> Vec<Rule<ValkeySpec>> {
    vec![
        Rule::new(
            "spec.version",
            format!("self.version in ['{}']", LINES.join("', '")),
            shown("self.version"),
            "use 7.2, 8.1 or 9.1, the lines that are delivered and tested (instead of 8.0 use 8.1, instead of 9.0 use 9.1)",
            |spec: &ValkeySpec| unless(&spec.version, &LINES),
        ),
        Rule::new(
            "spec.arch",
            "self.arch in ['cluster', 'failover', 'replica']",
            shown("self.arch"),
            "use cluster, failover or replica",
            |spec: &ValkeySpec| unless(&spec.arch, &["cluster", "failover", "replica"]),
        ),
        Rule::new(
            "spec.replicas.replicasOfShard",
            "self.replicas.replicasOfShard >= 1 && self.replicas.replicasOfShard <= 5",
            number("replicas.replicasOfShard"),
            "use 1 to 5: members in total, the primary included",
            |spec: &ValkeySpec| {
                Some(spec.replicas.replicas_of_shard).filter(|members| !(1..=5).contains(members)).map(|m| m.to_string())
            },
        ),
    ]
}

fn limit<'a, S: Pods>(spec: &'a S, name: &str) -> Option<&'a Quantity> {
    spec.resources()?.limits.as_ref()?.get(name)
}

/// CEL: the amounts of `cpu` or `memory` requested are at most the limit, where both are there and are quantities.
fn within(name: &str) -> String {
    let (request, limit) =
        (format!("string(self.resources.requests['{name}'])"), format!("string(self.resources.limits['{name}'])"));
    let both = format!(
        "{} && '{name}' in self.resources.requests && has(self.resources.limits) && '{name}' in self.resources.limits",
        present("resources.requests")
    );
    format!(
        "!({both}) || !(isQuantity({request}) && isQuantity({limit})) || quantity({request}).compareTo(quantity({limit})) <= 0"
    )
}

fn exceeds<S: Pods>(spec: &S, name: &str) -> Option<String> {
    let request = spec.resources()?.requests.as_ref()?.get(name)?;
    (quantity::nano(request)? > quantity::nano(limit(spec, name)?)?).then(|| request.0.clone())
}

/// Whether a list of resources has a name that is not served or an amount that is none.
fn malformed(list: Option<&BTreeMap<String, Quantity>>) -> Option<String> {
    let fine = |(name, amount): (&String, &Quantity)| RESOURCES.contains(&name.as_str()) && quantity::nano(amount).is_some();
    (!list?.iter().all(fine)).then(String::new)
}

/// Names in `limits` and `requests`.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const RESOURCES_REMEDY: &str =
    "may name amounts of cpu, memory and ephemeral-storage; remove others, and write amounts like 500m or 1Gi";

/// CEL: there is a memory limit.
fn limited() -> String {
    format!("{} && 'memory' in self.resources.limits", present("resources.limits"))
}

fn memory_there() -> Rule<ValkeySpec> {
    Rule::new(
        "spec.resources.limits",
        limited(),
        "",
        "names no memory; set spec.resources.limits.memory (at least 64Mi): maxmemory is derived from it",
        |spec: &ValkeySpec| limit(spec, "memory").is_none().then(String::new),
    )
}

/// The memory limit, where there is one, is at least so much.
pub(super) fn memory_enough<S: Pods>(least: &'static str, remedy: &str) -> Rule<S> {
    let memory = "self.resources.limits['memory']";
    Rule::new(
        "spec.resources.limits.memory",
        format!(
            "!({}) || (isQuantity(string({memory})) && quantity(string({memory})).compareTo(quantity('{least}')) >= 0)",
            limited()
        ),
        format!("string({memory})"),
        remedy,
        move |spec| {
            let memory = limit(spec, "memory")?;
            (quantity::units(memory) < quantity::units(&Quantity(least.into()))).then(|| memory.0.clone())
        },
    )
}

pub(super) fn resources<S: Pods>() -> Vec<Rule<S>> {
    let wellformed = |list: &str| {
        let each = format!("k in ['cpu', 'memory', 'ephemeral-storage'] && isQuantity(string(self.resources.{list}[k]))");
        when(&format!("resources.{list}"), &format!("self.resources.{list}.all(k, {each})"))
    };
    vec![
        Rule::new("spec.resources.limits", wellformed("limits"), "", RESOURCES_REMEDY, |spec: &S| {
            malformed(spec.resources()?.limits.as_ref())
        }),
        Rule::new("spec.resources.requests", wellformed("requests"), "", RESOURCES_REMEDY, |spec: &S| {
            malformed(spec.resources()?.requests.as_ref())
        }),
        Rule::new(
            "spec.resources.requests.cpu",
            within("cpu"),
            "string(self.resources.requests['cpu'])",
            "use at most spec.resources.limits.cpu",
            |spec: &S| exceeds(spec, "cpu"),
        ),
        Rule::new(
            "spec.resources.requests.memory",
            within("memory"),
            "string(self.resources.requests['memory'])",
            "use at most spec.resources.limits.memory",
            |spec: &S| exceeds(spec, "memory"),
        ),
    ]
}

fn storage() -> Vec<Rule<ValkeySpec>> {
    let capacity = "string(self.storage.capacity)";
    vec![
        Rule::new(
            "spec.storage.accessMode",
            when("storage.accessMode", "self.storage.accessMode == 'ReadWriteOnce'"),
            shown("self.storage.accessMode"),
            "use ReadWriteOnce: a volume belongs to one server",
            |spec: &ValkeySpec| unless(&spec.storage.as_ref()?.access_mode, &["ReadWriteOnce"]),
        ),
        Rule::new(
            "spec.storage.capacity",
            when("storage.capacity", &format!("isQuantity({capacity}) && quantity({capacity}).compareTo(quantity('1Mi')) >= 0")),
            capacity,
            "use an amount like 2Gi, or leave it out for twice the memory limit",
            |spec: &ValkeySpec| {
                let capacity = spec.storage.as_ref()?.capacity.as_ref()?;
                (quantity::units(capacity) < Some(1 << 20)).then(|| capacity.0.clone())
            },
        ),
    ]
}

fn access() -> Vec<Rule<ValkeySpec>> {
    vec![
        service_type(|spec: &ValkeySpec| Some(spec.access.service_type.as_str())),
        ip_family(|spec: &ValkeySpec| spec.access.ip_family_prefer.as_deref()),
    ]
}

/// The type of Services is one that is served.
pub(super) fn service_type<S: 'static>(of: fn(&S) -> Option<&str>) -> Rule<S> {
    Rule::new(
        "spec.access.serviceType",
        when("access.serviceType", "self.access.serviceType == 'ClusterIP'"),
        shown("self.access.serviceType"),
        "use ClusterIP: NodePort and LoadBalancer are not supported yet",
        move |spec| unless(of(spec)?, &["ClusterIP"]),
    )
}

/// The address family is one.
pub(super) fn ip_family<S: 'static>(of: fn(&S) -> Option<&str>) -> Rule<S> {
    Rule::new(
        "spec.access.ipFamilyPrefer",
        when("access.ipFamilyPrefer", "self.access.ipFamilyPrefer in ['', 'IPv4', 'IPv6']"),
        "self.access.ipFamilyPrefer",
        "use IPv4 or IPv6",
        move |spec| unless(of(spec)?, &["", "IPv4", "IPv6"]),
    )
}
