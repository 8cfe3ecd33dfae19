//! Values from their text.

use std::net::IpAddr;

use penstock_flow::{Addr, Mac, Prefix};

use crate::suggest::quote;

/// A value that cannot be used.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) suggestion: String,
}

fn refuse<T>(message: String, suggestion: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        message,
        suggestion: suggestion.into(),
    })
}

pub(super) fn addr(text: &str) -> Result<Addr, Refusal> {
    if text.is_empty() {
        return refuse(
            "is missing".to_owned(),
            "write an address like 10.0.0.5 or fd00::5",
        );
    }
    let Ok(ip) = text.parse::<IpAddr>() else {
        let suggestion = if text.contains('/') {
            "write the address alone, without /length"
        } else {
            "write an address like 10.0.0.5 or fd00::5"
        };
        return refuse(format!("{} is not an IP address", quote(text)), suggestion);
    };
    if let IpAddr::V6(v6) = ip
        && let Some(v4) = v6.to_ipv4_mapped()
    {
        return refuse(
            format!("{text} is IPv4 in the clothes of IPv6"),
            format!("write {v4}"),
        );
    }
    Ok(Addr::from(ip))
}

/// An address that a host can have.
pub(super) fn unicast(text: &str) -> Result<Addr, Refusal> {
    let addr = addr(text)?;
    let ip = addr.to_ip();
    let what = match ip {
        _ if ip.is_unspecified() => "the unspecified address",
        _ if ip.is_loopback() => "a loopback address",
        _ if ip.is_multicast() => "a multicast address",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        IpAddr::V4(v4) if v4.is_link_local() => "a link-local address",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "a link-local address",
        _ => return Ok(addr),
    };
    refuse(
        format!("{text} is {what}"),
        "use a unicast address of the network",
    )
}

pub(super) fn prefix(text: &str) -> Result<Prefix, Refusal> {
    if text.is_empty() {
        return refuse(
            "is missing".to_owned(),
            "write a prefix like 10.0.0.0/16 or fd00::/48",
        );
    }
    let form = "write a prefix like 10.0.0.0/16 or fd00::/48";
    let Some((ip, len)) = text.split_once('/') else {
        let suggestion = match addr(text) {
            Ok(a) if a.is_v4() => format!("write {text}/32 for this one address"),
            Ok(_) => format!("write {text}/128 for this one address"),
            Err(_) => form.to_owned(),
        };
        return refuse(format!("{} is not a prefix", quote(text)), suggestion);
    };
    let addr = match addr(ip) {
        Ok(addr) => addr,
        Err(mut refusal) => {
            if let Some(better) = unmapped(ip, len) {
                refusal.suggestion = format!("write {better}");
            }
            return Err(refusal);
        }
    };
    let (width, shift) = if addr.is_v4() { (32, 96) } else { (128, 0) };
    let len = match len.parse::<u8>() {
        Ok(n) if n <= width && len.bytes().all(|b| b.is_ascii_digit()) => n,
        _ => {
            let message = format!("{} has no length of 0 to {width}", quote(text));
            return refuse(message, form);
        }
    };
    let all = len + shift;
    let masked = if all == 0 {
        0
    } else {
        addr.0 & u128::MAX << (128 - u32::from(all))
    };
    let network = Addr(masked);
    // 0.0.0.0/0 keeps the bits that make it IPv4.
    match Prefix::new(network, all) {
        Some(prefix) if network == addr => Ok(prefix),
        _ => refuse(
            format!("{text} has bits set beyond its length"),
            format!("did you mean {network}/{len}?"),
        ),
    }
}

/// The IPv4 prefix that an IPv4-mapped one stands for.
fn unmapped(ip: &str, len: &str) -> Option<String> {
    let v4 = ip.parse::<std::net::Ipv6Addr>().ok()?.to_ipv4_mapped()?;
    let len = len.parse::<u8>().ok()?.checked_sub(96)?;
    (len <= 32).then(|| format!("{v4}/{len}"))
}

/// A prefix that tenants' hosts can have addresses of.
pub(super) fn unicast_prefix(text: &str) -> Result<Prefix, Refusal> {
    let prefix = prefix(text)?;
    for reserved in [
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/3",
        "::/8",
        "fe80::/10",
        "ff00::/8",
    ] {
        if self::prefix(reserved).is_ok_and(|r| overlap(prefix, r)) {
            return refuse(
                format!("{text} overlaps {reserved}, which hosts cannot use"),
                "use prefixes like 10.0.0.0/16 or fd00::/48",
            );
        }
    }
    Ok(prefix)
}

/// Whether one lies in the other.
pub(super) fn overlap(a: Prefix, b: Prefix) -> bool {
    a.contains(b.addr()) && a.is_v4() == b.is_v4() || b.contains(a.addr()) && a.is_v4() == b.is_v4()
}

/// Whether all of `inner` lies in `outer`.
pub(super) fn inside(inner: Prefix, outer: Prefix) -> bool {
    outer.len() <= inner.len() && outer.contains(inner.addr())
}

/// A prefix's last address.
pub(super) fn last(prefix: Prefix) -> Addr {
    Addr(prefix.addr().0 | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0))
}

pub(super) fn mac(text: &str) -> Result<Mac, Refusal> {
    let form = "write six bytes like 02:00:00:00:00:01";
    if text.is_empty() {
        return refuse("is missing".to_owned(), form);
    }
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        match parts.next().map(|p| (p.len(), u8::from_str_radix(p, 16))) {
            Some((2, Ok(value))) => *byte = value,
            _ => return refuse(format!("{} is not a MAC address", quote(text)), form),
        }
    }
    if parts.next().is_some() || text.contains('+') {
        return refuse(format!("{} is not a MAC address", quote(text)), form);
    }
    let mac = Mac(bytes);
    if mac.is_multicast() {
        // Clearing the group bit is what was probably meant.
        bytes[0] &= !1;
        return refuse(
            format!("{text} is a multicast address"),
            format!("use a unicast one, such as {}", Mac(bytes)),
        );
    }
    if mac == Mac([0; 6]) {
        return refuse(format!("{text} is no interface's address"), form);
    }
    if mac == Mac::GATEWAY {
        return refuse(
            format!("{text} is the gateway's own"),
            "give the port another one",
        );
    }
    Ok(mac)
}

/// `host:port`, host being an address ([v6] in brackets) or a DNS name.
pub(super) fn authority(text: &str) -> Result<String, Refusal> {
    let form = "write host:port, e.g. 10.0.0.1:9600 or [fd00::1]:9600";
    if text.is_empty() {
        return refuse("is missing".to_owned(), form);
    }
    let wrong = || refuse(format!("{} is not host:port", quote(text)), form);
    if let Some((scheme, rest)) = text.split_once("://") {
        let message = format!("{} has the scheme {}", quote(text), quote(scheme));
        let rest = rest.trim_end_matches('/');
        return match authority(rest) {
            Ok(rest) => refuse(message, format!("did you mean {rest}?")),
            Err(_) => refuse(message, form),
        };
    }
    if let Ok(socket) = text.parse::<std::net::SocketAddr>() {
        return if socket.port() == 0 || socket.ip().is_unspecified() {
            refuse(format!("{text} cannot be dialled"), form)
        } else {
            Ok(socket.to_string())
        };
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return wrong();
    };
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    let number =
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0);
    // All digits and dots would be an IPv4 address, and was not one above.
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if host.len() > 253 || !host.split('.').all(label) || !number || numeric {
        return wrong();
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T: std::fmt::Debug>(r: Result<T, Refusal>) -> String {
        match r {
            Ok(v) => format!("{v:?}"),
            Err(Refusal {
                message,
                suggestion,
            }) => format!("{message}; {suggestion}"),
        }
    }

    #[test]
    fn prefixes() {
        for (text, expected) in [
            ("10.0.0.0/16", "10.0.0.0/16"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("fd00:10::/48", "fd00:10::/48"),
            (
                "10.0.0.1/16",
                "10.0.0.1/16 has bits set beyond its length; did you mean 10.0.0.0/16?",
            ),
            (
                "10.0.0.1",
                "\"10.0.0.1\" is not a prefix; write 10.0.0.1/32 for this one address",
            ),
            (
                "::ffff:10.0.0.0/104",
                "::ffff:10.0.0.0 is IPv4 in the clothes of IPv6; write 10.0.0.0/8",
            ),
            (
                "10.0.0.0/33",
                "\"10.0.0.0/33\" has no length of 0 to 32; write a prefix like 10.0.0.0/16 or fd00::/48",
            ),
            (
                "10.0.0.0/+8",
                "\"10.0.0.0/+8\" has no length of 0 to 32; write a prefix like 10.0.0.0/16 or fd00::/48",
            ),
        ] {
            assert_eq!(told(prefix(text)), expected);
        }
    }

    #[test]
    fn macs_and_authorities() {
        for (text, ok) in [
            ("02:00:00:00:00:01", true),
            ("02-00-00-00-00-01", false),
            ("2:0:0:0:0:1", false),
            ("+2:00:00:00:00:01", false),
            ("01:00:00:00:00:01", false),
            ("00:00:00:00:00:00", false),
            ("02:00:5e:00:00:01", false),
            ("02:00:00:00:00:01:02", false),
        ] {
            assert_eq!(mac(text).is_ok(), ok, "{text}");
        }
        for (text, ok) in [
            ("10.0.0.1:9600", true),
            ("[fd00::1]:9600", true),
            ("worker-1.example:9600", true),
            ("fd00::1:9600", false),
            ("10.0.0.1", false),
            ("10.0.0.256:1", false),
            ("10.0.0.1:0", false),
            ("0.0.0.0:9600", false),
            ("host:65536", false),
            ("-host:1", false),
            ("", false),
        ] {
            assert_eq!(authority(text).is_ok(), ok, "{text}");
        }
        assert_eq!(
            told(authority("http://10.0.0.1:9600/")),
            "\"http://10.0.0.1:9600/\" has the scheme \"http\"; did you mean 10.0.0.1:9600?"
        );
    }
}
