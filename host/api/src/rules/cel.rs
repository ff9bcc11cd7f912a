//! Pieces of CEL.

/// A CEL text literal. JSON's escapes are CEL's, too.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::String(text.into()).to_string()
}

/// Whether each part of a path below `self` is there: `a.b` gives `has(self.a) && has(self.a.b)`.
pub(super) fn present(path: &str) -> String {
    present_in("self", path)
}

/// The same below another variable.
pub(super) fn present_in(variable: &str, path: &str) -> String {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| format!("has({variable}.{})", &path[..end])).collect::<Vec<_>>().join(" && ")
}

/// The condition, if the field is there.
pub(super) fn when(path: &str, condition: &str) -> String {
    format!("!({}) || ({condition})", present(path))
}

/// A text in a message: quotes where it is empty, so that there is something to see.
pub(super) fn shown(expression: &str) -> String {
    format!("({expression} == '' ? '\"\"' : {expression})")
}

/// A number as text. By way of `dyn`, because the API server gives `string(int)` no bound, so that any text made of it is too
/// costly.
pub(super) fn number(path: &str) -> String {
    format!("string(dyn(self.{path}))")
}

/// The field or, where it is absent, another text.
pub(super) fn text_or(variable: &str, path: &str, other: &str) -> String {
    format!("({} ? {variable}.{path} : '{other}')", present_in(variable, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_each_part_of_a_path() {
        assert_eq!(present("a"), "has(self.a)");
        assert_eq!(present("a.b.c"), "has(self.a) && has(self.a.b) && has(self.a.b.c)");
        assert_eq!(when("a.b", "self.a.b == 1"), "!(has(self.a) && has(self.a.b)) || (self.a.b == 1)");
        assert_eq!(text_or("oldSelf", "a", "x"), "(has(oldSelf.a) ? oldSelf.a : 'x')");
    }

    #[test]
    fn quotes() {
        assert_eq!(quote(r#"it's "so""#), r#""it's \"so\"""#);
    }
}
