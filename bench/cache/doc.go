// Package cache compares bytecache with other caches for the same work, with equal heap sizes: otter v2, the
// cache of Vitess' plans (go/cache/theine) and a plain LRU.
//
//	go test -run TestHitRatio -v ./cache     hit ratios, as a table
//	go test -bench . ./cache                 speed of a hit, and of a whole trace
package cache
