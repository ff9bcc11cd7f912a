//! What comes out for which instance, and what a policy may not ask for.

use serde_json::Value;
use vko_api::names;
use vko_wit::common::Pair;
use vko_wit::planning::{Budget, CertificateRequest, Desired, ExtensionObject, Purpose, Service, ServiceKind, Workload};

use super::testing::{
    desired_of, mk_cluster, mk_failover, mk_inputs, mk_referring, mk_sentinel, mk_settings, mk_topology, mk_workload,
    nothing_live, render_all,
};
use super::{Inputs, Part, RenderError, Texts, Topology, labels, pod_selector, render};
use crate::object::Object;

fn render_one(topology: &Topology, record: Desired) -> Result<Vec<Value>, RenderError> {
    render(topology, &[record], &mk_inputs(), &mk_settings(), nothing_live())
}

/// Kinds and names of what comes out, in its order.
fn listed(topology: &Topology) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = |object: &Value| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
    render_all(topology, 3).iter().map(name).collect()
}

#[test]
fn what_pods_mount_comes_first_and_once_and_the_stateful_sets_last() {
    let data = ["Service rfr-demo", "Service rfr-demo-readwrite", "Service rfr-demo-readonly", "PodDisruptionBudget rfr-demo"];
    let sentinels = ["Service rfs-demo", "PodDisruptionBudget rfs-demo"];
    let mounted = ["ConfigMap rfr-demo", "Secret rfr-acl-demo"];
    let replica = [&mounted[..], &data, &["StatefulSet rfr-demo"]].concat();
    assert_eq!(listed(&mk_topology()), replica);
    assert_eq!(listed(&mk_referring()), replica);
    let of_sentinels = ["ConfigMap rfs-demo", "Secret rfs-acl-demo"];
    let failover = [&mounted[..], &of_sentinels, &data, &sentinels, &["StatefulSet rfr-demo", "StatefulSet rfs-demo"]].concat();
    assert_eq!(listed(&mk_failover()), failover);
    assert_eq!(listed(&mk_sentinel()), [&of_sentinels[..], &sentinels, &["StatefulSet rfs-demo"]].concat());
    assert_eq!(
        listed(&mk_cluster()),
        [
            "ConfigMap valkey-cluster-demo",
            "Secret drc-acl-demo",
            "Service demo-0",
            "PodDisruptionBudget drc-demo-0",
            "Service demo-1",
            "PodDisruptionBudget drc-demo-1",
            "Service demo-2",
            "PodDisruptionBudget drc-demo-2",
            "Service demo",
            "StatefulSet drc-demo-0",
            "StatefulSet drc-demo-1",
            "StatefulSet drc-demo-2",
        ]
    );
}

#[test]
fn what_is_not_desired_is_not_rendered() {
    let objects = render(&mk_topology(), &[], &mk_inputs(), &mk_settings(), nothing_live()).unwrap();
    assert_eq!(objects, Vec::<Value>::new());
}

#[test]
fn everything_is_in_the_namespace_labelled_and_owned_by_the_topology_object() {
    for topology in [mk_topology(), mk_failover(), mk_sentinel(), mk_cluster()] {
        for object in render_all(&topology, 3) {
            let object = Object::new(object);
            assert_eq!(object.namespace(), topology.namespace, "{}", object.name());
            assert_eq!(object.controller_uid(), topology.uid, "{}", object.name());
            assert_eq!(object.0["metadata"]["ownerReferences"][0]["kind"], topology.kind.kind().name(), "{}", object.name());
            assert_eq!(object.label(names::INSTANCE), "demo", "{}", object.name());
            assert_eq!(object.label(names::VALKEY_UID), topology.valkey_uid, "{}", object.name());
            let kind = if object.name().starts_with("rfs-") { "sentinel" } else { topology.kind.type_label() };
            assert_eq!(object.label(names::TYPE), kind, "{}", object.name());
        }
    }
}

#[test]
fn labels_are_those_that_people_select_by() {
    let statefulset = |part| labels(&mk_cluster(), Some(part)).get(names::STATEFUL_SET).cloned();
    assert_eq!(statefulset(Part::Shard(7)).as_deref(), Some("drc-demo-7"));
    for (topology, part, component, kind) in [
        (mk_topology(), Some(Part::Data), "failover", "failover"),
        (mk_failover(), None, "failover", "failover"),
        (mk_failover(), Some(Part::Sentinels), "failover", "sentinel"),
        (mk_sentinel(), Some(Part::Sentinels), "failover", "sentinel"),
        (mk_sentinel(), None, "failover", "sentinel"),
        (mk_cluster(), Some(Part::Shard(1)), "cluster", "cluster"),
        (mk_cluster(), None, "cluster", "cluster"),
    ] {
        let labels = labels(&topology, part);
        let found = [names::MANAGED_BY, names::APP_NAME, names::COMPONENT, names::TYPE].map(|key| labels[key].as_str());
        assert_eq!(found, ["valkey-operator", "valkey", component, kind], "{part:?}");
        assert!(part.is_some() || !pod_selector(topology.kind, "demo").contains_key(names::STATEFUL_SET));
    }
}

#[test]
fn only_secrets_hold_what_is_derived_from_a_password() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let users_acl = format!("user probe on #{hash} -@all +ping\n");
    let texts = Texts { users_acl: &users_acl, ..mk_inputs().data };
    let inputs = Inputs { data: texts, sentinels: texts, ..mk_inputs() };
    let encoded = serde_json::json!(k8s_openapi::ByteString(users_acl.clone().into_bytes())).to_string();
    for topology in [mk_topology(), mk_failover(), mk_sentinel(), mk_cluster()] {
        for object in render(&topology, &desired_of(&topology, 3), &inputs, &mk_settings(), nothing_live()).unwrap() {
            let text = object.to_string();
            assert_eq!(text.contains(&encoded), object["kind"] == "Secret", "{}", object["kind"]);
            assert!(!text.contains(hash), "{}", object["kind"]);
        }
    }
}

fn workload(part: Part, change: impl FnOnce(&mut Workload)) -> Desired {
    let mut workload = mk_workload(part, "demo", 3);
    change(&mut workload);
    Desired::Workload(workload)
}

fn mk_service(name: &str, kind: ServiceKind, workload: &str) -> Desired {
    Desired::Service(Service { name: name.into(), kind, workload: workload.into() })
}

fn mk_budget(workload: &str, max_unavailable: u32) -> Desired {
    Desired::Budget(Budget { workload: workload.into(), max_unavailable })
}

/// One thing that a policy must not ask for: a name for the case, the record, the refusal.
type Refusal = (&'static str, Desired, &'static str);

/// Whatever the instance is.
fn refused_everywhere() -> Vec<Refusal> {
    let request = CertificateRequest { name: "c".into(), dns_names: vec![] };
    let job = ExtensionObject { kind: "Job".into(), name: "j".into(), content: "{}".into() };
    vec![
        ("a certificate", Desired::Certificate(request), "DesiredUnsupported"),
        ("a kind of its own", Desired::Extension(job), "DesiredUnsupported"),
        ("a Service per pod", mk_service("rfr-demo-0", ServiceKind::Pod(0), "rfr-demo"), "DesiredUnsupported"),
        ("metrics", mk_service("rfr-demo", ServiceKind::Metrics, "rfr-demo"), "DesiredUnsupported"),
        ("governing nothing", mk_service("demo", ServiceKind::Governing, "demo"), "DesiredNameUnknown"),
        ("budget of nothing", mk_budget("x", 1), "DesiredNameUnknown"),
    ]
}

fn refused_without_sentinels() -> Vec<Refusal> {
    let label = |key: &str| vec![Pair { key: key.into(), value: "x".into() }];
    let data = |change: fn(&mut Workload)| workload(Part::Data, change);
    vec![
        ("another workload", data(|w| w.name = "rfr-other".into()), "DesiredNameUnknown"),
        ("sentinels", workload(Part::Sentinels, |_| ()), "DesiredUnsupported"),
        ("a second shard", data(|w| w.shard = 1), "DesiredUnsupported"),
        ("no members", data(|w| w.members = 0), "MembersOutOfRange"),
        ("six members", data(|w| w.members = 6), "MembersOutOfRange"),
        ("the role label", workload(Part::Data, |w| w.labels = label("valkey.buf.red/role")), "LabelReserved"),
        ("the instance label", workload(Part::Data, |w| w.labels = label("buf.red/name")), "LabelReserved"),
        ("a label of Kubernetes", workload(Part::Data, |w| w.labels = label("app.kubernetes.io/name")), "LabelReserved"),
        ("the revision label", workload(Part::Data, |w| w.labels = label("controller-revision-hash")), "LabelReserved"),
        ("another writer", mk_service("demo", ServiceKind::Writer, "rfr-demo"), "DesiredNameUnknown"),
        ("of another workload", mk_service("rfr-demo", ServiceKind::Governing, "rfr-x"), "DesiredNameUnknown"),
        ("of Sentinels", mk_service("rfs-demo", ServiceKind::Governing, "rfs-demo"), "DesiredNameUnknown"),
        ("of the whole instance", mk_service("demo", ServiceKind::Instance, ""), "DesiredUnsupported"),
        ("budget of Sentinels", mk_budget("rfs-demo", 1), "DesiredNameUnknown"),
        ("budget of none", mk_budget("rfr-demo", 0), "BudgetUnsafe"),
        ("budget of two", mk_budget("rfr-demo", 2), "BudgetUnsafe"),
    ]
}

fn refused_with_sentinels() -> Vec<Refusal> {
    let sentinels = |change: fn(&mut Workload)| workload(Part::Sentinels, change);
    vec![
        ("one Sentinel", sentinels(|w| w.members = 1), "MembersOutOfRange"),
        ("four Sentinels", sentinels(|w| w.members = 4), "MembersOutOfRange"),
        ("eleven Sentinels", sentinels(|w| w.members = 11), "MembersOutOfRange"),
        ("Sentinels of another", sentinels(|w| w.name = "rfs-x".into()), "DesiredNameUnknown"),
        ("Sentinels by the data's name", sentinels(|w| w.name = "rfr-demo".into()), "DesiredNameUnknown"),
        ("Sentinels of a shard", sentinels(|w| w.shard = 1), "DesiredUnsupported"),
        ("a writer among Sentinels", mk_service("rfr-demo-readwrite", ServiceKind::Writer, "rfs-demo"), "DesiredNameUnknown"),
        ("readers among Sentinels", mk_service("rfr-demo-readonly", ServiceKind::Readers, "rfs-demo"), "DesiredNameUnknown"),
        ("two Sentinels away", mk_budget("rfs-demo", 2), "BudgetUnsafe"),
    ]
}

fn refused_in_a_cluster() -> Vec<Refusal> {
    let shard = |change: fn(&mut Workload)| workload(Part::Shard(1), change);
    vec![
        ("a data set", workload(Part::Data, |_| ()), "DesiredNameUnknown"),
        ("Sentinels", workload(Part::Sentinels, |_| ()), "DesiredUnsupported"),
        ("another shard's name", shard(|w| w.shard = 2), "DesiredNameUnknown"),
        ("a shard beyond all", shard(|w| w.shard = 128), "DesiredUnsupported"),
        ("six members", shard(|w| w.members = 6), "MembersOutOfRange"),
        ("a shard's label", shard(|w| w.purpose = Purpose::Sentinel), "DesiredUnsupported"),
        (
            "governing by the workload's name",
            mk_service("drc-demo-1", ServiceKind::Governing, "drc-demo-1"),
            "DesiredNameUnknown",
        ),
        ("governing another shard", mk_service("demo-0", ServiceKind::Governing, "drc-demo-1"), "DesiredNameUnknown"),
        ("a writer", mk_service("demo", ServiceKind::Writer, "drc-demo-0"), "DesiredNameUnknown"),
        ("an instance of one shard", mk_service("demo", ServiceKind::Instance, "drc-demo-0"), "DesiredNameUnknown"),
        ("an instance of another name", mk_service("other", ServiceKind::Instance, ""), "DesiredNameUnknown"),
        ("budget by the Service's name", mk_budget("demo-1", 1), "DesiredNameUnknown"),
        ("budget of two", mk_budget("drc-demo-1", 2), "BudgetUnsafe"),
    ]
}

#[test]
fn a_policy_may_not_ask_for_more_than_the_closed_list() {
    let alone = || vec![("a data set", workload(Part::Data, |_| ()), "DesiredUnsupported")];
    for (topology, own) in [
        (mk_topology(), refused_without_sentinels()),
        (mk_referring(), refused_without_sentinels()),
        (mk_failover(), refused_with_sentinels()),
        (mk_sentinel(), [alone(), refused_with_sentinels()].concat()),
        (mk_cluster(), refused_in_a_cluster()),
    ] {
        for (case, record, reason) in refused_everywhere().into_iter().chain(own) {
            let refused = render_one(&topology, record).unwrap_err();
            assert_eq!(refused.reason(), reason, "{:?} {case}: {refused}", topology.kind);
        }
    }
}

#[test]
fn shards_share_one_configuration() {
    let with = |shard: u32, value: &str| {
        let settings = vec![Pair { key: "maxmemory-policy".into(), value: value.into() }];
        Desired::Workload(Workload { settings, ..mk_workload(Part::Shard(shard), "demo", 3) })
    };
    let rendered = |desired: &[Desired]| render(&mk_cluster(), desired, &mk_inputs(), &mk_settings(), nothing_live());
    assert!(rendered(&[with(0, "noeviction"), with(1, "noeviction")]).is_ok());
    let refused = rendered(&[with(0, "noeviction"), with(1, "allkeys-lru")]).unwrap_err();
    assert_eq!(refused, RenderError::SettingsDiffer { workload: "drc-demo-1".into() });
}

#[test]
fn a_policy_may_label_pods_outside_the_hosts_domains() {
    let record = workload(Part::Data, |w| w.labels = vec![Pair { key: "example.org/team".into(), value: "a".into() }]);
    let objects = render_one(&mk_topology(), record).unwrap();
    let stateful_set = objects.last().unwrap();
    assert_eq!(stateful_set["spec"]["template"]["metadata"]["labels"]["example.org/team"], "a");
    assert_eq!(stateful_set["spec"]["selector"]["matchLabels"].get("example.org/team"), None);
}
