//! Watch.

use std::collections::BTreeMap;

use penstock_api::v1;
use penstock_api::v1::event::Type;
use tonic::{Code, Status, Streaming};

use crate::controller::Controller;
use crate::samples::{VPC, ground, group, node, port, port_name, tenant};
use crate::waiting::soon;

async fn watch(controller: &Controller, parent: &str, kind: &str) -> Streaming<v1::Event> {
    let mut client = controller.client.resources.clone();
    let request = v1::WatchRequest {
        parent: parent.to_owned(),
        kind: kind.to_owned(),
    };
    client.watch(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<v1::Event>) -> Result<v1::Event, Status> {
    soon("an event", stream.message())
        .await
        .map(|event| event.expect("the stream ended without a reason"))
}

/// Names up to SYNCED.
async fn initial(stream: &mut Streaming<v1::Event>) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let event = next(stream).await.unwrap();
        match event.r#type() {
            Type::Put => names.push(event.resource.unwrap().name),
            Type::Synced => return names,
            other => panic!("{other:?} before SYNCED"),
        }
    }
}

#[tokio::test]
async fn everything_then_synced_then_changes() {
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    let mut names: Vec<_> = resources.iter().map(|it| it.name.clone()).collect();
    names.sort();
    controller.apply(resources).await.unwrap();

    let mut all = watch(&controller, "", "").await;
    assert_eq!(initial(&mut all).await, names);
    let mut tenants = watch(&controller, "", "Tenant").await;
    assert_eq!(initial(&mut tenants).await, ["tenants/blue"]);
    let mut groups = watch(&controller, VPC, "SecurityGroup").await;
    assert_eq!(initial(&mut groups).await.len(), 1);

    let answer = controller
        .apply(vec![tenant("red"), group("web", &[81])])
        .await
        .unwrap();
    controller.delete(&["tenants/red"]).await.unwrap();

    // The first tenant's status may come before.
    let event = loop {
        let event = next(&mut tenants).await.unwrap();
        if event
            .resource
            .as_ref()
            .is_some_and(|it| it.name == "tenants/red")
        {
            break event;
        }
    };
    assert_eq!(event.r#type(), Type::Put);
    assert_eq!(event.revision, answer.revision);
    // Status may follow; then the deletion.
    let gone = loop {
        let event = next(&mut tenants).await.unwrap();
        if event.r#type() == Type::Deleted {
            break event;
        }
    };
    let resource = gone.resource.unwrap();
    assert_eq!(resource.name, "tenants/red");
    assert_eq!(resource.spec, None);
    assert_eq!(resource.metadata.unwrap().generation, 1);
    assert!(gone.revision > answer.revision);

    let event = loop {
        let event = next(&mut groups).await.unwrap();
        let resource = event.resource.unwrap();
        assert!(resource.name.contains("/securityGroups/"));
        if resource.metadata.as_ref().unwrap().generation == 2 {
            break resource;
        }
    };
    assert_eq!(event.name, format!("{VPC}/securityGroups/web"));
    controller.stop().await;
}

/// A watcher that only ever adds up events sees what List sees.
#[tokio::test]
async fn events_add_up_to_the_list() {
    let controller = Controller::start().await;
    let mut stream = watch(&controller, "", "").await;
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    controller.apply(resources).await.unwrap();
    for round in 0..20_u16 {
        let number = round % 5 + 1;
        if controller.get(&port_name(number)).await.is_ok() {
            controller.delete(&[&port_name(number)]).await.unwrap();
        } else {
            controller.apply(vec![port(number, "n1")]).await.unwrap();
        }
    }
    let last = controller.apply(vec![tenant("last")]).await.unwrap();
    let mut seen = BTreeMap::new();
    let mut revision = 0;
    loop {
        let event = next(&mut stream).await.unwrap();
        assert!(event.revision >= revision, "revisions never fall");
        revision = event.revision;
        let Some(resource) = event.resource.clone() else {
            continue;
        };
        match event.r#type() {
            Type::Put => {
                let generation = resource.metadata.unwrap().generation;
                seen.insert(resource.name, generation);
            }
            Type::Deleted => {
                seen.remove(&resource.name)
                    .expect("deleted what was not there");
            }
            other => panic!("{other:?}"),
        }
        if event.revision == last.revision && seen.contains_key("tenants/last") {
            break;
        }
    }
    let listed: BTreeMap<_, _> = controller
        .list("", "", 0)
        .await
        .into_iter()
        .map(|it| (it.name, it.metadata.unwrap().generation))
        .collect();
    assert_eq!(seen, listed);
    controller.stop().await;
}

#[tokio::test]
async fn a_slow_watcher_is_told_and_slows_nobody_down() {
    let controller = Controller::start().await;
    // A client with a small window, which fills soon.
    let endpoint = format!("http://{}", controller.address);
    let channel = tonic::transport::Endpoint::from_shared(endpoint)
        .unwrap()
        .initial_stream_window_size(65_535)
        .connect()
        .await
        .unwrap();
    let mut slow = v1::resources_client::ResourcesClient::new(channel)
        .watch(v1::WatchRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(initial(&mut slow).await.is_empty());
    // More than its window, its queue and its backlog hold together.
    let name = "x".repeat(200);
    for round in 0..2_000_u32 {
        let mut resource = tenant("blue");
        let Some(v1::resource::Spec::Tenant(spec)) = &mut resource.spec else {
            panic!("not a tenant");
        };
        spec.display_name = format!("{name}{round}");
        controller.apply(vec![resource]).await.unwrap();
    }
    let status = loop {
        match next(&mut slow).await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("watch again"), "{status}");
    controller.stop().await;
}

#[tokio::test]
async fn watchers_end_with_the_controller() {
    let controller = Controller::start().await;
    let mut stream = watch(&controller, "", "").await;
    initial(&mut stream).await;
    let ended = tokio::spawn(async move {
        loop {
            if let Err(status) = next(&mut stream).await {
                return status;
            }
        }
    });
    controller.stop().await;
    let status = soon("the watcher to end", ended).await.unwrap();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}
