package slab

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
)

// A Quota is the bytes of one query. The query reserves bytes before it allocates them; a reservation never
// waits: it succeeds or returns a *LimitError. A Quota is safe for concurrent use.
type Quota struct {
	gate  *Gate
	limit int64
	lane  *lane // the lane it was admitted from
	first int64 // granted at admission

	account *keyAccount // of its key; nil without limits

	reclaim func() bool // nil: nothing can be returned
	used    atomic.Int64
	peak    atomic.Int64
	by      [purposes]atomic.Int64
	closed  atomic.Bool

	granted atomic.Int64 // bytes granted by the gate; used never exceeds it
	growing sync.Mutex   // locked to change granted
}

// Reserve reserves n bytes of the quota. It does not wait, and allocates only the error.
func (q *Quota) Reserve(what Purpose, n int64) error {
	if n < 0 || what >= purposes {
		panic("BUG: slab: reserve " + strconv.FormatInt(n, 10) + " bytes for " + what.String())
	}
	for {
		used := q.used.Load()
		if n > q.limit-used || q.closed.Load() {
			if q.reclaims() {
				continue
			}
			return q.refuse(what, n, used)
		}
		if used+n > q.granted.Load() && !q.grow(used+n) {
			if q.reclaims() {
				continue
			}
			q.gate.short.Add(1)
			return &LimitError{Purpose: what, Requested: n, Held: used, Allowed: q.limit, Short: true}
		}
		if !q.used.CompareAndSwap(used, used+n) {
			continue
		}
		q.by[what].Add(n)
		q.gate.charge(n)
		for peak := q.peak.Load(); used+n > peak; peak = q.peak.Load() {
			if q.peak.CompareAndSwap(peak, used+n) {
				break
			}
		}
		return nil
	}
}

// OnShort makes Reserve call reclaim before it refuses, and retry each time that returns true: it has
// returned bytes to the quota. OnShort is called once, before the first Reserve; reclaim is called from the
// goroutines that reserve.
func (q *Quota) OnShort(reclaim func() bool) { q.reclaim = reclaim }

// reclaims reports whether bytes were returned to the quota.
func (q *Quota) reclaims() bool { return q.reclaim != nil && !q.closed.Load() && q.reclaim() }

// growStep is the minimum growth of a quota.
const growStep = 1 << 20

// grow requests at least n granted bytes from the gate. They stay granted until Close.
func (q *Quota) grow(n int64) bool {
	q.growing.Lock()
	defer q.growing.Unlock()
	if q.closed.Load() {
		return false
	}
	have := q.granted.Load()
	more := n - have
	if more <= 0 {
		return true
	}
	step := min(max(more, growStep), q.limit-have)
	if !q.gate.grow(q.account, step) {
		if step == more || !q.gate.grow(q.account, more) {
			return false
		}
		step = more
	}
	q.granted.Add(step)
	return true
}

// Plan requests n granted bytes beyond those in use, at most up to the quota's bound: reservations of these
// cannot fail. It does not wait: without free bytes in the process it returns a *LimitError that is ErrShort.
func (q *Quota) Plan(what Purpose, n int64) error {
	used := q.used.Load()
	need := min(used+n, q.limit)
	if need <= q.granted.Load() || q.grow(need) {
		return nil
	}
	q.gate.short.Add(1)
	return &LimitError{Purpose: what, Requested: need - used, Held: used, Allowed: q.limit, Short: true}
}

// Granted returns the bytes granted by the gate, which can be reserved without growing.
func (q *Quota) Granted() int64 { return q.granted.Load() }

func (q *Quota) refuse(what Purpose, n, used int64) error {
	if q.closed.Load() {
		q.gate.misuse("reserve bytes of a closed quota")
		return &LimitError{Purpose: what, Requested: n, Held: used}
	}
	q.gate.refused.Add(1)
	return &LimitError{Purpose: what, Requested: n, Held: used, Allowed: q.limit}
}

// Return returns n bytes that were reserved for what. It does not allocate.
func (q *Quota) Return(what Purpose, n int64) {
	if n < 0 || what >= purposes {
		panic("BUG: slab: return " + strconv.FormatInt(n, 10) + " bytes of " + what.String())
	}
	for {
		held := q.by[what].Load()
		back := min(n, held)
		if !q.by[what].CompareAndSwap(held, held-back) {
			continue
		}
		q.used.Add(-back)
		q.gate.charge(-back)
		if back < n {
			q.gate.misuse(fmt.Sprintf("%d bytes of %s returned, %d were reserved", n, what, held))
		}
		return
	}
}

// Allowed returns the quota's upper bound in bytes.
func (q *Quota) Allowed() int64 { return q.limit }

// Used returns the bytes reserved now.
func (q *Quota) Used() int64 { return q.used.Load() }

// UsedFor returns the bytes reserved now for what.
func (q *Quota) UsedFor(what Purpose) int64 { return q.by[what].Load() }

// Peak returns the maximum of Used.
func (q *Quota) Peak() int64 { return q.peak.Load() }

// Close returns the quota to the gate, once, after every reservation has been returned. With -tags invariants
// it panics if a reservation is left or the quota is already closed; otherwise it returns the rest and counts
// the mistake in GateStats.Misused.
func (q *Quota) Close() {
	if q.closed.Swap(true) {
		q.gate.misuse("quota closed twice")
		return
	}
	var left int64
	for p := range q.by {
		left += q.by[p].Swap(0)
	}
	q.used.Add(-left)
	q.gate.charge(-left)
	q.growing.Lock()
	grown := q.granted.Swap(0) - q.first
	q.growing.Unlock()
	q.gate.release(q.lane, q.account, q.first, grown)
	if left > 0 {
		q.gate.misuse(fmt.Sprintf("quota closed with %d bytes reserved", left))
	}
}

// A LimitError reports a reservation that does not fit into a query's quota.
type LimitError struct {
	Purpose   Purpose // purpose of the bytes
	Requested int64   // bytes of this reservation
	Held      int64   // bytes the query held before
	Allowed   int64   // the query's upper bound; 0 once its quota is closed
	Short     bool    // within the bound, but the process or its key has no free bytes
}

// Error names the limit and the bytes requested, held and allowed.
func (e *LimitError) Error() string {
	if e.Short {
		return fmt.Sprintf("query bytes: %s ask for %s on top of %s, and other queries hold the rest of the process' or tenant's bytes: retry later",
			e.Purpose, bytesText(e.Requested), bytesText(e.Held))
	}
	return fmt.Sprintf("query bytes: %s ask for %s on top of %s, the limit is %s",
		e.Purpose, bytesText(e.Requested), bytesText(e.Held), bytesText(e.Allowed))
}

// Is makes errors.Is match ErrOverQuota or ErrShort.
func (e *LimitError) Is(target error) bool {
	return target == ErrOverQuota && !e.Short || target == ErrShort && e.Short
}

// bytesText formats n for people: 512 B, 12.1 MiB.
func bytesText(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v /= 1024
		u++
	}
	if u == 0 {
		return strconv.FormatInt(n, 10) + " B"
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	if s[len(s)-2:] == ".0" {
		s = s[:len(s)-2]
	}
	return s + " " + units[u]
}
