//! Where control nodes and DNS look up the objects of their nodes: in the table of the API that is played here, or, with the variable [`TABLES`], in those of
//! a real API (upstream `vnc_cassandra.py`): names in `obj_fq_name_table`, a partition for each type and a column for each object, its name and its
//! identifier with colons between; objects in `obj_uuid_table`, a partition for each identifier and a column of JSON for each property.

use std::env;

use anyhow::{Context as _, Result};

use super::{BGP_ROUTER, VIRTUAL_ROUTER, key};
use crate::{
    api::KEYSPACE,
    exit::{Exit, usage},
    stores::cassandra::Database,
};

/// Says whose tables: `sim`, which is what nothing means, or `real`.
pub const TABLES: &str = "TF_SIM_CONFIG_TABLES";

/// Where objects are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directory {
    /// In the table of the played API.
    #[default]
    Played,
    /// In the tables of a real one.
    Real,
}

impl Directory {
    /// The one that the variable names.
    ///
    /// # Errors
    /// When it names none that there is.
    pub fn of_environment() -> Result<Self, Exit> {
        Self::read(&env::var(TABLES).unwrap_or_default())
    }

    fn read(text: &str) -> Result<Self, Exit> {
        match text {
            "" | "sim" => Ok(Self::Played),
            "real" => Ok(Self::Real),
            _ => Err(usage(format!("{TABLES} is {text:?}: sim or real is wanted"))),
        }
    }

    /// Whether there is a bgp-router or virtual-router of a node.
    ///
    /// # Errors
    /// When the database does not say.
    pub async fn has(self, database: &Database, kind: &str, node: &str) -> Result<bool> {
        let Some(key) = key(kind, node) else { return Ok(false) };
        if self == Self::Played {
            return Ok(database.get(KEYSPACE, &key).await?.is_some());
        }
        let Some(name) = full_name(kind, node) else { return Ok(false) };
        let columns = database.select(&names(kind, &name)).await?;
        let Some(uuid) = columns.iter().find_map(|column| identifier(column, &name)) else { return Ok(false) };
        let object = database.select(&properties(uuid)).await?;
        Ok(object.iter().any(|column| is_named(column, &name)))
    }
}

/// The full name of what a node is.
fn full_name(kind: &str, node: &str) -> Option<Vec<String>> {
    let above: &[&str] = match kind {
        BGP_ROUTER => &["default-domain", "default-project", "ip-fabric", "__default__"],
        VIRTUAL_ROUTER => &["default-global-system-config"],
        _ => return None,
    };
    Some(above.iter().chain([&node]).map(|&part| part.to_owned()).collect())
}

/// The question for columns of this name, which begin with it and go on with an identifier.
fn names(kind: &str, name: &[String]) -> String {
    let (kind, name) = (kind.replace('-', "_"), name.join(":"));
    format!(
        "SELECT blobAsText(column1), value FROM {KEYSPACE}.obj_fq_name_table WHERE key = textAsBlob('{kind}') \
         AND column1 >= textAsBlob('{name}:') AND column1 <= textAsBlob('{name};')"
    )
}

/// The question for the columns of an object.
fn properties(uuid: &str) -> String {
    format!(
        "SELECT blobAsText(column1), value FROM {KEYSPACE}.obj_uuid_table WHERE key = textAsBlob('{uuid}') \
         AND column1 = textAsBlob('fq_name')"
    )
}

/// The identifier in a column of this name.
fn identifier<'a>(column: &'a [String], name: &[String]) -> Option<&'a str> {
    let (of, uuid) = column.first()?.rsplit_once(':')?;
    let is_one = !uuid.is_empty() && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (of == name.join(":") && is_one).then_some(uuid)
}

/// Whether a column is the full name, and this one.
fn is_named(column: &[String], name: &[String]) -> bool {
    let [property, value] = column else { return false };
    property == "fq_name" && serde_json::from_str::<Vec<String>>(value).context("JSON").is_ok_and(|it| it == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(of: &str, value: &str) -> Vec<String> {
        vec![of.to_owned(), value.to_owned()]
    }

    #[test]
    fn a_real_api_s_rows_lead_from_a_name_to_an_object() {
        const UUID: &str = "7b2ad19c-4ba6-4b0e-a8a4-3b1f0e3b7c11";
        let name = full_name(BGP_ROUTER, "node-1.example.org").unwrap();
        let of = "default-domain:default-project:ip-fabric:__default__:node-1.example.org";
        assert_eq!(identifier(&column(&format!("{of}:{UUID}"), "null"), &name), Some(UUID));
        for other in [format!("{of}-2:{UUID}"), format!("{of}:"), of.to_owned(), format!("{of}:' OR")] {
            assert_eq!(identifier(&column(&other, "null"), &name), None, "{other}");
        }
        let value = r#"["default-domain", "default-project", "ip-fabric", "__default__", "node-1.example.org"]"#;
        assert!(is_named(&column("fq_name", value), &name));
        assert!(!is_named(&column("prop:id_perms", value), &name) && !is_named(&column("fq_name", "null"), &name));
        assert!(names(BGP_ROUTER, &name).contains("key = textAsBlob('bgp_router')"));
        assert_eq!(full_name(VIRTUAL_ROUTER, "a").unwrap(), ["default-global-system-config", "a"]);
    }

    #[test]
    fn the_variable_names_one_of_two() {
        assert_eq!(Directory::read(""), Ok(Directory::Played));
        assert_eq!(Directory::read("sim"), Ok(Directory::Played));
        assert_eq!(Directory::read("real"), Ok(Directory::Real));
        assert!(Directory::read("Real").unwrap_err().why.starts_with(TABLES));
    }
}
