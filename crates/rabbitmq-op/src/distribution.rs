//! How members speak with each other: Erlang's distribution, over TLS or without (Erlang/OTP, "Using TLS for Erlang Distribution").
//!
//! With TLS each end shows the member's certificate and takes only one that the authority of the namespace signed and that names
//! the Service of this cluster's members: the authority's key signs for members of other components and for clients, too. The cookie
//! is asked for afterwards.

use std::net::IpAddr;

use tf_agent_api::node::{KEYSTORE_PEM, TRUSTSTORE_PEM};
use tf_plan::build::identity::Identity;

/// Options of TLS: an Erlang expression, which servers and command line tools evaluate when they start.
pub const FILE: &str = "inter_node_tls.config";

/// The arguments by which an Erlang finds members; none for its own default. `file`: where it finds [`FILE`].
pub fn arguments(address: IpAddr, tls: bool, file: &str) -> Option<String> {
    let protocol = match (tls, address.is_ipv6()) {
        (false, false) => return None,
        (false, true) => "inet6_tcp",
        (true, false) => "inet_tls",
        (true, true) => "inet6_tls",
    };
    let options = if tls { format!(" -ssl_dist_optfile {file}") } else { String::new() };
    Some(format!("-proto_dist {protocol}{options}"))
}

/// Whether arguments that a member was given ask for TLS.
pub fn is_tls(arguments: &str) -> bool {
    arguments.contains("-ssl_dist_optfile")
}

/// [`FILE`]. Both ends look for the name of the members' Service, since Erlang's names of nodes are not in certificates. No session is
/// resumed: it would begin without a look at certificates, of an authority that is forgotten since, maybe. The version is what Erlang
/// itself prefers for its distribution (`inet_tls_dist:dist_defaults/1`, ssl 10.8.7).
pub fn options_file(cluster: &Identity) -> String {
    // Without the cluster's domain, which an operator's settings may change.
    let service = format!("{}.{}.svc", cluster.members_service(), cluster.namespace);
    let common = format!(
        r#"{{cacertfile, "{TRUSTSTORE_PEM}"}},
    {{certfile, "{KEYSTORE_PEM}"}},
    {{keyfile, "{KEYSTORE_PEM}"}},
    {{versions, ['tlsv1.2']}},
    {{reuse_sessions, false}},
    {{verify, verify_peer}},"#
    );
    format!(
        r#"[
  {{server, [
    {common}
    {{fail_if_no_peer_cert, true}},
    {{verify_fun, {{fun
      (_, {{bad_cert, _}} = Why, _) -> {{fail, Why}};
      (_, {{extension, _}}, State) -> {{unknown, State}};
      (_, valid, State) -> {{valid, State}};
      (Certificate, valid_peer, State) ->
        case public_key:pkix_verify_hostname(Certificate, [{{dns_id, "{service}"}}]) of
          true -> {{valid, State}};
          false -> {{fail, {{bad_cert, hostname_check_failed}}}}
        end
    end, none}}}}
  ]}},
  {{client, [
    {common}
    {{customize_hostname_check, [{{match_fun, fun
      (_, {{dNSName, Name}}) -> Name =:= "{service}";
      (_, _) -> false
    end}}]}}
  ]}}
].
"#
    )
}
