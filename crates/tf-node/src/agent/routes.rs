//! What the agent API answers.

use std::{fs, future::ready, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use ipnet::IpNet;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tf_agent_api::{
    cassandra::Change,
    host::STATE_DIR,
    launch::Launch,
    rabbitmq::Membership,
    redis,
    state::{ADDRESSES, Health, Network, State, Status},
    vrouter,
    zookeeper::Reconfigure,
};
use tf_host::{
    Root, cni,
    reload::{RECORD, Record},
};
use tokio::{
    join,
    sync::{Mutex, watch},
    time::{Instant, timeout},
};

use crate::{
    VERSION,
    cni::Trouble,
    command::Commands,
    disk_space,
    health::View,
    identity::Report,
    local::host,
    log,
    paths::Paths,
    pod::Pod,
    probe::{self, Target},
    state_file,
    store::{
        self, Store,
        cassandra::change::Changer,
        rabbitmq::{self, membership},
        redis::step_down,
        zookeeper::reconfig::{self, Failure},
    },
};

/// For a daemon's answer. The operator waits for 1.5 s.
const PATIENCE: Duration = Duration::from_millis(1200);

/// Bytes of a request's body. Honest ones have less than 1000.
const LARGEST_BODY: usize = 16 * 1024;

const RING: &str = "/v1/cassandra/ring";
const REDIS: &str = "/v1/redis/change";

/// Whose API it is.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
    pub(super) daemon: String,
    pub(super) pod: Pod,
    /// The member's certificate.
    pub(super) report: watch::Receiver<Report>,
    /// What is seen of the daemon all the time.
    pub(super) view: View,
    /// Why the node's CNI configuration is not in place.
    pub(super) cni: Trouble,
    /// Which of the node's kernel settings are not as they should be.
    pub(super) settings: watch::Receiver<Option<String>>,
    /// Which queues of the vRouter's hardware are not as they should be.
    pub(super) queues: watch::Receiver<Option<String>>,
    /// Why `vhost0` does not have the place of the physical interface.
    pub(super) vhost0: watch::Receiver<Option<String>>,
    /// Held while a store is changed.
    pub(super) changing: Arc<Mutex<()>>,
    pub(super) commands: Commands,
    pub(super) memory: store::Memory,
}

type Answer = Response<Full<Bytes>>;

pub(super) async fn answer(context: &Context, launch: &Launch, request: Request<Incoming>) -> Answer {
    let store = Store::of(launch, context.pod.address);
    match (request.method(), request.uri().path(), store) {
        (&Method::GET, "/v1/status", store) => respond(StatusCode::OK, &status(context, launch, store).await),
        (_, "/v1/status", _) => error(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
        (&Method::POST, "/v1/zookeeper/reconfig", Some(Store::ZooKeeper(target))) => {
            reconfigure(context, &target, request.into_body()).await
        }
        (&Method::POST, "/v1/rabbitmq/membership", Some(Store::RabbitMq { management, data, definitions })) => {
            let Context { paths, daemon, commands, .. } = context.clone();
            let data = paths.at(data);
            let make = async move |change: Membership| {
                let definitions = definitions.as_deref();
                let server =
                    rabbitmq::Server { target: &management, paths: &paths, daemon: &daemon, data: &data, definitions };
                membership::change(&change, &server, &commands).await
            };
            make_change(context, request.into_body(), make).await
        }
        (&Method::POST, RING, Some(Store::Cassandra(server))) => {
            let Context { paths, daemon, memory, commands, .. } = context.clone();
            let changer = Changer { server, daemon, paths, tasks: memory.tasks, commands };
            make_change(context, request.into_body(), async move |change: Change| changer.change(&change).await).await
        }
        (&Method::POST, REDIS, Some(Store::Redis(server))) => {
            let paths = context.paths.clone();
            let make = async move |change| match change {
                redis::Change::StepDown => step_down::step_down(&server, &paths).await,
                redis::Change::Recount => Ok(store::redis::recount(&server, &paths).await?),
            };
            make_change(context, request.into_body(), make).await
        }
        (_, "/v1/zookeeper/reconfig", Some(Store::ZooKeeper(_)))
        | (_, "/v1/rabbitmq/membership", Some(Store::RabbitMq { .. }))
        | (_, REDIS, Some(Store::Redis(_)))
        | (_, RING, Some(Store::Cassandra(_))) => error(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
        _ => error(StatusCode::NOT_FOUND, "there is GET /v1/status, and what the store beside the agent has"),
    }
}

/// The kernel module of a vRouter's node, where the loaded one is not as it should be.
fn module(paths: &Paths, used: bool) -> Option<vrouter::Module> {
    let root = Root::below(paths.at("/"));
    let Record { cause, failed, reload, .. } = Record::read(&root.at(STATE_DIR).join(RECORD), &root);
    Some(vrouter::Module { cause: cause?, failed, reload, used })
}

/// Whether pods or virtual machines use the vRouter of the node.
fn is_used(paths: &Paths) -> bool {
    cni::has_ports(&Root::below(paths.at("/")))
}

async fn status(context: &Context, launch: &Launch, store: Option<Store>) -> Status {
    let Context { paths, daemon, pod, .. } = context;
    let Report { certificate, message, host_files } = context.report.borrow().clone();
    let mut status = Status {
        version: VERSION.to_owned(),
        pod: pod.name.clone(),
        node: pod.node.clone(),
        address: pod.address.to_string(),
        daemons: state_file::read_all(paths),
        health: None,
        certificate,
        message,
        host_files,
        network: launch.network.and_then(network),
        settings: context.settings.borrow().clone(),
        queues: context.queues.borrow().clone(),
        vhost0: context.vhost0.borrow().clone(),
        zookeeper: None,
        rabbitmq: None,
        cassandra: None,
        redis: None,
        vrouter: fs::read_to_string(paths.run_dir().join(vrouter::FILE))
            .ok()
            .and_then(|file| vrouter::Facts::read(&file)),
        module: None,
        used: None,
    };
    // Pods of other components are on such nodes, too.
    if status.vrouter.is_some() {
        let used = is_used(paths);
        (status.module, status.used) = (module(paths, used), Some(used));
    }
    let state = status.daemons.get(daemon).cloned();
    let described = async {
        if let Some(store) = store {
            store.describe(paths, daemon, &context.memory, &context.commands, &mut status).await;
        }
    };
    let (mut health, ()) = join!(health(context, launch, state.as_ref()), described);
    if !health.serves
        && let Some(full) = disk_space::wanting(launch, paths)
    {
        health.message = format!("{full}; {}", health.message);
    }
    status.health = Some(health);
    if let Some(facts) = &mut status.rabbitmq {
        facts.left = state_file::is_draining(paths, daemon);
    }
    if let Some(facts) = &mut status.cassandra {
        facts.left |= state_file::is_draining(paths, daemon);
    }
    status
}

/// What the node has in a network; none where the kernel does not tell, which is no answer.
fn network(network: IpNet) -> Option<Network> {
    let addresses = host::addresses_in(network).ok()?.into_iter().take(ADDRESSES).collect();
    Some(Network { network, addresses })
}

/// Whether the agent's own daemon serves: what its monitor has seen, or else what the daemon answers now; besides, what its clients need beside it.
pub(super) async fn serves(context: &Context, launch: &Launch, state: Option<&State>) -> Health {
    let Context { paths, pod, view, cni, .. } = context;
    let pid = state.and_then(|state| state.pid);
    let known = probe::process(state).ok().and_then(|_| view.health(launch, pid, Instant::now()));
    let health = match known {
        Some(known) => probe::with_relay(launch, paths, ready(known)).await,
        None => probe::ready(launch, state, paths, pod.address).await,
    };
    cni.applied_to(health)
}

/// The same, for the operator, which does not wait as long as a daemon may take that answers late once; what is seen of it all the time decides
/// then.
async fn health(context: &Context, launch: &Launch, state: Option<&State>) -> Health {
    let Context { daemon, view, .. } = context;
    if let Err(down) = probe::process(state) {
        return Health::new(false, format!("its {daemon} does not run: {}", down.message));
    }
    if let Ok(health) = timeout(PATIENCE, serves(context, launch, state)).await {
        return health;
    }
    let pid = state.and_then(|state| state.pid);
    let seen = view.report();
    let has_answered = seen.answered.is_some() && seen.answered == pid;
    match &seen.unwell {
        None if has_answered => Health::new(true, "it answers late"),
        None => Health::new(false, format!("its {daemon} has not answered yet")),
        Some(why) => Health::new(false, format!("its {daemon} does not serve: {why}")),
    }
}

async fn reconfigure(context: &Context, target: &Target, body: Incoming) -> Answer {
    let change: Reconfigure = match read(body).await {
        Ok(change) => change,
        Err(answer) => return answer,
    };
    let Ok(_changing) = context.changing.try_lock() else { return busy() };
    match reconfig::reconfigure(&change, target, &context.paths, &context.daemon).await {
        Ok(servers) => {
            log::info("the list of members was changed", &json!({"change": change, "version": servers.version}));
            respond(StatusCode::OK, &servers)
        }
        Err(failure) => {
            let (status, why) = match failure {
                Failure::Nonsense(why) => (StatusCode::BAD_REQUEST, why.to_owned()),
                Failure::Refused(refusal) => (StatusCode::CONFLICT, refusal.to_string()),
                Failure::NotAsked(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")),
            };
            log::warn("the list of members was not changed", &json!({"change": change, "error": why}));
            error(status, &why)
        }
    }
}

/// Makes a change of the store, or begins it. It goes on to its end if nobody waits for the answer any more.
async fn make_change<T, F>(context: &Context, body: Incoming, make: impl FnOnce(T) -> F) -> Answer
where
    T: Clone + Serialize + DeserializeOwned + Send + 'static,
    F: Future<Output = Result<(), store::Failure>> + Send + 'static,
{
    let change: T = match read(body).await {
        Ok(change) => change,
        Err(answer) => return answer,
    };
    let Ok(changing) = Arc::clone(&context.changing).try_lock_owned() else { return busy() };
    let work = make(change.clone());
    let task = tokio::spawn(async move {
        let result = work.await;
        drop(changing);
        let (status, why) = match result {
            Ok(()) => {
                log::info("a change is made", &json!({"change": change}));
                return respond(StatusCode::OK, &json!({}));
            }
            Err(store::Failure::Refused(why)) => (StatusCode::CONFLICT, why),
            Err(store::Failure::NotDone(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")),
        };
        log::warn("a change is not made", &json!({"change": change, "error": why}));
        error(status, &why)
    });
    task.await.unwrap_or_else(|broken| error(StatusCode::INTERNAL_SERVER_ERROR, &broken.to_string()))
}

/// What is asked for; else the answer.
async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T, Answer> {
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        return Err(error(StatusCode::BAD_REQUEST, "the body is too long, or was cut off"));
    };
    serde_json::from_slice(&body.to_bytes())
        .map_err(|_| error(StatusCode::BAD_REQUEST, "the body is not a change of who is a member"))
}

fn busy() -> Answer {
    error(StatusCode::CONFLICT, "another change is being made")
}

fn error(status: StatusCode, why: &str) -> Answer {
    respond(status, &json!({"error": why}))
}

fn respond(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_module_that_differs_is_reported_in_the_boot_that_noted_it() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::below(directory.path());
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(module(&paths, is_used(&paths)), None);
        write("proc/sys/kernel/random/boot_id", "boot-1\n");
        write(
            "var/lib/contrail/tf-node/module.json",
            r#"{"bootId": "boot-1", "cause": "A and not B", "reload": true}"#,
        );
        let noted = vrouter::Module { cause: "A and not B".into(), reload: true, ..vrouter::Module::default() };
        assert_eq!(module(&paths, is_used(&paths)), Some(noted.clone()));
        write("var/lib/contrail/ports/vm/pod-1/port-1", "{}");
        assert_eq!(module(&paths, is_used(&paths)), Some(vrouter::Module { used: true, ..noted.clone() }));
        fs::remove_file(directory.path().join("var/lib/contrail/ports/vm/pod-1/port-1")).unwrap();
        assert_eq!(module(&paths, is_used(&paths)), Some(noted.clone()));
        // Nova's plugin keeps the ports of virtual machines one level above.
        write("var/lib/contrail/ports/6ab2a5f2-6a2e-4b4e-9c5a-0a4e0c1f9d11", "{}");
        assert_eq!(module(&paths, is_used(&paths)), Some(vrouter::Module { used: true, ..noted }));
        write("proc/sys/kernel/random/boot_id", "boot-2\n");
        assert_eq!(module(&paths, is_used(&paths)), None);
    }
}
