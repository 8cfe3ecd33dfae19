//! Apply and Delete.

use penstock_api::v1;
use penstock_api::v1::resource::Spec;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::controller::Controller;
use crate::samples::{
    VPC, ground, group, ip, node, port, port_name, subnet, tenant, vpc, with_port,
};

fn fields(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let details = status.get_error_details();
    let violations = &details
        .bad_request()
        .expect("a BadRequest")
        .field_violations;
    violations.iter().map(|it| it.field.clone()).collect()
}

async fn prepared() -> Controller {
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    controller.apply(resources).await.unwrap();
    controller
}

#[tokio::test]
async fn all_of_a_request_is_stored_or_nothing() {
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    resources.push(port(1, "n1"));
    // One of them is bad: nothing is there afterwards.
    let mut broken = resources.clone();
    broken.push(with_port(port(2, "n1"), |port| {
        port.mac = "01:00:00:00:00:01".to_owned();
    }));
    let status = controller.apply(broken).await.unwrap_err();
    assert_eq!(fields(&status), ["resources[6].spec.mac"]);
    assert!(controller.list("", "", 0).await.is_empty());

    let count = resources.len();
    let answer = controller.apply(resources).await.unwrap();
    assert_eq!(answer.changed as usize, count);
    assert_eq!(answer.resources.len(), count);
    assert_eq!(answer.resources[5].name, port_name(1));
    let metadata = answer.resources[5].metadata.as_ref().unwrap();
    assert_eq!(metadata.generation, 1);
    assert_eq!(metadata.uid.len(), 36);
    assert_eq!(controller.list("", "", 0).await.len(), count);
    controller.stop().await;
}

#[tokio::test]
async fn every_problem_is_told_with_its_field() {
    let controller = prepared().await;
    let request = vec![
        port(1, "nowhere"),
        with_port(port(2, "n1"), |it| {
            it.ips = vec!["10.9.0.1".to_owned()];
            it.security_groups = vec!["none".to_owned()];
        }),
        vpc("tenants/red/vpcs/main", 7001),
    ];
    let mut found = fields(&controller.apply(request).await.unwrap_err());
    found.sort();
    assert_eq!(
        found,
        [
            "resources[0].spec.node",
            "resources[1].spec.ips[0]",
            "resources[1].spec.securityGroups[0]",
            "resources[2].name",
            "resources[2].spec.vni",
        ]
    );

    // What the API itself can tell.
    let nameless = v1::Resource {
        name: "tenants/red".to_owned(),
        ..Default::default()
    };
    let twice = vec![tenant("red"), nameless.clone(), tenant("red")];
    let status = controller.apply(twice).await.unwrap_err();
    assert_eq!(
        fields(&status),
        [
            "resources[1].spec",
            "resources[1].name",
            "resources[2].name"
        ]
    );
    let status = controller
        .apply_request(v1::ApplyRequest {
            request_id: "x".repeat(65),
            ..Default::default()
        })
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["request_id"]);
    controller.stop().await;
}

#[tokio::test]
async fn a_problem_of_a_stored_resource_is_told_with_its_name() {
    let controller = prepared().await;
    controller.apply(vec![port(1, "n1")]).await.unwrap();
    let smaller = subnet(&format!("{VPC}/subnets/front"), "10.2.0.0/16");
    let status = controller.apply(vec![smaller]).await.unwrap_err();
    assert_eq!(fields(&status), ["resources"]);
    assert!(status.message().contains(&port_name(1)), "{status}");
    // And of two that claim the same it is the new one that is wrong,
    // whatever the order of their names.
    let twin = with_port(port(0, "n1"), |it| it.ips = vec![ip(1)]);
    let status = controller.apply(vec![twin]).await.unwrap_err();
    assert_eq!(fields(&status), ["resources[0].spec.ips[0]"]);
    controller.stop().await;
}

#[tokio::test]
async fn a_vni_goes_from_one_vpc_to_another_in_two_steps_only() {
    let controller = prepared().await;
    let (other, third) = ("tenants/blue/vpcs/other", "tenants/blue/vpcs/third");
    controller.apply(vec![vpc(other, 7002)]).await.unwrap();
    // Exchanged, or given up and taken in one request.
    let exchange = vec![vpc(VPC, 7002), vpc(other, 7001)];
    let status = controller.apply(exchange).await.unwrap_err();
    assert_eq!(
        fields(&status),
        ["resources[0].spec.vni", "resources[1].spec.vni"]
    );
    let hand_over = vec![vpc(third, 7001), vpc(VPC, 7003)];
    let status = controller.apply(hand_over).await.unwrap_err();
    assert_eq!(fields(&status), ["resources[0].spec.vni"]);
    assert!(status.message().contains(VPC), "{status}");
    assert!(controller.get(third).await.is_err(), "nothing is stored");
    // One after the other.
    for (name, vni) in [(VPC, 7003), (third, 7001), (VPC, 7004), (other, 7003)] {
        controller.apply(vec![vpc(name, vni)]).await.unwrap();
    }
    controller.stop().await;
}

#[tokio::test]
async fn etags_protect_against_overwriting() {
    let controller = prepared().await;
    let name = format!("{VPC}/securityGroups/web");
    let read = controller.get(&name).await.unwrap();
    let mut mine = group("web", &[443]);
    mine.metadata = read.metadata.clone();
    let answer = controller.apply(vec![mine.clone()]).await.unwrap();
    let after = answer.resources[0].metadata.clone().unwrap();
    let before = read.metadata.unwrap();
    assert_eq!(after.generation, 2);
    assert_ne!(after.etag, before.etag);
    assert_eq!(after.uid, before.uid);
    assert_eq!(after.create_time, before.create_time);

    // The same etag again: somebody (we) has changed it since. All or nothing.
    let status = controller
        .apply(vec![tenant("red"), mine.clone()])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(
        controller.get("tenants/red").await.unwrap_err().code(),
        Code::NotFound
    );
    // An etag for something that is not there.
    let mut fresh = tenant("green");
    fresh.metadata = Some(after.clone());
    assert_eq!(
        controller.apply(vec![fresh]).await.unwrap_err().code(),
        Code::Aborted
    );
    // Delete looks at it as well.
    let mut client = controller.client.resources.clone();
    let mut delete = v1::DeleteRequest {
        names: vec![name.clone()],
        etag: before.etag,
        ..Default::default()
    };
    let status = client.delete(delete.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    delete.etag = after.etag;
    client.delete(delete).await.unwrap();
    controller.stop().await;
}

#[tokio::test]
async fn the_same_again_changes_nothing() {
    let controller = prepared().await;
    let labelled = with_port(port(1, "n1"), |it| {
        for n in 0..20 {
            it.labels.insert(format!("k{n}"), format!("v{n}"));
        }
    });
    let first = controller.apply(vec![labelled.clone()]).await.unwrap();
    assert_eq!(first.changed, 1);
    let second = controller.apply(vec![labelled]).await.unwrap();
    assert_eq!((second.changed, second.revision), (0, first.revision));
    assert_eq!(second.resources[0].metadata, first.resources[0].metadata);
    let empty = controller.apply(vec![]).await.unwrap();
    assert_eq!((empty.changed, empty.revision), (0, first.revision));
    controller.stop().await;
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer() {
    let controller = prepared().await;
    let request = |resources, id: &str| v1::ApplyRequest {
        resources,
        request_id: id.to_owned(),
        ..Default::default()
    };
    let labelled = |value: &str| {
        with_port(port(1, "n1"), |it| {
            it.labels.insert("a".to_owned(), value.to_owned());
            it.labels.insert("b".to_owned(), value.to_owned());
        })
    };
    let one = request(vec![labelled("1")], "one");
    let first = controller.apply_request(one.clone()).await.unwrap();
    controller.apply(vec![labelled("2")]).await.unwrap();
    // Again: answered, not applied.
    let again = controller.apply_request(one).await.unwrap();
    assert_eq!(again, first);
    let Some(Spec::Port(port)) = controller.get(&port_name(1)).await.unwrap().spec else {
        panic!("not a port");
    };
    assert_eq!(port.labels["a"], "2");
    // The id with another content is a mistake of the client.
    let status = controller
        .apply_request(request(vec![labelled("3")], "one"))
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["request_id"]);
    // A refused request is not remembered.
    let bad = request(vec![crate::samples::port(2, "nowhere")], "two");
    controller.apply_request(bad).await.unwrap_err();
    controller
        .apply_request(request(vec![labelled("4")], "two"))
        .await
        .unwrap();
    controller.stop().await;
}

#[tokio::test]
async fn only_validating_stores_nothing() {
    let controller = prepared().await;
    let request = v1::ApplyRequest {
        resources: vec![port(1, "n1")],
        validate_only: true,
        ..Default::default()
    };
    let answer = controller.apply_request(request.clone()).await.unwrap();
    assert_eq!(answer.changed, 1);
    let status = controller.get(&port_name(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let bad = v1::ApplyRequest {
        resources: vec![port(1, "nowhere")],
        ..request
    };
    let status = controller.apply_request(bad).await.unwrap_err();
    assert_eq!(fields(&status), ["resources[0].spec.node"]);
    controller.stop().await;
}

#[tokio::test]
async fn what_is_needed_is_not_deleted() {
    let controller = prepared().await;
    controller.apply(vec![port(1, "n1")]).await.unwrap();
    let web = format!("{VPC}/securityGroups/web");
    let front = format!("{VPC}/subnets/front");
    for (needed, by) in [
        (web.as_str(), port_name(1)),
        (front.as_str(), port_name(1)),
        ("nodes/n1", port_name(1)),
        (VPC, port_name(1)),
        ("tenants/blue", VPC.to_owned()),
    ] {
        let status = controller.delete(&[needed]).await.unwrap_err();
        assert_eq!(
            status.code(),
            Code::FailedPrecondition,
            "{needed}: {status}"
        );
        let details = status.get_error_details();
        let violations = &details.precondition_failure().unwrap().violations;
        assert!(
            violations.iter().any(|it| it.subject == by),
            "{needed}: {violations:?}"
        );
    }
    // Together with what needs it, in any order, everything goes.
    let p1 = port_name(1);
    let all = ["tenants/blue", VPC, &front, &p1, &web];
    let answer = controller.delete(&all).await.unwrap();
    assert_eq!(answer.deleted, 5);
    let rest = controller.list("", "", 0).await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].name, "nodes/n1");

    // What is not there.
    let status = controller
        .delete(&["nodes/n1", "nodes/n2"])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(controller.get("nodes/n1").await.is_ok());
    let mut client = controller.client.resources.clone();
    let request = v1::DeleteRequest {
        names: vec!["nodes/n1".to_owned(), "nodes/n2".to_owned()],
        allow_missing: true,
        ..Default::default()
    };
    assert_eq!(
        client.delete(request).await.unwrap().into_inner().deleted,
        1
    );
    controller.stop().await;
}

#[tokio::test]
async fn a_name_that_comes_back_is_another_resource() {
    let controller = prepared().await;
    let first = controller.apply(vec![tenant("red")]).await.unwrap();
    controller.delete(&["tenants/red"]).await.unwrap();
    let second = controller.apply(vec![tenant("red")]).await.unwrap();
    let (first, second) = (&first.resources[0], &second.resources[0]);
    let (first, second) = (
        first.metadata.as_ref().unwrap(),
        second.metadata.as_ref().unwrap(),
    );
    assert_ne!(first.uid, second.uid);
    assert_ne!(first.etag, second.etag);
    assert_eq!(second.generation, 1);
    controller.stop().await;
}

/// A request of a client that is newer than the server.
#[derive(Clone, PartialEq, prost::Message)]
struct Newer {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "40")]
    only_if: String,
}

#[tokio::test]
async fn what_the_server_does_not_know_is_refused() {
    let controller = prepared().await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", controller.address));
    let mut client = tonic::client::Grpc::new(channel.unwrap().connect().await.unwrap());
    for (only_if, refused) in [("", false), ("friday", true)] {
        let request = Newer {
            name: VPC.to_owned(),
            only_if: only_if.to_owned(),
        };
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<Newer, v1::Resource>::default();
        let path = "/penstock.v1.Resources/Get".parse().unwrap();
        let answer = client
            .unary(tonic::Request::new(request), path, codec)
            .await;
        match answer {
            Ok(answer) => {
                assert!(!refused, "{only_if}");
                assert_eq!(answer.into_inner().name, VPC);
            }
            Err(status) => {
                assert!(refused, "{status}");
                assert_eq!(fields(&status), [""]);
                let words = "penstock.v1.GetRequest has no field 40";
                assert!(status.message().starts_with(words), "{status}");
            }
        }
    }
    drop(client);
    controller.stop().await;
}
