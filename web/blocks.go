package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/store/blocksync"
)

const (
	// laneSlots is the resolution of blocks on the time line: the maximum of spans per lane.
	laneSlots = 120

	// maxLanes bounds the lanes of the time line.
	maxLanes = 8

	// listedBlocks bounds the blocks in the table, and listedSkipped the skipped blocks in theirs.
	listedBlocks  = 100
	listedSkipped = 100
)

// A blockSum is the sum of several blocks.
type blockSum struct {
	Blocks, Series, Chunks, Samples uint64
	Bytes                           uint64
	From, To                        time.Time
}

func (s *blockSum) add(b *blocksync.BlockInfo) {
	from, to := time.UnixMilli(b.MinTime).UTC(), time.UnixMilli(b.MaxTime).UTC()
	if s.Blocks == 0 || from.Before(s.From) {
		s.From = from
	}
	if s.Blocks == 0 || to.After(s.To) {
		s.To = to
	}
	s.Blocks++
	s.Series += b.Series
	s.Chunks += b.Chunks
	s.Samples += b.Samples
	s.Bytes += uint64(max(b.Bytes, 0))
}

// blockLanes arranges blocks on a time line: one lane per level of compaction, in which blocks in the same
// slot are one span. The size of the lanes does not depend on the number of blocks.
func blockLanes(blocks []blocksync.BlockInfo, from, to time.Time) []lane {
	length := to.Sub(from)
	if length <= 0 {
		return nil
	}
	type place struct{ level, slot int }
	sums := make(map[place]*blockSum)
	levels := make(map[int]bool)
	for i := range blocks {
		b := &blocks[i]
		// Use the middle, so that a block that starts slightly before its neighbours falls into the same
		// slot.
		middle := time.UnixMilli(b.MinTime/2 + b.MaxTime/2)
		slot := int(float64(middle.Sub(from)) / float64(length) * laneSlots)
		level := min(max(b.Level, 1), maxLanes)
		p := place{level, min(max(slot, 0), laneSlots-1)}
		if sums[p] == nil {
			sums[p] = &blockSum{}
		}
		sums[p].add(b)
		levels[level] = true
	}
	places := make([]place, 0, len(sums))
	for p := range sums {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.slot, b.slot)) })
	var lanes []lane
	for i, p := range places {
		if i == 0 || places[i-1].level != p.level {
			lanes = append(lanes, lane{Name: levelName(p.level)})
		}
		l, sum := &lanes[len(lanes)-1], sums[p]
		l.Spans = append(l.Spans, laneSpan{From: sum.From, To: sum.To, Class: (p.level-1)%6 + 1, Name: sum.text()})
	}
	return lanes
}

func levelName(level int) string {
	if level == maxLanes {
		return "level " + strconv.Itoa(level) + "+"
	}
	return "level " + strconv.Itoa(level)
}

// text returns a description of the blocks.
func (s *blockSum) text() string {
	var b strings.Builder
	b.WriteString(count(s.Blocks))
	if s.Blocks == 1 {
		b.WriteString(" block, ")
	} else {
		b.WriteString(" blocks, ")
	}
	b.WriteString(short(float64(s.Series)) + " series, " + about(float64(s.Samples), "sample"))
	if s.Bytes > 0 {
		b.WriteString(", " + bytesText(float64(s.Bytes)))
	}
	b.WriteString(", " + moment(s.From) + " – " + moment(s.To))
	return b.String()
}

// A skippedGroup is the blocks that are skipped for one reason.
type skippedGroup struct {
	Reason string
	Blocks uint64
}

func skippedGroups(skipped []blocksync.SkippedBlock) []skippedGroup {
	counts := make(map[string]uint64)
	for _, b := range skipped {
		counts[string(b.Reason)]++
	}
	var groups []skippedGroup
	for reason, n := range counts {
		groups = append(groups, skippedGroup{reason, n})
	}
	slices.SortFunc(groups, func(a, b skippedGroup) int {
		return cmp.Or(cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(a.Reason, b.Reason))
	})
	return groups
}
