//! Why a request is refused, as the `Status` that a real API server sends.

use serde_json::{Value, json};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// CamelCase, from Kubernetes' list.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// 401: the token is another one, or there is none.
    pub fn unauthorized() -> Self {
        Self { code: 401, reason: "Unauthorized", message: "Unauthorized".to_owned() }
    }

    /// 404.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self { code: 404, reason: "NotFound", message: format!("{what} {name:?} not found") }
    }

    /// 409: the object is another one by now, or a precondition failed.
    pub fn conflict(what: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self { code: 409, reason: "Conflict", message }
    }

    /// 409: there is one of that name.
    pub fn already_exists(what: &str, name: &str) -> Self {
        Self { code: 409, reason: "AlreadyExists", message: format!("{what} {name:?} already exists") }
    }

    /// 422: the object breaks a rule of its kind.
    pub fn invalid(what: &str, name: &str, why: &str) -> Self {
        Self { code: 422, reason: "Invalid", message: format!("{what} {name:?} is invalid: {why}") }
    }

    /// 400: the request can't be understood.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self { code: 400, reason: "BadRequest", message: why.into() }
    }

    /// 429: not now.
    pub fn too_many_requests(why: impl Into<String>) -> Self {
        Self { code: 429, reason: "TooManyRequests", message: why.into() }
    }

    /// 410: a version from which nothing can be told any more.
    pub fn expired(version: u64, oldest: u64) -> Self {
        Self { code: 410, reason: "Expired", message: format!("too old resource version: {version} ({oldest})") }
    }

    /// 500, as the server itself words what it can't do.
    pub fn internal(why: impl Into<String>) -> Self {
        Self { code: 500, reason: "InternalError", message: why.into() }
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Refusal {}
