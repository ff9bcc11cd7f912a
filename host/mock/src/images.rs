//! What container images stand for on this machine: which file is behind which path of an image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where servers are in images.
const SERVER: &str = "/usr/local/bin/valkey-server";
/// Where the agent is in the operator's.
const AGENT: &str = "/agent";
/// The operator's image here.
pub const OPERATOR: &str = "valkey-operator:mock";

/// What is missing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The folder of servers.
    #[error("{} holds no folder LINE/valkey-server; 'tests/testbed/testbed servers' makes them", .0.display())]
    Servers(PathBuf),
    /// The agent.
    #[error("the agent isn't built: {} doesn't exist; 'cargo build --workspace --bins' makes it, or VKO_AGENT names another", .0.display())]
    Agent(PathBuf),
}

/// Images by reference, with the files behind their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images {
    files: BTreeMap<String, BTreeMap<String, PathBuf>>,
    lines: BTreeMap<String, String>,
}

impl Images {
    /// Servers of a folder, `LINE/valkey-server`, and the agent.
    ///
    /// # Errors
    /// Something isn't there.
    pub fn of(servers: &Path, agent: &Path) -> Result<Self, Missing> {
        let lines = std::fs::read_dir(servers).into_iter().flatten().flatten().filter_map(|entry| {
            let (server, line) = (entry.path().join("valkey-server"), entry.file_name().to_string_lossy().into_owned());
            // Beside the lines are other things, which begin with no digit or are no line's.
            (server.is_file() && line.split('.').all(|part| part.parse::<u32>().is_ok())).then_some((line, server))
        });
        let images = Self::of_lines(lines, agent)?;
        if images.lines.is_empty() { Err(Missing::Servers(servers.into())) } else { Ok(images) }
    }

    /// Servers by their lines, and the agent.
    ///
    /// # Errors
    /// The agent isn't there.
    pub fn of_lines(lines: impl IntoIterator<Item = (String, PathBuf)>, agent: &Path) -> Result<Self, Missing> {
        if !agent.is_file() {
            return Err(Missing::Agent(agent.into()));
        }
        let mut images = Self::default();
        images.add(OPERATOR, AGENT, agent);
        for (line, server) in lines {
            let reference = format!("valkey/valkey:{line}");
            images.add(&reference, SERVER, &server);
            images.lines.insert(line, reference);
        }
        Ok(images)
    }

    /// Of the set-up's folder (`VALKEY_SERVERS`), with the agent that cargo built beside this program (or `VKO_AGENT`).
    ///
    /// # Errors
    /// Something isn't there.
    pub fn of_environment() -> Result<Self, Missing> {
        let servers = std::env::var_os("VALKEY_SERVERS").map(PathBuf::from).unwrap_or_else(|| "VALKEY_SERVERS".into());
        Self::of(&servers, &agent_beside())
    }

    fn add(&mut self, image: &str, path: &str, file: &Path) {
        self.files.entry(image.into()).or_default().insert(path.into(), file.into());
    }

    /// The file behind a path of an image.
    pub fn file(&self, image: &str, path: &str) -> Option<&Path> {
        self.files.get(image)?.get(path).map(PathBuf::as_path)
    }

    /// The server of a line.
    pub fn server(&self, line: &str) -> Option<&Path> {
        self.file(self.lines.get(line)?, SERVER)
    }

    /// The agent.
    pub fn agent(&self) -> Option<&Path> {
        self.file(OPERATOR, AGENT)
    }

    /// The image's program of that name, as a shell in it would find it.
    pub fn program(&self, image: &str, name: &str) -> Option<&Path> {
        let found = self
            .files
            .get(image)?
            .iter()
            .find(|(path, _)| path.strip_suffix(name).is_some_and(|folder| folder.ends_with("/bin/")));
        found.map(|(_, file)| file.as_path())
    }

    /// Whether there is such an image.
    pub fn has(&self, image: &str) -> bool {
        self.files.contains_key(image)
    }

    /// Server lines and their images, as the operator is told.
    pub fn lines(&self) -> &BTreeMap<String, String> {
        &self.lines
    }
}

/// The agent that was built beside this program; the variable `VKO_AGENT` names another.
pub fn agent_beside() -> PathBuf {
    if let Some(named) = std::env::var_os("VKO_AGENT") {
        return named.into();
    }
    // Tests are in `deps`, below the folder of the binaries.
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.ancestors().skip(1).take(2).map(|folder| folder.join("vko-agent"));
    let beside: Vec<PathBuf> = beside.collect();
    beside.iter().find(|agent| agent.is_file()).or(beside.last()).cloned().unwrap_or_default()
}
