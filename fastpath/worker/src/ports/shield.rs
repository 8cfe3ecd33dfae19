//! Keeps what a workload sends away from the host's own network stack.
//!
//! A packet socket sees a copy; the frame itself goes on into the kernel, where a
//! host that forwards would route it past every policy, and a host that listens would
//! answer it. So the interface drops on ingress, behind the packet socket: a `bpf` filter of
//! one instruction, which asks for no more of the kernel than `cls_bpf`.

use rtnetlink::Handle;
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use tokio_stream::StreamExt as _;

use super::{Link, PortError};

/// Tells our filter from those of others.
const OURS: u32 = 0x5053_4b01;
/// Before every filter that could let a frame in.
const PRIORITY: u32 = 1;
/// Every EtherType, in network order.
const ALL: u32 = 0x0003_u16.to_be() as u32;
/// EEXIST
const EXISTS: i32 = -17;
/// ENOENT
const MISSING: i32 = -2;
/// `TCA_BPF_OPS_LEN` and `TCA_BPF_OPS`.
const OPS_LEN: u16 = 4;
const OPS: u16 = 5;
/// `BPF_RET | BPF_K`
const RETURN: u16 = 0x06;
/// `TC_ACT_SHOT`
const SHOT: u32 = 2;

/// Has the interface drop what comes in, behind packet sockets. Twice is as good as once.
pub(super) async fn raise(handle: &Handle, name: &str, link: Link) -> Result<(), PortError> {
    let error = |reason: String| PortError::Shield {
        interface: name.to_owned(),
        reason,
    };
    let index = i32::try_from(link.index).unwrap_or(0);
    match handle.qdisc().add(index).ingress().execute().await {
        Err(rtnetlink::Error::NetlinkError(e)) if e.code.is_some_and(|c| c.get() == EXISTS) => {}
        other => other.map_err(|e| error(e.to_string()))?,
    }
    let message = RouteNetlinkMessage::NewTrafficFilter(filter(index, true));
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    request(handle, message, flags, EXISTS).await.map_err(error)
}

/// Undoes it. An interface without the filter is left as it is.
pub(super) async fn lower(handle: &Handle, name: &str, link: Link) -> Result<(), PortError> {
    let index = i32::try_from(link.index).unwrap_or(0);
    let message = RouteNetlinkMessage::DelTrafficFilter(filter(index, false));
    request(handle, message, NLM_F_REQUEST | NLM_F_ACK, MISSING)
        .await
        .map_err(|reason| PortError::Shield {
            interface: name.to_owned(),
            reason,
        })
}

fn filter(index: i32, whole: bool) -> TcMessage {
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle {
        major: TcHandle::CLSACT.major,
        minor: TcHandle::MIN_INGRESS,
    };
    message.header.handle = OURS.into();
    message.header.info = PRIORITY << 16 | ALL;
    let kind = TcAttribute::Kind(TcFilterBpf::KIND.to_owned());
    message.attributes.push(kind);
    if whole {
        // struct sock_filter: code, jump if true, jump if false, k.
        let mut instruction = Vec::with_capacity(8);
        instruction.extend_from_slice(&RETURN.to_ne_bytes());
        instruction.extend_from_slice(&[0, 0]);
        instruction.extend_from_slice(&SHOT.to_ne_bytes());
        let count = 1_u16.to_ne_bytes().to_vec();
        let options = [
            TcFilterBpfOption::Other(DefaultNla::new(OPS_LEN, count)),
            TcFilterBpfOption::Other(DefaultNla::new(OPS, instruction)),
            TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
        ];
        let options = options.into_iter().map(TcOption::Bpf).collect();
        message.attributes.push(TcAttribute::Options(options));
    }
    message
}

/// Sends and waits for the answer; the error `fine` is no error.
async fn request(
    handle: &Handle,
    message: RouteNetlinkMessage,
    flags: u16,
    fine: i32,
) -> Result<(), String> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    let mut handle = handle.clone();
    let answers = handle.request(message).map_err(|e| e.to_string())?;
    let mut answers = std::pin::pin!(answers);
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload
            && let Some(code) = error.code
            && code.get() != fine
        {
            return Err(error.to_io().to_string());
        }
    }
    Ok(())
}
