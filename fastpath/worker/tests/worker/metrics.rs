//! What a monitoring system scrapes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::controller::SOON;
use crate::fixture::snapshot;
use crate::memory::Bed;

async fn get(bed: &Bed, path: &str) -> String {
    let address = bed.worker.metrics_address().expect("served");
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        answer
    };
    timeout(SOON, exchange).await.expect("in time")
}

#[tokio::test]
async fn every_number_has_a_family_and_known_labels() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    controller.sync().await.send(snapshot(3, vec![])).await;
    let answer = get(&bed, "/metrics").await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut families = std::collections::BTreeSet::new();
    for line in body.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let name = family.split_whitespace().next().expect("a name");
            assert!(families.insert(name), "{name} is declared twice");
        } else if !line.starts_with('#') && line.starts_with("penstock") {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert!(families.contains(name), "{line}");
            let value = line.rsplit(' ').next().expect("a value");
            assert!(value.parse::<u64>().is_ok(), "{line}");
        }
    }
    for line in [
        "penstock_policy_generation 3",
        "penstock_drops_total{reason=\"tx_full\"} 0",
        "penstock_table_entries{device_id=\"2\",table=\"flow\"} 0",
        "penstock_port_frames_total{device_port=\"17\",event=\"received\"} 0",
        "penstock_driver_frames_total{device_port=\"1\",event=\"missed\"} 0",
    ] {
        assert!(body.lines().any(|l| l == line), "{line} is not in\n{body}");
    }
    assert!(get(&bed, "/").await.starts_with("HTTP/1.1 404"));
}
