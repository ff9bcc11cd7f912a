//! `cargo xtask crds`: the CRDs as files, from the Rust types. The chart carries copies, because Helm installs what is in its
//! `crds/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const FOLDERS: [&str; 2] = ["crds", "charts/valkey-operator/crds"];
const HEADER: &str = "# Generated from host/api by `cargo xtask crds`; edit the types there.\n";

/// Writes `PLURAL.GROUP.yaml` into both folders; with `check`, writes nothing and fails if a file differs.
///
/// # Errors
/// A file that can't be read or written, or, with `check`, one that is out of date; each with its path.
pub(crate) fn write(check: bool) -> anyhow::Result<()> {
    let root = root();
    let mut stale = Vec::new();
    for crd in vko_api::crd::crds() {
        let name = format!("{}.{}.yaml", crd.spec.names.plural, crd.spec.group);
        // By way of JSON: its maps are sorted, whatever the order of fields in the types is.
        let text = format!("{HEADER}{}", serde_saphyr::to_string(&serde_json::to_value(&crd)?).context(name.clone())?);
        for folder in FOLDERS {
            let file = root.join(folder).join(&name);
            if std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
                continue;
            }
            if check {
                stale.push(file.display().to_string());
            } else {
                save(&file, &text)?;
            }
        }
    }
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask crds` and commit", stale.join(", "));
    }
    Ok(())
}

fn save(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// The workspace. Cargo says at run time where this crate is; the compiled-in path may be another clone's.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), |xtask| PathBuf::from(xtask).join(".."))
}
