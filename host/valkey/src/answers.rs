//! An answer of the protocol as the typed reply to a command, in its older form (RESP2) and its newer one (RESP3).
//!
//! Errors describe the form of an answer, never its content: CONFIG GET may answer a credential.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use redis::{RedisError, Value};
use vko_core::command::{Command, Reply, RoleReply};
use vko_core::world::ServerError;

/// The typed reply to what [`words`](crate::words::words) sent. `values` are its answers in order, error replies included.
///
/// # Errors
/// What the server said, by `failed`; [`ServerError::Unexpected`] for an answer of a form that the command doesn't have.
pub(crate) fn reply(
    command: &Command,
    values: Vec<Value>,
    failed: impl Fn(RedisError) -> ServerError,
) -> Result<Reply, ServerError> {
    let name = command.name();
    let count = values.len();
    let mut values = values.into_iter().map(|value| value.extract_error().map_err(&failed));
    let mut next = || values.next().unwrap_or_else(|| Err(unexpected(name, "one more answer", format!("{count} times"))));
    let as_text = |value| text(value).map_err(|form| unexpected(name, "a text", form));
    match command {
        Command::ClusterProbe => {
            let info = as_text(next()?)?;
            // A server that loads its data set answers INFO, and nothing about the cluster.
            let rest = next().and_then(|cluster| Ok((cluster, next()?)));
            let (cluster, slots_digest) = match rest {
                Err(ServerError::Loading) => (String::new(), 0),
                rest => {
                    let (cluster, slots) = rest?;
                    let digest = slots_digest(slots).map_err(|form| unexpected(name, "a list of slots", form))?;
                    (as_text(cluster)?, digest)
                }
            };
            Ok(Reply::ClusterProbe { info, cluster, slots_digest })
        }
        Command::SentinelProbe => {
            Ok(Reply::SentinelProbe { server: as_text(next()?)?, sentinel: as_text(next()?)?, id: as_text(next()?)? })
        }
        // What is to be forgotten is forgotten.
        Command::ClusterForget(_) => match next() {
            Err(ServerError::Refused { text, .. }) if text.starts_with("Unknown node") => Ok(Reply::Done),
            other => single(command, other?),
        },
        _ => single(command, next()?),
    }
}

/// The typed reply to a command that is one of the protocol, too.
fn single(command: &Command, value: Value) -> Result<Reply, ServerError> {
    let name = command.name();
    match command {
        Command::LightProbe | Command::FullInfo | Command::ClusterNodes | Command::SentinelCheckQuorum(_) => {
            text(value).map(Reply::Text).map_err(|form| unexpected(name, "a text", form))
        }
        Command::Role => role(value).map(Reply::Role).map_err(|form| unexpected(name, "a data server's role", form)),
        Command::ConfigGet(_) => pairs(value).map(Reply::Pairs).map_err(|form| unexpected(name, "a list of pairs", form)),
        Command::SentinelMasters | Command::SentinelReplicas(_) | Command::SentinelPeers(_) => {
            maps(value).map(Reply::Maps).map_err(|form| unexpected(name, "a list of maps", form))
        }
        // All others change something, and their answers say no more than that they do.
        _ => match value {
            Value::Okay | Value::SimpleString(_) | Value::Int(_) => Ok(Reply::Done),
            other => Err(unexpected(name, "a simple answer", form(&other))),
        },
    }
}

fn unexpected(command: &str, wanted: &str, form: String) -> ServerError {
    ServerError::Unexpected(format!("{command} answered {form} where {wanted} was expected"))
}

/// What kind of value it is, without its content.
fn form(value: &Value) -> String {
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Int(_) => "a number".to_owned(),
        Value::BulkString(_) | Value::VerbatimString { .. } => "a text".to_owned(),
        Value::SimpleString(_) | Value::Okay => "a simple answer".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Set(items) => format!("a set of {}", items.len()),
        Value::Map(items) => format!("a map of {}", items.len()),
        _ => "a value of another kind".to_owned(),
    }
}

/// A text; a value that has a text's place but isn't one comes back as its form.
fn text(value: Value) -> Result<String, String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| "bytes that are no text".to_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Ok(text),
        Value::Okay => Ok("OK".to_owned()),
        other => Err(form(&other)),
    }
}

fn list(value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        other => Err(form(&other)),
    }
}

/// A map, or a list of names and values in turn.
fn pairs(value: Value) -> Result<BTreeMap<String, String>, String> {
    if let Value::Map(items) = value {
        return items.into_iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect();
    }
    let mut items = list(value)?.into_iter();
    let mut pairs = BTreeMap::new();
    while let Some(name) = items.next() {
        let value = items.next().ok_or("a list of odd length")?;
        pairs.insert(text(name)?, text(value)?);
    }
    Ok(pairs)
}

fn maps(value: Value) -> Result<Vec<BTreeMap<String, String>>, String> {
    list(value)?.into_iter().map(pairs).collect()
}

/// Digest of `[first last [ip port id ...]...]...`: the owner counts as the first, the replicas in any order, since each server
/// lists them in an order of its own.
fn slots_digest(value: Value) -> Result<u64, String> {
    let mut digest = DefaultHasher::new();
    for range in list(value)? {
        let mut nodes = list(range)?.into_iter().map(|part| canonical(&part)).collect::<Result<Vec<_>, _>>()?;
        if let Some(replicas) = nodes.get_mut(3..) {
            replicas.sort_unstable();
        }
        nodes.hash(&mut digest);
    }
    Ok(digest.finish())
}

/// A value as bytes in which no two different ones are alike: kind and length stand before each content.
fn canonical(value: &Value) -> Result<Vec<u8>, String> {
    let (kind, length, content) = match value {
        Value::Nil => ('_', 0, Vec::new()),
        Value::Int(number) => (':', 1, number.to_be_bytes().to_vec()),
        Value::BulkString(bytes) => ('$', bytes.len(), bytes.clone()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => ('$', text.len(), text.as_bytes().to_vec()),
        Value::Array(items) => ('*', items.len(), items.iter().map(canonical).collect::<Result<Vec<_>, _>>()?.concat()),
        Value::Map(items) => {
            let pairs = items.iter().map(|(name, value)| Ok([canonical(name)?, canonical(value)?].concat()));
            ('%', items.len(), pairs.collect::<Result<Vec<_>, String>>()?.concat())
        }
        other => return Err(form(other)),
    };
    Ok([format!("{kind}{length} ").into_bytes(), content].concat())
}

/// `master offset [[ip port offset]...]` or `slave ip port state offset`.
fn role(value: Value) -> Result<RoleReply, String> {
    let items = list(value)?;
    let whole = format!("a list of {}", items.len());
    let mut items = items.into_iter();
    let mut next = || items.next().ok_or_else(|| whole.clone());
    match text(next()?)?.as_str() {
        "master" => {
            let offset = number(next()?)?;
            let replicas = list(next()?)?.into_iter().map(attached).collect::<Result<_, _>>()?;
            Ok(RoleReply::Primary { offset, replicas })
        }
        "slave" => Ok(RoleReply::Replica {
            host: text(next()?)?,
            port: number(next()?)?,
            state: text(next()?)?,
            offset: number(next()?)?,
        }),
        "sentinel" => Err("the role of a Sentinel".to_owned()),
        _ => Err("a role of another name".to_owned()),
    }
}

fn attached(value: Value) -> Result<(String, u16, u64), String> {
    let mut items = list(value)?.into_iter();
    match (items.next(), items.next(), items.next()) {
        (Some(ip), Some(port), Some(offset)) => Ok((text(ip)?, number(port)?, number(offset)?)),
        _ => Err("a replica of fewer than three words".to_owned()),
    }
}

/// A number, or a text of one. Out of range is an error, never another number.
fn number<T: TryFrom<i64>>(value: Value) -> Result<T, String> {
    let number = match value {
        Value::Int(number) => number,
        other => text(other)?.parse().map_err(|_| "a text where a number belongs".to_owned())?,
    };
    T::try_from(number).map_err(|_| "a number out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::{VerbatimFormat, parse_redis_value};

    use super::*;
    use crate::errors;

    /// One command's answer.
    fn reply(command: &Command, value: Value) -> Result<Reply, ServerError> {
        replies(command, vec![value])
    }

    fn replies(command: &Command, values: Vec<Value>) -> Result<Reply, ServerError> {
        super::reply(command, values, |failure| errors::error(&failure, Duration::ZERO, &[]))
    }

    fn parse(wire: &str) -> Value {
        parse_redis_value(wire.as_bytes()).unwrap()
    }

    #[test]
    fn answers_in_both_forms() {
        let pairs = Reply::Pairs(BTreeMap::from([("maxmemory".to_owned(), "0".to_owned()), ("save".to_owned(), String::new())]));
        let replica =
            |offset| Reply::Role(RoleReply::Replica { host: "fd00::1".into(), port: 6379, state: "connected".into(), offset });
        let primary = |replicas| Reply::Role(RoleReply::Primary { offset: 31, replicas });
        let get = Command::ConfigGet(vec![]);
        let cases = [
            ("INFO, older", Command::LightProbe, "$6\r\nrole:x\r\n", Reply::Text("role:x".into())),
            ("INFO, newer", Command::FullInfo, "=10\r\ntxt:role:x\r\n", Reply::Text("role:x".into())),
            ("CONFIG GET, older", get.clone(), "*4\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n", pairs.clone()),
            ("CONFIG GET, newer", get.clone(), "%2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n", pairs),
            ("CONFIG GET, no match, older", get.clone(), "*0\r\n", Reply::Pairs(BTreeMap::new())),
            ("CONFIG GET, no match, newer", get, "%0\r\n", Reply::Pairs(BTreeMap::new())),
            ("a lone primary", Command::Role, "*3\r\n$6\r\nmaster\r\n:31\r\n*0\r\n", primary(vec![])),
            (
                "a primary with a replica",
                Command::Role,
                "*3\r\n$6\r\nmaster\r\n:31\r\n*1\r\n*3\r\n$7\r\nfd00::2\r\n$4\r\n6379\r\n$2\r\n30\r\n",
                primary(vec![("fd00::2".into(), 6379, 30)]),
            ),
            (
                "a replica",
                Command::Role,
                "*5\r\n$5\r\nslave\r\n$7\r\nfd00::1\r\n:6379\r\n$9\r\nconnected\r\n:30\r\n",
                replica(30),
            ),
            (
                "never synced",
                Command::Role,
                "*5\r\n$5\r\nslave\r\n$7\r\nfd00::1\r\n:6379\r\n$9\r\nconnected\r\n:-1\r\n",
                replica(-1),
            ),
            ("OK", Command::ReplicaOfNoOne, "+OK\r\n", Reply::Done),
            ("a sentence", Command::BackgroundSave, "+Background saving started\r\n", Reply::Done),
            ("a count", Command::KillNormalClients, ":3\r\n", Reply::Done),
        ];
        for (name, command, wire, expected) in cases {
            assert_eq!(reply(&command, parse(wire)), Ok(expected), "{name}");
        }
    }

    #[test]
    fn answers_of_another_form_are_told_without_their_content() {
        let get = Command::ConfigGet(vec![]);
        let cases = [
            ("nothing", Command::LightProbe, "$-1\r\n", "light-probe answered nothing where a text was expected"),
            (
                "odd list",
                get.clone(),
                "*3\r\n$1\r\na\r\n$6\r\nsecret\r\n$1\r\nb\r\n",
                "config-get answered a list of odd length where a list of pairs was expected",
            ),
            (
                "number as value",
                get,
                "*2\r\n$6\r\nsecret\r\n:1\r\n",
                "config-get answered a number where a list of pairs was expected",
            ),
            (
                "text for a list",
                Command::SentinelMasters,
                "$6\r\nsecret\r\n",
                "sentinel-masters answered a text where a list of maps was expected",
            ),
            (
                "a Sentinel",
                Command::Role,
                "*2\r\n$8\r\nsentinel\r\n*0\r\n",
                "role answered the role of a Sentinel where a data server's role was expected",
            ),
            (
                "cut off",
                Command::Role,
                "*1\r\n$6\r\nmaster\r\n",
                "role answered a list of 1 where a data server's role was expected",
            ),
            (
                "offset below zero",
                Command::Role,
                "*3\r\n$6\r\nmaster\r\n:-1\r\n*0\r\n",
                "role answered a number out of range where a data server's role was expected",
            ),
            (
                "a port too large",
                Command::Role,
                "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:70000\r\n$1\r\nc\r\n:1\r\n",
                "role answered a number out of range where a data server's role was expected",
            ),
            (
                "a list for OK",
                Command::Unpause,
                "*1\r\n+OK\r\n",
                "unpause answered a list of 1 where a simple answer was expected",
            ),
        ];
        for (name, command, wire, message) in cases {
            let error = reply(&command, parse(wire)).unwrap_err();
            assert_eq!(error.to_string(), format!("unexpected answer: {message}"), "{name}");
        }
        let bytes = reply(&Command::LightProbe, Value::BulkString(vec![0xff])).unwrap_err();
        assert!(bytes.to_string().contains("bytes that are no text"), "{bytes}");
        let verbatim = Value::VerbatimString { format: VerbatimFormat::Text, text: "x".into() };
        assert!(reply(&Command::SentinelMasters, verbatim).is_err());
    }
}
