//! The ways in which applications reach an instance: at a Service, through Sentinels, as a client that knows clusters. The latter
//! by a client library that people use, so that what it makes of our answers is tested too.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use redis::cluster::{ClusterClientBuilder, ClusterConnection};
use redis::{
    Cmd, Connection, ConnectionAddr, ConnectionLike, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, RedisResult,
};

use crate::server::{Login, PATIENCE, info_field};

/// Where an application enters.
#[derive(Debug, Clone)]
pub enum Entrance {
    /// One address: of a Service or of a pod.
    Plain(Login),
    /// Sentinels, asked for the primary before each connection.
    Sentinels {
        /// Their addresses.
        sentinels: Vec<SocketAddr>,
        /// Their name for the data set.
        monitor: String,
        /// Of the default user at the primary.
        password: String,
    },
    /// Some servers of a cluster, from which the client learns the others.
    Cluster {
        /// Their addresses.
        seeds: Vec<SocketAddr>,
        /// Of the default user.
        password: String,
    },
    /// Whatever is there now: looked up before each connection, as a name is in DNS.
    Looked(Directory),
}

/// Says where an application enters now; nothing while nobody is there.
#[derive(Clone)]
pub struct Directory(Arc<dyn Fn() -> Option<Entrance> + Send + Sync>);

impl Directory {
    /// One that asks `look`.
    pub fn new(look: impl Fn() -> Option<Entrance> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Directory")
    }
}

impl From<Login> for Entrance {
    fn from(login: Login) -> Self {
        Self::Plain(login)
    }
}

/// A connection, or what a cluster client makes of several.
pub enum Session {
    /// To one server.
    One(Connection),
    /// To a cluster.
    Many(Box<ClusterConnection>),
}

impl Entrance {
    /// Enters.
    ///
    /// # Errors
    /// Nobody answers, or the login is refused.
    pub fn connect(&self) -> RedisResult<Session> {
        match self {
            Self::Plain(login) => login.connect().map(Session::One),
            Self::Sentinels { sentinels, monitor, password } => by_sentinels(sentinels, monitor, password).map(Session::One),
            Self::Cluster { seeds, password } => by_cluster(seeds, password).map(|many| Session::Many(Box::new(many))),
            Self::Looked(directory) => match (directory.0)() {
                Some(entrance) => entrance.connect(),
                None => Err((ErrorKind::Io, "nobody is there").into()),
            },
        }
    }
}

impl Session {
    /// One command.
    ///
    /// # Errors
    /// No answer, or an error; a cluster client follows redirections and tries once more before.
    pub fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let line: &mut dyn ConnectionLike = match self {
            Self::One(connection) => connection,
            Self::Many(cluster) => cluster.as_mut(),
        };
        command.query(line)
    }
}

/// As the Sentinel documentation tells clients to: the first Sentinel that knows an address is believed, and the server there
/// must say itself that it is the primary. Not by the library's own Sentinel client: that one dials without a deadline, and an
/// address that a pod has left answers nothing for minutes.
fn by_sentinels(sentinels: &[SocketAddr], monitor: &str, password: &str) -> RedisResult<Connection> {
    let mut last = RedisError::from((ErrorKind::Io, "no Sentinel is known"));
    for address in sentinels {
        match by_sentinel(*address, monitor, password) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn by_sentinel(sentinel: SocketAddr, monitor: &str, password: &str) -> RedisResult<Connection> {
    let nobody = Login { address: sentinel, user: String::new(), password: String::new() };
    let mut asked = nobody.connect()?;
    let told: Option<(String, u16)> = redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(monitor).query(&mut asked)?;
    let unknown = || RedisError::from((ErrorKind::Io, "the Sentinel knows no address of the data set"));
    let (host, port) = told.ok_or_else(unknown)?;
    let ip: IpAddr = host.parse().map_err(|_| unknown())?;
    let primary = Login { address: SocketAddr::new(ip, port), user: String::new(), password: password.to_owned() };
    let mut connection = primary.connect()?;
    let info: String = redis::cmd("INFO").arg("replication").query(&mut connection)?;
    if info_field(&info, "role") == Some("master") {
        Ok(connection)
    } else {
        Err((ErrorKind::Io, "the Sentinel names a server that is no primary").into())
    }
}

fn by_cluster(seeds: &[SocketAddr], password: &str) -> RedisResult<ClusterConnection> {
    let seed = |at: &SocketAddr| {
        let info = ConnectionAddr::Tcp(at.ip().to_string(), at.port()).into_connection_info()?;
        Ok(info.set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name().set_password(password)))
    };
    let seeds = seeds.iter().map(seed).collect::<RedisResult<Vec<_>>>()?;
    // Redirections count as retries: one for a slot that moved, one for an answer that didn't come.
    let client = ClusterClientBuilder::new(seeds)
        .password(password)
        .retries(2)
        .min_retry_wait(20)
        .max_retry_wait(200)
        .connection_timeout(PATIENCE)
        .response_timeout(PATIENCE)
        .build()?;
    client.get_connection()
}
