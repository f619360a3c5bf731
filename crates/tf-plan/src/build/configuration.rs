//! The files of a resource's daemons, stored in one ConfigMap and one Secret.
//!
//! One key per file and member, `<file>.<address>`; every pod mounts everything and the node agent picks what carries its
//! own address. Files with secrets go to the Secret, nothing else does.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use tf_agent_api::{
    content::{self, ContentHash, Stored, content_hash, key},
    node,
};
use tf_api::{
    contract::{MemberStatus, Reason},
    names,
};

use crate::{
    build::identity::Identity,
    external_tls::File,
    hash,
    not_ready::NotReady,
    object::{CONFIG_MAP, Object, SECRET},
};

/// Largest content of a ConfigMap or Secret the API server stores, less some room for metadata.
const SIZE_LIMIT: usize = 1024 * 1024 - 16 * 1024;

/// A set of files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Files {
    open: BTreeMap<String, String>,
    secret: BTreeMap<String, String>,
    expects_secrets: bool,
}

impl Files {
    /// A file all members share.
    pub fn shared(&mut self, file: &str, content: impl Into<String>) {
        self.open.insert(file.to_owned(), content.into());
    }

    /// Files all members share for TLS to services of other authorities.
    pub fn external_tls(&mut self, files: impl IntoIterator<Item = File>) {
        for File { name, content, is_secret } in files {
            let of = if is_secret { &mut self.secret } else { &mut self.open };
            of.insert(name, content);
        }
    }

    /// A file of the member with this address.
    pub fn member(&mut self, file: &str, address: &str, content: impl Into<String>) {
        self.open.insert(key(file, address), content.into());
    }

    /// One file with a secret of each of these members.
    ///
    /// # Errors
    /// That of its content.
    pub fn secret_of_each<E>(
        file: &str,
        members: &[MemberStatus],
        content: impl Fn(&MemberStatus) -> Result<String, E>,
    ) -> Result<Self, E> {
        let mut files = Self::default();
        for member in members {
            files.member_secret(file, &member.address, content(member)?);
        }
        Ok(files)
    }

    /// All of these, too.
    pub fn append(&mut self, mut other: Self) {
        self.open.append(&mut other.open);
        self.secret.append(&mut other.secret);
        self.expects_secrets |= other.expects_secrets;
    }

    /// Who each member of a store is, and who else is one ([`node::MEMBER_FILE`]). `uid`: that of the resource.
    pub fn identities(&mut self, uid: &str, members: &[MemberStatus]) {
        for MemberStatus { id, address, .. } in members {
            let others = members.iter().map(|other| other.id).filter(|other| other != id);
            let others: Vec<String> = others.map(|other| other.to_string()).collect();
            self.member(node::MEMBER_FILE, address, format!("{uid}/{id}\n"));
            self.member(node::OTHER_MEMBERS_FILE, address, format!("{}\n", others.join(" ")));
        }
    }

    /// A file all members share and that holds a secret.
    pub fn shared_secret(&mut self, file: &str, content: impl Into<String>) {
        self.secret.insert(file.to_owned(), content.into());
    }

    /// There is a Secret, and pods mount it, although no file may hold a secret yet: when one comes, pods stay as they are.
    pub fn expect_secrets(&mut self) {
        self.expects_secrets = true;
    }

    /// A file of the member with this address that holds a secret.
    pub fn member_secret(&mut self, file: &str, address: &str, content: impl Into<String>) {
        self.secret.insert(key(file, address), content.into());
    }

    /// A file that every node completes for itself, see [`tf_agent_api::template`].
    pub fn template(&mut self, file: &str, content: impl Into<String>) {
        self.open.insert(key(file, node::TEMPLATE_SUFFIX), content.into());
    }

    /// A file that every node completes for itself and that holds a secret.
    pub fn template_secret(&mut self, file: &str, content: impl Into<String>) {
        self.secret.insert(key(file, node::TEMPLATE_SUFFIX), content.into());
    }

    /// The hash of what the member with this address gets of them. None for what is no address.
    pub fn content_hash(&self, address: &str) -> Option<ContentHash> {
        let (secret, open) = (self.secret.keys().map(String::as_str), self.open.keys().map(String::as_str));
        let own = content::of_member(secret, open, address.parse().ok()?);
        let text = |stored: &Stored<'_>| match stored.volume {
            content::Volume::Secret => self.secret.get(stored.key),
            content::Volume::Config => self.open.get(stored.key),
        };
        let contents: BTreeMap<String, &str> =
            own.iter().filter_map(|(file, stored)| Some(((*file).to_owned(), text(stored)?.as_str()))).collect();
        Some(content_hash(&contents))
    }

    /// The hash of what each of these members gets, by its node.
    pub fn content_hashes(&self, members: &[MemberStatus]) -> BTreeMap<String, ContentHash> {
        members.iter().filter_map(|member| Some((member.node.clone(), self.content_hash(&member.address)?))).collect()
    }

    /// Whether any file holds a secret, or may later.
    pub fn has_secrets(&self) -> bool {
        self.expects_secrets || !self.secret.is_empty()
    }

    /// The ConfigMap and, if any file holds a secret or may later, the Secret.
    ///
    /// # Errors
    /// `InvalidSpec` if the files do not fit into an object.
    pub fn objects(&self, identity: &Identity) -> Result<Vec<Object>, NotReady> {
        let mut objects = vec![Object::new(
            CONFIG_MAP,
            &ConfigMap {
                metadata: annotated(identity, config_map_name(identity), &self.open)?,
                data: Some(self.open.clone()),
                ..ConfigMap::default()
            },
        )];
        if self.has_secrets() {
            let bytes = |text: &String| ByteString(text.clone().into_bytes());
            objects.push(Object::new(
                SECRET,
                &Secret {
                    metadata: annotated(identity, secret_name(identity), &self.secret)?,
                    data: Some(self.secret.iter().map(|(key, text)| (key.clone(), bytes(text))).collect()),
                    type_: Some("Opaque".into()),
                    ..Secret::default()
                },
            ));
        }
        Ok(objects)
    }
}

/// Name of the ConfigMap with files. Not the Go tf-operator's: its pods restart their daemons when a file in that changes.
pub fn config_map_name(identity: &Identity) -> String {
    identity.object_name("files")
}

/// Name of the ConfigMap with the files of the Go tf-operator.
pub fn foreign_config_map_name(identity: &Identity) -> String {
    identity.object_name("configmap")
}

/// Name of the Secret with files.
pub fn secret_name(identity: &Identity) -> String {
    identity.object_name("secret-files")
}

fn annotated(
    identity: &Identity,
    name: String,
    files: &BTreeMap<String, String>,
) -> Result<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, NotReady> {
    let size: usize = files.iter().map(|(key, text)| key.len() + text.len()).sum();
    if size > SIZE_LIMIT {
        return Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!("the configuration needs {size} bytes and {name} can hold {SIZE_LIMIT}; use fewer members"),
        ));
    }
    let digest = hash::of_contents(files.iter().map(|(key, text)| (key.as_str(), text.as_bytes())));
    let mut meta = identity.meta(name);
    meta.annotations = Some(BTreeMap::from([(names::ANNOTATION_CONFIG_HASH.to_owned(), digest)]));
    Ok(meta)
}
