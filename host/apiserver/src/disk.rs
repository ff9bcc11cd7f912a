//! Objects on disk: each change as a line of a file, so that whoever owns a server can end, in whatever way, and go on later.
//!
//! # Guarantees
//! 1. A change is in the file before the answer to its write is out. (Nothing is synced: a crash of the machine is not covered.)
//! 2. A line that was cut off is the last one, belongs to a write that nobody got an answer to, and is left out.
//! 3. The file is its owner's alone: Secrets are in it.
//! 4. UIDs go on where they ended: none is given twice, not even a pod's.
//!
//! # Assumptions
//! One server has the file. What only a running machine has (pods, endpoints, Leases, events) isn't kept, nor are definitions,
//! which their programs bring along.
//!
//! # Flow
//! 1. [`read`]: of each object the last line counts.
//! 2. [`crate::ApiServer::restored`] begins with it.
//! 3. [`crate::ApiServer::keep`] writes the file anew, beside and renamed, and from then on adds to it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::Key;
use crate::store::{Change, Store};

/// What isn't kept.
const PASSING: [&str; 5] = [
    "pods",
    "leases.coordination.k8s.io",
    "events.events.k8s.io",
    "endpointslices.discovery.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];
/// Bytes added to a file before it is written anew: some thousand changes, read in well under a second.
const ADDED_MAX: u64 = 16 << 20;

/// A line: what an object is after a change, `None` if it is gone, and how far the store's counts were. Without a key it is about
/// these counts alone.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    key: Option<Key>,
    object: Option<T>,
    version: u64,
    made: u64,
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    /// The objects.
    pub objects: BTreeMap<Key, Arc<Value>>,
    /// Newest version.
    pub version: u64,
    /// Objects ever made, from which UIDs are counted.
    pub made: u64,
}

/// Reads a file; one that isn't there holds nothing.
///
/// # Errors
/// It can't be read, or a line before the last is none.
pub fn read(path: &Path) -> io::Result<Saved> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Saved::default()),
        opened => opened?,
    };
    let (mut saved, mut broken) = (Saved::default(), None);
    for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
        if let Some((number, error)) = broken {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {error}")));
        }
        match serde_json::from_slice(&line?) {
            Ok(line) => saved.take(line),
            Err(error) => broken = Some((number + 1, error)),
        }
    }
    Ok(saved)
}

impl Saved {
    fn take(&mut self, line: Line<Value>) {
        (self.version, self.made) = (self.version.max(line.version), self.made.max(line.made));
        match (line.key, line.object) {
            (Some(key), Some(object)) => drop(self.objects.insert(key, Arc::new(object))),
            (Some(key), None) => drop(self.objects.remove(&key)),
            (None, _) => {}
        }
    }
}

/// A file that follows a store.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    file: File,
    /// Version of the newest change that is in it.
    version: u64,
    made: u64,
    added: u64,
    /// The last write failed: half a line may be in the file.
    broken: bool,
}

impl Disk {
    /// Begins it with what the store holds.
    pub(crate) fn begin(path: &Path, store: &Store) -> io::Result<Self> {
        let beside = path.with_extension("new");
        let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
        let mut writer = BufWriter::new(file);
        for (key, object) in store.all().filter(|(key, _)| is_kept(key)) {
            line(&mut writer, store, Some(key), Some(object.clone()))?;
        }
        line(&mut writer, store, None, None)?;
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&beside, path)?;
        let (version, made) = (store.version(), store.made());
        Ok(Self { path: path.into(), file, version, made, added: 0, broken: false })
    }

    /// Adds what has changed since.
    pub(crate) fn follow(&mut self, store: &Store) -> io::Result<()> {
        let text = match store.events_after(self.version) {
            Ok(events) if !self.broken && self.added < ADDED_MAX => {
                let mut text = Vec::new();
                for event in events.filter(|event| is_kept(&event.key)) {
                    let object = (event.change != Change::Deleted).then(|| event.object.clone());
                    line(&mut text, store, Some(&event.key), object)?;
                }
                if text.is_empty() && self.made != store.made() {
                    line(&mut text, store, None, None)?;
                }
                text
            }
            // Also where one write changed more than the store remembers.
            _ => {
                *self = Self::begin(&self.path, store)?;
                return Ok(());
            }
        };
        self.broken = true;
        self.file.write_all(&text)?;
        self.broken = false;
        (self.version, self.made) = (store.version(), store.made());
        self.added += u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

fn line(to: &mut impl Write, store: &Store, key: Option<&Key>, object: Option<Arc<Value>>) -> io::Result<()> {
    let line = Line { key: key.cloned(), object: object.as_deref(), version: store.version(), made: store.made() };
    serde_json::to_writer(&mut *to, &line)?;
    to.write_all(b"\n")
}

fn is_kept(key: &Key) -> bool {
    !PASSING.contains(&key.resource.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ApiServer;
    use crate::store::{DeleteOptions, Manner};
    use serde_json::json;

    const BY: Manner<'static> = Manner::by("t");

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("vko-disk-{}-{name}", std::process::id()))
    }

    fn config_map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"a": value}})
    }

    fn pod() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}})
    }

    fn uid(object: &Value) -> String {
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_was_answered_is_there_again_and_no_uid_is_given_twice() {
        let (path, key) = (file("again"), |name: &str| Key::new("configmaps", "n", name));
        let api = ApiServer::new();
        let early = api.write(|store| store.create("configmaps", config_map("early", "1"), BY)).unwrap();
        api.keep(&path).unwrap();
        api.write(|store| store.create("configmaps", config_map("late", "1"), BY)).unwrap();
        api.write(|store| store.merge(&key("late"), &json!({"data": {"a": "2"}}), BY)).unwrap();
        api.write(|store| store.create("configmaps", config_map("gone", "1"), BY)).unwrap();
        api.write(|store| store.delete(&key("gone"), &DeleteOptions::default())).unwrap();
        let pod = api.write(|store| store.create("pods", pod(), BY)).unwrap();
        drop(api);
        let restored = ApiServer::restored(read(&path).unwrap());
        let names = restored.read(|store| store.all().map(|(key, _)| key.name.clone()).collect::<Vec<_>>());
        assert_eq!(names, ["early", "late"]);
        assert_eq!(restored.read(|store| store.get(&key("late")).unwrap()["data"]["a"].clone()), "2");
        let new = restored.write(|store| store.create("configmaps", config_map("new", "1"), BY)).unwrap();
        assert!(![uid(&early), uid(&pod)].contains(&uid(&new)), "a pod that isn't kept had one, too");
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        assert!(version(&new) > version(&early));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn half_a_line_at_the_end_is_left_out_and_one_in_the_middle_is_an_error() {
        let path = file("half");
        let api = ApiServer::new();
        api.keep(&path).unwrap();
        api.write(|store| store.create("configmaps", config_map("a", "1"), BY)).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let last = whole.lines().last().unwrap();
        let half = &last[..last.len() / 2];
        for (text, expected) in [
            (whole.clone(), Ok(1)),
            (format!("{whole}{half}"), Ok(1)),
            (format!("{half}\n{whole}"), Err("line 1")),
            (String::new(), Ok(0)),
        ] {
            fs::write(&path, &text).unwrap();
            let found = read(&path).map(|saved| saved.objects.len()).map_err(|error| error.to_string());
            match expected {
                Ok(count) => assert_eq!(found, Ok(count), "{text}"),
                Err(told) => assert!(found.as_ref().is_err_and(|error| error.contains(told)), "{found:?}"),
            }
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Saved::default(), "no file, nothing");
    }

    #[test]
    fn the_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let path = file("mode");
        ApiServer::new().keep(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }
}
