// Package memory says who holds a process's heap, what the plan cache in it is worth, and gives
// idle memory back to the system.
//
// # Terms
//
//   - An owner is a part of the process whose heap bytes are bounded and known: it counts
//     what it holds when that changes, by heapsize, and never asks the collector.
//   - The base is the heap that nobody owns: code's own tables, certificates, metrics,
//     connections of the pages. It is what the heap held at start beyond the owners, measured
//     once; later it is a constant.
//   - The heap in use is what live objects take: /gc/heap/live:bytes of runtime/metrics at
//     any time, or /memory/classes/heap/objects:bytes right after a collection.
//
// # Data flow
//
//	owners ──┬─► Ledger ──► tare_heap_bytes{owner}: the sum is the heap in use, within 2 %
//	base   ──┘
//	sqlplan.Planner ──► PlanCache ──► tare_plan_cache_…, Largest ──► /api/v1/plans
//	commands counted ──► Returner ──► debug.FreeOSMemory, once a quiet spell
//
// # What it does not do
//
// It does not scale: an owner's figure is what it counted, whatever the heap says. Garbage between
// collections, stacks, and the runtime's own structures belong to no owner; how large they
// are is in the runtime's metrics. It bounds nothing: the owners do.
package memory
