//! The module's program `vif`: it understands the arguments that `tf-node host` writes, and prints what the program prints. Like the
//! program it ends with 0 whatever the module answers (VR utils/vif.c).
//!
//! `STAND_IN_KILLS=STEP:before|after` kills the process that ran it at a step: create, physical, attach, detach, forget.
//! `STAND_IN_IGNORES=STEP` has the module refuse a step.

use std::{env, fmt::Write as _, io, thread, time::Duration};

use rustix::process::{Signal, getppid, kill_process};
use tf_host::{
    data_path::DataPath as _,
    facts::{links::Link, network::Network},
};

use super::{Kernel, OTHER_END, StandIn, VHOST0};

/// What it is called.
pub const NAME: &str = "vif";
/// For the process that is killed to be gone.
const GONE: Duration = Duration::from_millis(50);

/// Does what the arguments say. Out: what is printed.
///
/// # Errors
/// What the module answers, or arguments that are not played.
pub fn run(arguments: &[String]) -> io::Result<String> {
    let network = Kernel::open()?.network();
    let mut module = StandIn::open()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--create", VHOST0, "--mac", mac] => step("create", || module.create(mac, 1500)),
        ["--add", VHOST0, "--mac", _, "--vrf", "0", "--type", "vhost", "--xconnect", uplink] => {
            step("attach", || module.attach(uplink))
        }
        ["--add", uplink, "--mac", _, "--vrf", "0", "--vhost-phys", "--type", "physical"] => {
            step("physical", || module.add_physical(uplink))
        }
        ["--delete", index] => {
            let found = network.links.iter().find(|link| link.index.to_string() == index);
            match found.map(|link| link.name.as_str()) {
                Some(VHOST0) => step("detach", || uplink(&network).map_or(Ok(()), |link| module.detach(&link.name))),
                Some(name) => step("forget", || module.remove_physical(name)),
                None => Ok("vRouter(Response): No such device (19)\n".into()),
            }
        }
        ["--list"] => Ok(list(&module, &network)),
        _ => Err(io::Error::other(format!("tf-sim does not play vif {}", arguments.join(" ")))),
    }
}

fn step(name: &str, act: impl FnOnce() -> io::Result<()>) -> io::Result<String> {
    let killed = env::var("STAND_IN_KILLS").unwrap_or_default();
    let kill_at = |moment: &str| {
        if let Some(parent) = getppid().filter(|_| killed == format!("{name}:{moment}")) {
            let _ = kill_process(parent, Signal::KILL);
            thread::sleep(GONE);
        }
    };
    if env::var("STAND_IN_IGNORES").is_ok_and(|ignored| ignored == name) {
        return Ok("vRouter(Response): No such device (19)\n".into());
    }
    kill_at("before");
    act()?;
    kill_at("after");
    Ok(String::new())
}

/// The interface below `vhost0`.
fn uplink(network: &Network) -> Option<&Link> {
    let mac = network.link(VHOST0)?.mac.as_ref();
    network.links.iter().find(|link| link.name != VHOST0 && link.mac.as_ref() == mac)
}

fn list(module: &StandIn, network: &Network) -> String {
    let mut text = "Vrouter Interface Table\n\nFlags: P=Policy, X=Cross Connect, Vp=Vhost Physical\n\n".to_owned();
    let (Some(vhost0), Some(uplink)) = (network.link(VHOST0), uplink(network)) else { return text };
    let mut entry = |link: &Link, kind: &str, flags: &str| {
        let mac = link.mac.as_deref().unwrap_or_default();
        let _ = write!(
            text,
            "vif0/{:<7} OS: {} NH: 4\n            Type:{kind} HWaddr:{mac} IPaddr:0.0.0.0\n            \
             Vrf:0 Mcast Vrf:65535 Flags:{flags} QOS:-1 Ref:3\n\n",
            link.index, link.name
        );
    };
    if module.passes(OTHER_END) {
        entry(uplink, "Physical", "L3L2VpEr");
    }
    if module.passes(&uplink.name) {
        entry(vhost0, "Host", "XL3L2DEr");
    }
    text
}
