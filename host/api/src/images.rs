//! Which image a server line has. One map in the operator's configuration; people who mirror registries override the registry
//! alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Images of the servers and how to pull them.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Images {
    /// Replaces the registry of every reference, or is put before one that names none. Empty: references stay as they are.
    #[serde(default)]
    pub registry: String,
    /// Line ("9.1") to reference, with a tag or a digest.
    #[serde(default)]
    pub lines: BTreeMap<String, String>,
    /// Always, IfNotPresent or Never; absent: Kubernetes' own default.
    #[serde(default)]
    pub pull_policy: Option<String>,
    /// Names of Secrets for pulling, in the namespace of each instance.
    #[serde(default)]
    pub pull_secrets: Vec<String>,
}

/// Why a line has no image. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The map lacks the line.
    #[error(
        "the operator's configuration names no image for version {line} (it has: {known}); add the line to the chart value for images"
    )]
    ImageUnknown {
        /// Line that was asked for.
        line: String,
        /// Lines that there are.
        known: String,
    },
    /// The reference can't be pulled, or would pull whatever is newest.
    #[error(
        "the image for version {line} in the operator's configuration is {reference:?}, which {problem}; \
         write it as repository:tag or repository@sha256:digest"
    )]
    ImageReferenceInvalid {
        /// Line.
        line: String,
        /// What the configuration says.
        reference: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl ImageError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ImageUnknown { .. } => "ImageUnknown",
            Self::ImageReferenceInvalid { .. } => "ImageReferenceInvalid",
        }
    }
}

impl Images {
    /// The reference of a line, with the registry replaced.
    ///
    /// # Errors
    /// Names the line and what is wrong with the configuration.
    pub fn reference(&self, line: &str) -> Result<String, ImageError> {
        let reference = self.lines.get(line).ok_or_else(|| {
            let known = self.lines.keys().cloned().collect::<Vec<_>>().join(", ");
            ImageError::ImageUnknown { line: line.into(), known: if known.is_empty() { "none".into() } else { known } }
        })?;
        if let Some(problem) = problem(reference) {
            return Err(ImageError::ImageReferenceInvalid { line: line.into(), reference: reference.clone(), problem });
        }
        let registry = self.registry.trim_end_matches('/');
        Ok(if registry.is_empty() { reference.clone() } else { format!("{registry}/{}", split_registry(reference).1) })
    }
}

/// Registry and the rest. The first part is a registry if it looks like a host: it has a dot or a port, or is `localhost`.
fn split_registry(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, reference),
    }
}

/// What is wrong with a reference.
fn problem(reference: &str) -> Option<&'static str> {
    let path = split_registry(reference).1;
    let (repository, digest) = path.split_once('@').map_or((path, None), |(repository, digest)| (repository, Some(digest)));
    let (repository, tag) = repository.split_once(':').map_or((repository, None), |(repository, tag)| (repository, Some(tag)));
    if reference.is_empty() {
        Some("is empty")
    } else if reference.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Some("contains a space")
    } else if repository.is_empty() || repository.starts_with('/') || repository.ends_with('/') {
        Some("names no repository")
    } else if digest.is_some_and(|d| {
        !d.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    }) {
        Some("has a malformed digest")
    } else if tag.is_some_and(|t| t.is_empty() || t.contains([':', '/'])) {
        Some("has a malformed tag")
    } else if tag.is_none() && digest.is_none() {
        Some("has neither tag nor digest")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(registry: &str, reference: &str) -> Images {
        Images { registry: registry.into(), lines: [("9.1".into(), reference.into())].into(), ..Images::default() }
    }

    #[test]
    fn registry_is_replaced_or_put_before() {
        let digest = format!("valkey/valkey@sha256:{}", "a".repeat(64));
        for (registry, reference, result) in [
            ("", "valkey/valkey:9.1.2", "valkey/valkey:9.1.2".to_owned()),
            ("mirror.example", "valkey/valkey:9.1.2", "mirror.example/valkey/valkey:9.1.2".into()),
            (
                "mirror.example/team/",
                "registry.example:5000/valkey/valkey:9.1.2",
                "mirror.example/team/valkey/valkey:9.1.2".into(),
            ),
            ("mirror.example", "localhost/valkey:9.1.2", "mirror.example/valkey:9.1.2".into()),
            ("mirror.example", "valkey:9.1.2", "mirror.example/valkey:9.1.2".into()),
            ("", "registry.example:5000/valkey:9.1.2", "registry.example:5000/valkey:9.1.2".into()),
            ("mirror.example", &digest, format!("mirror.example/{digest}")),
        ] {
            assert_eq!(images(registry, reference).reference("9.1"), Ok(result), "{registry} {reference}");
        }
    }

    #[test]
    fn what_cannot_be_pulled_or_says_no_version_is_refused() {
        for reference in [
            "",
            " ",
            "valkey/valkey",
            "registry.example:5000/valkey",
            "valkey/valkey:",
            "valkey/valkey:9 .1",
            "valkey@sha256:abc",
            ":9.1",
            "registry.example/:9.1",
        ] {
            let error = images("", reference).reference("9.1").unwrap_err();
            assert_eq!(error.reason(), "ImageReferenceInvalid", "{reference:?}: {error}");
        }
    }

    #[test]
    fn an_unknown_line_names_the_known_ones() {
        let error = images("", "valkey/valkey:9.1.2").reference("8.1").unwrap_err();
        assert_eq!(error.reason(), "ImageUnknown");
        assert!(error.to_string().contains("version 8.1 (it has: 9.1)"), "{error}");
        assert!(Images::default().reference("8.1").unwrap_err().to_string().contains("(it has: none)"));
    }

    #[test]
    fn read_as_the_configuration_writes_it() {
        let text =
            r#"{"registry":"mirror.example","lines":{"9.1":"valkey/valkey:9.1.2"},"pullPolicy":"Always","pullSecrets":["pull"]}"#;
        let images: Images = serde_json::from_str(text).unwrap();
        assert_eq!(images.reference("9.1").unwrap(), "mirror.example/valkey/valkey:9.1.2");
        assert_eq!((images.pull_policy.as_deref(), images.pull_secrets), (Some("Always"), vec!["pull".to_owned()]));
    }
}
