//! Removing the fields from a patch that another field manager holds.

use serde_json::Value;

/// Removes the field that a conflict names, for example `.spec.commonConfiguration.logLevel` or
/// `.spec.containers[name="a"].image` (the syntax of the API server's structured-merge-diff). For a list item the whole
/// list is left to the other manager when the item cannot be told apart here.
pub fn remove(body: &mut Value, field: &str) {
    remove_at(body, &segments(field));
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
}
