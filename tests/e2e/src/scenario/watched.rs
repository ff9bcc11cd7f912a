//! What is in a namespace, kept up to date by watches, so that a script waits for what happens and not for a look at it.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Deserializer, Value};
use vko_script::outcome::Event;
use vko_script::{SENTINELS, VALKEYS, View};

use crate::{Result, kubectl};

const EVENTS: &str = "events.events.k8s.io";
/// What scripts look at.
const WATCHED: [&str; 4] = ["pods", VALKEYS, SENTINELS, EVENTS];

/// Objects of a namespace, as they were last seen.
#[derive(Debug, Default)]
pub struct Objects {
    objects: BTreeMap<(String, String), Value>,
    /// Events for people that were written.
    pub events: Vec<Event>,
    /// What a watch said when it ended.
    ended: Option<String>,
}

impl View for Objects {
    fn get(&self, resource: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(resource.to_owned(), name.to_owned()))
    }

    fn all(&self, resource: &'static str) -> Vec<&Value> {
        self.objects.iter().filter(|((known, _), _)| known == resource).map(|(_, object)| object).collect()
    }
}

impl Objects {
    /// Those of some kinds, as they are now.
    ///
    /// # Errors
    /// They can't be listed.
    pub fn listed(namespace: &str, resources: impl Iterator<Item = &'static str>) -> Result<Self> {
        let mut all = Self::default();
        for resource in resources {
            kubectl::list(namespace, resource, "")?.into_iter().for_each(|object| all.take(resource, "ADDED", object));
        }
        Ok(all)
    }

    fn take(&mut self, resource: &str, change: &str, object: Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if resource == EVENTS {
            if change != "DELETED" {
                self.events.push((text("/reason"), text("/note")));
            }
            return;
        }
        let key = (resource.to_owned(), text("/metadata/name"));
        match change {
            "DELETED" => drop(self.objects.remove(&key)),
            _ => drop(self.objects.insert(key, object)),
        }
    }
}

type Shared = Arc<(Mutex<Objects>, Condvar)>;

/// A namespace that is watched, until this is dropped.
#[derive(Debug)]
pub struct Watched {
    objects: Shared,
    watches: Vec<Child>,
}

impl Watched {
    /// Begins.
    ///
    /// # Errors
    /// kubectl can't be run.
    pub fn begin(namespace: &str) -> Result<Self> {
        let mut watched = Self { objects: Shared::default(), watches: Vec::new() };
        for resource in WATCHED {
            let all = kubectl::Watched { namespace, kind: resource, fields: "", labels: "" };
            let (child, output, errors) = kubectl::watch(all, None)?;
            watched.watches.push(child);
            let objects = watched.objects.clone();
            std::thread::spawn(move || follow(&objects, resource, output, errors));
        }
        Ok(watched)
    }

    /// Looks at what was last seen.
    pub fn read<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&lock(&self.objects.0))
    }

    /// Waits until the objects look as expected, looking again at each change.
    ///
    /// # Errors
    /// They don't within that time, or a watch ended.
    pub fn until<T>(&self, what: &str, within: Duration, look: impl Fn(&Objects) -> Option<T>) -> Result<T> {
        let end = Instant::now() + within;
        let mut objects = lock(&self.objects.0);
        loop {
            if let Some(found) = look(&objects) {
                return Ok(found);
            }
            if let Some(why) = &objects.ended {
                bail!("waiting for {what}: {why}");
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("never seen within {within:?}: {what}");
            }
            objects = self.objects.1.wait_timeout(objects, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for watch in &mut self.watches {
            // Ours alone: they were started above.
            let _ = watch.kill();
            let _ = watch.wait();
        }
    }
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

fn follow(shared: &Shared, resource: &str, output: ChildStdout, mut errors: ChildStderr) {
    for event in Deserializer::from_reader(BufReader::new(output)).into_iter::<Value>() {
        let Ok(mut event) = event else { break };
        let (change, object) = (event["type"].as_str().unwrap_or_default().to_owned(), event["object"].take());
        lock(&shared.0).take(resource, &change, object);
        shared.1.notify_all();
    }
    let mut said = String::new();
    let _ = errors.read_to_string(&mut said);
    lock(&shared.0).ended = Some(format!("the watch of {resource} ended: {}", said.trim()));
    shared.1.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_comes_stays_until_it_goes() {
        let mut objects = Objects::default();
        let pod = |uid: &str| json!({"metadata": {"name": "a", "uid": uid}});
        for (change, uid, expected) in [("ADDED", "1", Some("1")), ("MODIFIED", "2", Some("2")), ("DELETED", "2", None)] {
            objects.take("pods", change, pod(uid));
            assert_eq!(objects.get("pods", "a").and_then(|pod| pod["metadata"]["uid"].as_str()), expected, "{change}");
        }
        objects.take(EVENTS, "ADDED", json!({"reason": "R", "note": "n"}));
        assert_eq!((objects.all("pods").len(), objects.events), (0, vec![("R".to_owned(), "n".to_owned())]));
    }
}
