//! Explain, flows and drops.

use penstock_api::v1;
use tonic::Code;

use crate::controller::Controller;
use crate::fake::Worker;
use crate::samples::{VPC, ground, ip, node, port, port_name, vpc, with_port};

struct Bed {
    controller: Controller,
    one: Worker,
    two: Worker,
}

async fn bed() -> Bed {
    let one = Worker::start("n1", 1, 1).await;
    let two = Worker::start("n2", 2, 1).await;
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, &one.address, 1));
    resources.push(node("n2", 2, &two.address, 1));
    resources.push(vpc("tenants/blue/vpcs/other", 7002));
    resources.push(crate::samples::subnet(
        "tenants/blue/vpcs/other/subnets/front",
        "10.1.0.0/16",
    ));
    let mut stranger = with_port(port(9, "n1"), |it| it.security_groups.clear());
    stranger.name = "tenants/blue/vpcs/other/ports/p9".to_owned();
    let outsider = with_port(port(3, "n2"), |it| it.security_groups.clear());
    resources.extend([port(1, "n1"), port(2, "n2"), outsider, stranger]);
    controller.apply(resources).await.unwrap();
    controller.programmed(&port_name(1)).await;
    controller.programmed(&port_name(2)).await;
    Bed {
        controller,
        one,
        two,
    }
}

async fn explain(
    bed: &Bed,
    request: v1::ExplainRequest,
) -> Result<v1::ExplainResponse, tonic::Status> {
    let mut client = bed.controller.client.diagnostics.clone();
    client
        .explain(request)
        .await
        .map(tonic::Response::into_inner)
}

fn tcp(from: &str, to: &str, port: u32) -> v1::ExplainRequest {
    v1::ExplainRequest {
        from_port: from.to_owned(),
        to: to.to_owned(),
        protocol: v1::Protocol::Tcp.into(),
        source_port: 1024,
        destination_port: port,
        ..Default::default()
    }
}

#[tokio::test]
async fn explain_judges_at_both_ends() {
    let bed = bed().await;
    let (p1, p2) = (port_name(1), port_name(2));
    let answer = explain(&bed, tcp(&p1, &p2, 80)).await.unwrap();
    assert_eq!(answer.verdict(), v1::Action::Allow);
    assert_eq!(answer.source_ip, ip(1));
    assert_eq!(answer.destination_ip, ip(2));
    let [egress, ingress] = answer.steps.as_slice() else {
        panic!("{:?}", answer.steps);
    };
    assert_eq!((egress.node.as_str(), &egress.port), ("nodes/n1", &p1));
    assert_eq!((ingress.node.as_str(), &ingress.port), ("nodes/n2", &p2));
    assert_eq!(egress.rule, format!("{VPC}/securityGroups/web/rules/out"));
    assert_eq!(ingress.rule, format!("{VPC}/securityGroups/web/rules/in"));

    // By address it is the same.
    let by_address = explain(&bed, tcp(&p1, &ip(2), 80)).await.unwrap();
    assert_eq!(by_address, answer);
    // Another port, and somebody who is no member: refused where it should be.
    for request in [tcp(&p1, &p2, 81), tcp(&port_name(3), &p1, 80)] {
        let answer = explain(&bed, request).await.unwrap();
        assert_eq!(answer.verdict(), v1::Action::Deny, "{answer:?}");
    }
    // Nobody there; another VPC.
    let answer = explain(&bed, tcp(&p1, "10.1.200.1", 80)).await.unwrap();
    assert_eq!(answer.verdict(), v1::Action::Deny);
    assert!(answer.steps[1].reason.contains("10.1.200.1"), "{answer:?}");
    let other = "tenants/blue/vpcs/other/ports/p9";
    let answer = explain(&bed, tcp(&p1, other, 80)).await.unwrap();
    assert_eq!(answer.verdict(), v1::Action::Deny);
    assert!(
        answer.steps[1].reason.contains("different VPCs"),
        "{answer:?}"
    );
    bed.controller.stop().await;
}

#[tokio::test]
async fn explain_refuses_what_it_cannot_answer() {
    let bed = bed().await;
    let (p1, p2) = (port_name(1), port_name(2));
    let good = tcp(&p1, &p2, 80);
    for (request, code) in [
        (
            v1::ExplainRequest {
                from_port: "x".to_owned(),
                ..good.clone()
            },
            Code::NotFound,
        ),
        (
            v1::ExplainRequest {
                to: "x".to_owned(),
                ..good.clone()
            },
            Code::NotFound,
        ),
        (
            v1::ExplainRequest {
                protocol: 0,
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
        (
            v1::ExplainRequest {
                protocol: 99,
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
        (
            v1::ExplainRequest {
                destination_port: 65536,
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
        (
            v1::ExplainRequest {
                icmp_type: 8,
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
        (
            v1::ExplainRequest {
                ipv6: true,
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
        (
            v1::ExplainRequest {
                to: "fd00::1".to_owned(),
                ..good.clone()
            },
            Code::InvalidArgument,
        ),
    ] {
        let status = explain(&bed, request.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{request:?}: {status}");
    }
    bed.controller.stop().await;
}

#[tokio::test]
async fn flows_and_drops_are_relayed_with_names() {
    let mut bed = bed().await;
    let mut client = bed.controller.client.diagnostics.clone();
    let flows = v1::ListFlowsRequest::default();
    let mut stream = client.list_flows(flows.clone()).await.unwrap().into_inner();
    let mut ports = Vec::new();
    while let Some(flow) = stream.message().await.unwrap() {
        ports.push((flow.node, flow.port));
    }
    ports.sort();
    let n1 = "nodes/n1".to_owned();
    assert_eq!(ports.len(), 4);
    assert_eq!(ports[0], (n1.clone(), port_name(1)));

    let request = v1::ListFlowsRequest {
        port: port_name(2),
        ..flows.clone()
    };
    let mut stream = client.list_flows(request).await.unwrap().into_inner();
    let flow = stream.message().await.unwrap().unwrap();
    assert_eq!((flow.node.as_str(), flow.port), ("nodes/n2", port_name(2)));
    assert_eq!(flow.source_ip, ip(2));
    assert!(stream.message().await.unwrap().is_none());

    let drops = v1::ListDropsRequest::default();
    let answer = client.list_drops(drops.clone()).await.unwrap().into_inner();
    assert_eq!(answer.counters.len(), 2);
    assert_eq!(answer.drops.len(), 4);
    assert!(
        answer
            .drops
            .windows(2)
            .all(|it| it[0].age_ns <= it[1].age_ns)
    );

    for request in [
        v1::ListFlowsRequest {
            node: "nodes/x".to_owned(),
            ..flows.clone()
        },
        v1::ListFlowsRequest {
            port: "x".to_owned(),
            ..flows.clone()
        },
        v1::ListFlowsRequest {
            limit: 10_001,
            ..flows.clone()
        },
        v1::ListFlowsRequest {
            node: n1.clone(),
            port: port_name(2),
            ..flows.clone()
        },
    ] {
        client.list_flows(request).await.unwrap_err();
    }

    // One node dies: the others' part comes, and then an error that names it.
    bed.two.pause();
    let mut stream = client.list_flows(flows).await.unwrap().into_inner();
    let mut count = 0;
    let status = loop {
        match stream.message().await {
            Ok(Some(flow)) => {
                assert_eq!(flow.node, n1);
                count += 1;
            }
            Ok(None) => panic!("it ended as if it were complete"),
            Err(status) => break status,
        }
    };
    assert_eq!(count, 2);
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("nodes/n2"), "{status}");
    let answer = client.list_drops(drops.clone()).await.unwrap().into_inner();
    assert_eq!(answer.counters.len(), 1);
    let missing = answer
        .drops
        .iter()
        .find(|it| it.reason == "node_unavailable");
    assert_eq!(missing.unwrap().node, "nodes/n2");
    bed.one.pause();
    let status = client.list_drops(drops).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    bed.controller.stop().await;
}
