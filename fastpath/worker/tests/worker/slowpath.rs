//! SlowPath, as the controller uses it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use penstock_slowpath_api::v1;
use tonic::Code;
use v1::policy_status::Result as Verdict;

use crate::bed::lcores;
use crate::controller::{Controller, SOON};
use crate::fixture::{allow, delta, list, snapshot};
use crate::memory::Bed;

async fn info(controller: &mut Controller) -> v1::NodeInfo {
    let answer = controller.slow.get_node(v1::GetNodeRequest {}).await;
    answer.expect("answers").into_inner()
}

fn attachments(status: &v1::PolicyStatus) -> Vec<(u32, u32, &str)> {
    status
        .attachments
        .iter()
        .map(|a| (a.port_id, a.device_port, a.error.as_str()))
        .collect()
}

#[tokio::test]
async fn a_node_says_what_it_is() {
    let bed = Bed::start().await;
    let info = info(&mut bed.controller().await).await;
    assert_eq!(
        (info.node.as_str(), info.lcores, info.generation),
        ("host-1", u32::from(lcores()), 0)
    );
    let nics: Vec<_> = info
        .nics
        .iter()
        .map(|n| (n.device_id, n.uplink_port, n.uplink_mtu, n.driver.as_str()))
        .collect();
    assert_eq!(nics, [(1, 1, 1500, "soft"), (2, 2, 1500, "soft")]);
    assert_eq!(info.nics[0].capacity["flow"], 1024);
    assert_eq!(
        info.nics[0].vtep,
        crate::fixture::bytes([192, 0, 2, 1].into())
    );
}

#[tokio::test]
async fn policies_follow_one_another_and_survive_a_restart() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let mut sync = controller.sync().await;
    let status = sync.send(snapshot(3, vec![])).await;
    assert_eq!((status.result(), status.generation), (Verdict::InForce, 3));
    assert_eq!(attachments(&status), [(1, 17, ""), (2, 18, "")]);
    assert_eq!(info(&mut controller).await.generation, 3);

    let status = sync.send(delta(5, 3, vec![allow("web", 6, &[80])])).await;
    assert_eq!((status.result(), status.generation), (Verdict::InForce, 5));
    let status = sync.send(delta(6, 3, vec![])).await;
    assert_eq!((status.result(), status.generation), (Verdict::Resync, 6));
    let status = sync.send(snapshot(4, vec![])).await;
    assert_eq!(status.result(), Verdict::Refused);
    assert!(
        status.message.contains("does not exceed 5"),
        "{}",
        status.message
    );

    // A port of port 2's interface only: port 1's is let go.
    let mut update = delta(7, 5, vec![]);
    update.deleted_ports = vec![1];
    let status = sync.send(update).await;
    assert_eq!(attachments(&status), [(2, 18, "")]);
    assert_eq!(
        bed.host.open_ports().into_iter().collect::<Vec<_>>(),
        [1, 2, 18]
    );

    drop((sync, controller));
    let bed = bed.restart().await;
    let mut controller = bed.controller().await;
    assert_eq!(info(&mut controller).await.generation, 7);
    assert_eq!(
        bed.host.open_ports().into_iter().collect::<Vec<_>>(),
        [1, 2, 18]
    );
    let status = controller.sync().await.send(delta(8, 7, vec![])).await;
    assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
}

#[tokio::test]
async fn a_policy_that_contradicts_itself_is_refused_whole() {
    type Edit = fn(&mut v1::PolicyUpdate);
    let cases: [(&str, Edit); 5] = [
        ("ports[0].mac = [07]", |u| u.ports[0].mac = vec![7]),
        ("device_id 3 is no NIC of this node", |u| {
            u.ports[0].device_id = 3
        }),
        ("subnet 9", |u| u.ports[0].subnet = 9),
        ("group 9", |u| u.endpoints[0].groups = vec![9]),
        ("rule g/rules/x names ports", |u| {
            u.lists = vec![list(vec![v1::Rule {
                protocol: None,
                ..allow("x", 0, &[80])
            }])];
        }),
    ];
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let mut sync = controller.sync().await;
    for (expected, edit) in cases {
        let mut update = snapshot(1, vec![]);
        edit(&mut update);
        let status = sync.send(update).await;
        assert_eq!(status.result(), Verdict::Refused);
        assert!(
            status.message.contains(expected),
            "{expected}: {}",
            status.message
        );
    }
    assert_eq!(info(&mut controller).await.generation, 0);
    assert_eq!(bed.host.open_ports().len(), 2, "the uplinks");
}

#[tokio::test]
async fn interfaces_come_and_go_and_the_controller_hears_of_it() {
    let bed = Bed::start().await;
    bed.host.unplug("vb");
    let mut controller = bed.controller().await;
    let mut sync = controller.sync().await;
    let mut update = snapshot(1, vec![]);
    let other = |id, attachment: &str| v1::Port {
        id,
        attachment: attachment.into(),
        ..update.ports[0].clone()
    };
    let more = [other(3, "eth0"), other(4, "u1"), other(5, "v,x")];
    update.ports.extend(more);
    let status = sync.send(update).await;
    assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
    let errors: Vec<_> = attachments(&status).into_iter().map(|a| a.2).collect();
    let expected = [
        "",
        "no interface vb",
        "attachments.allow",
        "is an uplink",
        "no interface's name",
    ];
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.contains(expected), "{expected}: {error}");
    }

    bed.host.plug("vb");
    let status = sync.next().await.expect("told by itself");
    assert_eq!((status.result(), status.generation), (Verdict::InForce, 1));
    assert_eq!(attachments(&status)[1], (2, 18, ""));
    // Made anew under its name: attached again, under its number.
    bed.host.unplug("va");
    let status = sync.next().await.expect("told by itself");
    assert!(attachments(&status)[0].2.contains("no interface va"));
    bed.host.plug("va");
    let status = sync.next().await.expect("told by itself");
    assert_eq!(attachments(&status)[0], (1, 17, ""));
}

#[tokio::test]
async fn a_newer_stream_displaces_an_older_one() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let mut old = controller.sync().await;
    assert_eq!(
        old.send(snapshot(1, vec![])).await.result(),
        Verdict::InForce
    );
    let mut new = controller.sync().await;
    let end = old.next().await.expect_err("displaced");
    assert_eq!(end.code(), Code::Aborted);
    assert_eq!(
        new.send(delta(2, 1, vec![])).await.result(),
        Verdict::InForce
    );
}

#[tokio::test]
async fn a_damaged_policy_starts_closed() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    let status = controller.sync().await.send(snapshot(1, vec![])).await;
    assert_eq!(status.result(), Verdict::InForce);
    let path = bed.dir.path().join("policy.snapshot");
    let mut bytes = std::fs::read(&path).expect("is kept");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, bytes).expect("damages");
    drop(controller);
    let bed = bed.restart().await;
    let mut controller = bed.controller().await;
    assert_eq!(info(&mut controller).await.generation, 0);
    assert!(bed.dir.path().join("policy.damaged").exists());
    let status = controller.sync().await.send(snapshot(1, vec![])).await;
    assert_eq!(status.result(), Verdict::InForce, "a controller mends it");
}

#[tokio::test]
async fn an_uplink_that_comes_back_is_attached_again() {
    let bed = Bed::start().await;
    bed.host.unplug("u0");
    until(&bed, |open| !open.contains(&1)).await;
    bed.host.plug("u0");
    until(&bed, |open| open.contains(&1)).await;
    assert!(bed.host.open_ports().contains(&2), "the other NIC's stays");
}

/// Waits for a set of open device ports.
async fn until(bed: &Bed, wanted: impl Fn(&BTreeSet<u32>) -> bool) {
    let end = Instant::now() + SOON;
    while !wanted(&bed.host.open_ports()) {
        assert!(Instant::now() < end, "{:?}", bed.host.open_ports());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn questions_have_bounds() {
    let bed = Bed::start().await;
    let mut controller = bed.controller().await;
    assert!(controller.flows(0).await.is_empty());
    assert!(controller.drops().await.drops.is_empty());
    let request = v1::ListFlowsRequest {
        port_id: 0,
        limit: 1 << 30,
    };
    let error = controller
        .slow
        .list_flows(request)
        .await
        .expect_err("too many");
    assert_eq!(error.code(), Code::InvalidArgument);
}
