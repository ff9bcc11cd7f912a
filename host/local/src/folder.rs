//! The state folder of a world, and who owns it.
//!
//! # Guarantees
//! 1. It is its owner's alone (0700), and what is written into it, too.
//! 2. One process holds it at a time. The kernel takes the hold away when that process ends, however it does.
//! 3. Nothing is deleted from a folder that isn't a state folder, and none is made of one that holds other things.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::args::Place;

/// Makes a folder a state folder; says who has it.
const OWNER: &str = "owner";

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("neither XDG_STATE_HOME nor HOME is set: name a folder by --dir")]
    NoHome,
    #[error("{0:?} is no name: use letters, digits and '-'")]
    NameInvalid(String),
    #[error("{} holds other things and is no state folder: name another one by --dir", .0.display())]
    NotOurs(PathBuf),
    #[error("{} is held by {owner}; 'valkey-operator local status' shows it, 'local down' ends it", .path.display())]
    Held { path: PathBuf, owner: String },
    #[error("nothing is up in {}; 'valkey-operator local up -f FILE' starts it", .0.display())]
    NobodyThere(PathBuf),
    #[error("{}: {error}", .path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

/// A state folder, whether it is there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Where a world is.
    pub(crate) fn at(place: &Place) -> Result<Self, FolderError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = match &place.dir {
            Some(dir) => std::path::absolute(dir).map_err(|error| unusable(dir, error))?,
            None => by_name(&place.name, variable("XDG_STATE_HOME"), variable("HOME"))?,
        };
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket on which the owner listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("control")
    }

    /// Passwords of default accounts, a file for each instance.
    pub(crate) fn password(&self, namespace: &str, instance: &str) -> PathBuf {
        self.path.join("passwords").join(format!("{namespace}.{instance}"))
    }

    /// Those that there are.
    pub(crate) fn passwords(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(self.path.join("passwords"))?.map(|entry| Ok(entry?.path())).collect()
    }

    /// Objects and data.
    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Takes hold of it, and makes it where it isn't there.
    ///
    /// # Errors
    /// Another process has it, or it is no state folder and isn't empty.
    pub(crate) fn hold(&self) -> Result<Held, FolderError> {
        let failed = |error| unusable(&self.path, error);
        let owner = self.path.join(OWNER);
        let is_new = match fs::read_dir(&self.path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        if !is_new && !owner.is_file() {
            return Err(FolderError::NotOurs(self.path.clone()));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(failed)?;
        fs::set_permissions(&self.path, Permissions::from_mode(0o700)).map_err(failed)?;
        let mut file = private(&owner, false).map_err(|error| unusable(&owner, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // What can't be read can't be told; that it is held is what matters.
                let _ = file.read_to_string(&mut text);
                return Err(FolderError::Held { path: self.path.clone(), owner: text.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(&owner, error)),
        }
        for folder in [self.state(), self.path.join("passwords")] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| unusable(&folder, error))?;
        }
        // One that was killed couldn't.
        self.clear();
        let now = now_for_people();
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "process {}, up since {now}", std::process::id()).map_err(failed)?;
        Ok(Held { folder: self.clone(), _lock: file })
    }

    /// Takes away what means that something is up.
    fn clear(&self) {
        // It may never have been there.
        let _ = fs::remove_file(self.socket());
    }
}

/// A held folder. Dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) folder: Folder,
    _lock: File,
}

impl Held {
    /// Deletes it with all that is in it.
    pub(crate) fn delete(self) -> Result<(), FolderError> {
        fs::remove_dir_all(&self.folder.path).map_err(|error| unusable(&self.folder.path, error))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.folder.clear();
    }
}

fn by_name(name: &str, state: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, FolderError> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(FolderError::NameInvalid(name.to_owned()));
    }
    let state = state.filter(|state| state.is_absolute()).or_else(|| Some(home?.join(".local/state")));
    Ok(state.ok_or(FolderError::NoHome)?.join("valkey-operator/local").join(name))
}

fn unusable(path: &Path, error: io::Error) -> FolderError {
    FolderError::Unusable { path: path.into(), error }
}

/// Opens a file that is its owner's alone, for writing.
pub(crate) fn private(path: &Path, truncate: bool) -> io::Result<File> {
    let file = OpenOptions::new().create(true).read(true).write(true).truncate(truncate).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// The time, for people.
fn now_for_people() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    k8s_openapi::jiff::Timestamp::from_second(i64::try_from(now.as_secs()).unwrap_or(0)).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Folder {
        Folder { path: std::env::temp_dir().join(format!("vko-folder-{}-{name}", std::process::id())) }
    }

    #[test]
    fn where_it_is_by_table() {
        let path = |text: &str| Some(PathBuf::from(text));
        for (name, state, home, expected) in [
            ("a", path("/s"), path("/h"), Ok("/s/valkey-operator/local/a")),
            ("a", None, path("/h"), Ok("/h/.local/state/valkey-operator/local/a")),
            ("a", path("relative"), path("/h"), Ok("/h/.local/state/valkey-operator/local/a")),
            ("a", None, None, Err("--dir")),
            ("../a", path("/s"), None, Err("no name")),
            ("", path("/s"), None, Err("no name")),
        ] {
            let found = by_name(name, state, home).map_err(|error| error.to_string());
            match expected {
                Ok(expected) => assert_eq!(found, Ok(PathBuf::from(expected))),
                Err(told) => assert!(found.as_ref().is_err_and(|error| error.contains(told)), "{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_second_is_told_who_holds_it_and_may_once_it_is_free() {
        let folder = folder("held");
        let held = folder.hold().unwrap();
        let told = folder.hold().unwrap_err().to_string();
        assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        drop(held);
        folder.hold().unwrap().delete().unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_folder_of_other_things_is_left_alone() {
        let folder = folder("other");
        fs::create_dir_all(folder.path().join("mine")).unwrap();
        assert!(matches!(folder.hold(), Err(FolderError::NotOurs(_))));
        fs::remove_dir_all(folder.path()).unwrap();
    }
}
