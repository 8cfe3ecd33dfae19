/* The inline functions of DPDK that Rust needs as symbols: once per burst or
 * rarer. Receiving and sending go through rte_eth_fp_ops without C. And two
 * functions of the C library's, for the sake of a driver. */
#include "wrapper.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int shim_errno(void)
{
	return rte_errno;
}

unsigned int shim_lcore_id(void)
{
	return rte_lcore_id();
}

int shim_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

int shim_linearize(struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf);
}

/* The af_packet driver has the kernel join IPv4 fragments before it hands them
 * over, and the kernel joins those of one host's interfaces with each other:
 * whoever uses the same addresses and identification. Two tenants do. So that
 * part of the driver's request is left out, and fragments arrive as they were
 * sent. The driver has no argument for it, and its request comes through this
 * symbol: a program's own functions go before those of its libraries. */
__attribute__((visibility("default"))) int setsockopt(int socket, int level, int option,
						      const void *value, socklen_t length)
{
	int fanout;

	if (level == SOL_PACKET && option == PACKET_FANOUT && length == sizeof(fanout)) {
		memcpy(&fanout, value, sizeof(fanout));
		fanout &= ~(PACKET_FANOUT_FLAG_DEFRAG << 16);
		value = &fanout;
	}
	return (int)syscall(SYS_setsockopt, socket, level, option, value, length);
}

/* A packet socket hears every interface of its namespace from its creation until
 * it is bound to one, and the driver gives it a ring of buffers in between: what
 * other tenants sent at that moment would count as this port's. Created with no
 * protocol it hears nothing; binding it to the interface names the protocol. */
__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	if (domain == AF_PACKET && protocol == htons(ETH_P_ALL))
		protocol = 0;
	return (int)syscall(SYS_socket, domain, type, protocol);
}

int shim_guards_packet_sockets(void)
{
	return dlsym(RTLD_DEFAULT, "setsockopt") == (void *)setsockopt &&
	       dlsym(RTLD_DEFAULT, "socket") == (void *)socket;
}
