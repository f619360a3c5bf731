//! Writers for the configuration dialects of the daemons, and readers that behave as the daemons' own parsers.
//!
//! In: a typed builder (or a `serde` struct) filled by a planner. Out: the text of one file, or [`Unrepresentable`], which
//! names every file, section and key that cannot be written and what to choose instead. A writer never produces a file
//! that its consumer reads back as something else: it escapes where the dialect can, and refuses where it cannot. Errors
//! are collected while building and returned by `render`, so there is no call whose result could be forgotten.
//!
//! | Dialect | Consumers | Writer |
//! | --- | --- | --- |
//! | Python `configparser` | contrail-api, schema, svc-monitor, device-manager, kube-manager, nodemgr, `vnc_api_lib.ini` | [`Ini::python`] |
//! | Boost `program_options` | control, dns, collector, query-engine, vrouter-agent | [`Ini::boost`] |
//! | Java properties | Kafka, log4j, `cassandra-rackdc.properties` | [`Properties::java`] |
//! | `zoo.cfg` | ZooKeeper, which rewrites the file itself | [`Properties::zookeeper`] |
//! | sysctl (cuttlefish) | `rabbitmq.conf` | [`Sysctl`] |
//! | `redis.conf` | Redis | [`RedisConf`] |
//! | YAML 1.1 | `cassandra.yaml` | [`yaml::render`] |
//! | JSON | CNI configuration, RabbitMQ definitions | [`json::render`] |
//! | JavaScript module | the web UI's servers | [`Js`] |
//! | environment file | `tf-node`, a human's shell | [`EnvFile`] |
//!
//! ```
//! use tf_config_files::{Ini, Separator::Blank, Settings as _};
//!
//! # fn main() -> Result<(), tf_config_files::Unrepresentable> {
//! let mut file = Ini::python("contrail-api.conf");
//! file.section("DEFAULTS")
//!     .set("listen_port", 8082)
//!     .list("collectors", Blank, ["10.0.0.1:8086", "10.0.0.2:8086"])
//!     .set("log_local", 1);
//! file.section("CASSANDRA").set("cassandra_password", "100%");
//! assert_eq!(
//!     file.render()?,
//!     "[DEFAULTS]\nlisten_port = 8082\ncollectors = 10.0.0.1:8086 10.0.0.2:8086\nlog_local = 1\n\n\
//!      [CASSANDRA]\ncassandra_password = 100%%\n"
//! );
//! # Ok(())
//! # }
//! ```

mod dialect;
pub mod env;
mod error;
mod ini;
mod js;
pub mod json;
mod properties;
pub mod read;
mod redis;
mod settings;
mod sysctl;
pub mod url;
pub mod yaml;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod hostile;

pub use env::EnvFile;
pub use error::{Problem, ReadError, Refusal, Unrepresentable};
pub use ini::{Ini, Section};
pub use js::Js;
pub use properties::Properties;
pub use redis::RedisConf;
pub use settings::{Entries, Separator, Settings};
pub use sysctl::Sysctl;
