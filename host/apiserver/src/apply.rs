//! Server-side apply, and the ownership of fields in every other write.
//!
//! # Flow of an apply
//! 1. Fields of the applied object that another manager owns with another value are conflicts; by force they change hands.
//! 2. The applied object is merged into the live one: maps by key, lists as their kind says.
//! 3. What this manager applied before and doesn't any more goes, unless somebody else owns it.

use serde_json::{Map, Value, json};

use crate::fields::{Fields, Merge, Shape, element_key, find, remove};
use crate::json::{list, text};
use crate::refusal::Refusal;

/// Who writes, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// For the record of ownership.
    pub now: &'a str,
}

/// An entry of managedFields.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    head: Map<String, Value>,
    fields: Fields,
}

impl Entry {
    fn new(writer: Writer<'_>, operation: &str, object: &Value, fields: Fields) -> Self {
        let mut head = Map::new();
        head.insert("manager".into(), json!(writer.manager));
        head.insert("operation".into(), json!(operation));
        head.insert("apiVersion".into(), object["apiVersion"].clone());
        head.insert("fieldsType".into(), json!("FieldsV1"));
        head.insert("time".into(), json!(writer.now));
        if !writer.subresource.is_empty() {
            head.insert("subresource".into(), json!(writer.subresource));
        }
        Self { head, fields }
    }

    fn is(&self, writer: Writer<'_>, operation: &str) -> bool {
        let head = |name: &str| self.head.get(name).and_then(Value::as_str).unwrap_or_default();
        head("manager") == writer.manager && head("operation") == operation && head("subresource") == writer.subresource
    }

    fn manager(&self) -> &str {
        self.head.get("manager").and_then(Value::as_str).unwrap_or_default()
    }
}

fn read(object: &Value) -> Vec<Entry> {
    let entry = |entry: &Value| {
        let mut head = entry.as_object().cloned().unwrap_or_default();
        let fields = head.remove("fieldsV1").map(|tree| Fields::read(&tree)).unwrap_or_default();
        Entry { head, fields }
    };
    list(object, "/metadata/managedFields").iter().map(entry).collect()
}

fn write(object: &mut Value, entries: Vec<Entry>) {
    let entry = |mut entry: Entry| {
        entry.head.insert("fieldsV1".into(), entry.fields.write());
        Value::Object(entry.head)
    };
    let entries: Vec<Value> = entries.into_iter().filter(|entry| !entry.fields.is_empty()).map(entry).collect();
    object["metadata"]["managedFields"] = Value::Array(entries);
}

/// Records who owns what after a write that is no apply: the writer owns what it changed.
pub fn record(before: &Value, after: &mut Value, shape: Shape<'_>, writer: Writer<'_>) {
    let changed = Fields::changed(after, before, shape);
    let removed = Fields::of(before, shape).without(&Fields::of(after, shape));
    let mut entries = read(before);
    if changed.is_empty() && removed.is_empty() {
        write(after, entries);
        return;
    }
    let lost = changed.clone().union(&removed);
    let mut ours = None;
    for entry in &mut entries {
        if entry.is(writer, "Update") {
            let fields = std::mem::take(&mut entry.fields).union(&changed).without(&removed);
            ours = Some(Entry::new(writer, "Update", after, fields));
        } else {
            entry.fields = std::mem::take(&mut entry.fields).without(&lost);
        }
    }
    entries.retain(|entry| !entry.is(writer, "Update"));
    entries.push(ours.unwrap_or_else(|| Entry::new(writer, "Update", after, changed)));
    write(after, entries);
}

/// What the live object (an empty map if there is none) becomes by an apply.
///
/// # Errors
/// Fields that others own with other values, unless `force`.
pub fn apply(live: &Value, applied: &Value, shape: Shape<'_>, writer: Writer<'_>, force: bool) -> Result<Value, Refusal> {
    let wanted = Fields::of(applied, shape);
    let mut entries = read(live);
    let differing = Fields::changed(applied, live, shape);
    let mut conflicts = Vec::new();
    for entry in entries.iter_mut().filter(|entry| !entry.is(writer, "Apply")) {
        let contested = entry.fields.intersection(&differing);
        if !contested.is_empty() {
            conflicts.push(format!("conflict with {:?}: {}", entry.manager(), contested.write()));
            entry.fields = std::mem::take(&mut entry.fields).without(&contested);
        }
    }
    if !force && !conflicts.is_empty() {
        let count = conflicts.len();
        let message = format!("Apply failed with {count} conflict(s): {}", conflicts.join("; "));
        return Err(Refusal { code: 409, reason: "Conflict", message });
    }
    let mut after = merge(live, applied, shape, "");
    let before = entries.iter().find(|entry| entry.is(writer, "Apply")).map(|entry| entry.fields.clone()).unwrap_or_default();
    let others = entries.iter().filter(|entry| !entry.is(writer, "Apply"));
    let kept = others.fold(wanted.clone(), |kept, entry| kept.union(&entry.fields));
    let (fields, elements): (Vec<_>, Vec<_>) = before.without(&kept).paths().into_iter().partition(|path| is_field(path));
    // An element that others own something of stays, with what tells it apart.
    let gone = elements.into_iter().filter(|path| !holds_any(&kept, path));
    for path in gone.chain(fields.into_iter().filter(|path| !is_key(path))) {
        remove(&mut after, shape, "", &path);
    }
    let at = entries.iter().position(|entry| entry.is(writer, "Apply"));
    let entry = Entry::new(writer, "Apply", applied, wanted);
    match at {
        Some(at) => entries[at] = entry,
        None => entries.push(entry),
    }
    write(&mut after, entries);
    Ok(after)
}

fn is_field(path: &[String]) -> bool {
    path.last().is_some_and(|key| key.starts_with("f:"))
}

/// Whether the field is one of those by which its element is known.
fn is_key(path: &[String]) -> bool {
    let [.., element, field] = path else { return false };
    let keys = element.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
    keys.is_some_and(|keys| field.strip_prefix("f:").is_some_and(|field| keys.get(field).is_some()))
}

fn holds_any(fields: &Fields, path: &[String]) -> bool {
    fields.paths().iter().any(|held| held.len() > path.len() && held.starts_with(path))
}

fn merge(live: &Value, applied: &Value, shape: Shape<'_>, name: &str) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !shape.is_whole_map(name) => {
            let mut after = live.clone();
            for (field, value) in applied {
                let below = live.get(field).unwrap_or(&Value::Null);
                after.insert(field.clone(), merge(below, value, shape.below(field), field));
            }
            Value::Object(after)
        }
        (Value::Array(live), Value::Array(applied)) if shape.merge(name, applied) != Merge::Atomic => {
            let merging = shape.merge(name, applied);
            let mut after = live.clone();
            for item in applied {
                let key = element_key(&merging, item);
                match after.iter_mut().find(|found| element_key(&merging, found) == key) {
                    Some(found) => *found = merge(found, item, shape.element(), ""),
                    None => after.push(item.clone()),
                }
            }
            Value::Array(after)
        }
        _ => applied.clone(),
    }
}

/// Whether two objects are the same but for the times and versions that the server writes.
pub fn same(one: &Value, other: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
                entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| drop(entry.remove("time")));
            }
        }
        object
    };
    bare(one) == bare(other)
}

/// Whether somebody owns the field that a path of `f:` names leads to; for tests and oracles.
pub fn owner<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    let path: Vec<String> = path.iter().map(|name| format!("f:{name}")).collect();
    let owns = |entry: &&Value| {
        let fields = Fields::read(&entry["fieldsV1"]);
        fields.paths().contains(&path) && find(object, Shape::BuiltIn, &path).is_some()
    };
    list(object, "/metadata/managedFields").iter().find(owns).map(|entry| text(entry, "/manager"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(manager: &str) -> Writer<'_> {
        Writer { manager, subresource: "", now: "t" }
    }

    fn map(labels: Value, data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": labels}, "data": data})
    }

    fn applied(live: &Value, object: &Value, manager: &str) -> Value {
        apply(live, object, Shape::BuiltIn, by(manager), true).unwrap()
    }

    fn edited(live: &Value, manager: &str, edit: impl FnOnce(&mut Value)) -> Value {
        let mut after = live.clone();
        edit(&mut after);
        record(live, &mut after, Shape::BuiltIn, by(manager));
        after
    }

    #[test]
    fn what_is_not_applied_any_more_goes_unless_others_own_it() {
        let first = applied(&json!({}), &map(json!({"x": "1", "y": "2"}), json!({"k": "1", "l": "2"})), "us");
        let shared = applied(&first, &map(json!({"y": "2"}), json!({"m": "3"})), "them");
        let second = applied(&shared, &map(json!({}), json!({"k": "1"})), "us");
        assert_eq!(second["metadata"]["labels"], json!({"y": "2"}), "x was ours alone");
        assert_eq!(second["data"], json!({"k": "1", "m": "3"}));
    }

    #[test]
    fn another_value_is_a_conflict_and_by_force_changes_hands() {
        let first = applied(&json!({}), &map(json!({}), json!({"k": "1"})), "us");
        let theirs = edited(&first, "them", |object| object["data"]["k"] = json!("2"));
        assert_eq!(owner(&theirs, &["data", "k"]), Some("them"), "a changed field is whose change it was");
        let wanted = map(json!({}), json!({"k": "1"}));
        let refused = apply(&theirs, &wanted, Shape::BuiltIn, by("us"), false).unwrap_err();
        assert_eq!((refused.code, refused.reason), (409, "Conflict"));
        assert!(refused.message.contains("them") && refused.message.contains("f:k"), "{refused}");
        let forced = applied(&theirs, &wanted, "us");
        assert_eq!((forced["data"]["k"].as_str(), owner(&forced, &["data", "k"])), (Some("1"), Some("us")));
    }

    #[test]
    fn the_same_value_is_owned_by_both() {
        let first = applied(&json!({}), &map(json!({}), json!({"k": "1"})), "us");
        let both = apply(&first, &map(json!({}), json!({"k": "1"})), Shape::BuiltIn, by("them"), false).unwrap();
        let left = applied(&both, &map(json!({}), json!({"l": "1"})), "us");
        assert_eq!(left["data"], json!({"k": "1", "l": "1"}), "they still want it");
    }

    #[test]
    fn applying_the_same_again_changes_nothing() {
        let wanted = map(json!({"x": "1"}), json!({"k": "1"}));
        let first = applied(&json!({}), &wanted, "us");
        let later = Writer { now: "later", ..by("us") };
        assert!(same(&first, &apply(&first, &wanted, Shape::BuiltIn, later, true).unwrap()));
    }

    #[test]
    fn lists_merge_by_their_keys() {
        let pod = |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}});
        let first =
            applied(&json!({}), &pod(json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}])), "us");
        let theirs = edited(&first, "them", |pod| pod["spec"]["containers"][1]["tty"] = json!(true));
        let second = applied(&theirs, &pod(json!([{"name": "a", "image": "2"}])), "us");
        let expected = json!([{"name": "a", "image": "2"}, {"name": "b", "tty": true}]);
        assert_eq!(second["spec"]["containers"], expected, "of b stays what they own: {second}");
    }

    #[test]
    fn a_field_that_is_removed_is_nobodys() {
        let first = applied(&json!({}), &map(json!({"x": "1"}), json!({"k": "1"})), "us");
        let gone = edited(&first, "them", |object| object["data"] = json!({}));
        assert_eq!(owner(&gone, &["data", "k"]), None);
        assert_eq!(owner(&gone, &["metadata", "labels", "x"]), Some("us"));
    }
}
