//! The demo's policy, and what the rounds need beside it.

use std::fs;

use anyhow::{Context as _, Result};

use super::Options;
use crate::demo::stage::Stage;

/// The echo's ports.
pub(super) const TCP: u16 = 6000;
pub(super) const UDP: u16 = 6007;

/// Groups of blue, with this rule of web's or without it.
fn groups(hold: bool) -> String {
    let group = |name: &str, rules: &[(&str, &str, &str, u16, &str)]| {
        let mut text = format!(
            "---\nkind: SecurityGroup\nname: tenants/blue/vpcs/main/securityGroups/{name}\n\
             spec:\n  rules:\n"
        );
        for (rule, direction, protocol, port, peer) in rules {
            text += &format!(
                "    - name: {rule}\n      direction: {direction}\n      protocol: {protocol}\n      \
                 ports: [{{first: {port}}}]\n      peers: [{{securityGroup: {peer}}}]\n"
            );
        }
        text
    };
    let mut web = vec![
        ("stream", "INGRESS", "UDP", UDP, "client"),
        ("to-database", "EGRESS", "TCP", TCP, "db"),
    ];
    if hold {
        web.push(("hold", "INGRESS", "TCP", TCP, "client"));
    }
    let client = [
        ("hold-db", "EGRESS", "TCP", TCP, "db"),
        ("hold-web", "EGRESS", "TCP", TCP, "web"),
        ("stream-db", "EGRESS", "UDP", UDP, "db"),
        ("stream-web", "EGRESS", "UDP", UDP, "web"),
    ];
    let db = [
        ("hold", "INGRESS", "TCP", TCP, "client"),
        ("from-web", "INGRESS", "TCP", TCP, "web"),
        ("stream", "INGRESS", "UDP", UDP, "client"),
    ];
    group("web", &web) + &group("client", &client) + &group("db", &db)
}

fn apply_groups(stage: &Stage, hold: bool) -> Result<()> {
    let file = stage.scratch_file("groups.yaml");
    fs::write(&file, groups(hold)).with_context(|| format!("write {}", file.display()))?;
    let penstock = stage.penstock();
    penstock.run(&["apply", "-f", &file.display().to_string()])?;
    penstock.run(&["wait", "--timeout", "30"])?;
    Ok(())
}

/// Everything is permitted that the rounds need.
pub(super) fn apply(stage: &Stage, options: &Options) -> Result<()> {
    let policy = options.policy.display().to_string();
    stage.penstock().run(&["apply", "-f", &policy])?;
    apply_groups(stage, true)
}

/// The client may open nothing to web any more.
pub(super) fn revoke(stage: &Stage) -> Result<()> {
    apply_groups(stage, false)
}
