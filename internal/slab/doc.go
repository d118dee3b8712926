// Package slab lends memory in large pieces and accounts for it: slabs of bytes, runs of entries,
// and the bytes that a query may use.
//
//	quota, err := gate.Admit(ctx)                       // waits for its turn
//	defer quota.Close()
//	err = quota.Reserve(slab.Chunks, pool.Size(n))      // never waits
//	s := pool.Bytes(n)
//	use(s.Bytes())                                      // a view, valid until Release
//	s.Release()
//	quota.Return(slab.Chunks, pool.Size(n))
//
// # Terms
//
//   - A gate admits queries to a process' memory budget, in turn, and grants each of them bytes.
//     Admission is the only point where one query waits for another.
//   - A quota is the bytes of one query. The query reserves bytes for a purpose before it
//     allocates them; a reservation succeeds or fails immediately. A quota that was granted less
//     than a query's bound grows as long as the gate has free bytes.
//   - A lane is a number of bytes and the queries that wait for them. Light queries have a
//     separate lane.
//   - A key identifies the owner of queries. Keys are served in turn; a key can have limits.
//   - A slab is a piece of memory lent by a pool, under a handle. A handle has the generation of
//     its loan: after the slab's release, handles to it are detected as stale.
//   - An arena hands out runs of entries from its slabs, and releases all of them at once.
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
// Slabs of bytes come in four sizes per doubling, from 1 KiB to 16 MiB: at most a quarter of a slab
// is unused, where doublings alone would leave up to a half. Quotas are charged for the slab, not
// for the requested size. A slab of more than 16 MiB is allocated for one borrower.
//
// Slabs of entries have 16,384, and the first slabs of an arena 8, 64 and 1,024: a query that reads one
// series in each of ten thousand blocks uses ten thousand first slabs. BenchmarkEntries measures queries with 2,400 and with 48,000 entries of 16 bytes in runs of
// 48: the calls to the pool, the bytes held per byte used, and the bytes allocated per query if the
// pool belongs to the process, or to a block, which 20 queries use. With a first slab of 1,024 the
// results by slab size were:
//
//	entries     calls      held/used       process' pool     block's pool
//	  1,024    4   49     1.31   1.03      0.1    2.6 KB      2.7   42 KB
//	  4,096    2   13     1.81   1.03        0    0.8 KB      3.5   40 KB
//	 16,384    2    4     7.25   1.05        0    0.4 KB       14   40 KB
//	 65,536    1    2     1.71   1.45        0    0.8 KB      3.3   57 KB
//
// Past 16,384 entries no calls are left to save, and large queries hold nearly half more than they
// use; below, a large query makes ten calls and more. A query of some thousand entries holds at most
// one slab of 256 KiB more than it uses. Share one pool in the process: other blocks cannot use the
// idle slabs of a block's pool, and each new pool allocates its slabs again.
//
// # Safety
//
// A second release does nothing and a stale handle has no bytes; both are counted. With -tags
// invariants they panic, and released memory is overwritten. Handles protect the pool, not views:
// code that keeps a view past the release reads another borrower's data. PoolOptions.Protect
// detects that.
//
// Slabs are ordinary memory of the Go heap, without pointers if the entries have none. A slab that
// is not released is garbage collected; only the counters miss its return.
//
// # Deadlocks
//
// A query waits only in Gate.AdmitFor, and has no bytes there. A running query never waits: it grows
// immediately or fails. So running queries always finish, release their bytes, and admit the first in
// turn, which asks for at most PerQuery of the lane's bytes, of which there are at least PerQuery.
// Queries do not overtake the first in turn, so each waiting query is admitted once those before it
// have finished. A query that fails to grow is admitted again with the bytes it lacked, finally with
// PerQuery: then it does not have to grow. TestGateModel and TestGateGrowth run random queries
// against a model, and end with every query admitted.
//
// # Limits
//
// The package has no timers: the owner of a pool calls Age. It does not know what queries are, and
// does not measure their memory: the account is the sum of the reservations.
package slab
