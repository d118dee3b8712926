// Package slab lends memory in large pieces and accounts for it: slabs of bytes, runs of entries,
// and the bytes that a query may hold.
//
// # Terms
//
//   - A gate has a process' bytes for queries. It grants each some of them at admission, in
//     turn. Only there does one query wait for another.
//   - A quota is the bytes of one query. What it is about to hold it reserves, for a purpose;
//     a reservation is granted or refused at once. A quota that was granted less than a query
//     may hold grows as long as the gate has free bytes.
//   - A lane is bytes and the queries that wait for them. Light queries have one of their own.
//   - A key is whose a query is. One query of each key is admitted in turn; a key can have limits.
//   - A slab is a piece of memory lent by a pool, under a handle. A handle carries the generation
//     of its loan: when the slab has been released, handles to it are known to be stale.
//   - An arena hands out runs of entries from slabs of its own, and releases all at once.
//
// # Data flow
//
//	Gate.Admit ──► Quota ──Reserve(Chunks, Pool.Size(n))──► granted, or a *LimitError
//	                                     │
//	Pool.Bytes(n) ──► Slab ──Bytes──► views      Entries.Arena ──► Arena ──Make(48)──► runs
//	     ▲              │                             ▲               │
//	     └── Release ───┘                             └── Release ────┘
//
// # Sizes
//
// Slabs of bytes come in four sizes to each doubling, from 4 KiB to 16 MiB: at most a quarter of one is
// not asked for, where doublings alone would leave up to a half. Quotas are charged for
// the slab, not for what was asked. What is larger than 16 MiB is made for one borrower.
//
// Slabs of entries hold 16,384, the second of an arena a sixteenth of that, and its first a sixteenth of the
// second: a query that reads a few series in each of a thousand blocks holds a thousand first slabs. Of queries with
// 2,400 and with 48,000 entries of 16 bytes in runs of 48, BenchmarkEntries counts the calls to
// the pool, what is held for each byte used, and the bytes allocated for a query when the pool is
// the process', and when it is a block's, which 20 queries use:
//
// With a first slab of 1,024 it was:
//
//	entries     calls      held/used       process' pool     block's pool
//	  1,024    4   49     1.31   1.03      0.1    2.6 KB      2.7   42 KB
//	  4,096    2   13     1.81   1.03        0    0.8 KB      3.5   40 KB
//	 16,384    2    4     7.25   1.05        0    0.4 KB       14   40 KB
//	 65,536    1    2     1.71   1.45        0    0.8 KB      3.3   57 KB
//
// So past 16,384 there are no calls left to save, and large queries hold nearly half more than they use;
// below, a large query pays ten calls and more. What a query of some thousand entries holds beyond its
// need is one slab of 256 KiB. The pool is meant to be the process': what a block's pool keeps
// nobody else can use, and a pool for each block makes its slabs anew.
//
// # Safety
//
// A second release does nothing and a stale handle has no bytes; both are counted. With -tags
// invariants they panic, and released memory is overwritten. Handles protect the pool, not views: who
// keeps a view past the release reads another's data. PoolOptions.Protect finds those.
//
// Slabs are ordinary memory of the Go heap, without pointers where the entries have none. A
// slab that is forgotten is collected, and only missing in the counts.
//
// # Deadlocks
//
// A query waits only in Gate.AdmitFor, and holds no bytes there. One that runs never waits: it grows at
// once or fails. So what runs always finishes, releases its bytes, and admits the first in turn, which
// asks for at most PerQuery of the at least PerQuery bytes of the lane. No one overtakes the first in turn,
// so each query that waits is admitted once those before it have finished. A query that fails to grow is
// admitted again with what it lacked, at last with PerQuery whole: then it needs no growth. TestGateModel and TestGateGrowth run
// random queries against a model, and end with every query admitted.
//
// # What it does not do
//
// It keeps no time: whoever owns a pool calls Age. It does not know what queries are, or measure
// what they really take: the account is what was reserved.
package slab
