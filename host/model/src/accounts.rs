//! The accounts that the operator makes on each server, one per purpose, with the least rights that its purpose needs.
//!
//! # Guarantees
//! 1. Every name in a rule exists on the line it is given for: an unknown one would refuse the whole ACL SETUSER and stop a
//!    start.
//! 2. A right is listed only if something fails without it, or the server at the other end keeps asking for it (tests on real
//!    servers take each one away).
//! 3. Nothing here has a password; hashes are checked for their form before they get into a line.
//!
//! # Assumptions
//! AUTH, HELLO and QUIT need no right.

mod rights;

use crate::version::Line;

/// Why an account can't be rendered. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// A hash that the server would refuse (and, in the configuration, not start with).
    #[error("a password hash of account '{0}' isn't 64 lower-case hexadecimal digits; write the SHA-256 of the password")]
    PasswordHashInvalid(String),
    /// A name that would end the word or the line.
    #[error("account name {0:?} is empty or has blanks, control characters or quotes")]
    AccountNameInvalid(String),
}

impl AccountError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PasswordHashInvalid(_) => "PasswordHashInvalid",
            Self::AccountNameInvalid(_) => "AccountNameInvalid",
        }
    }
}

/// What a server is there for. Accounts, rights and configuration hang on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerRole {
    /// A data server whose roles the operator gives.
    Replica,
    /// A data server whose roles Sentinels give.
    Failover,
    /// A node of a cluster.
    Cluster,
    /// A Sentinel.
    Sentinel,
}

impl ServerRole {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Replica, Self::Failover, Self::Cluster, Self::Sentinel];

    /// Whether it holds data.
    pub const fn is_data(self) -> bool {
        !matches!(self, Self::Sentinel)
    }
}

/// An account of the operator's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The operator administers servers with it.
    Operator,
    /// Replicas log in to their primary with it.
    Replication,
    /// The preStop hook hands the primary's role over with it.
    Hook,
    /// The kubelet's probes.
    Probe,
    /// Sentinels log in to data servers with it, and to each other.
    Sentinel,
    /// Clients that name no user.
    Default,
}

impl Account {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 6] = [Self::Operator, Self::Replication, Self::Hook, Self::Probe, Self::Sentinel, Self::Default];

    /// Those that a server has, in the order in which they are made.
    pub const fn of(role: ServerRole) -> &'static [Self] {
        match role {
            ServerRole::Replica | ServerRole::Cluster => {
                &[Self::Operator, Self::Replication, Self::Hook, Self::Probe, Self::Default]
            }
            ServerRole::Failover => &Self::ALL,
            ServerRole::Sentinel => &[Self::Operator, Self::Hook, Self::Probe, Self::Sentinel, Self::Default],
        }
    }

    /// Name of the ACL user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Replication => "replication",
            Self::Hook => "hook",
            Self::Probe => "probe",
            Self::Sentinel => "sentinel",
            Self::Default => "default",
        }
    }

    /// The account of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|account| account.name() == name)
    }

    /// The rights, in the order in which ACL LIST repeats them. Without `on`, `off` and passwords. An account that servers of
    /// this role don't have has none.
    pub fn rules(self, role: ServerRole, line: Line) -> Vec<&'static str> {
        rights::of(self, role, line)
    }

    /// The `user` line of the configuration. `hashes` are SHA-256 of the passwords; without any, and not `open`, the account is
    /// off.
    ///
    /// # Errors
    /// [`AccountError::PasswordHashInvalid`].
    pub fn user_line(self, role: ServerRole, line: Line, hashes: &[String], open: bool) -> Result<String, AccountError> {
        user_line(self.name(), &self.rules(role, line), hashes, open)
    }

    /// The rules for ACL SETUSER, `reset` first, that leave the account as [`Self::user_line`] makes it.
    ///
    /// # Errors
    /// [`AccountError::PasswordHashInvalid`].
    pub fn setuser_rules(self, role: ServerRole, line: Line, hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
        setuser_rules(self.name(), &self.rules(role, line), hashes, open)
    }
}

/// `user NAME on #hash... rules...`, for the configuration.
///
/// # Errors
/// [`AccountError`] if the name or a hash doesn't have its form.
pub fn user_line(name: &str, rules: &[&str], hashes: &[String], open: bool) -> Result<String, AccountError> {
    if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'')) {
        return Err(AccountError::AccountNameInvalid(name.to_owned()));
    }
    let mut words = vec!["user".to_owned(), name.to_owned()];
    words.extend(access(name, hashes, open)?);
    words.extend(rules.iter().map(|rule| (*rule).to_owned()));
    Ok(words.join(" "))
}

/// The rules for ACL SETUSER: `reset` first, so that nothing of an older state stays; the server applies all of them or none.
///
/// # Errors
/// [`AccountError::PasswordHashInvalid`].
pub fn setuser_rules(name: &str, rules: &[&str], hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
    let mut words = vec!["reset".to_owned()];
    words.extend(access(name, hashes, open)?);
    words.extend(rules.iter().map(|rule| (*rule).to_owned()));
    Ok(words)
}

/// `on` or `off`, `nopass` or hashes. An open account keeps no hash: `nopass` would make them meaningless.
fn access(name: &str, hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
    if open {
        return Ok(vec!["on".to_owned(), "nopass".to_owned()]);
    }
    if !hashes.iter().all(|hash| is_hash(hash)) {
        return Err(AccountError::PasswordHashInvalid(name.to_owned()));
    }
    let state = if hashes.is_empty() { "off" } else { "on" };
    let mut words = vec![state.to_owned()];
    words.extend(hashes.iter().map(|hash| format!("#{hash}")));
    Ok(words)
}

/// 64 digits, lower case only: the server refuses others.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests;
