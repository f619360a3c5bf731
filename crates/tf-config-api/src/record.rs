//! What shall be in the config API: objects as its schema has them, and how firmly each value is meant.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The name of an object with those of everything it is in.
pub type FqName = Vec<String>;

/// A type of objects, as the API's paths name it (docs/upstream/config-api.md#requests).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type {
    /// Its name in paths and around bodies, with dashes.
    pub name: &'static str,
    /// Type of the objects that it is in; none for those at the top.
    pub parent: Option<&'static str>,
}

impl Serialize for Type {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl Type {
    /// The property in which an object refers to objects of this type.
    pub fn references(self) -> String {
        format!("{}_refs", self.name.replace('-', "_"))
    }

    /// Where objects of the type are listed and made.
    pub fn collection(self) -> String {
        format!("{}s", self.name)
    }
}

/// How firmly a value is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strength {
    /// The spec says it, or it is a fact about a member: whoever changes it in the API finds it changed back.
    Stated,
    /// Nobody asked for it in particular. It is set where nothing is, and again when it becomes another one; who changes it in the API
    /// keeps that.
    Usual,
}

/// A value that something shall have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// How firmly.
    pub strength: Strength,
}

impl Setting {
    /// One that the spec or a fact asks for.
    pub fn stated(value: impl Into<Value>) -> Self {
        Self { value: value.into(), strength: Strength::Stated }
    }

    /// One that nobody asks for in particular.
    pub fn usual(value: impl Into<Value>) -> Self {
        Self { value: value.into(), strength: Strength::Usual }
    }

    /// One that is stated exactly if it is not what everybody has who says nothing.
    pub fn unless_default<T: Into<Value> + PartialEq>(value: T, default: &T) -> Self {
        if value == *default { Self::usual(value) } else { Self::stated(value) }
    }
}

/// What a property of an object shall be. The API takes a property as a whole; here only what is named changes in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Property {
    /// One value.
    Whole(Setting),
    /// Fields of an object, which may have others.
    Fields(BTreeMap<&'static str, Setting>),
    /// Entries of a list within an object, which may hold others.
    Entries {
        /// Field with the list.
        list: &'static str,
        /// Field of an entry with its name.
        key: &'static str,
        /// Entries by their names; all of them are stated.
        entries: BTreeMap<String, Value>,
    },
    /// One value that the API takes when the object is made and never after.
    Initial {
        /// The value.
        value: Value,
        /// What an object without one is.
        absent: Value,
    },
}

/// A reference to another object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Type of the other one.
    pub kind: Type,
    /// Its name.
    pub to: FqName,
    /// Whether the other one may be deleted although it is referred to (`ref-relax-for-delete`, docs/upstream/config-api.md#requests).
    pub relaxed: bool,
}

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// Made for the resource, and deleted with it.
    Ours,
    /// Everybody's, like the settings of the whole system: made where it is missing, never deleted.
    Shared,
}

/// An object that shall be in the API.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Its type.
    pub kind: Type,
    /// Its name.
    pub name: FqName,
    /// Whose it is.
    pub ownership: Ownership,
    /// What it shall say, by properties.
    pub properties: BTreeMap<&'static str, Property>,
    /// To what it shall refer.
    pub references: Vec<Reference>,
}

impl Record {
    /// Type and name, for people.
    pub fn label(&self) -> String {
        label(self.kind.name, &self.name)
    }
}

/// Type and name of an object, for people.
pub fn label(kind: &str, name: &[String]) -> String {
    format!("{kind} {}", name.join(":"))
}
