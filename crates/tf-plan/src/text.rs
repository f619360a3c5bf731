//! Lists as messages have them.

/// At most five names of a list, with how many more there are.
pub fn shorten(names: &[String]) -> String {
    join(names, ", ")
}

/// At most five sentences of a list, with how many more there are.
pub fn shorten_messages(messages: &[String]) -> String {
    join(messages, "; ")
}

fn join(items: &[String], separator: &str) -> String {
    let shown = items.iter().take(5).cloned().collect::<Vec<_>>().join(separator);
    match items.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
