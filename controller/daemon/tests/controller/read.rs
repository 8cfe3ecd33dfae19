//! Get and List, health and reflection.

use penstock_api::v1;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::controller::Controller;
use crate::samples::{VPC, ground, node, port, port_name, tenant};

#[tokio::test]
async fn lists_come_in_pages_by_parent_and_kind() {
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, "127.0.0.1:1", 1));
    resources.extend((1..=25).map(|n| port(n, "n1")));
    // Names that a parent's name is a prefix of.
    resources.push(tenant("blue-2"));
    resources.push(tenant("blues"));
    let count = resources.len();
    controller.apply(resources).await.unwrap();

    for page_size in [1, 2, 7, 0, 1000] {
        let all = controller.list("", "", page_size).await;
        assert_eq!(all.len(), count, "pages of {page_size}");
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
        let blue = controller.list("tenants/blue", "", page_size).await;
        assert_eq!(blue.len(), count - 3, "pages of {page_size}");
        let ports = controller.list(VPC, "Port", page_size).await;
        assert_eq!(ports.len(), 25);
        let one = controller.list(&port_name(1), "", page_size).await;
        assert_eq!(one.len(), 1);
        assert!(
            controller
                .list("tenants/green", "", page_size)
                .await
                .is_empty()
        );
    }
    controller.stop().await;
}

#[tokio::test]
async fn bad_questions_are_told() {
    let controller = Controller::start().await;
    let mut client = controller.client.resources.clone();
    let list = v1::ListRequest::default();
    for request in [
        v1::ListRequest {
            page_size: 1001,
            ..list.clone()
        },
        v1::ListRequest {
            kind: "Prot".to_owned(),
            ..list.clone()
        },
        v1::ListRequest {
            page_token: "xyz".to_owned(),
            ..list.clone()
        },
        v1::ListRequest {
            parent: "tenants/".to_owned(),
            ..list.clone()
        },
    ] {
        let status = client.list(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let status = controller.get("").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = controller.get("tenants/none").await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    controller.stop().await;
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let controller = Controller::start().await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", controller.address))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "penstock.v1.Resources", "penstock.v1.Diagnostics"] {
        let request = tonic_health::pb::HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }

    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let mut reflection = ServerReflectionClient::new(channel.clone());
    let question = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = reflection
        .server_reflection_info(tokio_stream::once(question))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list: {answer:?}");
    };
    let names: Vec<_> = list.service.into_iter().map(|it| it.name).collect();
    for name in ["penstock.v1.Resources", "penstock.v1.Diagnostics"] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }

    use tonic_reflection::pb::v1alpha as old;
    let mut reflection = old::server_reflection_client::ServerReflectionClient::new(channel);
    let question = old::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            old::server_reflection_request::MessageRequest::FileContainingSymbol(
                "penstock.v1.Resources".to_owned(),
            ),
        ),
    };
    let mut answers = reflection
        .server_reflection_info(tokio_stream::once(question))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    assert!(
        matches!(
            answer,
            Some(old::server_reflection_response::MessageResponse::FileDescriptorResponse(_))
        ),
        "{answer:?}"
    );
    controller.stop().await;
}
