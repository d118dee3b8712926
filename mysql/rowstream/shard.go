package rowstream

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A Shard is a part of a table's rows: those for which the CRC-32 of a column's bytes, modulo Count, is
// Index-1. In MySQL this is CRC32(column) % Count = Index-1 on the column's text, so that a shard can be
// selected in SQL. NULL belongs to the first shard.
type Shard struct {
	Index int // 1 to Count
	Count int
}

// ParseShard parses "2/5".
func ParseShard(text string) (Shard, error) {
	i, n, ok := strings.Cut(text, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count {
		return Shard{}, fmt.Errorf("shard %q is not of the form i/n with 1 <= i <= n, such as 2/5", text)
	}
	return Shard{Index: index, Count: count}, nil
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Has reports whether the rows with this value belong to the shard. It does not allocate.
func (s Shard) Has(value []byte) bool { return ShardKey(value)%uint32(s.Count) == uint32(s.Index-1) }

// Condition returns the condition in SQL that a column's value belongs to the shard.
func (s Shard) Condition(c *Column) string {
	return fmt.Sprintf("COALESCE(CRC32(%s), 0) %% %d = %d", c.ReadExpr(), s.Count, s.Index-1)
}

// ShardKey returns the number that determines the shard: MySQL's CRC32 of the value's bytes, and 0 for NULL.
// It does not allocate.
func ShardKey(value []byte) uint32 { return crc32.ChecksumIEEE(value) }
