//! The objects, and the judgement of writes.
//!
//! # Guarantees
//! 1. Each write moves the version by one, unless it changes nothing.
//! 2. What is deleted goes at once only if no finalizer and no grace holds it; the write that takes the last of them away removes
//!    it.
//! 3. Metadata that the server writes (UID, times, version, generation) can't be written by anybody else.
//!
//! # Flow of a write
//! 1. What is live, and whether the preconditions hold.
//! 2. What the object would be: merged, applied or replaced; the part that this write isn't about stays as it is.
//! 3. Defaults and schema.
//! 4. Who owns what.
//! 5. Unless it is the same as before: version, log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::apply::{self, Writer};
use crate::defaults;
use crate::disk::Saved;
use crate::fields::Shape;
use crate::json::{deleting, drop_nulls, list, map_in, merged, text, time};
use crate::refusal::Refusal;
use crate::resource::{Key, Resource};
use crate::selector::Selector;
use crate::validate::{self, Fault};

/// Changes that are remembered for watches; older ones are 410.
const LOG: usize = 4096;
/// Holds an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object until its dependents are released.
pub const ORPHAN: &str = "orphan";

/// What a change was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change, as watches tell it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Version that it moved to.
    pub version: u64,
    /// What it was.
    pub change: Change,
    /// Which object.
    pub key: Key,
    /// As it is now, or as it was last.
    pub object: Arc<Value>,
    /// As it was before, unless it is new.
    pub before: Option<Arc<Value>>,
}

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, where that is a part of its own.
    Main,
    /// The status.
    Status,
}

/// How strictly unknown fields are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// They make the write fail.
    Strict,
    /// They are dropped.
    Dropped,
}

/// A write, apart from what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// What it is about.
    pub part: Part,
    /// What becomes of unknown fields.
    pub unknown: Unknown,
}

impl<'a> Manner<'a> {
    /// Of the object itself, unknown fields dropped.
    pub const fn by(manager: &'a str) -> Self {
        Self { manager, part: Part::Main, unknown: Unknown::Dropped }
    }

    /// The same of the status.
    pub const fn status_by(manager: &'a str) -> Self {
        Self { part: Part::Status, ..Self::by(manager) }
    }
}

/// What a delete is bound to, and how it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// What must hold.
    pub preconditions: Option<Preconditions>,
    /// Seconds that a pod gets; its own number where nothing is said.
    pub grace_period_seconds: Option<u64>,
    /// Foreground, Background (where nothing is said) or Orphan.
    pub propagation_policy: Option<String>,
}

/// See [`DeleteOptions`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Which object.
    pub uid: Option<String>,
    /// In which version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Of the object with that UID.
    pub fn of(uid: &str) -> Self {
        Self { preconditions: Some(Preconditions { uid: Some(uid.into()), resource_version: None }), ..Self::default() }
    }

    /// The same, at once.
    pub fn force(uid: &str) -> Self {
        Self { grace_period_seconds: Some(0), ..Self::of(uid) }
    }
}

/// All objects.
#[derive(Debug)]
pub struct Store {
    resources: BTreeMap<String, Resource>,
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
    log: VecDeque<Event>,
    /// Up to which version nothing is remembered.
    forgotten: u64,
    made: u64,
    /// The time (Unix ms), which whoever owns the store sets before a write.
    pub now_ms: u64,
}

impl Default for Store {
    fn default() -> Self {
        let resources = Resource::built_in().into_iter().map(|resource| (resource.id(), resource)).collect();
        let (objects, log) = (BTreeMap::new(), VecDeque::new());
        Self { resources, objects, version: 0, log, forgotten: 0, made: 0, now_ms: 0 }
    }
}

impl Store {
    /// What is served.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// A kind by its [`Resource::id`].
    ///
    /// # Errors
    /// It isn't served.
    pub fn resource(&self, id: &str) -> Result<&Resource, Refusal> {
        self.resources.get(id).ok_or_else(|| Refusal {
            code: 404,
            reason: "NotFound",
            message: format!("the server could not find the requested resource: {id}"),
        })
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Objects ever made: UIDs are counted.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Takes in the objects of an earlier store, as they were.
    pub(crate) fn restore(&mut self, saved: Saved) {
        self.objects.extend(saved.objects);
        (self.version, self.made) = (self.version.max(saved.version), self.made.max(saved.made));
        self.compact();
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a kind, of one namespace or all, sorted.
    pub fn list<'a>(&'a self, resource: &'a str, namespace: Option<&'a str>) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let all = self.objects.range(Key::new(resource, "", "")..).take_while(move |(key, _)| key.resource == resource);
        all.filter(move |(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
    }

    /// The same, those that a selector selects.
    pub fn select(&self, resource: &str, namespace: &str, selector: &Selector) -> Vec<Arc<Value>> {
        self.list(resource, Some(namespace)).filter(|(_, object)| selector.matches(object)).map(|(_, o)| o.clone()).collect()
    }

    /// All objects.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// The changes after a version.
    ///
    /// # Errors
    /// They aren't remembered any more.
    pub fn events_after(&self, version: u64) -> Result<impl Iterator<Item = &Event>, Refusal> {
        if version < self.forgotten {
            return Err(Refusal::expired(version, self.forgotten));
        }
        Ok(self.log.iter().filter(move |event| event.version > version))
    }

    /// Forgets all changes so far, as etcd's compaction does.
    pub fn compact(&mut self) {
        self.forgotten = self.version;
        self.log.clear();
    }

    /// Creates.
    ///
    /// # Errors
    /// There is one of that name, or it breaks a rule.
    pub fn create(&mut self, resource: &str, mut object: Value, manner: Manner<'_>) -> Result<Arc<Value>, Refusal> {
        let kind = self.resource(resource)?.clone();
        if text(&object, "/metadata/name").is_empty() && !text(&object, "/metadata/generateName").is_empty() {
            let name = format!("{}{:05x}", text(&object, "/metadata/generateName"), self.version + 1);
            object["metadata"]["name"] = json!(name);
        }
        let key = self.key(&kind, &object)?;
        if self.objects.contains_key(&key) {
            return Err(Refusal::already_exists(resource, &key.name));
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.born(&kind, &mut object);
        self.admit(&kind, &mut object, manner.unknown)?;
        let mut none = json!({});
        none["metadata"] = json!({});
        apply::record(&none, &mut object, Shape::of(kind.schema.as_ref()), self.writer(&time(self.now_ms), manner));
        if let Some(defined) = Resource::defined_by(&object).filter(|_| kind.kind == "CustomResourceDefinition") {
            self.resources.insert(defined.id(), defined);
        }
        Ok(self.put(key, object))
    }

    /// Replaces (PUT).
    ///
    /// # Errors
    /// It isn't there, is another one by now, or breaks a rule.
    pub fn replace(&mut self, key: &Key, object: Value, manner: Manner<'_>) -> Result<Arc<Value>, Refusal> {
        let kind = self.resource(&key.resource)?.clone();
        let live = self.live(key)?;
        if kind.is_custom() && text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Refusal::invalid(&kind.kind, &key.name, "metadata.resourceVersion: must be specified for an update"));
        }
        self.update(&kind, key, &live, object, manner)
    }

    /// Merges a patch in (RFC 7396); preconditions are written into it.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn merge(&mut self, key: &Key, patch: &Value, manner: Manner<'_>) -> Result<Arc<Value>, Refusal> {
        let kind = self.resource(&key.resource)?.clone();
        let live = self.live(key)?;
        let object = merged((*live).clone(), patch);
        self.update(&kind, key, &live, object, manner)
    }

    /// Changes in place: what controllers and kubelets do. Without preconditions: nobody comes between.
    ///
    /// # Errors
    /// It isn't there, or breaks a rule.
    pub fn change(&mut self, key: &Key, manner: Manner<'_>, change: impl FnOnce(&mut Value)) -> Result<Arc<Value>, Refusal> {
        let kind = self.resource(&key.resource)?.clone();
        let live = self.live(key)?;
        let mut object = (*live).clone();
        change(&mut object);
        self.update(&kind, key, &live, object, manner)
    }

    /// Server-side apply.
    ///
    /// # Errors
    /// Conflicts, failed preconditions, or a broken rule.
    pub fn apply(&mut self, key: &Key, mut object: Value, manner: Manner<'_>, force: bool) -> Result<Arc<Value>, Refusal> {
        let kind = self.resource(&key.resource)?.clone();
        let shape = kind.schema.as_ref();
        let named = self.key(&kind, &object)?;
        if named != *key {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({}) is not that of the request ({})",
                named.name, key.name
            )));
        }
        if object.pointer("/metadata/managedFields").is_some() {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        drop_nulls(&mut object);
        self.judge_unknown(&kind, &mut object.clone(), manner.unknown)?;
        self.restrict(&kind, &mut object, manner.part);
        let now = time(self.now_ms);
        let Some(live) = self.objects.get(key).cloned() else {
            return self.apply_new(&kind, key, object, manner);
        };
        hold(&kind, &key.name, &live, &object)?;
        let mut wanted = object.clone();
        if let Some(metadata) = wanted["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let mut after = apply::apply(&live, &wanted, Shape::of(shape), self.writer(&now, manner), force)?;
        self.admit(&kind, &mut after, Unknown::Dropped)?;
        self.keep_whole(&kind, &live, &mut after);
        Ok(self.put(key.clone(), after))
    }

    fn apply_new(&mut self, kind: &Resource, key: &Key, object: Value, manner: Manner<'_>) -> Result<Arc<Value>, Refusal> {
        if manner.part == Part::Status {
            return Err(Refusal::not_found(&key.resource, &key.name));
        }
        for precondition in ["uid", "resourceVersion"] {
            if object["metadata"].get(precondition).is_some() {
                let why = format!("{precondition} mismatch: the request names one, and no existing object was found");
                return Err(Refusal::conflict(&key.resource, &key.name, &why));
            }
        }
        let (now, shape) = (time(self.now_ms), kind.schema.as_ref());
        let mut after = apply::apply(&json!({}), &object, Shape::of(shape), self.writer(&now, manner), true)?;
        self.born(kind, &mut after);
        self.admit(kind, &mut after, Unknown::Dropped)?;
        if let Some(defined) = Resource::defined_by(&after).filter(|_| kind.kind == "CustomResourceDefinition") {
            self.resources.insert(defined.id(), defined);
        }
        Ok(self.put(key.clone(), after))
    }

    /// Deletes, or marks for it. `None`: it is gone.
    ///
    /// # Errors
    /// It isn't there, or a precondition failed.
    pub fn delete(&mut self, key: &Key, options: &DeleteOptions) -> Result<Option<Arc<Value>>, Refusal> {
        let kind = self.resource(&key.resource)?.clone();
        let live = self.live(key)?;
        let wanted = options.preconditions.clone().unwrap_or_default();
        for (name, wanted) in [("uid", wanted.uid), ("resourceVersion", wanted.resource_version)] {
            let found = text(&live["metadata"], &format!("/{name}"));
            if let Some(wanted) = wanted.filter(|wanted| wanted != found) {
                let why = format!("Precondition failed: {name} in precondition: {wanted}, in object: {found}");
                return Err(Refusal::conflict(&key.resource, &key.name, &why));
            }
        }
        let mut object = (*live).clone();
        let grace = grace(&kind, &live, options.grace_period_seconds);
        if let Some(held_by) = match options.propagation_policy.as_deref() {
            Some("Orphan") => Some(ORPHAN),
            Some("Foreground") => Some(FOREGROUND),
            _ => None,
        } && !deleting(&live)
        {
            let finalizers = map_in(&mut object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
            finalizers.as_array_mut().into_iter().for_each(|all| all.push(json!(held_by)));
        }
        let shorter = live.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).is_none_or(|now| grace < now);
        if !deleting(&live) {
            object["metadata"]["deletionTimestamp"] = json!(time(self.now_ms + grace * 1000));
            count_generation(&kind, &mut object);
        }
        if !deleting(&live) || shorter {
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        }
        let object = self.put(key.clone(), object);
        Ok(self.objects.contains_key(key).then_some(object))
    }

    fn update(
        &mut self,
        kind: &Resource,
        key: &Key,
        live: &Value,
        mut object: Value,
        manner: Manner<'_>,
    ) -> Result<Arc<Value>, Refusal> {
        hold(kind, &key.name, live, &object)?;
        let wanted = object.clone();
        if manner.part == Part::Status {
            object = live.clone();
            object["status"] = wanted.get("status").cloned().unwrap_or_default();
        }
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        drop_nulls(&mut object);
        self.keep_whole(kind, live, &mut object);
        if manner.part == Part::Main && kind.status {
            match live.get("status") {
                Some(status) => object["status"] = status.clone(),
                None => drop(object.as_object_mut().map(|fields| fields.remove("status"))),
            }
        }
        self.admit(kind, &mut object, manner.unknown)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        apply::record(live, &mut object, Shape::of(kind.schema.as_ref()), self.writer(&time(self.now_ms), manner));
        Ok(self.put(key.clone(), object))
    }

    fn live(&self, key: &Key) -> Result<Arc<Value>, Refusal> {
        self.objects.get(key).cloned().ok_or_else(|| Refusal::not_found(&key.resource, &key.name))
    }

    fn key(&self, kind: &Resource, object: &Value) -> Result<Key, Refusal> {
        let (name, namespace) = (text(object, "/metadata/name"), text(object, "/metadata/namespace"));
        if name.is_empty() {
            return Err(Refusal::invalid(&kind.kind, "", "metadata.name: Required value"));
        }
        if kind.namespaced == namespace.is_empty() {
            return Err(Refusal::bad_request(format!("{} {name:?}: a namespace is missing or one too many", kind.kind)));
        }
        let (api_version, found) = (kind.api_version(), text(object, "/apiVersion"));
        if (!found.is_empty() && found != api_version) || ![kind.kind.as_str(), ""].contains(&text(object, "/kind")) {
            return Err(Refusal::bad_request(format!("the object is no {api_version} {}", kind.kind)));
        }
        Ok(Key::new(kind.id(), namespace, name))
    }

    fn writer<'a>(&self, now: &'a str, manner: Manner<'a>) -> Writer<'a> {
        let subresource = if manner.part == Part::Status { "status" } else { "" };
        Writer { manager: manner.manager, subresource, now }
    }

    /// What a new object gets.
    fn born(&mut self, kind: &Resource, object: &mut Value) {
        self.made += 1;
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        let uid = format!("{:08x}-0000-4000-8000-{:012x}", 0x5eed, self.made);
        let now = time(self.now_ms);
        let metadata = map_in(object, "metadata");
        for name in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            metadata.remove(name);
        }
        metadata.insert("uid".into(), json!(uid));
        metadata.insert("creationTimestamp".into(), json!(now));
        if kind.generation {
            metadata.insert("generation".into(), json!(1));
        }
        if kind.status {
            object.as_object_mut().map(|fields| fields.remove("status"));
            if let Some(status) = defaults::first_status(&kind.kind) {
                object["status"] = status;
            }
        }
        if kind.kind == "PersistentVolumeClaim" {
            let finalizers = map_in(object, "metadata").entry("finalizers").or_insert_with(|| json!([]));
            finalizers.as_array_mut().into_iter().for_each(|all| all.push(json!("kubernetes.io/pvc-protection")));
        }
        drop_nulls(object);
    }

    fn admit(&self, kind: &Resource, object: &mut Value, unknown: Unknown) -> Result<(), Refusal> {
        if !kind.is_custom() {
            defaults::fill(&kind.kind, object);
        }
        self.judge_unknown(kind, object, unknown)
    }

    fn judge_unknown(&self, kind: &Resource, object: &mut Value, unknown: Unknown) -> Result<(), Refusal> {
        let name = text(object, "/metadata/name").to_owned();
        for fault in validate::admit(kind, object) {
            match fault {
                Fault::Invalid(why) => return Err(Refusal::invalid(&kind.kind, &name, &why)),
                Fault::Unknown(path) if unknown == Unknown::Strict => {
                    return Err(Refusal::bad_request(format!(
                        "strict decoding error: unknown field {:?}",
                        path.trim_start_matches('.')
                    )));
                }
                Fault::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Takes out of an applied object what the write isn't about.
    fn restrict(&self, kind: &Resource, object: &mut Value, part: Part) {
        let Some(fields) = object.as_object_mut().filter(|_| kind.status) else { return };
        match part {
            Part::Main => drop(fields.remove("status")),
            Part::Status => fields.retain(|name, _| ["apiVersion", "kind", "metadata", "status"].contains(&name.as_str())),
        }
    }

    /// Metadata that only the server writes, and the count of the spec's changes.
    fn keep_whole(&self, kind: &Resource, live: &Value, object: &mut Value) {
        let metadata = map_in(object, "metadata");
        for name in
            ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
        {
            match live["metadata"].get(name) {
                Some(value) => metadata.insert(name.into(), value.clone()),
                None => metadata.remove(name),
            };
        }
        let changed = |name: &String| !["metadata", "status"].contains(&name.as_str()) && object.get(name) != live.get(name);
        if object.as_object().is_some_and(|fields| fields.keys().any(changed)) {
            count_generation(kind, object);
        }
    }

    /// Keeps an object under a new version, unless it is as it was; removes it when nothing holds it any more.
    fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        let before = self.objects.get(&key).cloned();
        let unheld = list(&object, "/metadata/finalizers").is_empty();
        let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(0);
        let gone = deleting(&object) && unheld && grace == 0;
        if let Some(before) = before.as_ref().filter(|before| !gone && apply::same(before, &object)) {
            return before.clone();
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let change = match (gone, &before) {
            (true, _) => Change::Deleted,
            (false, None) => Change::Added,
            (false, Some(_)) => Change::Modified,
        };
        if gone {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), object.clone());
        }
        self.log.push_back(Event { version: self.version, change, key, object: object.clone(), before });
        while self.log.len() > LOG {
            self.forgotten = self.log.pop_front().map_or(self.forgotten, |event| event.version);
        }
        object
    }
}

/// Whether the versions and UIDs that a write names are those of the live object.
fn hold(kind: &Resource, name: &str, live: &Value, wanted: &Value) -> Result<(), Refusal> {
    let wanted_uid = text(wanted, "/metadata/uid");
    if !wanted_uid.is_empty() && wanted_uid != text(live, "/metadata/uid") {
        return Err(Refusal::conflict(&kind.id(), name, "Precondition failed: UID in precondition is another one's"));
    }
    let version = text(wanted, "/metadata/resourceVersion");
    if !version.is_empty() && version != text(live, "/metadata/resourceVersion") {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Refusal::conflict(&kind.id(), name, why));
    }
    Ok(())
}

fn count_generation(kind: &Resource, object: &mut Value) {
    if kind.generation {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_u64).unwrap_or(0);
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

/// Seconds of grace: pods have some once they are on a node.
fn grace(kind: &Resource, live: &Value, asked: Option<u64>) -> u64 {
    let ended = ["Succeeded", "Failed"].contains(&text(live, "/status/phase"));
    if kind.kind != "Pod" || text(live, "/spec/nodeName").is_empty() || ended {
        return 0;
    }
    asked.or_else(|| live.pointer("/spec/terminationGracePeriodSeconds")?.as_u64()).unwrap_or(30)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
