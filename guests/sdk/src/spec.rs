//! Reads the texts that the interface calls `json`.

use serde::de::DeserializeOwned;

use crate::PolicyError;

/// Parses one of the host's JSON texts into a type of the policy. `what` names it in the error ("instance.spec").
///
/// # Errors
/// [`PolicyError::Internal`]: the host gives defaulted, valid specs, so a misfit is a fault of policy or host, never of the
/// instance.
pub fn parse<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, PolicyError> {
    serde_json::from_str(json).map_err(|error| PolicyError::Internal(format!("{what} is not what this policy reads: {error}")))
}

/// Parses a status that some policy wrote earlier. One of another schema counts as absent.
pub fn parse_status<T: DeserializeOwned + Default>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    struct Read {
        members: u32,
    }

    #[test]
    fn a_misfit_names_the_text_and_the_place() {
        assert_eq!(parse::<Read>("instance.spec", r#"{"members":3,"more":1}"#), Ok(Read { members: 3 }));
        let Err(PolicyError::Internal(text)) = parse::<Read>("instance.spec", r#"{"members":"x"}"#) else {
            unreachable!("a text is no number")
        };
        assert!(text.contains("instance.spec") && text.contains("column"), "{text}");
    }

    #[test]
    fn a_foreign_status_counts_as_absent() {
        assert_eq!(parse_status::<Read>(""), Read::default());
        assert_eq!(parse_status::<Read>(r#"{"nodes":[]}"#), Read::default());
        assert_eq!(parse_status::<Read>(r#"{"members":2}"#), Read { members: 2 });
    }
}
