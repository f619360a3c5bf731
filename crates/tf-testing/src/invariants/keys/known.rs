//! What the readers of configuration files read, by their sources: tf-controller, tf-analytics, tf-common, tf-api-client and tf-web-core of
//! R21.4.1, R24.1 and the main branch of OpenSDN; what one of them reads is here.
//!
//! The daemons in Python put sections into one space of names, for which they declare defaults and options (`parse_args`), and take what
//! stands in a section that they look into. A key is here in the section for which they declare it; `cassandra_use_ssl` and the like, for
//! which they declare an option alone, in that of the defaults.

/// Sections and, in words, the keys that are read there. A `*` at the end of either stands for anything. Files without sections have one
/// without a name.
pub type Sections = &'static [(&'static str, &'static [&'static str])];

/// `pysandesh/sandesh_base.py`, `SandeshConfig`: what every daemon in Python has.
const SANDESH: (&str, &[&str]) = (
    "SANDESH",
    &[
        "sandesh_keyfile sandesh_certfile sandesh_server_keyfile sandesh_server_certfile sandesh_ca_cert sandesh_ssl_enable \
       introspect_ssl_enable introspect_ssl_insecure sandesh_dscp_value disable_object_logs tcp_keepalive_enable tcp_keepalive_idle_time \
       tcp_keepalive_interval tcp_keepalive_probes",
    ],
);
/// The same, of the destination of statistics.
const STATS: (&str, &[&str]) = ("STATS", &["stats_collector"]);
/// Logs, introspection and collectors, which every daemon in Python has among its defaults.
const DAEMON: &str = "collectors http_server_ip http_server_port sandesh_send_rate_limit log_local log_level log_category log_file \
                      use_syslog syslog_facility";
/// More of it, of those that use `cfgm_common`.
const LOGGER: &str = "logging_conf logger_class cluster_id";
/// Its own address. Most look whether the key is there, without having declared it (`vnc_logger.py`, `snmpctrlr.py`, `controller.py`).
const HOST_IP: &str = "host_ip";
/// How long a file of logs becomes, and how many are kept.
const LOG_FILES: &str = "max_bytes backup_count";
/// The stores of those that use `cfgm_common`.
const STORES: &str = "cassandra_server_list cassandra_use_ssl cassandra_ca_certs zk_server_ip rabbit_server rabbit_port \
                      rabbit_user rabbit_password rabbit_vhost rabbit_ha_mode rabbit_use_ssl kombu_ssl_version kombu_ssl_keyfile \
                      kombu_ssl_certfile kombu_ssl_ca_certs";
/// Heartbeats of the message bus, which contrail-api and the device manager have in every release, the schema transformer and the service
/// monitor in those after R25.1, and kube-manager in none.
const HEARTBEAT: &str = "rabbit_health_check_interval";
/// How they log in to the database.
const LOGIN: &str = "cassandra_user cassandra_password cassandra_driver";
/// The same, with what it takes to use several processes.
const CASSANDRA: (&str, &[&str]) = ("CASSANDRA", &[LOGIN, "num_workers num_groups"]);
const ZOOKEEPER: &str = "zookeeper_ssl_enable zookeeper_ssl_keyfile zookeeper_ssl_certificate zookeeper_ssl_ca_cert";
/// How they find the API.
const API: &str = "api_server_ip api_server_port api_server_use_ssl";

/// contrail-api: `vnc_cfg_api_server/utils.py`.
pub const CONFIG_API: Sections = &[
    (
        "DEFAULTS",
        &[
            DAEMON,
            LOGGER,
            LOG_FILES,
            STORES,
            HEARTBEAT,
            "listen_ip_addr listen_port admin_port auth aaa_mode multi_tenancy cloud_admin_role global_read_only_role region_name worker_id \
             worker_introspect_ports worker_admin_ports trace_file config_api_ssl_enable config_api_ssl_keyfile config_api_ssl_certfile \
             config_api_ssl_ca_cert reset_config wipe_config rabbit_max_pending_updates max_requests max_request_size paginate_count \
             stale_lock_seconds object_cache_entries object_cache_exclude_types debug_object_cache_types db_engine amqp_timeout \
             filter_optimization_enabled list_optimization_enabled enable_latency_stats_log enable_api_stats_log \
             watch_keepalive_interval contrail_version default_encoding tcp_keepalive_enable tcp_keepalive_idle_time \
             tcp_keepalive_interval tcp_keepalive_probes",
        ],
    ),
    CASSANDRA,
    ("ZOOKEEPER", &[ZOOKEEPER]),
    SANDESH,
    STATS,
];

/// The workers of contrail-api: `core/uwsgi.c` and the plug-ins `python` and `gevent` of uWSGI. It is told to end at unknown keys.
pub const UWSGI: Sections = &[(
    "uwsgi",
    &[
        "strict master single-interpreter vacuum need-app die-on-term plugins workers gevent buffer-size lazy-apps listen https-socket module \
       so-keepalive reuse-port",
    ],
)];

/// contrail-schema: `schema_transformer/to_bgp.py`. It reads `ZOOKEEPER`, and uses nothing of it.
pub const SCHEMA: Sections = &[
    (
        "DEFAULTS",
        &[
            HOST_IP,
            DAEMON,
            LOGGER,
            LOG_FILES,
            STORES,
            HEARTBEAT,
            API,
            ZOOKEEPER,
            "trace_file bgpaas_port_start bgpaas_port_end zk_timeout logical_routers_enabled yield_in_evaluate reset_config",
        ],
    ),
    CASSANDRA,
    SANDESH,
    STATS,
];

/// contrail-svc-monitor: `svc_monitor/svc_monitor.py`.
pub const SVC_MONITOR: Sections = &[
    (
        "DEFAULTS",
        &[
            HOST_IP,
            DAEMON,
            LOGGER,
            LOG_FILES,
            STORES,
            HEARTBEAT,
            API,
            "trace_file region_name check_service_interval nova_endpoint_type octavia_project_id reset_config analytics_api_ssl_enable \
             analytics_api_insecure_enable analytics_api_ssl_ca_cert analytics_api_ssl_keyfile analytics_api_ssl_certfile",
        ],
    ),
    (
        "SCHEDULER",
        &["si_netns_scheduler_driver analytics_server_list availability_zone netns_availability_zone aaa_mode"],
    ),
    CASSANDRA,
    SANDESH,
    STATS,
];

/// contrail-device-manager: `device_manager/dm_server_args.py`.
pub const DEVICE_MANAGER: Sections = &[
    (
        "DEFAULTS",
        &[
            HOST_IP,
            DAEMON,
            LOGGER,
            LOG_FILES,
            STORES,
            HEARTBEAT,
            API,
            ZOOKEEPER,
            "analytics_server_ip analytics_server_port analytics_username analytics_password push_mode repush_interval repush_max_interval \
             push_delay_per_kb push_delay_max push_delay_enable job_status_retry_timeout job_status_max_retries max_job_count \
             job_manager_db_conn_retry_timeout job_manager_db_conn_max_retries fabric_ansible_conf_file fabric_ansible_dir \
             dnsmasq_conf_dir tftp_dir dhcp_leases_file dnsmasq_reload_by_signal ztp_timeout dm_run_mode reset_config",
        ],
    ),
    CASSANDRA,
    SANDESH,
    STATS,
];

/// Jobs of the device manager: `job_manager/job_log_utils.py`.
pub const FABRIC_ANSIBLE: Sections =
    &[("DEFAULTS", &[DAEMON, LOGGER, LOG_FILES, "max_job_task playbook_timeout"]), SANDESH, STATS];

/// Keystone, in a file of its own that several read: contrail-api (`utils.py`, `vnc_openstack/__init__.py`), the service monitor, the
/// device manager and its jobs, and the analytics API.
pub const KEYSTONE: Sections = &[(
    "KEYSTONE",
    &[
        "auth_host auth_port auth_protocol auth_type auth_url auth_version auth_insecure admin_user admin_password admin_tenant_name \
       admin_token admin_user_domain_name admin_domain_id user_domain_name project_domain_name project_name default_domain_id region_name \
       endpoint_type identity_uri interface signing_dir keystone_sync_on_demand insecure cafile certfile keyfile",
    ],
)];

/// kube-manager: `kube_manager/common/args.py`.
pub const KUBE_MANAGER: Sections = &[
    (
        "DEFAULTS",
        &[
            HOST_IP,
            DAEMON,
            "logging_conf logger_class worker_id kube_object_cache disc_server_ip disc_server_port api_service_link_local orchestrator \
             token nested_mode global_tags aps_name kube_timer_interval secure_project",
        ],
    ),
    (
        "VNC",
        &[
            STORES,
            LOGIN,
            "cluster_id vnc_endpoint_ip vnc_endpoint_port admin_user admin_password admin_tenant public_fip_pool",
        ],
    ),
    (
        "KUBERNETES",
        &[
            "kubernetes_api_server kubernetes_api_port kubernetes_api_secure_port kubernetes_service_name kubernetes_cluster_owner \
           kubernetes_cluster_domain service_subnets pod_subnets ip_fabric_subnets cluster_name cluster_project cluster_network \
           cluster_pod_network cluster_service_network ip_fabric_forwarding ip_fabric_snat host_network_service",
        ],
    ),
    ("AUTH", &["auth_token_url auth_user auth_password auth_tenant"]),
    SANDESH,
    STATS,
];

/// The client library of the API: `vnc_api/vnc_api.py`.
pub const VNC_API: Sections = &[
    (
        "global",
        &[
            "WEB_SERVER WEB_PORT BASE_URL use_ssl insecure certfile keyfile cafile MAX_POOLS MAX_CONNS_PER_POOL TIMEOUT CONNECTION_TIMEOUT \
           curl_log",
        ],
    ),
    (
        "auth",
        &[
            "AUTHN_TYPE AUTHN_PROTOCOL AUTHN_SERVER AUTHN_PORT AUTHN_URL AUTHN_USER AUTHN_PASSWORD AUTHN_TENANT AUTHN_DOMAIN \
           AUTHN_TOKEN_URL insecure certfile keyfile cafile",
        ],
    ),
];

/// Node managers: `nodemgr/main.py`.
pub const NODE_MANAGER: Sections = &[
    (
        "DEFAULTS",
        &[
            "hostip hostname http_server_ip sandesh_send_rate_limit log_local log_level log_category log_file use_syslog syslog_facility \
           rules corefile_path minimum_diskGB db_port db_jmx_port db_user db_password db_use_ssl cassandra_repair_interval \
           cassandra_repair_logdir",
        ],
    ),
    ("COLLECTOR", &["server_list"]),
    SANDESH,
    STATS,
];

/// The database and the message bus of the daemons of analytics in Python, but for the files of TLS with RabbitMQ, which two of them name
/// in another way than the third.
const CONFIGDB: &str = "config_db_server_list config_db_username config_db_password config_db_use_ssl config_db_ca_certs cassandra_driver \
                        rabbitmq_server_list rabbitmq_port rabbitmq_user rabbitmq_password rabbitmq_vhost rabbitmq_ha_mode \
                        rabbitmq_use_ssl";
const REDIS: &str = "redis_uve_list redis_password redis_use_ssl redis_keyfile redis_certfile redis_ca_cert";

/// contrail-analytics-api: `opserver/opserver.py`.
pub const ANALYTICS_API: Sections = &[
    (
        "DEFAULTS",
        &[
            HOST_IP,
            DAEMON,
            "logging_conf logger_class rest_api_ip rest_api_port admin_port worker_id dup partitions zk_list zk_prefix aaa_mode \
             cloud_admin_role api_server api_server_use_ssl analytics_data_ttl analytics_config_audit_ttl analytics_statistics_ttl \
             analytics_flow_ttl analytics_api_ssl_enable analytics_api_insecure_enable analytics_api_ssl_certfile \
             analytics_api_ssl_keyfile analytics_api_ssl_ca_cert",
        ],
    ),
    ("REDIS", &[REDIS, "redis_query_port redis_server_port"]),
    SANDESH,
    STATS,
];

/// contrail-alarm-gen: `opserver/alarmgen_cfg.py`.
pub const ALARM_GENERATOR: Sections = &[
    ("DEFAULTS", &[HOST_IP, DAEMON, "worker_id partitions zk_list alarmgen_list cluster_id"]),
    ("REDIS", &[REDIS, "redis_server_port"]),
    ("KAFKA", &["kafka_broker_list kafka_ssl_enable kafka_keyfile kafka_certfile kafka_ca_cert"]),
    ("CONFIGDB", &[CONFIGDB, "kombu_ssl_version kombu_ssl_keyfile kombu_ssl_certfile kombu_ssl_ca_certs"]),
    SANDESH,
    STATS,
];

const RABBITMQ_TLS: &str = "rabbitmq_ssl_version rabbitmq_ssl_keyfile rabbitmq_ssl_certfile rabbitmq_ssl_ca_certs";

/// tf-snmp-collector: `tf_snmp_collector/snmpcfg.py`.
pub const SNMP_COLLECTOR: Sections = &[
    ("DEFAULTS", &[HOST_IP, DAEMON, "scan_frequency fast_scan_frequency zookeeper cluster_id"]),
    ("CONFIGDB", &[CONFIGDB, RABBITMQ_TLS]),
    SANDESH,
    STATS,
];

/// tf-topology: `tf_topology/config.py`.
pub const TOPOLOGY: Sections = &[
    ("DEFAULTS", &[HOST_IP, DAEMON, "analytics_api scan_frequency zookeeper cluster_id"]),
    ("CONFIGDB", &[CONFIGDB, RABBITMQ_TLS]),
    SANDESH,
    STATS,
];

/// `sandesh/library/cpp/sandesh_options.cc`, of the daemons in C++.
const SANDESH_NATIVE: (&str, &[&str]) = (
    "SANDESH",
    &[
        "sandesh_keyfile sandesh_certfile sandesh_server_keyfile sandesh_server_certfile sandesh_ca_cert sandesh_ssl_enable \
       introspect_ssl_enable introspect_ssl_insecure disable_object_logs tcp_keepalive_enable tcp_keepalive_idle_time \
       tcp_keepalive_interval tcp_keepalive_probes",
    ],
);
/// Logs and introspection of the daemons in C++.
const NATIVE: &str = "hostname http_server_ip http_server_port sandesh_send_rate_limit log_category log_file log_file_size log_files_count \
                      log_level log_local log_property_file syslog_facility use_syslog";

/// contrail-collector, which takes options that nobody declared: `contrail-collector/options.cc`.
pub const COLLECTOR: Sections = &[
    (
        "DEFAULT",
        &[
            NATIVE,
            "hostip log_disable test_mode dup partitions cassandra_server_list zookeeper_server_list disable_flow_collection \
             analytics_data_ttl analytics_config_audit_ttl analytics_statistics_ttl analytics_flow_ttl",
        ],
    ),
    ("COLLECTOR", &["port server"]),
    (
        "CASSANDRA",
        &[
            "cassandra_user cassandra_password cassandra_use_ssl cassandra_ca_certs compaction_strategy replication_factor",
        ],
    ),
    ("DATABASE", &["cluster_id disable_all_writes disable_message_writes disable_statistics_writes"]),
    ("REDIS", &["port server password"]),
    ("API_SERVER", &["api_server_list api_server_use_ssl"]),
    ("KAFKA", &["kafka_broker_list kafka_ssl_enable kafka_keyfile kafka_certfile kafka_ca_cert"]),
    (
        "CONFIGDB",
        &[
            "config_db_server_list config_db_username config_db_password config_db_use_ssl config_db_ca_certs rabbitmq_server_list \
           rabbitmq_user rabbitmq_password rabbitmq_vhost rabbitmq_use_ssl rabbitmq_ssl_version rabbitmq_ssl_keyfile \
           rabbitmq_ssl_certfile rabbitmq_ssl_ca_certs",
        ],
    ),
    (
        "STRUCTURED_SYSLOG_COLLECTOR",
        &["port active_session_map_limit tcp_forward_destination kafka_broker_list kafka_topic kafka_partitions"],
    ),
    SANDESH_NATIVE,
    STATS,
];

/// The vRouter's agent, which takes options that nobody declared: `agent/init/agent_param.cc`, without the lengths of its traces. Queues
/// are looked up by number there; priority groups are read by `qosmap.py` of the image, as `contrail-vrouter-agent.conf` describes them.
pub const AGENT: Sections = &[
    (
        "DEFAULT",
        &[
            NATIVE,
            "agent_base_directory agent_mode agent_name collectors derived_stats dhcp_relay_mode flow_cache_timeout gateway_mode log_flow \
             measure_queue_delay min_aap_prefix_len mirror_client_port mvpn_ipv4_enable physical_interface_address physical_interface_mac \
             pkt0_tx_buffers platform rest_port simulate_evpn_tor stale_interface_cleanup_timeout subnet_hosts_resolvable tsn_servers \
             tunnel_type vmi_vm_vn_uve_interval vr_object_high_watermark xmpp_auth_enable xmpp_ca_cert xmpp_dns_auth_enable \
             xmpp_server_cert xmpp_server_key",
        ],
    ),
    ("CONTROL-NODE", &["servers subcluster_name"]),
    ("CRYPT", &["crypt_interface"]),
    ("DNS", &["dns_client_port dns_max_retries dns_timeout servers"]),
    (
        "FLOWS",
        &[
            "add_tokens del_tokens fabric_snat_hash_table_size hash_exclude_router_id index_sm_log_count ksync_tokens latency_limit \
           max_aggregates_per_session_endpoint max_endpoints_per_session_msg max_sessions_per_aggregate max_system_linklocal_flows \
           max_vm_flows max_vm_linklocal_flows thread_count trace_enable update_tokens",
        ],
    ),
    ("HYPERVISOR", &["type vmware_mode vmware_physical_interface vmware_physical_port xen_ll_interface xen_ll_ip"]),
    (
        "LLGR",
        &["config_fallback_time config_inactivity_time config_poll_time disable end_of_rib_rx_fallback_time \
           end_of_rib_tx_fallback_time end_of_rib_tx_inactivity_time end_of_rib_tx_poll_time stale_config_cleanup_time"],
    ),
    ("MAC-LEARNING", &["add_tokens del_tokens thread_count update_tokens"]),
    (
        "METADATA",
        &["metadata_ca_cert metadata_client_cert metadata_client_cert_type metadata_client_key metadata_proxy_port \
           metadata_proxy_secret metadata_use_ssl"],
    ),
    ("NETWORKS", &["control_network_ip"]),
    ("NEXTHOP-SERVER", &["add_pid endpoint"]),
    ("QOS", &["priority_tagging"]),
    ("QUEUE-*", &["logical_queue default_hw_queue"]),
    ("PG-*", &["scheduling bandwidth"]),
    (
        "RESTART",
        &[
            "backup_count backup_dir backup_enable backup_idle_timeout huge_page_1G huge_page_2M restore_audit_timeout restore_enable",
        ],
    ),
    (
        "SERVICE-INSTANCE",
        &["docker_command lb_ssl_cert_path lbaas_auth_conf netns_command netns_timeout netns_workers"],
    ),
    ("SERVICES", &["bgp_as_a_service_port_range bgpaas_max_shared_sessions queue_limit"]),
    ("SESSION", &["sample_destination slo_destination"]),
    (
        "TASK",
        &[
            "flow_netlink_pin_cpuid ksync_thread_cpu_pin_policy log_exec_threshold log_schedule_threshold task_monitor_timeout \
           tbb_keepawake_timeout thread_count",
        ],
    ),
    (
        "VIRTUAL-HOST-INTERFACE",
        &["compute_node_address eth_port_encap_type eth_port_no_arp gateway ip loopback_ip name physical_interface \
           physical_interface_addr physical_port_routes"],
    ),
    SANDESH_NATIVE,
    STATS,
];

/// Certificates of load balancers: `cert_mgr/barbican_cert_manager.py` and `cert_mgr/kubernetes_cert.py`. The stock image writes more for
/// Barbican, and nobody reads it.
pub const LOAD_BALANCER: Sections = &[
    ("BARBICAN", &["admin_user admin_password admin_tenant_name auth_url region user_domain_name project_domain_name"]),
    ("KUBERNETES", &["kubernetes_token kubernetes_api_server kubernetes_api_port kubernetes_api_secure_port"]),
];

/// The CNI plug-in: `cni/internal/contrail/cni.go` and `vrouter.go`, and what the specification of CNI asks for.
pub const CNI: Sections = &[(
    "",
    &[
        "cniVersion name type contrail.cluster-name contrail.mode contrail.meta-plugin contrail.parent-interface contrail.vif-type \
       contrail.mtu contrail.network-name contrail.log-file contrail.log-level contrail.vrouter-ip contrail.vrouter-port \
       contrail.config-dir contrail.poll-timeout contrail.poll-retries",
    ],
)];

/// The web UI: `config/default.config.global.js`, and what sources of tf-web-core read besides.
pub const WEB_UI: Sections = &[(
    "",
    &[
        "orchestration.Manager orchestrationModuleEndPointFromConfig contrailEndPointFromConfig regionsFromConfig regions.* \
         endpoints.apiServiceType endpoints.opServiceType serviceEndPointTakePublicURL getDomainProjectsFromApiServer \
         getDomainsFromApiServer multi_tenancy.enabled staticAuth roleMaps.*",
        "identityManager.ip identityManager.port identityManager.authProtocol identityManager.apiVersion identityManager.strictSSL \
         identityManager.ca identityManager.urlPrefix identityManager.pkiTokenHashAlgorithm identityManager.defaultDomain",
        "networkManager.* imageManager.* computeManager.* storageManager.* vcenter.*",
        "cnfg.server_ip cnfg.server_port cnfg.authProtocol cnfg.strictSSL cnfg.ca cnfg.statusURL",
        "analytics.server_ip analytics.server_port analytics.authProtocol analytics.strictSSL analytics.ca analytics.statusURL",
        "dns.server_ip dns.server_port dns.statusURL jobServer.server_ip jobServer.server_port kue.ui_port files.download_path",
        "cassandra.server_ips cassandra.server_port cassandra.enable_edit cassandra.username cassandra.password cassandra.use_ssl \
         cassandra.ca_certs redisDBIndex redis_server_port redis_server_ip redis_dump_file",
        "webui_addresses insecure_access http_port https_port require_auth node_worker_count maxActiveJobs server_options.ciphers \
         server_options.key_file server_options.cert_file session.timeout proxy.*",
        "introspect.ssl.enabled introspect.ssl.key introspect.ssl.cert introspect.ssl.ca introspect.ssl.strictSSL",
        "featurePkg.webController.path featurePkg.webController.enable optFeatureList.* ui.* qe.enable_stat_queries logs.level \
         logo_file favicon_file jsonSchemaPath network.router_L3Enable physicaldevices.interface_delimiters docker.container_list \
         restricted_users_patterns motd.file_path",
    ],
)];

/// Keystone's administrator, as jobs of the web UI log in: `orchestration/plugins/openstack/keystone.api.js` and `config/userAuth.js`.
pub const WEB_UI_USER: Sections =
    &[("", &["admin_user admin_password admin_token admin_tenant_name project_domain_name user_domain_name"])];
