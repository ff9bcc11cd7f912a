//! What the owner owns: the API server with its objects, pods as processes, addresses of Services, files for people.
//!
//! # Guarantees
//! 1. Manifests are applied all or none: faults are told before anything is written.
//! 2. Files with passwords are the owner's alone, and follow the Secrets: they go with their instances.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use vko_api::names::{account, account_secret};
use vko_api::rules::NEWEST;
use vko_apiserver::{Key, Store};
use vko_mock::bed::BedError;
use vko_mock::{Bed, Images, Services, Signal, address};

use crate::delete::{Doomed, Target};
use crate::folder::{Folder, private};
use crate::view::{self, VALKEYS, View};
use crate::{delete, manifest, servers};

/// Signals that can be asked for.
const SIGNALS: [(&str, Signal); 5] =
    [("KILL", Signal::KILL), ("TERM", Signal::TERM), ("STOP", Signal::STOP), ("CONT", Signal::CONT), ("INT", Signal::INT)];

/// A world that runs.
pub(crate) struct World {
    pub(crate) bed: Bed,
    pub(crate) services: Arc<Services>,
    pub(crate) folder: Folder,
    images: Images,
    forwarding: JoinHandle<()>,
    /// Version of the Secret that each password file was written from.
    passwords: Mutex<BTreeMap<PathBuf, String>>,
}

impl World {
    /// Opens it: what was in the folder before runs again.
    ///
    /// # Errors
    /// The folder can't be used, or ports of servers can't.
    pub(crate) async fn open(folder: Folder, images: Images) -> anyhow::Result<Self> {
        ports_are_free().await?;
        let bed = Bed::open(images.clone(), folder.state())?;
        let services = Services::new(bed.api.clone());
        let forwarding = tokio::spawn(services.clone().run());
        Ok(Self { bed, services, folder, images, forwarding, passwords: Mutex::default() })
    }

    /// Applies manifests: files' names and texts. Returns what became of each document.
    ///
    /// # Errors
    /// All that is wrong, a line each.
    pub(crate) fn apply(&self, files: &[(String, String)]) -> Result<Vec<String>, Vec<String>> {
        let mut documents = Vec::new();
        for (file, text) in files {
            let read = self.bed.api.read(|store| manifest::read(file, text, store));
            documents.extend(read.map_err(|error| vec![error])?);
        }
        let faults = self.bed.api.read(|store| manifest::faults(&documents, store, &self.images));
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut done = Vec::new();
        for document in documents {
            let (place, name) = (document.place.clone(), document.name());
            self.make_namespace(view::text(&document.object, "/metadata/namespace"));
            let before = self.bed.api.read(|store| store.version());
            self.bed.apply(document.object).map_err(|error| vec![format!("{place}: {name}: {error}")])?;
            let changed = self.bed.api.read(|store| store.version()) != before;
            done.push(format!("{name}: {}", if changed { "applied" } else { "unchanged" }));
        }
        Ok(done)
    }

    /// Deletes what was applied, and returns when it has gone: what became of each.
    ///
    /// # Errors
    /// It can't be deleted, none of it is there, or something is left of it when the time is up.
    pub(crate) async fn delete(&self, what: &Doomed, within: Duration) -> Result<Vec<String>, Vec<String>> {
        let (found, absent) = self.bed.api.read(|store| delete::targets(what, store))?;
        let mut done: Vec<String> = absent.iter().map(|title| format!("{title}: there is none")).collect();
        if found.is_empty() {
            return Err(done);
        }
        for Target { key, title, .. } in &found {
            match self.bed.delete(key) {
                // One of them may go with another.
                Err(BedError::Refused(refusal)) if refusal.code == 404 => {}
                deleted => deleted.map_err(|error| vec![format!("{title}: {error}")])?,
            }
        }
        let left = |store: &Store| found.iter().flat_map(|target| delete::left(store, target)).collect::<Vec<_>>();
        let gone = self.bed.until("that it is gone", within, |store| left(store).is_empty().then_some(())).await;
        if gone.is_err() {
            let (left, within_s) = (self.bed.api.read(left).join(", "), within.as_secs());
            return Err(vec![format!(
                "not gone after {within_s} s, and going on: {left}; 'valkey-operator local status' shows it"
            )]);
        }
        done.extend(found.iter().map(|target| match self.bed.api.read(|store| delete::retained(store, target)) {
            claims if claims.is_empty() => format!("{}: deleted", target.title),
            claims => format!(
                "{}: deleted; its data stays, for an instance of that name (claims {}; spec.storage.retainAfterDeleted: false says \
                 otherwise)",
                target.title,
                claims.join(", ")
            ),
        }));
        Ok(done)
    }

    /// Whoever names a namespace means it.
    fn make_namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        // The object that is to be in it is refused as well, and says why.
        let _ = self.bed.apply(object);
    }

    /// Sends a signal to a pod's server.
    ///
    /// # Errors
    /// No such signal, pod or process.
    pub(crate) fn kill(&self, pod: &str, signal: &str) -> Result<String, String> {
        let wanted = signal.trim_start_matches("SIG").to_uppercase();
        let Some((_, sent)) = SIGNALS.into_iter().find(|(name, _)| *name == wanted) else {
            return Err(format!("{signal:?} is no signal: {}", SIGNALS.map(|(name, _)| name).join(", ")));
        };
        let keys = self.bed.api.read(|store| {
            let named = |key: &Key| key.name == pod || format!("{}/{}", key.namespace, key.name) == pod;
            store.list("pods", None).map(|(key, _)| key.clone()).filter(named).collect::<Vec<_>>()
        });
        match &keys[..] {
            [] => Err(format!("there is no pod {pod:?}; 'valkey-operator local status' shows them")),
            [key] => {
                let process = self.bed.running_at(key).and_then(|running| running.process).unwrap_or_default();
                self.bed.signal_at(key, sent).map_err(|error| error.to_string())?;
                Ok(format!("{}: {wanted} sent to process {process}", key.name))
            }
            several => {
                let names: Vec<String> = several.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
                Err(format!("{pod} is the name of several: {}", names.join(", ")))
            }
        }
    }

    /// The client of a line; of the newest where nothing is said.
    pub(crate) fn client(&self, version: &str) -> PathBuf {
        servers::client(&self.images, if version.is_empty() { NEWEST } else { version })
    }

    /// How things stand, with the files that it names.
    pub(crate) fn view(&self) -> View {
        if let Err(error) = self.write_passwords() {
            tracing::warn!(%error, "a password's file can't be written");
        }
        view::of(self)
    }

    fn write_passwords(&self) -> io::Result<()> {
        let secrets: Vec<(PathBuf, Arc<Value>)> = self.bed.api.read(|store| {
            let secret = |(key, valkey): (&Key, &Arc<Value>)| {
                let name = account_secret(view::owner(view::text(valkey, "/spec/arch")), &key.name, account::DEFAULT);
                let secret = store.get(&Key::new("secrets", &*key.namespace, name))?;
                Some((self.folder.password(&key.namespace, &key.name), secret.clone()))
            };
            store.list(VALKEYS, None).filter_map(secret).collect()
        });
        let mut written = self.passwords.lock().unwrap_or_else(PoisonError::into_inner);
        for file in self.folder.passwords()? {
            if !secrets.iter().any(|(path, _)| *path == file) {
                std::fs::remove_file(&file)?;
                written.remove(&file);
            }
        }
        for (path, secret) in secrets {
            let version = view::text(&secret, "/metadata/resourceVersion");
            if written.get(&path).is_some_and(|known| known == version) {
                continue;
            }
            let Ok(ByteString(password)) = serde_json::from_value(secret["data"]["password"].clone()) else { continue };
            write_private(&path, &password)?;
            written.insert(path, version.to_owned());
        }
        Ok(())
    }

    /// Ends all servers, each in its grace, and what leads to them.
    ///
    /// # Errors
    /// One didn't end in time; it is killed.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let drained = self.bed.drain().await;
        self.forwarding.abort();
        self.bed.close().await;
        Ok(drained?)
    }
}

/// Another server that listens on every address has the ports of all pods.
async fn ports_are_free() -> anyhow::Result<()> {
    let ip = address::next();
    for port in [vko_api::names::PORT, vko_api::names::SENTINEL_PORT] {
        match tokio::net::TcpListener::bind((ip, port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
                "another program listens on port {port} of every address of this machine; let it listen on 127.0.0.1 only, or stop it"
            ),
            Err(error) => bail!("no server can listen on {ip}:{port}: {error}"),
            Ok(_) => {}
        }
    }
    Ok(())
}

fn write_private(path: &std::path::Path, content: &[u8]) -> io::Result<()> {
    private(path, true)?.write_all(content)
}
