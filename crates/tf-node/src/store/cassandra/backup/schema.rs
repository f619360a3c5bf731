//! Keyspaces and tables of a backup, in the words that the server itself wrote beside the snapshot of each table.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result};
use tf_agent_api::cassandra::backup::Backup;

use super::{
    SCHEMA, directory,
    read::{read_file, whole},
};

/// The schema of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Schema {
    /// Release of the server that wrote it.
    pub(in super::super) release: String,
    /// Keyspaces, each with whether its writes go to the commit log.
    pub(in super::super) keyspaces: BTreeMap<String, bool>,
    /// Statements that make what is in them, each of which can be made twice ([`is_harmless`]). Views come after all tables.
    pub(in super::super) statements: Vec<String>,
}

/// Reads the schema of a folder.
///
/// # Errors
/// When a file is missing or damaged, with its name.
pub(in super::super) fn schema(volume: &Path, of: &Backup, number: u32) -> Result<Schema> {
    let folder = directory(volume, of)?.join(number.to_string());
    let (manifest, sums) = whole(&folder, of, number)?;
    let (mut tables, mut views) = (Vec::new(), Vec::new());
    for sum in sums.iter().filter(|sum| sum.path.ends_with(&format!("/{SCHEMA}"))) {
        let text = String::from_utf8(read_file(&folder, sum)?).with_context(|| sum.path.clone())?;
        let statements = statements(&text);
        let is_view = statements.iter().any(|statement| statement.starts_with("CREATE MATERIALIZED VIEW"));
        if is_view { &mut views } else { &mut tables }.extend(statements);
    }
    tables.append(&mut views);
    Ok(Schema { release: manifest.release, keyspaces: manifest.keyspaces, statements: tables })
}

/// Whether a statement did not succeed because it was made before: types have no `IF NOT EXISTS` in 3.11, and a column is dropped once.
pub(in super::super) fn is_harmless(statement: &str, error: &str) -> bool {
    let is_again = statement.starts_with("CREATE TYPE") && error.contains("already exists");
    is_again || statement.starts_with("ALTER TABLE") && error.contains("was not found in table")
}

/// Statements of a text. A semicolon in quotation marks ends none.
fn statements(text: &str) -> Vec<String> {
    let (mut statements, mut statement, mut quoted) = (Vec::new(), String::new(), None);
    for character in text.chars() {
        match quoted {
            // A doubled mark ends one quotation and begins the next.
            Some(mark) if mark == character => quoted = None,
            None if matches!(character, '\'' | '"') => quoted = Some(character),
            None if character == ';' => {
                statements.push(std::mem::take(&mut statement));
                continue;
            }
            _ => {}
        }
        statement.push(character);
    }
    statements.push(statement);
    statements.iter().map(|statement| statement.trim().to_owned()).filter(|statement| !statement.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::write::{
            tests::{backup, request, server},
            write,
        },
        *,
    };

    #[test]
    fn views_are_made_after_the_tables_that_they_are_of() {
        let (_root, volume, data) = server();
        std::fs::rename(data.join("lab/view-1b"), data.join("lab/a_view-1b")).unwrap();
        write(&volume, &data, &request()).unwrap();
        let schema = schema(&volume, &backup(), 2).unwrap();
        assert_eq!(schema.keyspaces, BTreeMap::from([("lab".into(), true)]));
        let [table, view] = schema.statements.as_slice() else { panic!("{schema:?}") };
        assert!(table.starts_with("CREATE TABLE") && view.starts_with("CREATE MATERIALIZED VIEW"));
    }

    #[test]
    fn a_damaged_schema_is_refused_by_its_name() {
        let (_root, volume, data) = server();
        write(&volume, &data, &request()).unwrap();
        std::fs::write(volume.join("tf/configdb1/first/2/lab/journal-1a/schema.cql"), "DROP TABLE x").unwrap();
        let why = schema(&volume, &backup(), 2).unwrap_err().to_string();
        assert!(why.ends_with("journal-1a/schema.cql is damaged"), "{why}");
    }

    #[test]
    fn a_semicolon_in_a_comment_of_a_table_ends_no_statement() {
        let text = "CREATE TABLE a.\"b;\" (c int) WITH comment = 'it''s; that';\nCREATE INDEX d ON a.b (c);\n";
        let read = statements(text);
        assert_eq!(read, ["CREATE TABLE a.\"b;\" (c int) WITH comment = 'it''s; that'", "CREATE INDEX d ON a.b (c)"]);
    }

    /// In the words of 5.0.9.
    #[test]
    fn what_was_made_before_is_no_failure_and_anything_else_is() {
        let dropped = "the server refuses: Column d was not found in table 'lab.\"Odd\"' (0x2200)";
        assert!(is_harmless("ALTER TABLE lab.\"Odd\" DROP d USING TIMESTAMP 1795455673100001", dropped));
        assert!(is_harmless("CREATE TYPE lab.ty (a int)", "A user type of name lab.ty already exists"));
        assert!(!is_harmless("CREATE TABLE lab.t (a int)", "line 1:0 no viable alternative"));
        assert!(!is_harmless("ALTER TABLE lab.t DROP d", "unavailable"));
    }
}
