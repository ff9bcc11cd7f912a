//! What a request's path and query name.

use crate::refusal::Refusal;
use crate::resource::Key;
use crate::server::ApiServer;

/// A collection, an object, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// [`crate::Resource::id`].
    pub(super) resource: String,
    /// Empty: all, or the kind has none.
    pub(super) namespace: String,
    /// Empty: the collection.
    pub(super) name: String,
    /// `status`, `eviction`, or empty.
    pub(super) subresource: String,
}

impl Target {
    /// Reads a path.
    ///
    /// # Errors
    /// Nothing is served there.
    pub(super) fn parse(api: &ApiServer, path: &str) -> Result<Self, Refusal> {
        let missing = || Refusal { code: 404, reason: "NotFound", message: format!("nothing is served at {path}") };
        let words: Vec<String> = path.split('/').filter(|word| !word.is_empty()).map(decode).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (group, version, rest) = match &words[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(missing()),
        };
        // A namespace is an object, too.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest[0] != "status" => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return Err(missing()),
        };
        let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let served = api.read(|store| store.resource(&resource).map(|kind| (kind.version == version, kind.status)))?;
        let (true, status) = served else { return Err(missing()) };
        let is_part = (subresource == "status" && status) || (subresource == "eviction" && resource == "pods");
        if !subresource.is_empty() && !is_part {
            return Err(missing());
        }
        Ok(Self { resource, namespace: namespace.into(), name: name.into(), subresource: subresource.into() })
    }

    pub(super) fn key(&self) -> Key {
        Key::new(&self.resource, &self.namespace, &self.name)
    }
}

/// Parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (decode(name), decode(&value.replace('+', " ")))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

/// Percent-decoding; what isn't encoded well stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        decoded.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_by_table() {
        let api = ApiServer::new();
        let parse = |path: &str| Target::parse(&api, path).ok().map(|t| (t.resource, t.namespace, t.name, t.subresource));
        let expect = |resource: &str, namespace: &str, name: &str, part: &str| {
            Some((resource.to_owned(), namespace.to_owned(), name.to_owned(), part.to_owned()))
        };
        for (path, expected) in [
            ("/api/v1/pods", expect("pods", "", "", "")),
            ("/api/v1/namespaces/n/pods", expect("pods", "n", "", "")),
            ("/api/v1/namespaces/n/pods/a", expect("pods", "n", "a", "")),
            ("/api/v1/namespaces/n/pods/a/status", expect("pods", "n", "a", "status")),
            ("/api/v1/namespaces/n/pods/a/eviction", expect("pods", "n", "a", "eviction")),
            ("/api/v1/namespaces/n", expect("namespaces", "", "n", "")),
            ("/api/v1/namespaces", expect("namespaces", "", "", "")),
            ("/api/v1/namespaces/n/status", expect("namespaces", "", "n", "status")),
            ("/apis/apps/v1/statefulsets", expect("statefulsets.apps", "", "", "")),
            ("/apis/apps/v1beta1/statefulsets", None),
            ("/api/v1/namespaces/n/pods/a/log", None),
            ("/api/v1/namespaces/n/secrets/a/status", None),
            ("/api/v1/nothings", None),
            ("/metrics", None),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("&force=true&labelSelector=app.kubernetes.io%2Fname%3Dx%2Cy&bad=%zz");
        assert!(query.is("force", "true"));
        assert_eq!(query.get("labelSelector"), Some("app.kubernetes.io/name=x,y"));
        assert_eq!((query.get("bad"), query.get("none")), (Some("%zz"), None));
    }
}
