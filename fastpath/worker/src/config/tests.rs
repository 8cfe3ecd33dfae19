use super::*;

const GOOD: &str = r#"
node = "host-1"
data_dir = "/var/lib/penstock"
[attachments]
allow = ["veth*"]
[[nic]]
device_id = 2
uplink = { interface = "u0" }
vtep = "192.0.2.1/24"
gateway = "192.0.2.254"
[[nic]]
device_id = 1
uplink = { devargs = "0000:01:00.0" }
vtep = "192.0.2.2/24"
"#;

fn check(text: &str) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    Config::check(file, !text.contains("[tls]"), None).map_err(|error| error.to_string())
}

#[test]
fn a_good_file_becomes_a_configuration_with_defaults() {
    let config = check(GOOD).expect("good");
    assert_eq!(config.listen.to_string(), "127.0.0.1:9559");
    assert_eq!(config.lcores, 1);
    assert_eq!(config.opens_per_second, 0);
    assert_eq!(
        config.nics[0].uplink,
        Uplink::Devargs("0000:01:00.0".into())
    );
    assert_eq!(config.nics[1].device_id, 2);
    assert_eq!(config.nics[1].vtep_prefix_len, 24);
    assert!(config.attachments.allows("veth12"));
    assert!(!config.attachments.allows("eth0"));
    assert!(config.eal.no_huge);
}

#[test]
fn refusals_name_field_value_and_remedy() {
    let cases = [
        ("node = \"host-1\"", "node = \"\"", "node = \"\""),
        (
            "[attachments]",
            "lcores = 17\n[attachments]",
            "lcores = 17: choose a number from 1 to 16",
        ),
        (
            "[attachments]",
            "lcores = 0\n[attachments]",
            "lcores = 0: choose a number from 1 to 16",
        ),
        (
            "[attachments]",
            "lcores = 2\ncpus = [0, 1, 2]\n[attachments]",
            "cpus = [0, 1, 2]: name each processor once",
        ),
        (
            "[attachments]",
            "lcores = 4\ncpus = [3, 3]\n[attachments]",
            "cpus = [3, 3]: name each processor once",
        ),
        (
            "[attachments]",
            "listen = \"0.0.0.0:1\"\n[attachments]",
            "listen = 0.0.0.0:1: without TLS whoever reaches this address",
        ),
        (
            "[attachments]",
            "colour = 2\n[attachments]",
            "unknown field `colour`",
        ),
        (
            "[attachments]",
            "max_connections = 1\n[attachments]",
            "max_connections = 1: choose a number",
        ),
        (
            "[attachments]",
            "opens_per_second = 10000001\n[attachments]",
            "opens_per_second = 10000001: choose a number from 0 to 10000000",
        ),
        (
            "[attachments]",
            "[attachments]\ndriver = \"tap\"",
            "attachments.driver = \"tap\"",
        ),
        ("\"veth*\"", "\"\"", "attachments.allow[0] = \"\""),
        ("device_id = 2", "device_id = 0", "nic[0].device_id = 0"),
        (
            "device_id = 2",
            "device_id = 1",
            "nic[1].device_id = 1: another NIC",
        ),
        (
            "interface = \"u0\"",
            "interface = \"a/b\"",
            "nic[0].uplink.interface = \"a/b\"",
        ),
        ("{ interface = \"u0\" }", "{ }", "nic[0].uplink = "),
        ("192.0.2.1/24", "192.0.2.1", "nic[0].vtep = \"192.0.2.1\""),
        ("192.0.2.2/24", "fe80::1/64", "nic[1].vtep = "),
        ("192.0.2.2/24", "::ffff:192.0.2.2/120", "nic[1].vtep = "),
        ("192.0.2.2/24", "2001:db8::2/129", "nic[1].vtep = "),
        ("192.0.2.2/24", "192.0.2.2/33", "nic[1].vtep = "),
        (
            "192.0.2.1/24",
            "2001:db8::1/64",
            "nic[0].gateway = 192.0.2.254",
        ),
        ("192.0.2.254", "fe80::1", "nic[0].gateway = fe80::1"),
        ("gateway =", "mtu = 100\ngateway =", "nic[0].mtu = 100"),
        (
            "gateway =",
            "entry_write_us = 100001\ngateway =",
            "nic[0].entry_write_us = 100001",
        ),
        ("192.0.2.2/24", "192.0.2.1/24", "nic[1].vtep = 192.0.2.1"),
        (
            "gateway =",
            "capacity = { mapping = 1 }\ngateway =",
            "nic[0].capacity.mapping = 1: choose a number",
        ),
        (
            "gateway =",
            "capacity = { fence = 9 }\ngateway =",
            "unknown field `fence`",
        ),
        (
            "192.0.2.254",
            "198.51.100.1",
            "nic[0].gateway = 198.51.100.1",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = check(&GOOD.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn processors_are_given_out_in_turn() {
    let with = |text: &str| {
        let config = check(&GOOD.replacen("[attachments]", &format!("{text}\n[attachments]"), 1));
        let config = config.expect(text);
        (0..usize::from(config.lcores))
            .map(|lcore| config.cpu(lcore))
            .collect::<Vec<_>>()
    };
    assert_eq!(with("lcores = 3"), [None, None, None]);
    assert_eq!(
        with("lcores = 3\ncpus = [5, 2]"),
        [Some(5), Some(2), Some(5)]
    );
    assert_eq!(with("cpus = [7]"), [Some(7)]);
}

#[test]
fn tls_opens_other_addresses() {
    let tls = "listen = \"0.0.0.0:1\"\n[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[attachments]";
    let config = check(&GOOD.replacen("[attachments]", tls, 1)).expect("good");
    assert_eq!(config.tls.map(|tls| tls.key), Some("k".into()));
}

#[test]
fn insecure_must_be_asked_for_and_excludes_tls() {
    let check = |text: &str, insecure| {
        let file: File = toml::from_str(text).expect("toml");
        let checked = Config::check(file, insecure, None);
        checked.map_err(|error| error.to_string())
    };
    let error = check(GOOD, false).expect_err("not asked for");
    assert!(
        error.starts_with("tls = nothing: add a [tls] section"),
        "{error}"
    );
    assert!(check(GOOD, true).is_ok());
    let tls = format!("{GOOD}\n[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n");
    let error = check(&tls, true).expect_err("both");
    assert!(error.contains("leave one of them out"), "{error}");
}

#[test]
fn patterns_match_whole_names() {
    let cases = [
        ("*", "anything", true),
        ("veth*", "veth", true),
        ("veth*", "xveth1", false),
        ("*-in", "pod7-in", true),
        ("a*b*c", "aXbYc", true),
        ("a*b*c", "aXc", false),
        ("u0", "u0", true),
        ("u0", "u01", false),
    ];
    for (pattern, name, expected) in cases {
        let pattern = Pattern::parse(pattern).expect(pattern);
        assert_eq!(pattern.matches(name), expected, "{pattern} {name}");
    }
    assert_eq!(Pattern::parse("a b"), None);
}

#[test]
fn the_example_is_good() {
    let config = check(include_str!("../../examples/worker.toml")).expect("good");
    assert_eq!(config.nics.len(), 1);
    assert!(config.tls.is_some());
    assert!(config.metrics_listen.is_some());
}

fn with_nics(count: u8) -> String {
    let mut text = "node = \"host-1\"\ndata_dir = \"/d\"\nflow_capacity = 100\n".to_owned();
    for id in 1..=count {
        text += &format!(
            "[[nic]]\ndevice_id = {id}\nuplink = {{ interface = \"u{id}\" }}\nvtep = \"192.0.2.{id}/24\"\n"
        );
    }
    text
}

#[test]
fn sixteen_nics_and_no_more() {
    assert_eq!(check(&with_nics(16)).expect("good").nics.len(), 16);
    for (count, words) in [(0, "nic = 0 sections"), (17, "nic = 17 sections")] {
        let error = check(&with_nics(count)).expect_err(words);
        assert!(error.starts_with(words), "{error}");
        assert!(error.contains("a node has 1 to 16 NICs"), "{error}");
    }
}

#[test]
fn each_nic_has_capacities_of_its_own() {
    let text = with_nics(2) + "capacity = { mapping = 7, flow = 9 }\n";
    let nics = check(&text).expect("good").nics;
    let usual = Capacities {
        flow: 100,
        ..Capacities::default()
    };
    assert_eq!(nics[0].capacities, usual);
    let small = Capacities {
        mapping: 7,
        flow: 9,
        ..usual
    };
    assert_eq!(nics[1].capacities, small);
}

#[test]
fn the_underlay_may_be_ipv6() {
    for gateway in ["2001:db8::fe", "fe80::1"] {
        let text = GOOD
            .replace("192.0.2.1/24", "2001:db8::1/64")
            .replace("192.0.2.254", gateway);
        let nic = check(&text).expect("good").nics[1].clone();
        let underlay = nic.underlay().map(|p| p.to_string());
        assert_eq!(underlay.as_deref(), Some("2001:db8::/64"));
        assert_eq!(
            nic.gateway.map(|ip| ip.to_string()).as_deref(),
            Some(gateway)
        );
    }
    let nic = check(&GOOD.replace("192.0.2.2/24", "192.0.2.2/0"))
        .expect("good")
        .nics[0]
        .clone();
    assert_eq!(
        nic.underlay().map(|p| p.to_string()).as_deref(),
        Some("0.0.0.0/0")
    );
}
