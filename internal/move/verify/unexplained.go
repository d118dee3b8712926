package verify

import (
	"fmt"
	"strings"

	"github.com/taredb/tare/mysql/rowstream"
)

// An UnexplainedError means that the checksums of a chunk differ, and that its rows do not explain why: either none of them differs, or
// the rows that a server returns do not have the checksum that it computes over them in the same snapshot. Nothing is known about the
// chunk then, and repeating the comparison is unlikely to help.
type UnexplainedError struct {
	Table       string
	Chunk       int
	After, Upto []string // the key range: after the one, up to the other; nil: from the first key, to the last key

	Source, Target         rowstream.Checksum // computed by the servers
	SourceRows, TargetRows rowstream.Checksum // of the rows that were read
	Mismatches             int64              // rows that differ among these
}

// Error returns both checksums and the range.
func (e *UnexplainedError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "sums differ, rows do not: chunk %d of %s (%s): the source has %v, the target %v", e.Chunk, e.Table, e.keys(), e.Source, e.Target)
	if e.Mismatches > 0 {
		fmt.Fprintf(&text, ", which the %d differing rows do not explain", e.Mismatches)
	}
	for _, side := range []struct {
		name           string
		summed, listed rowstream.Checksum
	}{{"source", e.Source, e.SourceRows}, {"target", e.Target, e.TargetRows}} {
		if side.summed != side.listed {
			fmt.Fprintf(&text, "; the rows that the %s returns in the same snapshot are %v", side.name, side.listed)
		}
	}
	return text.String() + "; compare the rows of this range by hand: an index of one side may be damaged (CHECK TABLE)"
}

func (e *UnexplainedError) keys() string {
	var parts []string
	if e.After != nil {
		parts = append(parts, "after key ("+strings.Join(e.After, ", ")+")")
	}
	if e.Upto != nil {
		parts = append(parts, "up to key ("+strings.Join(e.Upto, ", ")+")")
	}
	if parts == nil {
		return "all keys"
	}
	return strings.Join(parts, ", ")
}
