//! Text that breaks careless writers, for the property tests.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// What is dangerous in one dialect or another: comment signs, escapes, interpolation, line ends, injected lines, white space
/// that only some readers strip, and scalars that YAML readers take for something else.
const DANGEROUS: &[&str] = &[
    "#",
    ";",
    "!",
    "=",
    ":",
    ",",
    "%",
    "%%",
    "%(a)s",
    "$(a)",
    "$(HOME)",
    "${a}",
    "`",
    "'",
    "'''",
    "'\\''",
    "\"",
    "\\",
    "\\\\",
    "\\n",
    "\\u0041",
    "[",
    "]",
    "{",
    "}",
    "&",
    "*",
    "|",
    ">",
    "<",
    "?",
    "-",
    "+",
    "@",
    "~",
    ".",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\0",
    " ",
    "  ",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{1c}",
    "\u{b}",
    "\u{c}",
    "\u{2003}",
    "\u{2028}",
    "\u{feff}",
    "\u{202e}",
    "\u{fffe}",
    "é",
    "😀",
    "\nk = v\n",
    "\n[S]\nk = v\n",
    "\nk=v\n",
    "\n k = v",
    "\r\n#",
    " # ",
    " ; ",
    "\n- a: b\n",
    ": ",
    "include x",
    "DEFAULT",
];

/// Whole values with a meaning of their own in YAML 1.1 or 1.2.
pub(super) const YAML_TRAPS: &[&str] = &[
    "",
    "on",
    "Off",
    "yes",
    "no",
    "NO",
    "y",
    "N",
    "true",
    "False",
    "null",
    "Null",
    "~",
    "=",
    "<<",
    "0755",
    "0o7",
    "08",
    "0x1F",
    "0b1",
    "1_000",
    "1e3",
    "1e+3",
    "1.5e3",
    ".5",
    "5.",
    "+1",
    "-1",
    "12:30:45",
    "190:20:30.15",
    "1:2",
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    ".inf",
    "-.INF",
    ".NaN",
    "nan",
    "-",
    "?",
    ":",
    "- a",
    "? a",
    "a: b",
    "a #b",
    "---",
    "...",
    "--- a",
    "%YAML 1.1",
    "!a",
    "&a",
    "*a",
    "@a",
    "`a",
    "[a]",
    "{a: b}",
    "|",
    ">",
    "a:",
    " a",
    "a ",
    "\ta",
    "a\n",
    "\n",
    "'a'",
    "\"a\"",
];

/// Any text, most of it dangerous.
pub(super) fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(DANGEROUS).prop_map(str::to_owned),
        2 => "[a-zA-Z0-9]{1,3}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop_oneof![9 => vec(piece, 0..6).prop_map(|pieces| pieces.concat()), 1 => prop::sample::select(YAML_TRAPS).prop_map(str::to_owned)]
}

/// Text that most dialects can represent, with a dangerous one every now and then: so that a file with several of them is
/// often written.
pub(super) fn mostly_plain() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[ -~]{0,8}",
        2 => "[a-z0-9./-]{1,8}",
        1 => "[%=;:\"'&<\\\\\\[\\] +]{1,6}",
        1 => text(),
    ]
}

/// Sections of keys with hostile values. The names are such that every INI writer accepts them.
pub(super) fn sections() -> impl Strategy<Value = BTreeMap<String, BTreeMap<String, String>>> {
    let keys = btree_map("[a-z_][a-z0-9_-]{0,6}", mostly_plain(), 1..4);
    btree_map("[A-Z_][A-Z0-9_-]{0,6}", keys, 1..4)
        .prop_filter("Python refuses it", |sections| !sections.contains_key("DEFAULT"))
}

/// Marks a value, so that a test can look for it in a message.
pub(super) const MARK: &str = "Xy7Qp2Zk";

/// A value with a mark in it.
pub(super) fn secret() -> impl Strategy<Value = String> {
    (text(), text()).prop_map(|(before, after)| format!("{before}{MARK}{after}"))
}

/// A nested document of hostile keys and strings.
pub(super) fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        2 => prop::sample::select(YAML_TRAPS).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let key = prop_oneof![text(), prop::sample::select(YAML_TRAPS).prop_map(str::to_owned)];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key.clone(), inner, 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
