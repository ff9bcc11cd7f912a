//! Talking to servers as a client does.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use redis::{Client, Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo, RedisResult};

use crate::Result;

/// A client gives up on an answer, or on a connection, after this: far above what a busy server needs, far below what a fault
/// lasts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Where, and who we are there.
#[derive(Debug, Clone)]
pub struct Login {
    /// Address of a Service or a pod.
    pub address: SocketAddr,
    /// Account; empty: the default user.
    pub user: String,
    /// Password; empty: none is sent.
    pub password: String,
}

impl Login {
    /// A new connection, logged in.
    ///
    /// # Errors
    /// Nobody answers, or the login is refused.
    pub fn connect(&self) -> RedisResult<Connection> {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if !self.user.is_empty() {
            settings = settings.set_username(&self.user);
        }
        if !self.password.is_empty() {
            settings = settings.set_password(&self.password);
        }
        let info = ConnectionAddr::Tcp(self.address.ip().to_string(), self.address.port()).into_connection_info()?;
        let connection = Client::open(info.set_redis_settings(settings))?.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// One command on a connection of its own.
    ///
    /// # Errors
    /// Nobody answers, or the answer is an error.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let mut connection = self.connect().with_context(|| format!("no connection to {}", self.address))?;
        ask(&mut connection, words)
    }
}

/// One command on a connection.
///
/// # Errors
/// No answer, or an error.
pub fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> Result<T> {
    let (name, arguments) = words.split_first().ok_or_else(|| anyhow!("no command"))?;
    let mut command = redis::cmd(name);
    for argument in arguments {
        command.arg(*argument);
    }
    command.query(connection).with_context(|| format!("{name} was not answered as expected"))
}

/// A field of INFO.
pub fn info_field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'))
}

/// A field of a line of CLIENT LIST.
pub fn client_field<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        assert_eq!(info_field("# Server\r\nrole:master\r\nrole_x:y\r\n", "role"), Some("master"));
        assert_eq!(info_field("role:master\r\n", "rol"), None);
        assert_eq!(client_field("id=7 addr=127.0.0.1:1 name=valkey-operator tot-cmds=9", "name"), Some("valkey-operator"));
        assert_eq!(client_field("id=7 lib-name=x", "name"), None);
    }
}
