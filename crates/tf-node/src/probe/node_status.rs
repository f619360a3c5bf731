//! Asks a daemon of Tungsten Fabric what it says of itself (docs/upstream/daemons.md#nodestatus).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use anyhow::{Result, bail, ensure};
use tf_agent_api::state::CONNECTIONS;

use super::{Target, http::Connection};
use crate::paths::Paths;

const PATH: &str = "/Snh_SandeshUVECacheReq?x=NodeStatus";
/// Characters that are told: a description names every connection that is down.
pub const LONGEST: usize = 300;
/// The same of a connection's type and name, and of an answer that is no such page.
const LONGEST_NAME: usize = 64;

/// With what a page begins and ends, after its style sheet. The list holds entries and then what closes the answer; a daemon that has none yet
/// sends the latter alone (tf-common, `HttpSendXML` of `sandesh_http.cc` and `create_http_response` of `sandesh_http.py`).
const SHAPES: [(&str, &str); 2] =
    [("<__NodeStatusUVE_list", "</__NodeStatusUVE_list>"), ("<SandeshUVECacheResp", "</SandeshUVECacheResp>")];

/// What a daemon answers about itself, as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(String);

impl Page {
    /// Asks for it.
    pub(super) async fn ask(target: &Target, paths: &Paths) -> Result<Self> {
        let (status, body) = Connection::open(target, paths).await?.get(PATH, None).await?;
        ensure!(status.is_success(), "NodeStatus: status {}", status.as_u16());
        Self::read(&String::from_utf8_lossy(&body))
    }

    /// A page of [`SHAPES`].
    fn read(text: &str) -> Result<Self> {
        let mut body = text.trim();
        while let Some((_, rest)) = body.strip_prefix("<?").and_then(|rest| rest.split_once("?>")) {
            body = rest.trim_start();
        }
        ensure!(!body.is_empty(), "its introspection cannot be read: the answer is empty");
        let Some((_, end)) = SHAPES.iter().find(|(begin, _)| body.starts_with(begin)) else {
            let line = body.split_whitespace().collect::<Vec<_>>().join(" ");
            let begins: String = line.chars().filter(|char| !char.is_control()).take(LONGEST_NAME).collect();
            bail!("its introspection cannot be read: the answer is no NodeStatus, it begins with {begins}");
        };
        ensure!(body.ends_with(end), "its introspection cannot be read: the answer is not complete");
        Ok(Self(body.to_owned()))
    }

    /// The state. It has to be `Functional`, or not to be for want of these types of connections alone; or at least there.
    pub(super) fn state(&self, optional: Option<&BTreeSet<String>>) -> Result<String> {
        judge(&self.0, optional)
    }

    /// What is not up of what the daemon is connected to, but for connections of these types, with why.
    pub fn missing(&self, optional: &BTreeSet<String>) -> Option<String> {
        let told = |Told { kind, name, status, why }: Told| {
            let is_fine = status == "Up" || is_optional(&kind, &format!("{kind}:{name}"), optional);
            (!is_fine).then(|| format!("{kind}:{name} ({})", why.filter(|why| !why.is_empty()).unwrap_or(status)))
        };
        let told: Vec<String> = self.told().filter_map(told).collect();
        (!told.is_empty()).then(|| told.join(", ").chars().take(LONGEST).collect())
    }

    /// What the daemon is connected to, by type and name, and whether it is. Of several of one name all have to be up.
    pub fn connections(&self) -> BTreeMap<String, bool> {
        let mut all = BTreeMap::new();
        for Told { kind, name, status, .. } in self.told().take(CONNECTIONS) {
            let name: String = format!("{kind}:{name}").chars().take(LONGEST_NAME).collect();
            *all.entry(name).or_insert(true) &= status == "Up";
        }
        all
    }

    /// The servers that the daemon names for a connection, by type and name, as far as they are addresses. It names all that it may use.
    pub fn servers(&self, name: &str) -> BTreeSet<SocketAddr> {
        let named = self.parts().filter(|part| {
            let is = |tag: &str| element(part, tag).unwrap_or_default();
            format!("{}:{}", is("type"), is("name")) == name
        });
        let addresses = named.flat_map(|part| part.split("<element>").skip(1));
        addresses.filter_map(|rest| rest.split('<').next()?.trim().parse().ok()).take(CONNECTIONS).collect()
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split("<ConnectionInfo>").skip(1).filter_map(|part| Some(part.split_once("</ConnectionInfo>")?.0))
    }

    fn told(&self) -> impl Iterator<Item = Told> {
        self.parts().filter_map(|part| {
            Some(Told {
                kind: element(part, "type")?,
                name: element(part, "name")?,
                status: element(part, "status")?,
                why: element(part, "description"),
            })
        })
    }
}

/// A connection as the daemon tells it.
struct Told {
    kind: String,
    name: String,
    status: String,
    why: Option<String>,
}

fn judge(page: &str, optional: Option<&BTreeSet<String>>) -> Result<String> {
    // No entry yet, and what it would say is not known.
    let Some(state) = element(page, "state") else { bail!("NodeStatus: the daemon is still initialising") };
    // Connections have descriptions, too, before that of the whole.
    let after = page.rsplit_once("</connection_infos>").map_or(page, |(_, after)| after);
    let description = element(after, "description").filter(|text| !text.is_empty());
    let told = match &description {
        Some(why) => format!("NodeStatus: {state} ({why})"),
        None => format!("NodeStatus: {state}"),
    };
    let told: String = told.chars().take(LONGEST).collect();
    let serves = |optional| state == "Functional" || description.as_deref().is_some_and(|why| wants(why, optional));
    ensure!(optional.is_none_or(serves), told);
    Ok(told)
}

/// Whether a daemon is not functional for want of connections of these types alone: `Collector:Collector[details] connection down`,
/// `Collector, Database connection down`, or `Number of connections:5, Expected:6 Missing: Collector` (docs/upstream/daemons.md#reasons).
fn wants(why: &str, optional: &BTreeSet<String>) -> bool {
    let why = without_details(why);
    let names = why.trim().strip_suffix(" connection down").or_else(|| {
        let (_, missing) = why.strip_prefix("Number of connections:")?.split_once("Missing:")?;
        Some(missing)
    });
    let is_fine = |name: &str| is_optional(name.split(':').next().unwrap_or_default().trim(), name.trim(), optional);
    names.is_some_and(|names| names.trim_end_matches([',', ' ']).split(',').all(is_fine))
}

/// Whether a connection of this type, and of this type and name, is one that the daemon does without: an entry with a colon names one connection
/// (`Database:RabbitMQ`), one without all of a type.
fn is_optional(kind: &str, name: &str, optional: &BTreeSet<String>) -> bool {
    optional.contains(kind) || optional.contains(name)
}

/// A text without what is in brackets: addresses and errors, in whatever words.
fn without_details(text: &str) -> String {
    let mut depth = 0_usize;
    let outside = |letter: &char| {
        match letter {
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    };
    text.chars().filter(outside).collect()
}

/// The text of the first element of this name.
fn element(page: &str, name: &str) -> Option<String> {
    let is_it = |tag: &str| tag == name || tag.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
    let text = page.split('<').find_map(|part| {
        let (tag, text) = part.split_once('>')?;
        is_it(tag).then_some(text)
    })?;
    let text = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(text.trim().to_owned(), |text, (escaped, letter)| text.replace(escaped, letter));
    Some(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(state: &str, description: &str) -> String {
        format!(
            "<?xml-stylesheet type=\"text/xsl\"?><__NodeStatusUVE_list type=\"slist\"><process_status type=\"list\"><ProcessStatus>\
             <module_id type=\"string\">contrail-vrouter-agent</module_id><state type=\"string\" identifier=\"3\">{state}</state>\
             <connection_infos type=\"list\"><description type=\"string\">of a connection</description></connection_infos>\
             <description type=\"string\" identifier=\"5\">{description}</description></ProcessStatus></__NodeStatusUVE_list>"
        )
    }

    #[test]
    fn a_daemon_that_is_not_functional_serves_where_it_need_not_be() {
        let said = |state, description, optional: Option<&BTreeSet<String>>| {
            judge(&page(state, description), optional).map_err(|it| it.to_string())
        };
        let all = &BTreeSet::new();
        assert_eq!(said("Functional", "", Some(all)), Ok("NodeStatus: Functional".into()));
        let lost = "XMPP:control-node:10.0.0.1[&lt;refused&gt;] connection down";
        let told = "NodeStatus: Non-Functional (XMPP:control-node:10.0.0.1[<refused>] connection down)";
        assert_eq!(said("Non-Functional", lost, Some(all)), Err(told.into()));
        assert_eq!(said("Non-Functional", lost, None), Ok(told.into()));
    }

    #[test]
    fn a_daemon_serves_that_lacks_nothing_but_what_it_need_not_have() {
        let optional = BTreeSet::from(["Collector".to_owned()]);
        for (why, serves) in [
            ("Collector connection down", true),
            ("Collector:Collector[None Established, 10.0.0.1] connection down", true),
            ("Number of connections:5, Expected:6 Missing: Collector", true),
            ("Number of connections:5, Expected:6 Missing: Collector:Collector,", true),
            ("Number of connections:4, Expected:6 Missing: Collector, Database:Cassandra", false),
            ("Collector, Database connection down", false),
            ("Database:Cassandra[Collector] connection down", false),
            ("Collector connection down, No BGP configuration for self", false),
            ("No BGP configuration for self", false),
            ("Number of connections:5, Expected:6", false),
            ("", false),
        ] {
            let said = judge(&page("Non-Functional", why), Some(&optional));
            assert_eq!(said.is_ok(), serves, "{why}: {said:?}");
        }
        assert!(judge(&page("Non-Functional", "Collector connection down"), Some(&BTreeSet::new())).is_err());
    }

    #[test]
    fn of_one_type_a_daemon_may_do_without_one_connection_and_not_without_another() {
        let optional = BTreeSet::from(["Database:RabbitMQ".to_owned()]);
        for (why, serves) in [
            ("Database:RabbitMQ[] connection down", true),
            ("Database:RabbitMQ connection down", true),
            ("Number of connections:5, Expected:6 Missing: Database:RabbitMQ", true),
            ("Database:Cassandra[] connection down", false),
            ("Database:RabbitMQ[], Database:Cassandra[] connection down", false),
            ("Database connection down", false),
            ("RabbitMQ connection down", false),
        ] {
            let said = judge(&page("Non-Functional", why), Some(&optional));
            assert_eq!(said.is_ok(), serves, "{why}: {said:?}");
        }
        let down = |name: &str| {
            Page(format!(
                "<ConnectionInfo><type>Database</type><name>{name}</name><status>Down</status></ConnectionInfo>"
            ))
        };
        assert_eq!(down("RabbitMQ").missing(&optional), None);
        assert_eq!(down("Cassandra").missing(&optional).as_deref(), Some("Database:Cassandra (Down)"));
    }

    /// What closes an answer.
    const CLOSING: &str = "<SandeshUVECacheResp type=\"sandesh\"><returned type=\"u32\" identifier=\"1\">0</returned></SandeshUVECacheResp>";

    #[test]
    fn a_daemon_without_an_entry_is_initialising() {
        let sheet = "<?xml-stylesheet type=\"text/xsl\" href=\"/universal_parse.xsl\"?>";
        let in_a_list = format!("{sheet}<__NodeStatusUVE_list type=\"slist\">\r\n{CLOSING}</__NodeStatusUVE_list>\r\n");
        for page in [format!("{sheet}{CLOSING}"), in_a_list] {
            for optional in [Some(&BTreeSet::new()), None] {
                let said = Page::read(&page).unwrap().state(optional);
                assert!(said.unwrap_err().to_string().contains("still initialising"), "{page}");
            }
        }
    }

    #[test]
    fn what_is_no_such_page_is_not_taken_for_one() {
        let whole = page("Functional", "");
        assert_eq!(Page::read(&whole).unwrap().state(Some(&BTreeSet::new())).unwrap(), "NodeStatus: Functional");
        let refused = |text: &str| Page::read(text).map_err(|error| error.to_string()).unwrap_err();
        let html = "<!DOCTYPE html>\n<html><body>\u{1b}[31m<state>Functional</state></body></html>";
        for (text, why) in [
            ("", "the answer is empty"),
            (" \r\n<?xml version=\"1.0\"?>\n", "the answer is empty"),
            (
                html,
                "the answer is no NodeStatus, it begins with <!DOCTYPE html> <html><body>[31m<state>Functional</state></body>",
            ),
            (
                "<h3>Invalid Sandesh Request</h3>",
                "the answer is no NodeStatus, it begins with <h3>Invalid Sandesh Request</h3>",
            ),
            ("{\"state\": \"Functional\"}", "the answer is no NodeStatus, it begins with {\"state\": \"Functional\"}"),
            (
                "<?xml-stylesheet <__NodeStatusUVE_list",
                "the answer is no NodeStatus, it begins with <?xml-stylesheet <__NodeStatusUVE_list",
            ),
            (
                "<__ModuleClientState_list type=\"slist\"></__ModuleClientState_list>",
                "the answer is no NodeStatus, it begins with <__ModuleClientState_list type=\"slist\"></__ModuleClientState_lis",
            ),
            ("<__NodeStatusUVE_list type=\"slist\"><state>Functional</state>", "the answer is not complete"),
            (&format!("{whole}<html>"), "the answer is not complete"),
        ] {
            assert_eq!(refused(text), format!("its introspection cannot be read: {why}"));
        }
        let (begin, _) = whole.split_once("<__").unwrap();
        for length in begin.len()..whole.len() {
            assert!(refused(&whole[..length]).starts_with("its introspection cannot be read: "), "{length}");
        }
    }

    #[test]
    fn pages_of_the_daemons_that_are_played_are_such() {
        use tf_sim::status::{Peer, State, Status};
        let status = Status::new("contrail-schema", "0", "node-1", &[Peer::Cassandra]);
        let page = |status: &Status| Page::read(&status.page()).unwrap();
        assert_eq!(page(&status).connections(), [("Database:Cassandra".to_owned(), false)].into());
        status.set(Peer::Cassandra, State::Up("10.0.0.1:9041".into()));
        assert_eq!(page(&status).state(Some(&BTreeSet::new())).unwrap(), "NodeStatus: Functional");
    }

    #[test]
    fn every_connection_that_is_not_up_and_needed_is_named_with_why() {
        let connection = |kind: &str, name: &str, status: &str, why: &str| {
            format!(
                "<ConnectionInfo><type type=\"string\" identifier=\"1\">{kind}</type><name type=\"string\" identifier=\"2\">{name}</name>\
                 <server_addrs type=\"list\"><list><element>10.0.0.1:1</element></list></server_addrs>\
                 <status type=\"string\" identifier=\"4\">{status}</status><description type=\"string\">{why}</description></ConnectionInfo>"
            )
        };
        let page = [
            connection("Zookeeper", "Zookeeper", "Up", ""),
            connection("Database", "RabbitMQ", "Down", "connection &lt;refused&gt;"),
            connection("Database", "Cassandra", "Initializing", ""),
            connection("Collector", "Collector", "Down", ""),
        ]
        .concat();
        let optional = ["Collector".to_owned()].into();
        let page = Page(page);
        let told = "Database:RabbitMQ (connection <refused>), Database:Cassandra (Initializing)";
        assert_eq!(page.missing(&optional).as_deref(), Some(told));
        let all = [
            ("Zookeeper:Zookeeper", true),
            ("Database:RabbitMQ", false),
            ("Database:Cassandra", false),
            ("Collector:Collector", false),
        ];
        assert_eq!(page.connections(), all.map(|(name, up)| (name.to_owned(), up)).into());
        assert_eq!(page.servers("Database:RabbitMQ"), ["10.0.0.1:1".parse().unwrap()].into());
        assert_eq!(page.servers("Database:Other"), [].into());
        let up = connection("XMPP", "agent", "Up", "");
        assert_eq!(Page(up.clone()).missing(&optional), None);
        assert_eq!(
            Page(up + &connection("XMPP", "agent", "Down", "")).connections(),
            [("XMPP:agent".to_owned(), false)].into()
        );
        assert_eq!((Page(String::new()).missing(&optional), Page(String::new()).connections().len()), (None, 0));
        let many: String = (0..100).map(|number| connection("BGP", &"n".repeat(number + 1), "Up", "")).collect();
        let many = Page(many).connections();
        assert!(many.len() <= CONNECTIONS && many.keys().all(|name| name.len() <= LONGEST_NAME), "{many:?}");
    }

    proptest! {
        #[test]
        fn whatever_it_says_is_told_within_bounds(page in "(<state|<description| a=\"\">|</|>|&lt;|[a-z]|\n){0,40}", functional: bool) {
            let optional = BTreeSet::from(["a".to_owned()]);
            let told = judge(&page, functional.then_some(&optional)).unwrap_or_else(|error| error.to_string());
            prop_assert!(!told.contains('\n') && told.chars().count() <= LONGEST);
            let unread = Page::read(&page).unwrap_err().to_string();
            prop_assert!(!unread.contains('\n') && unread.chars().count() <= LONGEST);
            let page = Page(page.replace("state", "ConnectionInfo"));
            prop_assert!(page.missing(&BTreeSet::new()).is_none_or(|told| !told.contains('\n') && told.chars().count() <= LONGEST));
        }
    }
}
