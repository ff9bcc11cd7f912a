//! What can run on this machine: servers by their lines, and the agent.
//!
//! # Flow
//! 1. A folder that was named: LINE/valkey-server in it.
//! 2. Otherwise the valkey-server, or redis-server, of PATH; its line is what it says of itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use vko_api::rules::LINES;
use vko_mock::Images;
use vko_mock::images::{Missing, agent_beside};

/// Programs that are servers, in the order in which they are looked for.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];

/// Why nothing can run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error("there is no {} in PATH; {GET_ONE}", PROGRAMS.join(" and no "))]
    NonePresent,
    #[error("{} holds no LINE/valkey-server; {GET_ONE}", .0.display())]
    NoneIn(PathBuf),
    #[error("{}: {why}; {GET_ONE}", .server.display())]
    Unusable { server: PathBuf, why: String },
    #[error(transparent)]
    Missing(#[from] Missing),
}

const GET_ONE: &str = "install one (Debian 13: apt-get install valkey-server; others: https://valkey.io/download), or name a folder with \
                       LINE/valkey-server (9.1/valkey-server, ...) by --servers";

/// Finds them.
///
/// # Errors
/// There is no server, or no agent beside this program.
pub(crate) fn find(folder: Option<&Path>) -> Result<Images, ServersError> {
    let agent = agent_beside();
    if let Some(folder) = folder {
        return Images::of(folder, &agent).map_err(|missing| match missing {
            Missing::Servers(folder) => ServersError::NoneIn(folder),
            agent => agent.into(),
        });
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let server = std::env::split_paths(&path)
        .flat_map(|folder| PROGRAMS.map(|program| folder.join(program)))
        .find(|file| file.is_file())
        .ok_or(ServersError::NonePresent)?;
    let unusable = |why: String| ServersError::Unusable { server: server.clone(), why };
    let output = Command::new(&server).arg("--version").output().map_err(|error| unusable(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let line = line_of(&said).ok_or_else(|| unusable(format!("its line is none of {}: {said:?}", LINES.join(", "))))?;
    Ok(Images::of_lines([(line.to_owned(), server)], &agent)?)
}

/// The line of a server that says `Valkey server v=8.1.4 sha=...`.
fn line_of(said: &str) -> Option<&'static str> {
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    LINES.into_iter().find(|line| version.strip_prefix(line).is_some_and(|rest| rest.starts_with('.')))
}

/// What to do where a line isn't there.
pub(crate) fn how_to_get(images: &Images, line: &str) -> String {
    let there = images.lines().keys().map(|line| format!("{line} ({})", server(images, line))).collect::<Vec<_>>().join(", ");
    format!("there is no server of {line} on this machine, but {there}; {GET_ONE}")
}

fn server(images: &Images, line: &str) -> String {
    images.server(line).map(|server| server.display().to_string()).unwrap_or_default()
}

/// The client beside a line's server; by its name alone where there is none.
pub(crate) fn client(images: &Images, line: &str) -> PathBuf {
    let beside = images.server(line).and_then(Path::parent);
    let clients = ["valkey-cli", "redis-cli"].into_iter().filter_map(|name| Some(beside?.join(name)));
    clients.into_iter().find(|client| client.is_file()).unwrap_or_else(|| "valkey-cli".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_by_what_servers_say() {
        for (said, expected) in [
            ("Valkey server v=9.1.0 sha=0:0 malloc=jemalloc bits=64", Some("9.1")),
            ("Valkey server v=8.1.4 sha=0:0", Some("8.1")),
            ("Redis server v=7.2.4 sha=0:0", Some("7.2")),
            ("Valkey server v=9.10.1 sha=0:0", None),
            ("Redis server v=7.0.15 sha=0:0", None),
            ("something else", None),
        ] {
            assert_eq!(line_of(said), expected, "{said}");
        }
    }
}
