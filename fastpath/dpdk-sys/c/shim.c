/* The inline functions of DPDK that Rust needs as symbols: once per burst or
 * rarer. Receiving and sending go through rte_eth_fp_ops without C. */
#include "wrapper.h"

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
