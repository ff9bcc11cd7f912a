//! Sets of fields, and who owns them: `metadata.managedFields`.
//!
//! `fieldsV1` is a tree of keys: `f:` a field, `k:` an element of a list by its merge keys, `v:` an element of a set by its
//! value, `.` the thing itself. Which lists and maps are merged and which belong to one manager as a whole is in the kinds'
//! schemas; of Kubernetes' own kinds a table here says it, as far as operators write them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// What says how lists and maps merge.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    /// One of Kubernetes' own kinds, or metadata: the table.
    BuiltIn,
    /// A custom kind's schema; `None` where it says nothing.
    Custom(Option<&'a Value>),
}

/// How a list is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By these keys of its elements.
    Keys(Vec<String>),
}

/// Maps that belong to one manager as a whole.
const WHOLE_MAPS: [&str; 7] =
    ["selector", "labelSelector", "namespaceSelector", "nodeSelector", "fieldRef", "secretKeyRef", "configMapKeyRef"];

impl<'a> Shape<'a> {
    /// Of a whole object.
    pub fn of(schema: Option<&'a Value>) -> Self {
        schema.map_or(Self::BuiltIn, |schema| Self::Custom(Some(schema)))
    }

    /// Of a field.
    pub fn below(self, name: &str) -> Self {
        match self {
            Self::BuiltIn => Self::BuiltIn,
            // Metadata of custom objects is metadata.
            Self::Custom(_) if name == "metadata" => Self::BuiltIn,
            Self::Custom(schema) => Self::Custom(
                schema.and_then(|schema| schema.get("properties")?.get(name).or_else(|| schema.get("additionalProperties"))),
            ),
        }
    }

    /// Of a list's elements.
    pub fn element(self) -> Self {
        match self {
            Self::BuiltIn => Self::BuiltIn,
            Self::Custom(schema) => Self::Custom(schema.and_then(|schema| schema.get("items"))),
        }
    }

    /// How the list in the field of that name is merged.
    pub fn merge(self, name: &str, list: &[Value]) -> Merge {
        let keys = |keys: &[&str]| Merge::Keys(keys.iter().map(|key| (*key).to_owned()).collect());
        match self {
            Self::Custom(schema) => match schema.and_then(|schema| schema["x-kubernetes-list-type"].as_str()) {
                Some("set") => Merge::Set,
                Some("map") => {
                    let listed = schema.and_then(|schema| schema["x-kubernetes-list-map-keys"].as_array());
                    Merge::Keys(listed.into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)).collect())
                }
                _ => Merge::Atomic,
            },
            Self::BuiltIn => match name {
                "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => keys(&["name"]),
                "volumeMounts" => keys(&["mountPath"]),
                "ports" if list.iter().any(|port| port.get("containerPort").is_some()) => keys(&["containerPort", "protocol"]),
                "ports" if list.iter().any(|port| port.get("port").is_some()) => keys(&["port", "protocol"]),
                "topologySpreadConstraints" => keys(&["topologyKey", "whenUnsatisfiable"]),
                "conditions" => keys(&["type"]),
                "ownerReferences" => keys(&["uid"]),
                "finalizers" => Merge::Set,
                _ => Merge::Atomic,
            },
        }
    }

    /// Whether the map in the field of that name belongs to one manager as a whole.
    pub fn is_whole_map(self, name: &str) -> bool {
        match self {
            Self::BuiltIn => WHOLE_MAPS.contains(&name),
            Self::Custom(schema) => schema.is_some_and(|schema| schema["x-kubernetes-map-type"] == "atomic"),
        }
    }
}

/// The key of a list's element in a set of fields.
pub fn element_key(merge: &Merge, element: &Value) -> Option<String> {
    match merge {
        Merge::Atomic => None,
        Merge::Set => Some(format!("v:{element}")),
        Merge::Keys(keys) => {
            let value = |key: &String| match element.get(key) {
                None if key == "protocol" => json!("TCP"),
                found => found.cloned().unwrap_or_default(),
            };
            let found: Map<String, Value> = keys.iter().map(|key| (key.clone(), value(key))).collect();
            Some(format!("k:{}", Value::Object(found)))
        }
    }
}

/// A set of fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    /// Whether the thing itself is in it.
    member: bool,
    below: BTreeMap<String, Fields>,
}

/// Metadata that the server writes; nobody owns it.
const SERVERS_OWN: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
    "managedFields",
    "generateName",
];

impl Fields {
    /// All fields of an object that somebody can own.
    pub fn of(object: &Value, shape: Shape<'_>) -> Self {
        let mut all = Self::default();
        all.add(object, shape, "");
        all.member = false;
        for name in ["f:apiVersion", "f:kind"] {
            all.below.remove(name);
        }
        if let Some(metadata) = all.below.get_mut("f:metadata") {
            SERVERS_OWN.iter().for_each(|name| drop(metadata.below.remove(&format!("f:{name}"))));
        }
        all.pruned()
    }

    fn add(&mut self, value: &Value, shape: Shape<'_>, name: &str) {
        match value {
            Value::Object(fields) if !fields.is_empty() && !shape.is_whole_map(name) => {
                for (field, value) in fields {
                    self.below.entry(format!("f:{field}")).or_default().add(value, shape.below(field), field);
                }
            }
            Value::Array(items) if !items.is_empty() && shape.merge(name, items) != Merge::Atomic => {
                let merge = shape.merge(name, items);
                for item in items {
                    let Some(key) = element_key(&merge, item) else { continue };
                    let below = self.below.entry(key).or_default();
                    if item.is_object() {
                        below.add(item, shape.element(), "");
                    }
                    below.member = true;
                }
            }
            _ => self.member = true,
        }
    }

    /// As `fieldsV1`.
    pub fn write(&self) -> Value {
        let mut tree = Map::new();
        if self.member && !self.below.is_empty() {
            tree.insert(".".into(), json!({}));
        }
        tree.extend(self.below.iter().map(|(key, below)| (key.clone(), below.write())));
        Value::Object(tree)
    }

    /// Reads `fieldsV1`.
    pub fn read(tree: &Value) -> Self {
        let keys = tree.as_object();
        let below = keys.into_iter().flatten().filter(|(key, _)| *key != ".");
        let below: BTreeMap<String, Self> = below.map(|(key, below)| (key.clone(), Self::read(below))).collect();
        Self { member: below.is_empty() || tree.get(".").is_some(), below }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.values().all(Self::is_empty)
    }

    fn pruned(mut self) -> Self {
        self.below = self.below.into_iter().map(|(key, below)| (key, below.pruned())).filter(|(_, b)| !b.is_empty()).collect();
        self
    }

    /// What is in either.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.member |= other.member;
        for (key, theirs) in &other.below {
            let ours = self.below.remove(key).unwrap_or_default();
            self.below.insert(key.clone(), ours.union(theirs));
        }
        self
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.member &= !other.member;
        for (key, theirs) in &other.below {
            if let Some(ours) = self.below.remove(key) {
                self.below.insert(key.clone(), ours.without(theirs));
            }
        }
        self.pruned()
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |(key, ours): (&String, &Self)| Some((key.clone(), ours.intersection(other.below.get(key)?)));
        Self { member: self.member && other.member, below: self.below.iter().filter_map(both).collect() }.pruned()
    }

    /// The paths in it, the deepest of a branch first.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for (key, below) in &self.below {
            for path in below.paths() {
                found.push(std::iter::once(key.clone()).chain(path).collect());
            }
        }
        if self.member {
            found.push(Vec::new());
        }
        found
    }

    /// The fields in which two objects differ, as fields of the first: its values that the other lacks or has otherwise.
    pub fn changed(object: &Value, other: &Value, shape: Shape<'_>) -> Self {
        let all = Self::of(object, shape);
        let mut same = Self::default();
        for path in all.paths() {
            // A list's element is there or not; what is in it has paths of its own.
            let element = path.last().is_some_and(|key| !key.starts_with("f:"));
            let (ours, theirs) = (find(object, shape, &path), find(other, shape, &path));
            if theirs.is_some() && (element || ours == theirs) {
                same.insert(&path);
            }
        }
        all.without(&same)
    }

    fn insert(&mut self, path: &[String]) {
        match path.split_first() {
            None => self.member = true,
            Some((key, rest)) => self.below.entry(key.clone()).or_default().insert(rest),
        }
    }
}

/// What a path leads to.
pub fn find<'a>(object: &'a Value, shape: Shape<'_>, path: &[String]) -> Option<&'a Value> {
    let (mut value, mut shape, mut name) = (object, shape, "");
    for key in path {
        if let Some(field) = key.strip_prefix("f:") {
            (value, shape, name) = (value.get(field)?, shape.below(field), field);
        } else {
            let items = value.as_array()?;
            let merge = shape.merge(name, items);
            value = items.iter().find(|item| element_key(&merge, item).as_ref() == Some(key))?;
            (shape, name) = (shape.element(), "");
        }
    }
    Some(value)
}

/// Takes out what a path leads to, and what is left empty by that.
pub fn remove(value: &mut Value, shape: Shape<'_>, name: &str, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    if let Some(field) = key.strip_prefix("f:") {
        let Some(fields) = value.as_object_mut() else { return };
        let Some(found) = fields.get_mut(field) else { return };
        if !rest.is_empty() {
            remove(found, shape.below(field), field, rest);
        }
        if rest.is_empty() || is_empty(found) {
            fields.remove(field);
        }
    } else if let Some(items) = value.as_array_mut() {
        let merge = shape.merge(name, items);
        let at = items.iter().position(|item| element_key(&merge, item).as_ref() == Some(key));
        let Some(at) = at else { return };
        if rest.is_empty() {
            items.remove(at);
        } else {
            remove(&mut items[at], shape.element(), "", rest);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "uid": "u", "labels": {"x": "1", "y": "2"}, "finalizers": ["f"], "ownerReferences": [{"uid": "o", "name": "n"}]},
            "spec": {"containers": [{"name": "c", "command": ["a", "b"], "ports": [{"containerPort": 1}]}], "nodeSelector": {"a": "b"},
                "volumes": [{"name": "v", "emptyDir": {}}]},
        })
    }

    #[test]
    fn a_set_of_fields_is_written_as_the_server_writes_it() {
        let expected = json!({
            "f:metadata": {
                "f:labels": {"f:x": {}, "f:y": {}},
                "f:finalizers": {"v:\"f\"": {}},
                "f:ownerReferences": {"k:{\"uid\":\"o\"}": {".": {}, "f:name": {}, "f:uid": {}}},
            },
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:command": {},
                    "f:ports": {"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
                "f:nodeSelector": {},
                "f:volumes": {"k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}},
            },
        });
        let fields = Fields::of(&pod(), Shape::BuiltIn);
        assert_eq!(fields.write(), expected);
        assert_eq!(Fields::read(&expected), fields);
    }

    #[test]
    fn sets_by_table() {
        let read = |tree: Value| Fields::read(&tree);
        let (ab, bc) = (json!({"f:a": {}, "f:b": {"f:x": {}}}), json!({"f:b": {"f:x": {}, "f:y": {}}, "f:c": {}}));
        let union = read(ab.clone()).union(&read(bc.clone())).write();
        assert_eq!(union, json!({"f:a": {}, "f:b": {"f:x": {}, "f:y": {}}, "f:c": {}}));
        assert_eq!(read(ab.clone()).without(&read(bc.clone())).write(), json!({"f:a": {}}));
        assert_eq!(read(ab.clone()).intersection(&read(bc)).write(), json!({"f:b": {"f:x": {}}}));
        assert!(read(ab.clone()).without(&read(ab)).is_empty());
    }

    #[test]
    fn changes_are_told_by_field() {
        let mut other = pod();
        other["metadata"]["labels"]["x"] = json!("9");
        other["spec"]["containers"][0]["command"] = json!(["a"]);
        other["spec"]["volumes"] = json!([]);
        let changed = Fields::changed(&pod(), &other, Shape::BuiltIn).write();
        let expected = json!({
            "f:metadata": {"f:labels": {"f:x": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:command": {}}},
                "f:volumes": {"k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}}},
        });
        assert_eq!(changed, expected);
    }

    #[test]
    fn what_is_left_empty_goes_too() {
        let mut object = json!({"metadata": {"labels": {"x": "1"}, "name": "n"}, "spec": {"env": [{"name": "a", "value": "1"}]}});
        let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        remove(&mut object, Shape::BuiltIn, "", &path(&["f:metadata", "f:labels", "f:x"]));
        assert_eq!(object["metadata"], json!({"name": "n"}));
        remove(&mut object, Shape::BuiltIn, "", &path(&["f:spec", "f:env", "k:{\"name\":\"a\"}", "f:value"]));
        assert_eq!(object["spec"]["env"], json!([{"name": "a"}]));
        remove(&mut object, Shape::BuiltIn, "", &path(&["f:spec", "f:env", "k:{\"name\":\"a\"}"]));
        assert_eq!(object.get("spec"), None);
    }

    #[test]
    fn custom_kinds_say_themselves_how_lists_merge() {
        let schema = json!({"properties": {"spec": {"properties": {
            "members": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": {}}, "words": {},
        }}}});
        let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"members": [{"id": 1, "x": 2}], "words": ["a"]}});
        let expected = json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:members": {"k:{\"id\":1}": {".": {}, "f:id": {}, "f:x": {}}}, "f:words": {}},
        });
        assert_eq!(Fields::of(&object, Shape::of(Some(&schema))).write(), expected);
    }
}
