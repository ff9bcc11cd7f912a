//! Rules about Sentinels: own ones, referenced ones, those that stand alone.

use std::net::IpAddr;

use super::cel::{present, quote, shown, text_or, when};
use super::fields::{ip_family, memory_enough, resources, service_type, unless};
use super::{LINES, Rule, scheduling, unserved};
use crate::sentinel::{SentinelReference, SentinelSettings, SentinelSpec};
use crate::valkey::ValkeySpec;

/// Least memory limit: a Sentinel alone has about 10 MiB resident, and the probes run beside it.
const MEMORY_MIN: &str = "32Mi";
/// Numbers of Sentinels.
const COUNTS: [i32; 4] = [3, 5, 7, 9];
/// What Sentinels can be told about an instance, and the least value of each. A primary that comes back following nobody counts
/// as down only 20 s after `down-after-milliseconds`, and its replicas are eligible for ten times that long: below about 2.3 s
/// never.
const MONITOR: [(&str, i64); 3] = [("down-after-milliseconds", 3000), ("failover-timeout", 1000), ("parallel-syncs", 1)];

/// Rules that hold wherever Sentinels are described.
fn common() -> Vec<Rule<SentinelSpec>> {
    fn family(spec: &SentinelSpec) -> Option<&str> {
        spec.access.as_ref()?.ip_family_prefer.as_deref()
    }
    let mut rules = vec![
        Rule::new(
            "spec.replicas",
            when("replicas", "self.replicas in [3, 5, 7, 9]"),
            "string(dyn(self.replicas))",
            "use 3, 5, 7 or 9: a majority must outlive the loss of one, and an even number outlives no more than one less does",
            |spec: &SentinelSpec| spec.replicas.filter(|count| !COUNTS.contains(count)).map(|count| count.to_string()),
        ),
        service_type(|spec: &SentinelSpec| spec.access.as_ref()?.service_type.as_deref()),
        ip_family(family),
        memory_enough(MEMORY_MIN, "use at least 32Mi, written like 64Mi"),
    ];
    rules.extend(resources());
    rules.extend(scheduling::rules());
    rules.extend(unserved::sentinel());
    rules
}

/// Rules about the Sentinel object.
pub(super) fn standing_alone() -> Vec<Rule<SentinelSpec>> {
    let mut rules = vec![
        Rule::new(
            "spec.version",
            when("version", &format!("self.version in ['{}']", LINES.join("', '"))),
            shown("self.version"),
            "use 7.2, 8.1 or 9.1, or leave it out for 9.1",
            |spec: &SentinelSpec| unless(spec.version.as_deref()?, &LINES),
        ),
        Rule::new(
            "spec.version",
            "!has(self.image) || has(self.version)",
            "",
            "is missing; set it to the line of spec.image (7.2, 8.1 or 9.1), or remove spec.image",
            |spec: &SentinelSpec| (spec.image.is_some() && spec.version.is_none()).then(String::new),
        ),
        Rule::new(
            "spec.image",
            when("image", "self.image.matches('^[^ ]+[:@][^ /]+$')"),
            shown("self.image"),
            "write it as repository:tag or repository@sha256:digest",
            |spec: &SentinelSpec| spec.image.as_deref().filter(|image| !is_reference(image)).map(visible),
        ),
        Rule::new(
            "spec.imagePullPolicy",
            when("imagePullPolicy", "self.imagePullPolicy in ['Always', 'IfNotPresent', 'Never']"),
            shown("self.imagePullPolicy"),
            "use Always, IfNotPresent or Never",
            |spec: &SentinelSpec| unless(spec.image_pull_policy.as_deref()?, &["Always", "IfNotPresent", "Never"]),
        ),
    ];
    rules.extend(common());
    rules
}

/// Whether a text is an image with tag or digest: no space, and something without a slash after the last `:` or `@`.
fn is_reference(image: &str) -> bool {
    let split = image.rsplit_once([':', '@']);
    !image.contains(' ') && split.is_some_and(|(name, tag)| !name.is_empty() && !tag.is_empty() && !tag.contains('/'))
}

fn visible(text: &str) -> String {
    if text.is_empty() { "\"\"".into() } else { text.into() }
}

/// Rules of a Valkey about its Sentinels.
pub(super) fn of_valkey() -> Vec<Rule<ValkeySpec>> {
    let own = common().into_iter().map(|rule| rule.part_of(|settings: &SentinelSettings| Some(&settings.own)));
    let settings = own.chain(monitor()).chain(reference()).chain(beside_reference());
    let mut rules: Vec<_> =
        settings.map(|rule| rule.below("spec.sentinel").part_of(|spec: &ValkeySpec| spec.sentinel.as_ref())).collect();
    rules.extend(by_instance());
    rules
}

/// CEL: a number of at most nine digits.
const NUMBER: &str = "^[0-9]{1,9}$";

fn amount(text: &str) -> Option<i64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn monitor() -> Vec<Rule<SentinelSettings>> {
    let keys = MONITOR.map(|(key, _)| quote(key)).join(", ");
    let mut rules = vec![
        Rule::new(
            "spec.monitorConfig",
            when("monitorConfig", &format!("self.monitorConfig.all(k, k in [{keys}])")),
            "",
            "may have down-after-milliseconds, failover-timeout and parallel-syncs; remove others (Sentinels log in with an account of their own)",
            |settings: &SentinelSettings| {
                let known = |key: &String| MONITOR.iter().any(|(known, _)| known == key);
                (!settings.monitor_config.keys().all(known)).then(String::new)
            },
        ),
        Rule::new(
            "spec.quorum",
            format!("!has(self.quorum) || (self.quorum >= 1 && self.quorum <= {})", count()),
            "string(dyn(self.quorum))",
            "use 1 to the number of Sentinels, or leave it out for the majority",
            |settings: &SentinelSettings| {
                let count = settings.sentinel_reference.as_ref().map(|reference| reference.nodes.len());
                let count = count.map_or(settings.own.replicas.unwrap_or(3), |count| i32::try_from(count).unwrap_or(i32::MAX));
                settings.quorum.filter(|quorum| !(1..=count).contains(quorum)).map(|quorum| quorum.to_string())
            },
        ),
    ];
    rules.extend(MONITOR.map(|(key, least)| {
        let value = format!("self.monitorConfig[{}]", quote(key));
        let remedy = match key {
            "down-after-milliseconds" => {
                "use 3000 or more: with less no replica is eligible any more when a primary came back empty and follows nobody"
            }
            "failover-timeout" => "use 1000 or more, in milliseconds",
            _ => "use 1 or more",
        };
        Rule::new(
            "spec.monitorConfig",
            when(
                "monitorConfig",
                &format!("!({} in self.monitorConfig) || ({value}.matches('{NUMBER}') && int({value}) >= {least})", quote(key)),
            ),
            format!("{} + {value}", quote(&format!("{key}: "))),
            remedy,
            move |settings: &SentinelSettings| {
                let value = settings.monitor_config.get(key)?;
                amount(value).is_none_or(|value| value < least).then(|| format!("{key}: {value}"))
            },
        )
    }));
    rules
}

/// CEL: the number of Sentinels.
fn count() -> String {
    "(has(self.sentinelReference) ? size(self.sentinelReference.nodes) : (has(self.replicas) ? self.replicas : 3))".into()
}

fn reference() -> Vec<Rule<SentinelSettings>> {
    fn of(settings: &SentinelSettings) -> Option<&SentinelReference> {
        settings.sentinel_reference.as_ref()
    }
    let nodes = |each: &str| when("sentinelReference", &format!("self.sentinelReference.nodes.all(n, {each})"));
    vec![
        Rule::new(
            "spec.sentinelReference.nodes",
            when("sentinelReference", "size(self.sentinelReference.nodes) >= 3"),
            "",
            "has fewer than 3; a majority must outlive the loss of one: list all Sentinels",
            |settings| (of(settings)?.nodes.len() < 3).then(String::new),
        ),
        Rule::new(
            "spec.sentinelReference.nodes",
            nodes("isIP(n.ip)"),
            "",
            "has an ip that is no IP address; Sentinels don't take names here",
            |settings| of(settings)?.nodes.iter().any(|node| node.ip.parse::<IpAddr>().is_err()).then(String::new),
        ),
        Rule::new(
            "spec.sentinelReference.nodes",
            nodes("n.port >= 1 && n.port <= 65535"),
            "",
            "has a port out of range; use 1 to 65535 (Sentinels usually have 26379)",
            |settings| of(settings)?.nodes.iter().any(|node| !(1..=65_535).contains(&node.port)).then(String::new),
        ),
        Rule::new(
            "spec.sentinelReference.nodes",
            nodes("self.sentinelReference.nodes.exists_one(m, m.ip == n.ip && m.port == n.port)"),
            "",
            "has one Sentinel twice; list each once",
            |settings| {
                let nodes = &of(settings)?.nodes;
                let places: std::collections::BTreeSet<_> = nodes.iter().map(|node| (&node.ip, node.port)).collect();
                (places.len() != nodes.len()).then(String::new)
            },
        ),
        Rule::new(
            "spec.sentinelReference.nodes",
            nodes("!has(n.flags) || n.flags == ''"),
            "",
            "has flags, which are not supported yet; remove them",
            |settings| {
                let flagged = |flags: Option<&str>| flags.is_some_and(|flags| !flags.is_empty());
                of(settings)?.nodes.iter().any(|node| flagged(node.flags.as_deref())).then(String::new)
            },
        ),
        Rule::new(
            "spec.sentinelReference.auth.tlsSecret",
            when("sentinelReference.auth.tlsSecret", "self.sentinelReference.auth.tlsSecret == ''"),
            "",
            "is not supported yet; remove it",
            |settings| (!of(settings)?.auth.as_ref()?.tls_secret.as_ref()?.is_empty()).then(String::new),
        ),
        Rule::new(
            "spec.sentinelReference.auth.passwordSecret",
            format!("!({}) || ({})", named("username"), named("passwordSecret")),
            "",
            "is missing; name the Secret with the password of spec.sentinelReference.auth.username",
            |settings| {
                let auth = of(settings)?.auth.as_ref()?;
                let said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
                (said(&auth.username) && !said(&auth.password_secret)).then(String::new)
            },
        ),
    ]
}

/// CEL: that part of the login is there and not empty.
fn named(part: &str) -> String {
    let path = format!("sentinelReference.auth.{part}");
    format!("{} && self.{path} != ''", present(&path))
}

/// Fields that describe own Sentinels, and how each says nothing. `replicas` passes: the operator that people have today asked
/// for it beside a reference.
const OWN: [(&str, &str); 8] = [
    ("resources", ""),
    ("affinity", ""),
    ("securityContext", ""),
    ("tolerations", "size(_) == 0"),
    ("nodeSelector", "size(_) == 0"),
    ("podAnnotations", "size(_) == 0"),
    ("access.defaultPasswordSecret", "_ == ''"),
    ("access.ipFamilyPrefer", "_ == ''"),
];

fn beside_reference() -> Vec<Rule<SentinelSettings>> {
    let own = OWN.map(|(path, empty)| {
        let said = if empty.is_empty() {
            present(path)
        } else {
            format!("{} && !({})", present(path), empty.replace('_', &format!("self.{path}")))
        };
        let cel = format!("!has(self.sentinelReference) || !({said})");
        let pointer = format!("/{}", path.replace('.', "/"));
        Rule::new(
            format!("spec.{path}"),
            cel,
            "",
            "has no effect beside spec.sentinelReference; remove one of them",
            move |settings: &SentinelSettings| {
                settings.sentinel_reference.as_ref()?;
                let own = serde_json::to_value(&settings.own).ok()?;
                own.pointer(&pointer).filter(|value| **value != "").map(|_| String::new())
            },
        )
    });
    own.into_iter().chain(instance_has()).collect()
}

/// Own Sentinels run what the instance runs.
fn instance_has() -> Vec<Rule<SentinelSettings>> {
    const REMEDY: &str = "has no effect; remove it: an instance's own Sentinels run the image of its version";
    vec![
        Rule::new("spec.version", "!has(self.version)", "", REMEDY, |s: &SentinelSettings| {
            s.own.version.as_ref().map(|_| String::new())
        }),
        Rule::new("spec.image", "!has(self.image) || self.image == ''", "", REMEDY, |s: &SentinelSettings| {
            s.own.image.as_ref().filter(|image| !image.is_empty()).map(|_| String::new())
        }),
        Rule::new(
            "spec.imagePullPolicy",
            "!has(self.imagePullPolicy) || self.imagePullPolicy == ''",
            "",
            REMEDY,
            |s: &SentinelSettings| s.own.image_pull_policy.as_ref().filter(|policy| !policy.is_empty()).map(|_| String::new()),
        ),
        Rule::new(
            "spec.imagePullSecrets",
            "!has(self.imagePullSecrets) || size(self.imagePullSecrets) == 0",
            "",
            REMEDY,
            |s: &SentinelSettings| (!s.own.image_pull_secrets.is_empty()).then(String::new),
        ),
    ]
}

/// What Sentinels have to do with the rest of a Valkey.
fn by_instance() -> Vec<Rule<ValkeySpec>> {
    let family = |path: &str| format!("({} == 'IPv6')", text_or("self", path, ""));
    let said = "sentinel.access.ipFamilyPrefer";
    vec![
        Rule::new(
            "spec.sentinel",
            "self.arch == 'failover' || !has(self.sentinel)",
            "",
            "has no effect unless spec.arch is failover; remove it, or choose that architecture",
            |spec: &ValkeySpec| (spec.arch != "failover" && spec.sentinel.is_some()).then(String::new),
        ),
        Rule::new(
            "spec.sentinel.access.ipFamilyPrefer",
            format!("!({}) || self.{said} == '' || {} == {}", present(said), family(said), family("access.ipFamilyPrefer")),
            format!("self.{said}"),
            "use the one of spec.access.ipFamilyPrefer, or leave it out: Sentinels and servers must reach each other",
            |spec: &ValkeySpec| {
                let own =
                    spec.sentinel.as_ref()?.own.access.as_ref()?.ip_family_prefer.clone().filter(|said| !said.is_empty())?;
                ((own == "IPv6") != (spec.access.ip_family_prefer.as_deref() == Some("IPv6"))).then_some(own)
            },
        ),
    ]
}
