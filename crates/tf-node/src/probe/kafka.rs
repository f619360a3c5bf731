//! Asks a broker of Kafka whether it belongs to its cluster, and has every record that it should have a copy of. One that accepts connections may
//! lack all of them: whoever stopped the next one then would stop the last copy.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, BrokerId, MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader},
    protocol::{Decodable as _, Encodable as _, HeaderVersion as _, StrBytes},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Stream, Target};

/// Of the question: the first that makes no topics (KIP-204). Brokers of 0.11 to 3.9 answer it.
const VERSION: i16 = 4;
const NUMBER: i32 = 1;
/// Octets of an answer: a thousand topics of thirty partitions have about two millions.
const LARGEST: usize = 16 << 20;

/// Waits for an answer in which the broker is well.
pub(super) async fn probe(stream: &mut dyn Stream, target: &Target) -> Result<String> {
    stream.write_all(&question()?).await?;
    let length = stream.read_u32().await? as usize;
    ensure!(length <= LARGEST, "an answer of {length} octets");
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    judge(&read(answer.into())?, target)
}

fn question() -> Result<Bytes> {
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::Metadata as i16)
        .with_request_api_version(VERSION)
        .with_correlation_id(NUMBER)
        .with_client_id(Some(StrBytes::from_static_str("tf-node")));
    let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
    let mut question = BytesMut::new();
    header.encode(&mut question, MetadataRequest::header_version(VERSION))?;
    request.encode(&mut question, VERSION)?;
    let length = u32::try_from(question.len())?.to_be_bytes();
    Ok([&length[..], &question].concat().into())
}

fn read(mut answer: Bytes) -> Result<MetadataResponse> {
    let header = ResponseHeader::decode(&mut answer, MetadataResponse::header_version(VERSION))?;
    ensure!(header.correlation_id == NUMBER, "an answer to another question");
    let response = MetadataResponse::decode(&mut answer, VERSION)?;
    ensure!(!answer.has_remaining(), "an answer of another version");
    Ok(response)
}

fn judge(cluster: &MetadataResponse, target: &Target) -> Result<String> {
    let host = target.host.to_string();
    let is_it = |host_: &str, port: i32| host_ == host && port == i32::from(target.port);
    let own = cluster.brokers.iter().find(|broker| is_it(&broker.host, broker.port));
    let own: BrokerId = own.context("the broker is not one of its cluster yet")?.node_id;
    let copies = cluster.topics.iter().flat_map(|topic| &topic.partitions);
    let copies = copies.filter(|partition| partition.replica_nodes.contains(&own));
    let (held, behind): (Vec<_>, Vec<_>) = copies.partition(|partition| partition.isr_nodes.contains(&own));
    if !behind.is_empty() {
        bail!("copies of {} partitions of {} are not in sync yet", behind.len(), held.len() + behind.len());
    }
    Ok(format!("one of {} brokers, with copies of {} partitions in sync", cluster.brokers.len(), held.len()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;

    const TARGET: Target = Target { host: std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), port: 9092, tls: true };

    fn cluster(brokers: &[i32], in_sync: &[&[i32]]) -> MetadataResponse {
        let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
        let broker = |id: &i32| {
            let host = StrBytes::from_string(format!("10.0.0.{id}"));
            MetadataResponseBroker::default().with_node_id(BrokerId(*id)).with_host(host).with_port(9092)
        };
        let partition = |in_sync: &&[i32]| {
            MetadataResponsePartition::default().with_replica_nodes(ids(&[1, 2, 3])).with_isr_nodes(ids(in_sync))
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(StrBytes::from_static_str("-uve-topic-0").into()))
            .with_partitions(in_sync.iter().map(partition).collect());
        MetadataResponse::default().with_brokers(brokers.iter().map(broker).collect()).with_topics(vec![topic])
    }

    fn said(brokers: &[i32], in_sync: &[&[i32]]) -> Result<String, String> {
        judge(&cluster(brokers, in_sync), &TARGET).map_err(|error| error.to_string())
    }

    #[test]
    fn a_broker_serves_when_it_is_in_its_cluster_and_has_every_copy() {
        let well = "one of 3 brokers, with copies of 2 partitions in sync";
        assert_eq!(said(&[1, 2, 3], &[&[1, 2, 3], &[2]]), Ok(well.into()));
        assert_eq!(said(&[2], &[]), Ok("one of 1 brokers, with copies of 0 partitions in sync".into()));
        let behind = "copies of 1 partitions of 2 are not in sync yet";
        assert_eq!(said(&[1, 2, 3], &[&[1, 2, 3], &[1, 3]]), Err(behind.into()));
        assert_eq!(said(&[1, 3], &[]), Err("the broker is not one of its cluster yet".into()));
    }

    #[tokio::test]
    async fn questions_and_answers_are_those_of_the_protocol() {
        let (mut client, mut server) = tokio::io::duplex(4096);
        let answering = async {
            let length = server.read_u32().await.unwrap() as usize;
            let mut question = vec![0; length];
            server.read_exact(&mut question).await.unwrap();
            // Key 3, version 4, number 1, seven letters; all topics, and none is made.
            assert_eq!(question, b"\0\x03\0\x04\0\0\0\x01\0\x07tf-node\xff\xff\xff\xff\0");
            let mut answer = BytesMut::new();
            ResponseHeader::default().with_correlation_id(NUMBER).encode(&mut answer, 0).unwrap();
            cluster(&[1, 2], &[&[2]]).encode(&mut answer, VERSION).unwrap();
            server.write_u32(answer.len() as u32).await.unwrap();
            server.write_all(&answer).await.unwrap();
        };
        let (said, ()) = tokio::join!(probe(&mut client, &TARGET), answering);
        assert_eq!(said.unwrap(), "one of 2 brokers, with copies of 1 partitions in sync");
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_no_answer() {
        let mut answer = BytesMut::new();
        ResponseHeader::default().with_correlation_id(NUMBER).encode(&mut answer, 0).unwrap();
        cluster(&[1, 2], &[&[2]]).encode(&mut answer, VERSION).unwrap();
        let answer = answer.freeze();
        assert!(read(answer.clone()).is_ok());
        for length in 0..answer.len() {
            assert!(read(answer.slice(..length)).is_err(), "{length}");
        }
        assert!(read([&answer[..], b"x"].concat().into()).is_err());
    }
}
