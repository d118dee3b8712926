// Package cache compares bytecache with what others use for the same work: otter v2, the cache of
// Vitess' plans (go/cache/theine) and a plain LRU, at equal bytes of heap.
//
//	go test -run TestHitRatio -v ./cache     hit ratios, as a table
//	go test -bench . ./cache                 speed of a hit, and of a whole trace
package cache
