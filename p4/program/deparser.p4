// Checksums and the order in which headers go out.

// Nothing is verified: a tenant's checksums are between its ends.
control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control OuterChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.encap_ipv4.isValid(),
            {
                hdr.encap_ipv4.version, hdr.encap_ipv4.ihl, hdr.encap_ipv4.dscp,
                hdr.encap_ipv4.ecn, hdr.encap_ipv4.total_len, hdr.encap_ipv4.id,
                hdr.encap_ipv4.reserved, hdr.encap_ipv4.dont_fragment,
                hdr.encap_ipv4.more_fragments, hdr.encap_ipv4.frag_offset, hdr.encap_ipv4.ttl,
                hdr.encap_ipv4.proto, hdr.encap_ipv4.src, hdr.encap_ipv4.dst
            },
            hdr.encap_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control PacketDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.encap_ethernet);
        packet.emit(hdr.encap_ipv4);
        packet.emit(hdr.encap_ipv6);
        packet.emit(hdr.encap_udp);
        packet.emit(hdr.encap_vxlan);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.sctp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.bth);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_tcp);
        packet.emit(hdr.inner_udp);
        packet.emit(hdr.inner_sctp);
        packet.emit(hdr.inner_icmp);
        packet.emit(hdr.inner_bth);
    }
}
