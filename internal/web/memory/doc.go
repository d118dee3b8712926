// Package memory accounts for a process's heap by owner, exposes the plan cache's counters, and returns idle
// memory to the system.
//
// # Terms
//
//   - An owner is a part of the process whose heap bytes are bounded and known: it updates its account
//     when they change, by heapsize, without the collector.
//   - The base is the heap without an owner: tables of the code, certificates, metrics, connections of the
//     pages. It is the heap at start minus the owners, measured once; later it is a constant.
//   - The heap in use is the size of live objects: /gc/heap/live:bytes of runtime/metrics at any time, or
//     /memory/classes/heap/objects:bytes right after a collection.
//
// # Data flow
//
//	owners ──┬─► Ledger ──► tare_heap_bytes{owner}: the sum is the heap in use, within 0.5 %
//	base   ──┘
//	sqlplan.Planner ──► PlanCache ──► tare_plan_cache_…, Largest ──► /api/v1/plans
//	commands counted ──► Returner ──► debug.FreeOSMemory, once a quiet spell
//
// # Limits
//
// An owner's value is its own account and is not scaled to the heap. Garbage between collections, stacks, and
// the runtime's structures belong to no owner; their sizes are in the runtime's metrics. The package bounds
// nothing: the owners do.
package memory
