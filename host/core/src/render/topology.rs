//! The topology object as rendering sees it.

use serde_json::Value;
use vko_api::names;
use vko_model::accounts::ServerRole;

use super::RenderError;
use crate::object::Kind;

/// What the topology object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyKind {
    /// Shards with slots.
    Cluster,
    /// One data set, with or without Sentinels.
    Failover,
    /// Sentinels that stand alone.
    Sentinel,
}

impl TopologyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Failover, Self::Sentinel];

    /// What an object of that kind is. One that is no topology object has none below it either: it counts as a Failover, which
    /// has the fewest.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Cluster => Self::Cluster,
            Kind::Sentinel => Self::Sentinel,
            _ => Self::Failover,
        }
    }

    /// The object's kind.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Cluster => Kind::Cluster,
            Self::Failover => Kind::Failover,
            Self::Sentinel => Kind::Sentinel,
        }
    }

    /// Value of the component label; accounts' Secrets begin with it.
    pub const fn component(self) -> &'static str {
        match self {
            Self::Cluster => names::component::CLUSTER,
            Self::Failover | Self::Sentinel => names::component::FAILOVER,
        }
    }

    /// Value of the type label, on what belongs to the whole instance.
    pub(super) const fn type_label(self) -> &'static str {
        match self {
            Self::Cluster => names::component::CLUSTER,
            Self::Failover => names::component::FAILOVER,
            Self::Sentinel => names::TYPE_SENTINEL,
        }
    }
}

/// The topology object as rendering sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// What it is.
    pub kind: TopologyKind,
    /// Its namespace, and that of everything rendered.
    pub namespace: String,
    /// Its name, which is the instance's.
    pub name: String,
    /// Its UID: owner of everything rendered.
    pub uid: String,
    /// UID of the Valkey behind it: a label, by which a successor of the topology object adopts its children. Sentinels that
    /// stand alone have no Valkey; it is their own UID then.
    pub valkey_uid: String,
    /// Its spec after defaulting.
    pub spec: Value,
}

/// A login that people give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginElsewhere<'a> {
    /// User.
    pub user: &'a str,
    /// Name of the Secret that holds the password.
    pub secret: &'a str,
}

impl Topology {
    /// What is said of Sentinels, own or referenced ones, where they watch a data set: `spec.sentinel`.
    pub fn watched(&self) -> Option<&Value> {
        let settings = self.spec.get("sentinel").filter(|settings| settings.is_object());
        settings.filter(|_| self.kind == TopologyKind::Failover)
    }

    /// The Sentinels that exist elsewhere, in place of own ones.
    pub fn referenced(&self) -> Option<&Value> {
        self.watched()?.get("sentinelReference").filter(|reference| reference.is_object())
    }

    /// What logs in to these; `None` if they ask for nothing.
    pub fn login_elsewhere(&self) -> Option<LoginElsewhere<'_>> {
        let auth = self.referenced()?.get("auth")?;
        let text = |key: &str| auth.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(LoginElsewhere { user: text("username").unwrap_or(names::account::DEFAULT), secret: text("passwordSecret")? })
    }

    /// What is said of the instance's own Sentinels.
    pub fn own_sentinels(&self) -> Option<&Value> {
        match self.kind {
            TopologyKind::Cluster => None,
            TopologyKind::Failover => self.watched().filter(|_| self.referenced().is_none()),
            TopologyKind::Sentinel => Some(&self.spec),
        }
    }

    /// What its data servers are there for; `None` if it has none.
    pub fn data_role(&self) -> Option<ServerRole> {
        match self.kind {
            TopologyKind::Cluster => Some(ServerRole::Cluster),
            TopologyKind::Failover if self.watched().is_some() => Some(ServerRole::Failover),
            TopologyKind::Failover => Some(ServerRole::Replica),
            TopologyKind::Sentinel => None,
        }
    }

    /// What its servers are there for, Sentinels last.
    pub fn roles(&self) -> Vec<ServerRole> {
        self.data_role().into_iter().chain(self.own_sentinels().map(|_| ServerRole::Sentinel)).collect()
    }

    /// The name by which Sentinels know the data set.
    pub fn monitor(&self) -> String {
        match self.referenced() {
            Some(_) => names::shared_monitor(&self.namespace, &self.name),
            None => names::MONITOR.to_owned(),
        }
    }

    /// For messages.
    fn described(&self) -> &'static str {
        match (self.kind, self.watched().is_some(), self.referenced().is_some()) {
            (TopologyKind::Failover, false, _) => "Failover without Sentinels",
            (TopologyKind::Failover, true, false) => "Failover with Sentinels",
            (TopologyKind::Failover, true, true) => "Failover with Sentinels elsewhere",
            (kind, ..) => kind.kind().name(),
        }
    }

    pub(super) fn unsupported(&self, what: impl Into<String>) -> RenderError {
        RenderError::DesiredUnsupported { what: what.into(), topology: self.described() }
    }

    pub(super) fn missing(&self, field: &'static str) -> RenderError {
        RenderError::SpecFieldMissing { kind: self.kind.kind().name(), field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whose_sentinels_watch() {
        let own = json!({ "sentinel": { "replicas": 3 } });
        let elsewhere = json!({ "sentinel": { "sentinelReference": { "nodes": [] } } });
        use ServerRole::{Cluster, Failover, Replica, Sentinel};
        for (case, kind, spec, watched, roles, monitor) in [
            ("replica", TopologyKind::Failover, json!({}), false, vec![Replica], "mymaster"),
            ("a null section", TopologyKind::Failover, json!({ "sentinel": null }), false, vec![Replica], "mymaster"),
            ("own", TopologyKind::Failover, own.clone(), true, vec![Failover, Sentinel], "mymaster"),
            ("referenced", TopologyKind::Failover, elsewhere, true, vec![Failover], "shop.demo"),
            ("a cluster", TopologyKind::Cluster, own, false, vec![Cluster], "mymaster"),
            ("alone", TopologyKind::Sentinel, json!({}), false, vec![Sentinel], "mymaster"),
        ] {
            let (namespace, name) = ("shop".into(), "demo".into());
            let topology = Topology { kind, namespace, name, uid: "u".into(), valkey_uid: "v".into(), spec };
            let found = (topology.watched().is_some(), topology.roles(), topology.monitor());
            assert_eq!(found, (watched, roles, monitor.to_owned()), "{case}");
        }
    }

    #[test]
    fn what_logs_in_elsewhere() {
        let login = |user, secret| Some(LoginElsewhere { user, secret });
        for (auth, expected) in [
            (json!(null), None),
            (json!({}), None),
            (json!({ "username": "", "passwordSecret": "" }), None),
            (json!({ "passwordSecret": "s" }), login("default", "s")),
            (json!({ "username": "u", "passwordSecret": "s" }), login("u", "s")),
        ] {
            let (namespace, name) = ("shop".into(), "demo".into());
            let spec = json!({ "sentinel": { "sentinelReference": { "nodes": [], "auth": auth } } });
            let kind = TopologyKind::Failover;
            let topology = Topology { kind, namespace, name, uid: "u".into(), valkey_uid: "v".into(), spec };
            assert_eq!(topology.login_elsewhere(), expected, "{auth}");
        }
    }

    #[test]
    fn objects_lead_back_to_kinds() {
        for kind in TopologyKind::ALL {
            assert_eq!(TopologyKind::of(kind.kind()), kind);
        }
    }
}
