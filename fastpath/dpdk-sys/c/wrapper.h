/* What bindgen reads and the shim includes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>

/* Macros that bindgen cannot evaluate, as constants that it can. */
static const uint32_t SHIM_MEMPOOL_NO_IOVA_CONTIG = RTE_MEMPOOL_F_NO_IOVA_CONTIG;
static const uint64_t SHIM_RX_VLAN = RTE_MBUF_F_RX_VLAN;
static const uint64_t SHIM_RX_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
static const int SHIM_SOCKET_ANY = SOCKET_ID_ANY;
static const uint32_t SHIM_LCORE_ANY = LCORE_ID_ANY;

/* Inline functions and thread-local variables, as symbols. */
int shim_errno(void);
unsigned int shim_lcore_id(void);
int shim_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count);
int shim_linearize(struct rte_mbuf *mbuf);

/* Whether the af_packet driver calls our setsockopt and socket. */
int shim_guards_packet_sockets(void);
