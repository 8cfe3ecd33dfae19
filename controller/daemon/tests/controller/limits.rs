//! The largest requests.

use std::time::{Duration, Instant};

use penstock_api::v1;
use tonic::Code;

use crate::controller::Controller;
use crate::samples::{VPC, ground, node, port, tenant, with_port};

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

/// What a client's limit of header bytes counts, less what is always there.
fn on_the_wire(status: &tonic::Status) -> usize {
    let harmless = |c: &char| c.is_ascii_alphanumeric();
    let message = status.message().chars();
    message
        .map(|c| if harmless(&c) { 1 } else { 3 * c.len_utf8() })
        .sum::<usize>()
        + status.details().len().div_ceil(3) * 4
}

#[tokio::test]
async fn what_is_too_much_is_refused_clearly() {
    let controller = Controller::start().await;
    let tenants = (0..100_000).map(|n| tenant(&format!("t{n}")));
    let status = controller.apply(tenants.collect()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("at most 50000"), "{status}");

    // Many problems fit an answer that any client can read.
    let bad = (0..2000).map(|n| port(n, "nowhere")).collect();
    let status = controller.apply(bad).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(on_the_wire(&status) < 8000, "{status}");
    // Names that grow on the way.
    let bad = (0..100).map(|n| tenant(&"\u{1b}é ".repeat(100 + n)));
    let status = controller.apply(bad.collect()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(on_the_wire(&status) < 8000, "{status}");
    assert!(controller.list(VPC, "", 0).await.is_empty());
    controller.stop().await;
}

#[tokio::test]
async fn absurd_names_get_answers_that_fit() {
    let controller = Controller::start().await;
    let absurd = "x".repeat(1 << 20);
    let name = absurd.as_str();
    let mut diagnostics = controller.client.diagnostics.clone();
    let explain = v1::ExplainRequest {
        from_port: absurd.clone(),
        protocol: v1::Protocol::Tcp.into(),
        ..Default::default()
    };
    let drops = v1::ListDropsRequest {
        node: absurd.clone(),
        ..Default::default()
    };
    for status in [
        controller.get(name).await.unwrap_err(),
        controller.delete(&[name]).await.unwrap_err(),
        diagnostics.explain(explain).await.unwrap_err(),
        diagnostics.list_drops(drops).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::NotFound, "{}", status.message().len());
        assert!(status.message().len() < 600);
    }
    controller.stop().await;
}
