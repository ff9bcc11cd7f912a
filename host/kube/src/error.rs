//! What kube's errors mean to the core.

use std::time::Duration;

use kube::core::response::{Status, reason};
use vko_core::object::Kind;
use vko_core::world::ApiError;

/// Sorts an error of a request about an object of that kind; `deadline` is the one that the request had.
///
/// A message about a refused Secret is withheld: the API server quotes what it can't decode.
pub fn classify(kind: Kind, error: &kube::Error, deadline: Duration) -> ApiError {
    match error {
        kube::Error::Api(status) => by_status(kind, status, deadline),
        kube::Error::BuildRequest(error) => ApiError::Invalid(format!("the request can't be made: {error}")),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            // serde quotes what it doesn't understand.
            ApiError::Unavailable("the answer is no JSON: is something else listening at the API server's address?".to_owned())
        }
        kube::Error::Auth(error) => ApiError::Forbidden(format!("no credentials for the API server: {error}")),
        other => ApiError::Unavailable(chain(other)),
    }
}

/// How the API server begins its word on an apply with an unknown field or a value of the wrong type. It sends it with code 500
/// and without a reason, though sending it again won't help.
const TYPED_PATCH: &str = "failed to create typed patch object";

/// Sorts a `Status` by its reason, and where that is none of the known ones by its code.
pub fn by_status(kind: Kind, status: &Status, deadline: Duration) -> ApiError {
    let text = || text(kind, status);
    match (status.reason.as_str(), status.code) {
        (reason::ALREADY_EXISTS, _) => ApiError::AlreadyExists(text()),
        // Both say that the server gave up waiting: what was asked may still happen.
        (reason::TIMEOUT | reason::SERVER_TIMEOUT, _) | (_, 504) => ApiError::Timeout(deadline),
        (_, 409) => ApiError::Conflict(text()),
        (_, 404) => ApiError::NotFound(text()),
        (_, 401 | 403) => ApiError::Forbidden(text()),
        (_, 429) => ApiError::TooManyRequests(text()),
        (_, 400..=499) => ApiError::Invalid(text()),
        (_, 500) if status.message.starts_with(TYPED_PATCH) => ApiError::Invalid(text()),
        _ => ApiError::Unavailable(text()),
    }
}

/// The variant's name: metric label.
pub fn outcome(error: &ApiError) -> &'static str {
    match error {
        ApiError::Conflict(_) => "Conflict",
        ApiError::AlreadyExists(_) => "AlreadyExists",
        ApiError::NotFound(_) => "NotFound",
        ApiError::Forbidden(_) => "Forbidden",
        ApiError::Invalid(_) => "Invalid",
        ApiError::TooManyRequests(_) => "TooManyRequests",
        ApiError::Timeout(_) => "Timeout",
        ApiError::Unavailable(_) => "Unavailable",
    }
}

fn text(kind: Kind, status: &Status) -> String {
    let quotes = matches!(status.code, 400 | 415 | 422 | 500);
    if kind == Kind::Secret && quotes {
        let fields = status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.field.as_str());
        let fields: Vec<_> = fields.filter(|field| !field.is_empty()).collect();
        return format!(
            "{} {} (text withheld: it may quote the Secret; fields: {})",
            status.code,
            status.reason,
            fields.join(", ")
        );
    }
    status.message.clone()
}

/// An error and its sources: hyper's own text ("client error (Connect)") says too little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(8);

    fn status(code: u16, reason: &str) -> Status {
        Status::failure("m", reason).with_code(code)
    }

    #[test]
    fn sorts_by_table() {
        let m = || "m".to_owned();
        for (name, code, reason, expected) in [
            ("a precondition failed", 409, "Conflict", ApiError::Conflict(m())),
            ("create over an existing one", 409, "AlreadyExists", ApiError::AlreadyExists(m())),
            ("gone", 404, "NotFound", ApiError::NotFound(m())),
            ("no right", 403, "Forbidden", ApiError::Forbidden(m())),
            ("expired token", 401, "Unauthorized", ApiError::Forbidden(m())),
            ("schema", 422, "Invalid", ApiError::Invalid(m())),
            ("strict field validation", 400, "BadRequest", ApiError::Invalid(m())),
            ("too large", 413, "RequestEntityTooLarge", ApiError::Invalid(m())),
            ("budget, or priority and fairness", 429, "TooManyRequests", ApiError::TooManyRequests(m())),
            ("gave up", 504, "Timeout", ApiError::Timeout(DEADLINE)),
            ("gave up, with code 500", 500, "ServerTimeout", ApiError::Timeout(DEADLINE)),
            ("a pod in two budgets", 500, "InternalError", ApiError::Unavailable(m())),
            ("starting", 503, "ServiceUnavailable", ApiError::Unavailable(m())),
            ("a proxy's page without a reason", 502, "Failed to parse error data", ApiError::Unavailable(m())),
            ("a proxy's 409", 409, "", ApiError::Conflict(m())),
        ] {
            assert_eq!(by_status(Kind::Pod, &status(code, reason), DEADLINE), expected, "{name}");
        }
    }

    #[test]
    fn an_apply_that_can_not_be_typed_is_invalid() {
        let mut untyped = status(500, "");
        untyped.message =
            "failed to create typed patch object (n/a; /v1, Kind=Service): .spec.x: field not declared in schema".to_owned();
        assert!(matches!(by_status(Kind::Service, &untyped, DEADLINE), ApiError::Invalid(text) if text == untyped.message));
        let ApiError::Invalid(text) = by_status(Kind::Secret, &untyped, DEADLINE) else { panic!() };
        assert!(!text.contains("spec.x"), "withheld for a Secret: {text}");
    }

    #[test]
    fn a_refused_secret_is_not_quoted() {
        let mut refused = status(422, "Invalid");
        refused.message = "Invalid value: hunter2".to_owned();
        let ApiError::Invalid(text) = by_status(Kind::Secret, &refused, DEADLINE) else { panic!() };
        assert!(!text.contains("hunter2"), "{text}");
        let ApiError::Invalid(text) = by_status(Kind::ConfigMap, &refused, DEADLINE) else { panic!() };
        assert!(text.contains("hunter2"), "others are");
    }
}
