//! Failures of the client library as the operator's own errors, without any secret in their text.
//!
//! # Guarantees
//! 1. Every failure becomes exactly one [`ServerError`]; none is retried here.
//! 2. No text holds a secret of the command: a server may repeat words that it doesn't understand, so what follows "with args
//!    beginning with" is cut off, and known secrets are struck out.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use vko_core::world::ServerError;

/// Where servers begin to repeat what they were sent.
const REPEATED: &str = ", with args beginning with";

/// The error that a failure is. `waited` is what a silent server was given; `secrets` must not be in the text.
pub(crate) fn error(failure: &RedisError, waited: Duration, secrets: &[String]) -> ServerError {
    let text = || scrubbed(failure.detail().unwrap_or_default(), secrets);
    match failure.kind() {
        ErrorKind::Io if failure.is_timeout() => ServerError::Silent(waited),
        ErrorKind::Io => ServerError::Lost(scrubbed(&failure.to_string(), secrets)),
        ErrorKind::AuthenticationFailed => ServerError::Login(text()),
        ErrorKind::Server(ServerErrorKind::BusyLoading) => ServerError::Loading,
        ErrorKind::Server(ServerErrorKind::NoPerm) => ServerError::NoPermission(text()),
        ErrorKind::Server(_) | ErrorKind::Extension => match failure.code() {
            Some(code @ ("WRONGPASS" | "NOAUTH")) => ServerError::Login(format!("{code} {}", text())),
            code => ServerError::Refused { code: scrubbed(code.unwrap_or("ERR"), secrets), text: text() },
        },
        _ => ServerError::Unexpected(scrubbed(&failure.to_string(), secrets)),
    }
}

/// Whether the connection may be used again after this error.
pub(crate) fn ends_connection(error: &ServerError) -> bool {
    match error {
        // Whatever is sent behind an unanswered command waits for it too.
        ServerError::Silent(_) | ServerError::Lost(_) | ServerError::Login(_) | ServerError::Unexpected(_) => true,
        ServerError::Loading | ServerError::NoPermission(_) | ServerError::Refused { .. } => false,
    }
}

fn scrubbed(text: &str, secrets: &[String]) -> String {
    let text = text.split(REPEATED).next().unwrap_or_default();
    let known = secrets.iter().filter(|secret| !secret.is_empty());
    known.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::parse_redis_value;

    use super::*;

    const WAITED: Duration = Duration::from_millis(1500);

    fn said(wire: &str) -> RedisError {
        parse_redis_value(format!("-{wire}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn what_servers_say() {
        let refused = |code: &str, text: &str| ServerError::Refused { code: code.into(), text: text.into() };
        let cases = [
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                ServerError::Login("WRONGPASS invalid username-password pair or user is disabled.".into()),
            ),
            ("NOAUTH Authentication required.", ServerError::Login("NOAUTH Authentication required.".into())),
            ("NOPERM User x has no permissions", ServerError::NoPermission("User x has no permissions".into())),
            ("LOADING Valkey is loading the dataset in memory", ServerError::Loading),
            ("NOREPLICAS Not enough good replicas to write.", refused("NOREPLICAS", "Not enough good replicas to write.")),
            ("MASTERDOWN Link with MASTER is down", refused("MASTERDOWN", "Link with MASTER is down")),
            ("BUSY Valkey is busy running a script.", refused("BUSY", "Valkey is busy running a script.")),
            ("HELD waits for a takeover", refused("HELD", "waits for a takeover")),
            ("ERR FAILOVER requires connected replicas.", refused("ERR", "FAILOVER requires connected replicas.")),
            (
                "READONLY You can't write against a read only replica.",
                refused("READONLY", "You can't write against a read only replica."),
            ),
            ("ERR", refused("ERR", "")),
        ];
        for (wire, expected) in cases {
            assert_eq!(error(&said(wire), WAITED, &[]), expected, "{wire}");
        }
    }

    #[test]
    fn what_the_network_does() {
        let io = |kind: io::ErrorKind| error(&RedisError::from(io::Error::from(kind)), WAITED, &[]);
        assert_eq!(io(io::ErrorKind::TimedOut), ServerError::Silent(WAITED));
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::UnexpectedEof,
        ] {
            assert!(matches!(io(kind), ServerError::Lost(_)), "{kind:?}");
        }
        let rubbish = RedisError::from((ErrorKind::Parse, "no protocol"));
        assert!(matches!(error(&rubbish, WAITED, &[]), ServerError::Unexpected(_)));
    }

    #[test]
    fn secrets_are_not_repeated() {
        let secrets = ["hunter2".to_owned(), String::new()];
        let cases = [
            ("ERR unknown command 'CONFIG', with args beginning with: 'SET' 'masterauth' 'hunt", "ERR unknown command 'CONFIG'"),
            (
                "ERR Error in ACL SETUSER modifier '#hunter2': Syntax error",
                "ERR Error in ACL SETUSER modifier '#***': Syntax error",
            ),
            ("NOPERM hunter2", "a right is missing: ***"),
            ("hunter2 x", "*** x"),
        ];
        for (wire, expected) in cases {
            assert_eq!(error(&said(wire), WAITED, &secrets).to_string(), expected, "{wire}");
        }
    }

    #[test]
    fn connections_end_where_answers_may_be_missing() {
        let refused = ServerError::Refused { code: "ERR".into(), text: String::new() };
        let cases = [
            (ServerError::Silent(WAITED), true),
            (ServerError::Lost(String::new()), true),
            (ServerError::Login(String::new()), true),
            (ServerError::Unexpected(String::new()), true),
            (ServerError::Loading, false),
            (ServerError::NoPermission(String::new()), false),
            (refused, false),
        ];
        for (error, expected) in cases {
            assert_eq!(ends_connection(&error), expected, "{error}");
        }
    }
}
