//! Documents from people who mean harm, or whose editor did: a clear answer,
//! soon, and in little memory.

use std::time::{Duration, Instant};

use penstock_policies::document::{self, Resource, Spec, Tenant};
use penstock_policies::model;
use proptest::prelude::*;

/// What a text gets, within a deadline that is generous for slow machines.
fn told(bytes: &[u8]) -> Vec<String> {
    let begin = Instant::now();
    let all = match document::parse("f", bytes).validate() {
        Ok(_) => Vec::new(),
        Err(all) => all.iter().map(ToString::to_string).collect(),
    };
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    assert!(all.iter().all(|line| line.len() < 2_000));
    all
}

#[test]
fn harmful_texts_are_refused_soon() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n";
    let deep = "[".repeat(10 << 20);
    let deep_block = (0..300)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect::<String>();
    let long_name = format!("kind: Tenant\nname: tenants/{}\n", "x".repeat(1 << 20));
    let long_key = format!(
        "kind: Tenant\nname: tenants/t\n? {}\n: 1\n",
        "k".repeat(1 << 20)
    );
    for (text, expected) in [
        (bomb, "anchors"),
        (&deep, "nested"),
        (&deep_block, "nested"),
        (&long_name, "bytes"),
        (&long_key, "f:3"),
        ("kind: Tenant\nname: tenants/t\0\n", "f:2"),
        ("- a\n- b\n", "expected fields"),
        ("just words\n", "expected fields"),
        ("? [a, b]\n: c\n", "as a key"),
        ("kind: [Tenant]\nname: {a: b}\n", "expected a value"),
    ] {
        let all = told(text.as_bytes());
        assert!(
            all.iter().any(|line| line.contains(expected)),
            "{expected}: {all:?}"
        );
    }
    assert_eq!(
        told(b"kind: Tenant\nname: \xff\n"),
        ["f:2:1: not UTF-8 at byte 19; save the file as UTF-8"]
    );
    let endless = vec![b' '; (64 << 20) + 1];
    assert!(told(&endless)[0].contains("67108865 bytes"));
}

#[test]
fn a_thousand_problems_are_enough() {
    let tenant = |i| Resource {
        name: format!("tenants/_{i}"),
        spec: Spec::Tenant(Tenant::default()),
        etag: String::new(),
    };
    let all = model::validate(&(0..5_000).map(tenant).collect::<Vec<_>>()).expect_err("bad names");
    assert_eq!(all.len(), 1_000);
    assert!(
        all[999]
            .suggestion
            .ends_with("(and 4000 more problems not shown)"),
        "{}",
        all[999]
    );
    let many = (0..100_001).map(tenant).collect::<Vec<_>>();
    let all = model::validate(&many).expect_err("too many");
    assert!(
        all.len() == 1
            && all[0]
                .message
                .contains("100001 resources are more than 100000")
    );
}

/// A full set is validated in seconds.
#[test]
fn a_large_set_is_validated_soon() {
    let mut text = String::from(
        "{kind: Node, name: nodes/n, spec: {workerAddress: 'h:1', nics: [{deviceId: 1, vtep: 192.0.2.1}]}}\n---\n\
         {kind: Tenant, name: tenants/t}\n---\n\
         {kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/8]}}\n---\n\
         {kind: Subnet, name: tenants/t/vpcs/v/subnets/s, spec: {cidrs: [10.0.0.0/8]}}\n",
    );
    for i in 0_u32..20_000 {
        let [_, a, b, c] = (i + 2).to_be_bytes();
        text.push_str(&format!(
            "---\nkind: Port\nname: tenants/t/vpcs/v/ports/p{i}\nspec:\n  subnet: s\n  node: n\n  \
             attachment: p{i}\n  mac: \"02:00:00:{a:02x}:{b:02x}:{c:02x}\"\n  ips: [10.{a}.{b}.{c}]\n",
        ));
    }
    assert_eq!(told(text.as_bytes()), Vec::<String>::new());
    // The same with every reference wrong: suggestions stay affordable.
    let wrong = text
        .replace("subnet: s", "subnet: t")
        .replace("node: n\n", "node: m\n");
    assert_eq!(told(wrong.as_bytes()).len(), 1_000);
}

/// As many policies as a VPC may have, and one more; a set of prefixes as large as one
/// may be, and one larger.
#[test]
fn limits_of_policies_hold_and_are_reached_soon() {
    let vpc = "{kind: Tenant, name: tenants/t}\n---\n\
         {kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/8]}}\n";
    let policies = |count: u32| {
        let mut text = vpc.to_owned();
        for i in 0..count {
            text.push_str(&format!(
                "---\n{{kind: Policy, name: tenants/t/vpcs/v/policies/p{i}, spec: {{tier: ADMIN}}}}\n"
            ));
        }
        told(text.as_bytes())
    };
    assert_eq!(policies(10_000), Vec::<String>::new());
    let all = policies(10_002);
    assert!(
        all.len() == 1 && all[0].contains("has more than 10000 policies"),
        "{all:?}"
    );
    let prefixes = |count: u32| {
        let mut text = format!(
            "{vpc}---\nkind: PrefixSet\nname: tenants/t/vpcs/v/prefixSets/s\nspec:\n  prefixes:\n"
        );
        for i in 0..count {
            let [_, a, b, c] = i.to_be_bytes();
            text.push_str(&format!("    - 10.{a}.{b}.{c}/32\n"));
        }
        told(text.as_bytes())
    };
    assert_eq!(prefixes(100_000), Vec::<String>::new());
    let all = prefixes(100_001);
    assert!(
        all.len() == 1 && all[0].contains("100001 elements are more than 100000"),
        "{all:?}"
    );
}

/// Ten megabytes in one policy.
#[test]
fn a_large_policy_is_validated_soon() {
    let mut text = String::from(
        "{kind: Tenant, name: tenants/t}\n---\n\
         {kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/8]}}\n---\n\
         kind: Policy\nname: tenants/t/vpcs/v/policies/p\nspec:\n  tier: ADMIN\n  rules:\n",
    );
    let value = "v".repeat(256);
    for i in 0..150 {
        text.push_str(&format!(
            "    - name: r{i}\n      direction: INGRESS\n      action: DENY\n      peers:\n"
        ));
        for j in 0..256 {
            let peer = format!("        - selector: {{matchLabels: {{k{j}: {value}}}}}\n");
            text.push_str(&peer);
        }
    }
    assert!(text.len() > 10_000_000);
    assert_eq!(told(text.as_bytes()), Vec::<String>::new());
}

proptest! {
    /// Whatever the bytes, there is an answer, and every place is in the text.
    #[test]
    fn no_text_is_without_an_answer(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[a-z:\\-\\[\\]{}#&*!|>'\" \n,0-9]{0,200}".prop_map(String::into_bytes),
            "kind: (Port|Vpc|Node|Policy|Peering|PrefixSet)\nname: [a-z/]{0,20}\nspec:\n(  [a-z]{1,8}: [a-z0-9\\[\\]{}]{0,5}\n){0,5}"
                .prop_map(String::into_bytes),
        ]
    ) {
        let documents = document::parse("f", &bytes);
        let lines = 2 + bytes.iter().filter(|b| matches!(b, b'\n' | b'\r')).count();
        if let Err(all) = documents.validate() {
            for d in all {
                prop_assert!((1..=lines).contains(&(d.at.line as usize)), "{d}");
                prop_assert!(!d.message.is_empty() && !d.suggestion.is_empty(), "{d}");
            }
        }
    }
}

#[test]
fn numbers_are_digits_and_nothing_else() {
    for number in ["+5", "-0", "0x5", "5.0", "5e0", "1_0", "\u{665}", "\" 5\""] {
        let text = format!("kind: Vpc\nname: tenants/t/vpcs/v\nspec:\n  vni: {number}\n");
        let all = told(text.as_bytes());
        let expected = "f:4:8: tenants/t/vpcs/v: spec.vni:";
        assert!(
            all.iter()
                .any(|it| it.starts_with(expected) && it.contains("is not a whole number")),
            "{number}: {all:?}"
        );
    }
}

#[test]
fn what_is_no_document_is_told_once() {
    for (text, expected) in [
        ("hello\n", 1),
        ("[a, [b]]\n", 2),
        ("- kind: Tenant\n  name: tenants/t\n-\n", 2),
        ("- kind: Tenant\n  name: tenants/t\n- 5\n", 1),
    ] {
        let all = told(text.as_bytes());
        assert_eq!(all.len(), expected, "{all:?}");
        assert!(
            all.iter()
                .all(|it| it.contains("expected fields") || it.contains("is missing")),
            "{all:?}"
        );
    }
    // A list of documents, as `get -o json` shows several.
    let list =
        r#"[{"kind": "Tenant", "name": "tenants/t"}, {"kind": "Tenant", "name": "tenants/u"}]"#;
    let documents = document::parse("f", list.as_bytes());
    assert!(documents.validate().is_ok());
    assert_eq!(documents.resources.len(), 2);
}

#[test]
fn a_pipe_among_the_files_makes_nobody_wait() {
    let folder = std::env::temp_dir().join(format!("penstock-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("a.yaml"))
        .status()
        .unwrap();
    assert!(made.success());
    let result = document::load(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        matches!(&result, Err(document::LoadError::Special(path)) if path.ends_with("a.yaml")),
        "{result:?}"
    );
}
