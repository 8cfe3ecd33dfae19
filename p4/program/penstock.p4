// The NIC pipeline: small, flat tables that answer only what policy has already
// decided. Everything else is asked about.
//
//   attach       vport, underlay            whose frame is it?
//   guard        neighbour, spoof_guard,    what must the worker see, and may
//                state                      this sender send?
//   connections  fence, rdma_qp,            what has the worker decided?
//                rdma_pair, flow
//   policy       acl                        what does policy decide for good?
//   route        mapping, nexthop           which way out?
//   rewrite                                 the frame as it leaves
//   verdict      drops                      or why it does not
//
// This program is the specification: the software NIC and the rte_flow driver
// agree with it packet for packet. Every id is written out, so that p4info is
// the same whatever the compiler or the order of declarations.

#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "metadata.p4"
#include "parser.p4"
#include "classify.p4"
#include "attach.p4"
#include "guard.p4"
#include "connections.p4"
#include "policy.p4"
#include "route.p4"
#include "rewrite.p4"
#include "verdict.p4"
#include "deparser.p4"

control Pipeline(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Attach() attach;
    Guard() guard;
    Connections() connections;
    Policy() policy;
    Mapping() mapping;
    Nexthop() nexthop;
    Rewrite() rewrite;
    Verdict() verdict;

    apply {
        if (standard.ingress_port == CPU_PORT) {
            if (!hdr.packet_out.isValid() || hdr.packet_out.envelope != ENVELOPE) {
                meta.drop = DROP_BAD_REINJECT;
            } else if (hdr.packet_out.device_port > DEVICE_PORT_MAX) {
                meta.drop = DROP_BAD_EGRESS;
            }
            if (meta.drop == DROP_NONE) {
                standard.egress_spec = (bit<9>) hdr.packet_out.device_port;
                hdr.packet_out.setInvalid();
            }
        } else {
            attach.apply(hdr, meta, standard);
            if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
                guard.apply(hdr, meta);
            }
            if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
                connections.apply(hdr, meta);
            }
            if (meta.ask == ASK_NONE && meta.drop == DROP_NONE && meta.nexthop_id == 0) {
                policy.apply(hdr, meta);
                if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
                    mapping.apply(hdr, meta);
                }
            }
            if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
                nexthop.apply(hdr, meta, standard);
            }
            if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
                rewrite.apply(hdr, meta, standard);
            }
        }
        if (meta.ask != ASK_NONE || meta.drop != DROP_NONE) {
            verdict.apply(hdr, meta, standard);
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

@pkginfo(name="penstock", version="1.0.0")
V1Switch(PacketParser(), NoVerify(), Pipeline(), NoEgress(), OuterChecksum(), PacketDeparser())
main;
