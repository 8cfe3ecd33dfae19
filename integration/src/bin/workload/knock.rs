//! Knocks at a closed door.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Long enough for the SYN to leave.
const PATIENCE: Duration = Duration::from_millis(1);

/// Prints `knocks N` now and then, and `OPEN` should a connection be made.
pub(crate) fn run(addr: SocketAddr, period: Duration) -> Result<()> {
    let any: IpAddr = if addr.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).context("bind a UDP port")?;
    let begin = Instant::now();
    for number in 0_u32.. {
        thread::sleep(
            period
                .saturating_mul(number)
                .saturating_sub(begin.elapsed()),
        );
        if TcpStream::connect_timeout(&addr, PATIENCE).is_ok() {
            println!("OPEN");
        }
        // Whether it leaves shows at the receiver, if anywhere.
        drop(socket.send_to(b"knock", addr));
        if number % 10 == 9 {
            println!("knocks {}", number + 1);
        }
    }
    Ok(())
}
