package stmtstats

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unsafe"
)

// Bytes of an entry before its counters and after them.
const (
	entryBefore = int(unsafe.Offsetof(entry{}.counters))
	entryAfter  = entryBytes - int(unsafe.Offsetof(entry{}.octaves))
)

// A columns describes the entries and totals of a file by the names of their counters, so that a file is read whose counters
// are others, or in another order: those that it lacks are 0, and those that are unknown are dropped.
type columns struct {
	counters []int // of each counter of the file its Counter; -1: unknown
	padding  int   // bytes at the end of an entry
}

// zeroName is the name of Calls in a file, where only those of the zero bucket are counted in an entry's counters.
const zeroName = "calls.zero_bucket"

// columnName returns the name of a counter in a file.
func columnName(c Counter) string {
	if c == Calls {
		return zeroName
	}
	return c.String()
}

// counterNames returns the names of the counters of an entry.
func counterNames() string {
	var b strings.Builder
	for c := range Counter(NumCounters) {
		b.WriteString(columnName(c) + "\n")
	}
	return b.String()
}

// namesOfVersion1 returns the names of the counters of version 1.
func namesOfVersion1() []string {
	names := []string{"nanoseconds", "rows_sent", "rows_affected", "bytes_received", "bytes_sent", "warnings", zeroName}
	for _, class := range [...]string{
		"other", "syntax", "denied", "constraint", "data", "deadlock", "timeout", "killed", "read_only", "resource", "connection",
	} {
		names = append(names, "errors."+class)
	}
	return names
}

// Of version 1: the classes of errors, and the bytes at the end of an entry.
const (
	classesOfVersion1 = 11
	paddingOfVersion1 = 24
)

// readColumns returns the description of a file's entries. The caller has checked the other fields.
func readColumns(h *header) (*columns, error) {
	c := &columns{}
	var names []string
	if h.version == 1 {
		if h.counters != classesOfVersion1 {
			return nil, fmt.Errorf("of version 1 with %d classes of errors", h.counters)
		}
		names, c.padding = namesOfVersion1(), paddingOfVersion1
	} else {
		if int(h.nameBytes) > len(h.names) || h.nameSum != crc32.Checksum(h.names[:h.nameBytes], castagnoli) {
			return nil, errors.New("the checksum of the names of its counters does not match")
		}
		names = strings.Split(strings.TrimSuffix(string(h.names[:h.nameBytes]), "\n"), "\n")
		if len(names) != int(h.counters) {
			return nil, fmt.Errorf("%d names for %d counters", len(names), h.counters)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("two counters %q", name)
		}
		c.counters = append(c.counters, slices.IndexFunc(allCounters(), func(c Counter) bool { return columnName(c) == name }))
	}
	if int(h.entryBytes) != c.entryBytes() {
		return nil, fmt.Errorf("entries of %d bytes; with these counters they have %d", h.entryBytes, c.entryBytes())
	}
	return c, nil
}

// current reports whether the file is as this version writes it.
func (c *columns) current() bool {
	return c.padding == 0 && len(c.counters) == NumCounters && slices.IsSorted(c.counters) && c.counters[0] == 0
}

func (c *columns) entryBytes() int { return entryBefore + 8*len(c.counters) + entryAfter + c.padding }

func (c *columns) totalsBytes() int { return totalsBytes + 8*(len(c.counters)-NumCounters) }

// bytes is geometry.bytes of the file.
func (c *columns) bytes(g geometry) int64 {
	return headerBytes + 2*int64(c.totalsBytes()) + int64(g.entries)*int64(c.entryBytes()) + int64(g.pages)*pageBytes
}

// translate returns the content of a file as this version would have written it, in anonymous memory.
func (c *columns) translate(raw []byte, g geometry) ([]byte, error) {
	f, err := anonymous(g.bytes())
	if err != nil {
		return nil, err
	}
	m := g.place(f.raw)
	copy(f.raw[:headerBytes], raw)
	m.header.describe(g)
	raw = raw[headerBytes:]
	for i := range m.sets {
		to := (*[totalsBytes]byte)(unsafe.Pointer(&m.sets[i]))
		c.copyFields(to[:], raw[:c.totalsBytes()], int(unsafe.Offsetof(totals{}.counters)))
		raw = raw[c.totalsBytes():]
	}
	for i := range m.entries {
		to := (*[entryBytes]byte)(unsafe.Pointer(&m.entries[i]))
		c.copyFields(to[:], raw[:c.entryBytes()], entryBefore)
		raw = raw[c.entryBytes():]
	}
	copy(f.raw[len(f.raw)-g.pages*pageBytes:], raw)
	return f.raw, nil
}

// copyFields copies what is before the counters, the counters, and what is after them.
func (c *columns) copyFields(to, from []byte, before int) {
	copy(to[:before], from)
	for i, counter := range c.counters {
		if counter >= 0 {
			copy(to[before+8*counter:][:8], from[before+8*i:])
		}
	}
	copy(to[before+8*NumCounters:], from[before+8*len(c.counters):])
}
