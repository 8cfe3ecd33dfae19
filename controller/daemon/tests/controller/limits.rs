//! The largest requests.

use std::time::{Duration, Instant};

use penstock_api::v1;
use tonic::Code;

use crate::controller::Controller;
use crate::samples::{VPC, ground, node, port, with_port};

fn many(count: u32) -> Vec<v1::Resource> {
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    resources.extend((0..count).map(|n| {
        // Attachments of one node: tell them apart by name.
        with_port(port(u16::try_from(n + 10).unwrap(), "n1"), |it| {
            it.attachment = format!("veth{n}");
        })
    }));
    resources
}

#[tokio::test]
async fn large_sets_are_accepted_in_reasonable_time() {
    let directory = tempfile::tempdir().unwrap();
    let controller = Controller::in_directory(directory.path()).await;
    let resources = many(20_000);
    let start = Instant::now();
    let answer = controller.apply(resources).await.unwrap();
    let first = start.elapsed();
    assert_eq!(answer.changed, 20_005);
    let start = Instant::now();
    let change = with_port(port(10, "n1"), |it| it.attachment = "other".to_owned());
    controller.apply(vec![change]).await.unwrap();
    eprintln!(
        "20 000 ports: {first:?}, one more change: {:?}",
        start.elapsed()
    );
    assert!(first < Duration::from_secs(60), "{first:?}");
    controller.stop().await;
}

#[tokio::test]
async fn what_is_too_much_is_refused_clearly() {
    let controller = Controller::start().await;
    let tenants = (0..100_000).map(|n| v1::Resource {
        name: format!("tenants/t{n}"),
        spec: Some(v1::resource::Spec::Tenant(v1::Tenant::default())),
        ..Default::default()
    });
    let status = controller.apply(tenants.collect()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("at most 50000"), "{status}");

    // Many problems fit an answer that any client can read.
    let bad = (0..2000).map(|n| port(n, "nowhere")).collect();
    let status = controller.apply(bad).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.details().len() < 12_000);
    assert!(controller.list(VPC, "", 0).await.is_empty());
    controller.stop().await;
}
