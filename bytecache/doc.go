// Package bytecache is a cache bounded by the heap bytes it really takes: everything it holds and
// everything it is made of.
//
// # Terms
//
//   - An entry is a key, its value, and the node that holds them. Its bytes are the node,
//     rounded as the allocator does, and what key and value own, as the caller's Size says;
//     they are fixed when the entry is set.
//   - The overhead is the cache itself, its table and its frequency sketch. Both grow in
//     steps as entries come, and each step is charged before it is taken.
//   - The window holds what is new, probation what has not been hit since it left the
//     window, protected what has.
//   - A contest: an entry that leaves the window of a full cache stays if it was asked for
//     more often than the entries together that would have to go for it.
//
// # Data flow
//
//	Get ──► table ──► node: visits + 1                         no lock, no allocation
//
//	Set ──► lock ──► sketch: counts the key
//	                 window ──► contest ──► probation ◄──► protected
//	                               │            │
//	                               └── loses    └── makes room ──► OnEvict, after the lock
//
// # The policy, and why it is our own
//
// It is W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy,
// 2017) with the readers' part done lazily. A hit raises a small counter in the node and touches
// nothing else; whoever looks for a victim collects the counters of the nodes it passes into
// the sketch and gives those nodes another round. So a hit costs an atomic load more than a lookup
// once the counter is full, the account needs no draining, nothing that was evicted is
// held by a buffer of accesses, and the same operations give the same contents.
//
// A cache from a library would not do: none tells what its own structures take, and they
// take a hundred bytes an entry and more. Here each structure is allocated by this package in
// one piece of known size, so that Bytes is exact by construction.
//
// Writers share one lock. A Set holds it for about a microsecond, which a cache whose misses
// are worth caching does not notice; in return the account is exact after each operation and
// the capacity is never exceeded, not even between two.
//
// # What it does not do
//
// It keeps no time: nothing expires. It does not watch values: what they come to own after Set is
// not counted. Garbage that the collector has not yet taken, such as entries just evicted
// or a table just outgrown, is not part of Bytes, nor are Loads under way.
package bytecache
