//! Label selectors, as texts of a request and as objects of a spec.

use serde_json::Value;

use crate::refusal::Refusal;

/// One demand on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Demand {
    Is(String, String),
    IsNot(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// Demands that all must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Demand>);

impl Selector {
    /// Reads `a=b,c!=d,e,!f`.
    ///
    /// # Errors
    /// A form that isn't served here (`in` and `notin` have no client).
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let demand = |part: &str| {
            let pair = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
            Ok(if part.contains('(') {
                return Err(Refusal::bad_request(format!("the selector {part:?} isn't served here: sets")));
            } else if let Some(found) = part.split_once("!=").map(pair) {
                Demand::IsNot(found.0, found.1)
            } else if let Some(found) = part.split_once("==").or_else(|| part.split_once('=')).map(pair) {
                Demand::Is(found.0, found.1)
            } else if let Some(key) = part.strip_prefix('!') {
                Demand::Absent(key.to_owned())
            } else {
                Demand::Exists(part.to_owned())
            })
        };
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(demand).collect::<Result<_, _>>().map(Self)
    }

    /// A `LabelSelector`. An absent one selects nothing, which is `None`.
    pub fn of(selector: &Value) -> Option<Self> {
        let fields = selector.as_object()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = fields.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let mut demands: Vec<Demand> = labels.map(|(key, value)| Demand::Is(key.clone(), text(value))).collect();
        for expression in fields.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let key = text(&expression["key"]);
            let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
            demands.push(match expression["operator"].as_str()? {
                "In" => Demand::In(key, values),
                "NotIn" => Demand::NotIn(key, values),
                "Exists" => Demand::Exists(key),
                "DoesNotExist" => Demand::Absent(key),
                _ => return None,
            });
        }
        Some(Self(demands))
    }

    /// A Service's selector: a plain map. An empty one selects nothing, which is `None`.
    pub fn of_map(map: &Value) -> Option<Self> {
        let map = map.as_object().filter(|map| !map.is_empty())?;
        Some(Self(map.iter().map(|(key, value)| Demand::Is(key.clone(), value.as_str().unwrap_or_default().into())).collect()))
    }

    /// Whether an object's labels are as demanded.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        let among = |key: &str, values: &[String]| label(key).is_some_and(|found| values.iter().any(|value| value == found));
        self.0.iter().all(|demand| match demand {
            Demand::Is(key, value) => label(key) == Some(value),
            Demand::IsNot(key, value) => label(key) != Some(value),
            Demand::In(key, values) => among(key, values),
            Demand::NotIn(key, values) => !among(key, values),
            Demand::Exists(key) => label(key).is_some(),
            Demand::Absent(key) => label(key).is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_by_table() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        for (text, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=2", true),
            ("a=2", false),
            ("a!=2", true),
            ("c!=2", true),
            ("a", true),
            ("c", false),
            ("!c", true),
            ("!a", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&object), expected, "{text}");
        }
        assert!(Selector::parse("a in (1,2)").is_err());
    }

    #[test]
    fn selectors_of_specs_by_table() {
        let object = json!({"metadata": {"labels": {"a": "1"}}});
        let expression = |operator: &str, key: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!(null), None),
            (json!({}), Some(true)),
            (json!({"matchLabels": {"a": "1"}}), Some(true)),
            (json!({"matchLabels": {"a": "2"}}), Some(false)),
            (expression("In", "a", json!(["1", "2"])), Some(true)),
            (expression("NotIn", "a", json!(["1", "2"])), Some(false)),
            (expression("Exists", "b", json!([])), Some(false)),
            (expression("DoesNotExist", "b", json!([])), Some(true)),
        ] {
            assert_eq!(Selector::of(&selector).map(|found| found.matches(&object)), expected, "{selector}");
        }
        assert_eq!(Selector::of_map(&json!({})), None, "a Service without a selector has no pods");
    }
}
