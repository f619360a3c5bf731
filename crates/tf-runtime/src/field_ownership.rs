//! Removing the fields from a patch that the API server does not take from us: those that another field manager holds, and
//! those that the definition of the kind does not have.

use serde_json::Value;

/// Removes the field that a conflict names, for example `.spec.commonConfiguration.logLevel` or
/// `.spec.containers[name="a"].image` (the syntax of the API server's structured-merge-diff). For a list item the whole
/// list is left to the other manager when the item cannot be told apart here.
pub fn remove(body: &mut Value, field: &str) {
    remove_at(body, &segments(field));
}

/// The fields for which the API server refuses a patch because its definition of the kind does not have them; none if it
/// says something else. Its words are those of structured-merge-diff: one line for each field, behind the object's name.
///
/// Inside of lists it is left to people: without its item a list would say something else.
pub fn undeclared(message: &str) -> Vec<String> {
    let (_, told) = message.split_once("failed to create typed patch object (").unwrap_or_default();
    let (_, told) = told.split_once("): ").unwrap_or_default();
    let lines = told.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "errors:");
    let field = |line: &str| {
        let field = line.strip_suffix(": field not declared in schema")?;
        (field.starts_with('.') && !field.contains('[')).then(|| field.to_owned())
    };
    lines.map(field).collect::<Option<Vec<_>>>().unwrap_or_default()
}

#[derive(Debug, PartialEq)]
enum Segment {
    Field(String),
    /// Some item of a list, as the API server names it.
    Item(String),
}

fn segments(field: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut rest = field;
    while let Some(first) = rest.chars().next() {
        match first {
            '.' => {
                let end = rest[1..].find(['.', '[']).map_or(rest.len(), |at| at + 1);
                found.push(Segment::Field(rest[1..end].to_owned()));
                rest = &rest[end..];
            }
            '[' => {
                let end = rest.find(']').map_or(rest.len(), |at| at + 1);
                found.push(Segment::Item(rest[1..end.saturating_sub(1).max(1)].to_owned()));
                rest = &rest[end..];
            }
            _ => {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                found.push(Segment::Field(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    found
}

fn remove_at(value: &mut Value, path: &[Segment]) {
    let Some(fields) = value.as_object_mut() else { return };
    match path {
        [] | [Segment::Item(_), ..] => {}
        [Segment::Field(name)] | [Segment::Field(name), Segment::Item(_), ..] => {
            fields.remove(name);
        }
        [Segment::Field(name), rest @ ..] => {
            if let Some(next) = fields.get_mut(name) {
                remove_at(next, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_named_field_goes_and_its_neighbours_stay() {
        let mut body = json!({"spec": {"commonConfiguration": {"logLevel": "debug", "replicas": 3}}});
        remove(&mut body, ".spec.commonConfiguration.logLevel");
        assert_eq!(body, json!({"spec": {"commonConfiguration": {"replicas": 3}}}));
    }

    #[test]
    fn a_list_with_a_held_item_is_left_to_its_holder() {
        let mut body = json!({"spec": {"containers": [{"name": "a", "image": "x"}], "other": 1}});
        remove(&mut body, r#".spec.containers[name="a"].image"#);
        assert_eq!(body, json!({"spec": {"other": 1}}));
    }

    #[test]
    fn an_unknown_field_changes_nothing() {
        let mut body = json!({"a": 1});
        remove(&mut body, ".b.c");
        remove(&mut body, "");
        assert_eq!(body, json!({"a": 1}));
    }

    #[test]
    fn fields_that_a_definition_does_not_have_are_known_by_the_words_of_the_api_server() {
        let told = |rest: &str| {
            undeclared(&format!(
                "failed to create typed patch object (tf/a; tf.tungsten.io/v1alpha1, Kind=Zookeeper): {rest}"
            ))
        };
        assert_eq!(told(".spec.b: field not declared in schema"), [".spec.b"]);
        let two = "errors:\n  .spec.a: field not declared in schema\n  .spec.b.c: field not declared in schema";
        assert_eq!(told(two), [".spec.a", ".spec.b.c"]);
        let mixed = "errors:\n  .spec.a: field not declared in schema\n  .spec.b: expected numeric (int), got string";
        for other in [mixed, r#".spec.containers[name="a"].b: field not declared in schema"#, ""] {
            assert_eq!(told(other), Vec::<String>::new(), "{other}");
        }
        assert_eq!(undeclared(".spec.b: field not declared in schema"), Vec::<String>::new());
    }
}
